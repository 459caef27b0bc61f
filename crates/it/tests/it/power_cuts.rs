//! The power goes at moments of chance, and the disk forgets what was not synced: the mount comes up
//! again, and the bucket has what was promised and nothing that is torn.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{
    Account, ForgetfulDisk, MinIo, Moves, Plan, Writer, is_long, python, run, sha256_tree,
};

use crate::promises;

const ROUNDS_SHORT: u64 = 20;
const ROUNDS_LONG: u64 = 200;
const WORKERS: u32 = 3;

#[test]
fn whatever_was_promised_is_in_the_bucket_whenever_the_power_goes() {
    let mut disk = ForgetfulDisk::new();
    let bucket = MinIo::shared().bucket();
    let state = disk.path().join("state");
    let mut plan = Plan::of(&bucket).flags(["--part-size", "5MiB"]).state_in(&state);
    let mut account = Account::default();
    for round in 0..if is_long() { ROUNDS_LONG } else { ROUNDS_SHORT } {
        let mount = plan.mount();
        is_an_earlier_boot(&state, round);
        let writer = Writer::start(mount.path(), account, round, WORKERS);
        promises::kill(&mount, &writer, round);
        account = writer.end();
        disk.cut(round);
        let mount = mount.abandon().mount();
        let found = bucket.sha256_tree("");
        // The journal may have forgotten a rename that was under way.
        let complaints = account.settle(&found, Moves::MayBeCopies);
        assert_eq!(complaints, Vec::<String>::new(), "round {round}");
        // What is read of the cache that is left is what the bucket has.
        let here = sha256_tree(mount.path());
        assert_eq!(here, found, "round {round}, read through the mount");
        plan = mount.umount();
    }
    assert!(0 < account.count(), "nothing was ever promised");
}

/// What runs on the state folder now is another run of the machine than what comes next.
fn is_an_earlier_boot(state: &Path, number: u64) {
    let script = "import sqlite3, sys\n\
        db = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)\n\
        db.execute('pragma synchronous=full')\n\
        here = open('/proc/sys/kernel/random/boot_id').read().strip()\n\
        db.execute('update boots set boot = ? where boot = ?', (sys.argv[2], here))\n\
        assert db.total_changes == 1\n";
    let mut command = Command::new(python());
    command.args(["-c", script]).arg(state.join("state.db")).arg(format!("boot {number}"));
    run(&mut command, Duration::from_mins(1)).ok();
}
