//! Files that are renamed before they are in the bucket.

use base::Ino;
use namespace::RenameMode;
use quayfs_vfs::Access;
use remote::fake::Op;
use remote::{Key, Metadata};
use tokio::runtime::{Builder, Runtime};

use crate::rig::{
    Grave, MANY_LOOKS, ME, Setup, World, file_system, killed, killed_on, name, owned,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_under_another_name_and_renamed_costs_one_request() {
    let world = World::new();
    world.closed("target", b"old").await;
    world.settled().await;
    let before = world.bucket.calls_total();
    world.closed("target.tmp", b"new").await;
    world.rename("target.tmp", "target").await;
    world.settled().await;
    assert_eq!(world.object("target").unwrap(), &b"new"[..]);
    assert_eq!(world.object("target.tmp"), None);
    assert_eq!(world.bucket.calls(Op::Put), 2);
    assert_eq!(world.bucket.calls(Op::Copy) + world.bucket.calls(Op::Delete), 0);
    // That and what was asked about the two names.
    assert!(world.bucket.calls_total() <= before + 1 + 4, "{}", world.bucket.calls_total());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_closed_and_not_uploaded_is_renamed_at_once_and_gets_there() {
    for is_folder in [false, true] {
        let world = World::edited(is_folder).await;
        let gate = world.bucket.hold(Op::Copy);
        world.rename(if is_folder { "d" } else { "a" }, "to").await;
        gate.arrived(1).await;
        if is_folder {
            let to = world.vfs().lookup(Ino::ROOT, name("to")).await.unwrap().ino;
            world.closed_in(to, "newer", b"newer").await;
        }
        assert_eq!(world.bucket.calls(Op::Put), 0);
        drop(gate);
        assert_eq!(world.vfs.drain().await, []);
        let want: &[_] = if is_folder {
            &[("to/a", "again"), ("to/new", "new"), ("to/newer", "newer")]
        } else {
            &[("to", "again")]
        };
        assert_eq!(world.objects(), owned(want));
        assert!(world.ledger.left().is_empty());
        assert!(world.recovery().is_empty());
    }
}

#[test]
fn what_was_closed_is_under_the_new_name_of_its_file_or_folder_whenever_the_process_dies() {
    for is_folder in [false, true] {
        for held in [Op::Copy, Op::Delete] {
            let (world, recovered, runtime) = killed(async || {
                let world = World::edited(is_folder).await;
                let gate = world.bucket.hold(held);
                world.rename(if is_folder { "d" } else { "a" }, "to").await;
                gate.arrived(1).await;
                if is_folder {
                    let to = world.vfs().lookup(Ino::ROOT, name("to")).await.unwrap().ino;
                    world.closed_in(to, "newer", b"newer").await;
                }
                (world, vec![gate])
            });
            let want: &[_] = if is_folder {
                &[("to/a", "again"), ("to/new", "new"), ("to/newer", "newer")]
            } else {
                &[("to", "again")]
            };
            assert_eq!(world.objects(), owned(want), "{held:?} {recovered:?}");
            assert_eq!((recovered.waiting, recovered.kept.len()), (0, 0));
            assert!(world.ledger.left().is_empty());
            drop((world, runtime));
        }
    }
}

#[test]
fn what_was_closed_below_a_renamed_folder_is_under_its_new_name_although_its_recovery_dies_too() {
    let runtime = Runtime::new().unwrap();
    let (grave, gates) = runtime.block_on(async {
        let world = World::edited(true).await;
        let gate = world.bucket.hold(Op::Copy);
        world.rename("d", "to").await;
        gate.arrived(1).await;
        (world.buried(), gate)
    });
    drop(runtime);
    drop(gates);
    // The next process makes the move, and dies before it has looked for what goes along.
    let runtime = Runtime::new().unwrap();
    let grave = runtime.block_on(async {
        let Grave { bucket, clock, ledger, dir } = grave;
        let place = (dir.path(), Setup::default());
        let (names, vfs) = file_system(&bucket, &clock, &ledger, place);
        assert_eq!(names.replay(ledger.left()).await.waiting, 0);
        drop(vfs);
        Grave { bucket, clock, ledger, dir }
    });
    drop(runtime);
    let runtime = Runtime::new().unwrap();
    let (world, recovered) = runtime.block_on(grave.rise());
    let want = [("to/a", "again"), ("to/new", "new")];
    assert_eq!(world.objects(), owned(&want), "{recovered:?}");
    assert_eq!((recovered.waiting, recovered.kept.len()), (0, 0));
    assert!(world.ledger.left().is_empty());
}

#[test]
fn close_beside_a_move_over_an_empty_directory_outlives_a_crash() {
    for held in [Op::Copy, Op::Delete] {
        // Of one thread: a task that has noted something is at its next wait when this one looks.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (world, recovered, runtime) = killed_on(runtime, async || {
            let world = World::edited(true).await;
            world.bucket.insert(&Key::from("to/"), "", Metadata::new());
            let dir = world.vfs().lookup(Ino::ROOT, name("d")).await.unwrap().ino;
            let file = world.vfs().lookup(dir, name("a")).await.unwrap().ino;
            let edit = world.vfs().open(file, Access::Write, ME).await.unwrap().handle;
            let (_, late) = world.create_in(dir, "late").await;
            let gate = world.bucket.hold(held);
            let (from, to) = ((Ino::ROOT, name("d")), (Ino::ROOT, name("to")));
            tokio::spawn(world.vfs().rename(from, to, RenameMode::Replace));
            gate.arrived(1).await;
            let noted = world.ledger.left().len() + 2;
            for (handle, bytes) in [(edit, b"third"), (late, b"later")] {
                world.write(handle, 0, bytes).await;
                tokio::spawn(world.vfs().flush(handle, ME));
            }
            let mut looks = 0..MANY_LOOKS;
            while world.ledger.left().len() < noted && looks.next().is_some() {
                tokio::task::yield_now().await;
            }
            (world, vec![gate])
        });
        let want = [("to/", ""), ("to/a", "third"), ("to/late", "later"), ("to/new", "new")];
        assert_eq!(world.objects(), owned(&want), "{held:?} {recovered:?}");
        assert_eq!((recovered.waiting, recovered.kept.len()), (0, 0));
        assert!(world.ledger.left().is_empty());
        drop((world, runtime));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_on_its_way_to_a_new_name_is_read_and_written() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), "first", remote::Metadata::new());
    world.bucket.insert(&Key::from("c"), "other", remote::Metadata::new());
    let ino = world.vfs().lookup(Ino::ROOT, name("a")).await.unwrap().ino;
    let gate = world.bucket.hold(Op::Copy);
    world.rename("a", "b").await;
    world.rename("c", "d").await;
    gate.arrived(2).await;
    let found = world.vfs().lookup(Ino::ROOT, name("b")).await.unwrap().ino;
    assert_eq!(found, ino);
    let reader = world.vfs().open(ino, Access::Read, ME).await.unwrap().handle;
    let read = world.vfs().read(reader, 0, 5).await.unwrap();
    assert_eq!(&read[..], b"first", "from where it still is");
    let writer = world.vfs().open(ino, Access::Write, ME).await.unwrap().handle;
    world.write(writer, 5, b" and more").await;
    let vfs = world.vfs();
    let closing = tokio::spawn(async move { vfs.flush(writer, ME).await });
    gate.let_through(2);
    closing.await.unwrap().unwrap();
    world.vfs.release(writer).unwrap();
    let read = world.vfs().read(reader, 0, 14).await.unwrap();
    assert_eq!(&read[..], b"first and more");
    let other = world.vfs().lookup(Ino::ROOT, name("d")).await.unwrap().ino;
    let handle = world.vfs().open(other, Access::Read, ME).await.unwrap().handle;
    let read = world.vfs().read(handle, 0, 5).await.unwrap();
    assert_eq!(&read[..], b"other");
    drop(gate);
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("b").unwrap(), &b"first and more"[..]);
    assert_eq!(world.object("d").unwrap(), &b"other"[..]);
    assert_eq!(world.bucket.keys().len(), 2);
}
