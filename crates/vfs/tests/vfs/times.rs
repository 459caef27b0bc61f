//! Times that `stat` tells: an upload moves none of them.

use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Timestamp};
use namespace::{RenameMode, SetAttr, XattrMode};

use crate::rig::{ME, World, name};

const A_SECOND: Duration = Duration::from_secs(1);

/// A change of a file that was written and is not uploaded.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    Mode,
    Times,
    AccessTime,
    Attribute,
    Rename,
}

async fn apply(world: &World, ino: Ino, change: Change) {
    let vfs = world.vfs();
    let time = Timestamp { secs: 1_000_000_000, nanos: 1 };
    let set = |change: SetAttr| Arc::clone(&vfs).set_attr(ino, change);
    match change {
        Change::None => {}
        Change::Mode => {
            set(SetAttr { mode: Some(0o600), ..SetAttr::default() }).await.unwrap();
        }
        Change::Times => {
            let both = SetAttr { atime: Some(time), mtime: Some(time), ..SetAttr::default() };
            set(both).await.unwrap();
        }
        Change::AccessTime => {
            set(SetAttr { atime: Some(time), ..SetAttr::default() }).await.unwrap();
        }
        Change::Attribute => {
            let (name, value) = (b"user.note".to_vec(), b"1".to_vec());
            vfs.set_xattr(ino, name, value, XattrMode::Set).await.unwrap();
        }
        Change::Rename => {
            let (from, to) = ((Ino::ROOT, name("a")), (Ino::ROOT, name("b")));
            vfs.rename(from, to, RenameMode::Replace).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_moves_no_times() {
    for change in [
        Change::None,
        Change::Mode,
        Change::Times,
        Change::AccessTime,
        Change::Attribute,
        Change::Rename,
    ] {
        let world = World::new();
        let (ino, handle) = world.create("a", true).await;
        world.later(A_SECOND);
        world.write(handle, 0, b"bytes").await;
        world.later(A_SECOND);
        apply(&world, ino, change).await;
        world.later(A_SECOND);
        let times = async || {
            let attr = world.vfs().attr(ino).await.unwrap();
            (attr.atime, attr.mtime, attr.ctime)
        };
        let before = times().await;
        world.vfs().flush(handle, ME).await.unwrap();
        assert_eq!(times().await, before, "{change:?}");
        world.vfs.release(handle).unwrap();
    }
}
