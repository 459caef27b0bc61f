//! Files that others replace in the bucket while they are open here.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use base::{Errno, HandleId, Ino};
use namespace::SetAttr;
use quayfs_vfs::{Access, Opened, Pages};
use remote::{Key, Metadata};

use crate::rig::{ME, World, told};

const OLD: &[u8] = b"0123";
const OTHERS: &[u8] = b"of others";

fn size(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

impl World {
    /// The file `a`, with `bytes`.
    async fn with(bytes: &'static [u8]) -> (World, Ino) {
        let world = World::new();
        world.bucket.insert(&Key::from("a"), bytes, Metadata::new());
        let ino = world.lookup("a").await;
        (world, ino)
    }

    /// The file `a`, and somebody for whom the kernel reads it.
    async fn read_by_the_kernel() -> (World, Ino, Opened) {
        let (world, ino) = World::with(OLD).await;
        let cold = world.open(ino, Access::Read).await.handle;
        assert_eq!(world.vfs().read(cold, 0, 10).await.unwrap(), OLD);
        world.vfs.release(cold).unwrap();
        let reader = world.open(ino, Access::Read).await;
        assert!(matches!(reader.pages, Pages::Backing(_)), "{reader:?}");
        (world, ino, reader)
    }

    /// What `writer` writes now is told to be lost, and kept.
    async fn loses(&self, writer: HandleId) {
        self.write(writer, 0, b"mine").await;
        assert_eq!(told(self.vfs().flush(writer, ME).await), Errno::ESTALE);
        self.vfs.release(writer).unwrap();
        assert!(self.recovered().iter().any(|kept| kept == b"mine"));
        assert_eq!(self.object("a").unwrap(), OTHERS);
    }

    /// Until nothing is staged any more.
    async fn unstaged(&self) {
        let gone = async {
            while 0 < self.staged_files() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_after_a_reader_has_closed_what_others_replaced_hears_that_it_is_lost() {
    let (world, ino, reader) = World::read_by_the_kernel().await;
    let writer = world.open(ino, Access::Write).await;
    assert!(matches!(writer.pages, Pages::BackingSeen(_)), "{writer:?}");
    world.replaced("a", OTHERS).await;
    world.vfs.release(reader.handle).unwrap();
    world.loses(writer.handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_after_a_cut_to_the_same_size_and_others_closes_hears_that_it_is_lost() {
    let (world, ino) = World::with(OLD).await;
    let reader = world.open(ino, Access::Read).await;
    let writer = world.open(ino, Access::Write).await;
    world.vfs().set_attr(ino, size(4)).await.unwrap();
    // Of one of two descriptors.
    world.vfs().flush(writer.handle, ME).await.unwrap();
    world.replaced("a", OTHERS).await;
    world.vfs.release(reader.handle).unwrap();
    world.loses(writer.handle).await;
}

/// Who only reads it will not write it whole.
#[tokio::test(flavor = "multi_thread")]
async fn who_writes_an_empty_file_that_was_cut_under_a_reader_hears_that_others_replaced_it() {
    let (world, ino) = World::with(b"").await;
    let reader = world.open(ino, Access::Read).await;
    world.vfs().set_attr(ino, size(0)).await.unwrap();
    let writer = world.open(ino, Access::Write).await;
    world.replaced("a", OTHERS).await;
    world.loses(writer.handle).await;
    world.vfs.release(reader.handle).unwrap();
}

/// The kernel may name it by number for as long as it remembers the name.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_replaced_is_for_its_readers_only() {
    let (world, ino, reader) = World::read_by_the_kernel().await;
    let writer = world.open(ino, Access::Write).await;
    world.replaced("a", OTHERS).await;
    world.vfs.release(writer.handle).unwrap();
    for access in [Access::Write, Access::ReadWrite] {
        assert_eq!(told(world.vfs().open(ino, access, ME).await), Errno::ESTALE);
    }
    assert_eq!(told(world.vfs().set_attr(ino, size(2)).await), Errno::ESTALE);
    assert_eq!(world.vfs().read(reader.handle, 0, 10).await.unwrap(), OLD);
    world.vfs.release(reader.handle).unwrap();
    assert_eq!(world.staged_files(), 0);
    assert_eq!(world.object("a").unwrap(), OTHERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_what_could_be_mapped_and_was_replaced_without_a_change() {
    let (world, ino, reader) = World::read_by_the_kernel().await;
    let writer = world.open(ino, Access::ReadWrite).await;
    assert!(matches!(writer.pages, Pages::BackingSeen(_)), "{writer:?}");
    world.replaced("a", OTHERS).await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    world.vfs.release(writer.handle).unwrap();
    world.vfs.release(reader.handle).unwrap();
    world.unstaged().await;
    assert_eq!(world.recovered(), Vec::<Vec<u8>>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_through_a_mapping_that_outlives_its_close_is_kept_though_others_replaced_the_file()
 {
    let (world, ino, reader) = World::read_by_the_kernel().await;
    let writer = world.open(ino, Access::ReadWrite).await;
    let mapping = world.mapped();
    world.replaced("a", OTHERS).await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    world.vfs.release(writer.handle).unwrap();
    world.vfs.release(reader.handle).unwrap();
    mapping.write_all_at(b"mine", 0).unwrap();
    drop(mapping);
    world.unstaged().await;
    assert!(world.recovered().iter().any(|kept| kept == b"mine"));
    assert_eq!(world.object("a").unwrap(), OTHERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_appends_to_what_somebody_has_cut_to_nothing_before_replaces_nothing_of_others() {
    let (world, ino) = World::with(b"").await;
    let reader = world.open(ino, Access::Read).await;
    let cutter = world.open(ino, Access::Write).await;
    world.vfs().set_attr(ino, size(0)).await.unwrap();
    world.vfs().flush(cutter.handle, ME).await.unwrap();
    world.vfs.release(cutter.handle).unwrap();
    // Nobody looks at the name meanwhile.
    world.bucket.insert(&Key::from("a"), OTHERS, Metadata::new());
    let writer = world.open(ino, Access::Write).await;
    world.loses(writer.handle).await;
    world.vfs.release(reader.handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_cut_an_empty_file_to_nothing_wins_whoever_else_closes_it() {
    let (world, ino) = World::with(b"").await;
    let writer = world.open(ino, Access::Write).await;
    let other = world.open(ino, Access::Write).await;
    world.vfs().set_attr(ino, size(0)).await.unwrap();
    world.vfs().flush(other.handle, ME).await.unwrap();
    world.vfs.release(other.handle).unwrap();
    world.bucket.insert(&Key::from("a"), OTHERS, Metadata::new());
    assert_eq!(world.lookup("a").await, ino);
    world.write(writer.handle, 0, b"mine").await;
    world.vfs().flush(writer.handle, ME).await.unwrap();
    world.vfs.release(writer.handle).unwrap();
    assert_eq!(world.object("a").unwrap(), &b"mine"[..]);
}
