//! The daemon is killed at moments of chance, again and again, while somebody writes: whatever was
//! promised is in the bucket.

use std::time::Duration;

use testkit::{Account, MinIo, Mount, Moves, Plan, Writer, is_long, mounted_at, noise, wait};

const ROUNDS_SHORT: u64 = 10;
const ROUNDS_LONG: u64 = 200;
const WORKERS: u32 = 4;
/// What is written before a kill may be many megabytes, on a machine that is busy with other tests.
const WRITES_WITHIN: Duration = Duration::from_mins(2);

/// When what a closed file holds is in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// As soon as `close` returns.
    AtOnce,
    /// Soon, whatever happens to the daemon.
    Later,
}

#[test]
fn whatever_was_promised_is_in_the_bucket_whenever_the_daemon_is_killed() {
    rounds(&[], Kept::AtOnce);
}

#[test]
fn whatever_was_promised_without_waiting_gets_into_the_bucket_whenever_the_daemon_is_killed() {
    // Soon enough that many a daemon dies while it uploads.
    rounds(&["--commit", "async", "--upload-delay", "100ms"], Kept::Later);
}

/// Mounts with `flags`, writes, kills; all over again, with the same bucket and state folder.
fn rounds(flags: &[&str], kept: Kept) {
    let bucket = MinIo::shared().bucket();
    let mut plan = Plan::of(&bucket).flags(["--part-size", "5MiB"]).flags(flags);
    let mut account = Account::default();
    for round in 0..if is_long() { ROUNDS_LONG } else { ROUNDS_SHORT } {
        let mount = plan.mount();
        let writer = Writer::start(mount.path(), account, round, WORKERS);
        kill(&mount, &writer, round);
        account = writer.end();
        if kept == Kept::AtOnce {
            let complaints = account.judge_settled(&bucket.sha256_tree(""));
            let journal = account.journal();
            assert_eq!(complaints, Vec::<String>::new(), "right after kill {round} of\n{journal}");
        }
        // The next mount finishes what can be finished, and its end waits for the rest.
        plan = mount.abandon().mount().umount();
        assert!(!mounted_at(plan.path()), "round {round} leaves a mount");
        let complaints = account.settle(&bucket.sha256_tree(""), Moves::AreWhole);
        let (journal, log) = (account.journal(), plan.last_log());
        assert_eq!(
            complaints,
            Vec::<String>::new(),
            "all done, round {round} of\n{journal}\n{log}"
        );
        assert_eq!(bucket.keys_of_unfinished_uploads(), [""; 0], "round {round} leaves parts");
    }
    assert!(0 < account.count(), "nothing was ever promised");
}

/// Kills the daemon at a moment that `seed` decides on.
pub(crate) fn kill(mount: &Mount, writer: &Writer, seed: u64) {
    let chance = noise(seed, 2);
    let lines = usize::from(chance[0]) % 120;
    wait::until("the writer to have done so much", WRITES_WITHIN, || lines <= writer.lines());
    wait::moment(Duration::from_millis(u64::from(chance[1]) / 4));
    mount.kill();
}
