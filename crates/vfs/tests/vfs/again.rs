//! Files that are opened again soon after they were closed.

use std::time::Duration;

use quayfs_vfs::Access;
use remote::fake::Op;
use remote::{Key, Metadata};

use crate::rig::{METADATA_TTL, World};

/// In one thread, what waits for nobody is done when others were let by so often.
const TURNS: usize = 1000;

/// Calls for names, when the file `a` was open for `open`, when it is closed, and when it is looked up `later`.
async fn asked(open: Duration, later: Duration) -> [u64; 3] {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), "bytes", Metadata::new());
    let ino = world.lookup("a").await;
    let reader = world.open(ino, Access::Read).await;
    let asked = || world.bucket.calls(Op::Head) + world.bucket.calls(Op::List);
    let mut counts = [asked(); 3];
    world.later(open);
    world.vfs.release(reader.handle).unwrap();
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
    counts[1] = asked();
    world.later(later);
    world.lookup("a").await;
    counts[2] = asked();
    counts
}

#[tokio::test]
async fn who_opens_again_what_was_open_for_long_does_not_wait_for_the_bucket() {
    let [before, closed, later] = asked(METADATA_TTL * 3 / 4, METADATA_TTL * 3 / 4).await;
    assert!(before < closed, "it is looked at again when it is closed");
    assert_eq!(closed, later);
}

#[tokio::test]
async fn what_was_open_for_a_moment_costs_no_more_than_the_moment() {
    let [before, closed, later] = asked(METADATA_TTL / 4, METADATA_TTL).await;
    assert_eq!(before, closed);
    assert!(closed < later);
}
