//! When files say that they were last written.

use std::sync::Arc;

use crate::rig::{A_WHILE, ME, World};

/// Enough for writes, closes and uploads to meet in all ways.
const ROUNDS: u32 = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn uploads_leave_the_time_of_the_last_write() {
    let world = Arc::new(World::new());
    for round in 0..ROUNDS {
        let (ino, handle) = world.create(&format!("file{round}")).await;
        let syncing = {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                for _ in 0..3 {
                    assert!(world.vfs().drain().await.is_empty());
                }
            })
        };
        for number in 0..10 {
            world.write(handle, number, b"x").await;
            tokio::task::yield_now().await;
        }
        let written = world.vfs().attr(ino).await.unwrap().mtime;
        // Whatever is done of it from now on is done later.
        world.clock.advance(A_WHILE);
        world.vfs().flush(handle, ME).await.unwrap();
        syncing.await.unwrap();
        world.settled().await;
        assert_eq!(world.vfs().attr(ino).await.unwrap().mtime, written, "round {round}");
        world.close(handle).await;
    }
}
