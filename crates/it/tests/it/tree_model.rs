//! Eight threads change one tree each at the same time. Each tree is equal to its model: for the thread itself,
//! after a sync and after a remount; a plain client finds no key of what was removed.
//!
//! A failure prints the seed of the run and every operation of the thread. The long form has other seeds each
//! time, and as many runs as `QUAYFS_LONG_RUNS` says.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::{Bucket, MinIo, Mount, Plan, is_long, long_runs, wait};

use self::model::Model;
use self::player::{Limit, Player};

mod model;
mod player;

const THREADS: u64 = 8;
const LASTS_SHORT: Duration = Duration::from_secs(30);
/// Time of one run of the long form. Many short runs begin and end more often than one long run.
const LASTS_LONG: Duration = Duration::from_secs(3);
/// Runs of each of the two tests: a thousand in all.
const RUNS_LONG: u64 = 500;
/// Bound of the first seed of a long form.
const SEED_MAX: u64 = 1_000_000_000;
const SYNC_WITHIN: Duration = Duration::from_mins(2);

#[test]
fn trees_match_their_models() {
    runs(&["--commit", "close"]);
}

#[test]
fn trees_match_their_models_with_asynchronous_commits() {
    runs(&["--commit", "async"]);
}

fn runs(flags: &[&str]) {
    if !is_long() {
        return run(flags, 1, LASTS_SHORT);
    }
    let first = RandomState::new().hash_one(flags) % SEED_MAX;
    for (number, seed) in (1..=long_runs(RUNS_LONG)).zip(first..) {
        run(flags, seed, LASTS_LONG);
        println!("run {number} with the seed {seed} and {flags:?}: no difference");
    }
}

fn run(flags: &[&str], seed: u64, lasts: Duration) {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(flags).mount();
    let limit = Limit { began: wait::now(), lasts };
    let players: Vec<Player> = thread::scope(|scope| {
        let play = |number| {
            let top = mount.join(name(number));
            scope.spawn(move || Player::play(&top, seed * THREADS + number, limit))
        };
        let threads: Vec<_> = (0..THREADS).map(play).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread reports")).collect()
    });
    for player in &players {
        assert!(player.trouble.is_none(), "seed {seed}: {}", player.report());
    }
    check(&mount, &players, (seed, "before the sync"));
    let sync = [Path::new("sync"), mount.path()];
    testkit::run(&mut mount.plan().command(sync), SYNC_WITHIN).ok();
    check(&mount, &players, (seed, "after the sync"));
    check_bucket(&bucket, &players, (seed, "after the sync"));
    let mount = mount.umount().mount();
    check(&mount, &players, (seed, "after the remount"));
    mount.umount();
    check_bucket(&bucket, &players, (seed, "after the unmount"));
}

fn name(number: u64) -> String {
    format!("t{number}")
}

/// Compares each tree with its model.
fn check(mount: &Mount, players: &[Player], (seed, when): (u64, &str)) {
    for (player, number) in players.iter().zip(0..) {
        let there = Model::of_tree(&mount.join(name(number)));
        let there = there.unwrap_or_else(|error| panic!("seed {seed}, {when}: {error}"));
        let differences = player.model.differences(&there);
        let report = || format!("{differences:#?}\nseed {seed}, {when}: {}", player.report());
        assert!(differences.is_empty(), "{}", report());
    }
}

/// Compares the keys of the bucket with the models.
fn check_bucket(bucket: &Bucket<'_>, players: &[Player], (seed, when): (u64, &str)) {
    let keys = bucket.all_keys();
    for (player, number) in players.iter().zip(0..) {
        let top = format!("{}/", name(number));
        let below = keys.iter().filter_map(|key| key.strip_prefix(&top));
        let left: Vec<&str> = below.filter(|key| !player.model.explains(key)).collect();
        let report = || format!("{left:#?}\nseed {seed}, {when}: {}", player.report());
        assert!(left.is_empty(), "keys of nothing: {}", report());
    }
}
