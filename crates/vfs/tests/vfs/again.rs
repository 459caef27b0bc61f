//! Files that are opened again soon after they were closed.

use std::time::Duration;

use base::Ino;
use quayfs_vfs::Access;
use remote::fake::Op;
use remote::{Key, Metadata};

use crate::rig::{METADATA_TTL, World, name};

/// In one thread, what waits for nobody is done when others were let by so often.
const TURNS: usize = 1000;

impl World {
    /// Goes to `d/a` as a path is walked, a name at a time and each with its folder's attributes.
    async fn walk(&self) -> Ino {
        self.vfs().attr(Ino::ROOT).await.unwrap();
        let dir = self.lookup("d").await;
        self.vfs().lookup(dir, name("a")).await.unwrap().ino
    }

    async fn closed_after(&self, ino: Ino, open: Duration) {
        let reader = self.open(ino, Access::Read).await;
        self.later(open);
        self.vfs.release(reader.handle).unwrap();
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }
}

/// Calls to the bucket, when the file `d/a` was open for `open`, when it is closed, and when it is gone to `later`.
async fn asked(open: Duration, later: Duration) -> [u64; 3] {
    let world = World::new();
    world.bucket.insert(&Key::from("d/a"), "bytes", Metadata::new());
    let ino = world.walk().await;
    let before = world.bucket.calls_total();
    world.closed_after(ino, open).await;
    let closed = world.bucket.calls_total();
    world.later(later);
    world.walk().await;
    [before, closed, world.bucket.calls_total()]
}

#[tokio::test]
async fn who_goes_again_to_what_was_open_for_long_does_not_wait_for_the_bucket() {
    let [before, closed, later] = asked(METADATA_TTL * 3 / 4, METADATA_TTL * 3 / 4).await;
    assert!(before < closed, "the way is looked at again when the file is closed");
    assert_eq!(closed, later);
}

#[tokio::test]
async fn what_was_open_for_a_moment_costs_no_more_than_the_moment() {
    let [before, closed, later] = asked(METADATA_TTL / 4, METADATA_TTL).await;
    assert_eq!(before, closed);
    assert!(closed < later);
}

#[tokio::test]
async fn who_opens_a_file_again_and_again_does_not_wait_in_between() {
    let world = World::new();
    for key in ["d/a", "d/b"] {
        world.bucket.insert(&Key::from(key), "bytes", Metadata::new());
    }
    let ino = world.walk().await;
    let dir = world.lookup("d").await;
    let other = world.vfs().lookup(dir, name("b")).await.unwrap().ino;
    world.closed_after(ino, Duration::ZERO).await;
    world.later(METADATA_TTL * 3 / 4);
    let before = world.bucket.calls_total();
    world.closed_after(other, Duration::ZERO).await;
    assert_eq!(world.bucket.calls_total(), before, "it is opened for the first time");
    let gate = world.bucket.hold(Op::Head);
    for _ in 0..3 {
        world.closed_after(ino, Duration::ZERO).await;
    }
    let heads = world.bucket.calls(Op::Head);
    drop(gate);
    world.closed_after(ino, Duration::ZERO).await;
    assert_eq!(world.bucket.calls(Op::Head), heads, "it is looked at once");
    assert!(before < world.bucket.calls_total());
    world.later(METADATA_TTL * 3 / 4);
    let looked = world.bucket.calls_total();
    world.walk().await;
    assert_eq!(world.bucket.calls_total(), looked);
}

#[tokio::test]
async fn a_file_that_is_closed_does_not_have_the_next_one_asked_for_with_its_neighbours() {
    let world = World::new();
    for key in ["a", "b"] {
        world.bucket.insert(&Key::from(key), "bytes", Metadata::new());
    }
    let ino = world.lookup("a").await;
    world.closed_after(ino, METADATA_TTL * 3 / 4).await;
    world.later(METADATA_TTL * 3 / 4);
    let before = world.bucket.calls(Op::Head);
    world.lookup("b").await;
    assert_eq!(world.bucket.calls(Op::Head), before + 1, "it is asked about alone");
}
