//! What becomes of bytes when an upload fails, somebody else was first, or the process dies.

use base::Errno;
use quayfs_vfs::Access;
use remote::fake::Op;
use remote::{ErrorKind, Key, Metadata};

use crate::rig::{ME, World, told};

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_lost_a_race_fails_and_its_bytes_are_kept() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle;
    world.write(handle, 0, b"mine").await;
    world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::ESTALE);
    assert_eq!(world.object("a").unwrap(), &b"theirs"[..]);
    assert!(world.recovered().contains(&b"mine".to_vec()));
    world.vfs.release(handle).unwrap();
}

/// Whether what is kept comes with a note that says so.
fn is_noted(world: &World, words: &str) -> bool {
    let says = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains(words);
    world.recovered().iter().any(says)
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_edit_says_what_another_client_did_to_the_object() {
    for (theirs, words) in [
        (Some("theirs"), "the object was changed by another client"),
        (None, "the object was removed by another client"),
    ] {
        let world = World::new();
        world.bucket.insert(&Key::from("a"), "old", Metadata::new());
        let ino = world.lookup("a").await;
        let handle = world.open(ino, Access::ReadWrite).await.handle;
        world.write(handle, 0, b"mine").await;
        match theirs {
            Some(theirs) => drop(world.bucket.insert(&Key::from("a"), theirs, Metadata::new())),
            None => assert!(world.bucket.remove(&Key::from("a"))),
        }
        let failed = world.vfs().flush(handle, ME).await.unwrap_err();
        assert!(failed.to_string().contains(words), "{failed}");
        assert!(is_noted(&world, words), "{words}");
        let told = world.vfs.pending().failures;
        assert!(told.iter().all(|failure| format!("{failure:?}").contains(words)), "{told:?}");
        world.vfs.release(handle).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_new_file_says_that_another_client_made_one() {
    let world = World::new();
    let (_, handle) = world.create("a", true).await;
    world.write(handle, 0, b"mine").await;
    world.bucket.insert(&Key::from("a"), "theirs", Metadata::new());
    let failed = world.vfs().flush(handle, ME).await.unwrap_err();
    assert!(failed.to_string().contains("the object was made by another client"), "{failed}");
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_on_after_a_lost_race_is_never_told_that_it_is_in_the_bucket() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let [one, other] = [
        world.vfs().open(ino, Access::ReadWrite, ME).await.unwrap().handle,
        world.vfs().open(ino, Access::Write, ME).await.unwrap().handle,
    ];
    world.write(one, 0, b"mine").await;
    world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
    assert_eq!(told(world.vfs().fsync(one).await), Errno::ESTALE);
    for handle in [one, other] {
        world.write(handle, 4, b", and more").await;
        assert_eq!(told(world.vfs().fsync(handle).await), Errno::ESTALE);
        assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::ESTALE);
    }
    assert_eq!(world.object("a").unwrap(), &b"theirs"[..]);
    assert!(world.recovered().contains(&b"mine, and more".to_vec()));
    for handle in [one, other] {
        world.vfs.release(handle).unwrap();
    }
    // Whoever opens it again has the other's.
    let again = world.lookup("a").await;
    let handle = world.vfs().open(again, Access::Write, ME).await.unwrap().handle;
    world.write(handle, 0, b"T").await;
    world.vfs().fsync(handle).await.unwrap();
    world.vfs().flush(handle, ME).await.unwrap();
    world.vfs.release(handle).unwrap();
    assert_eq!(world.object("a").unwrap(), &b"Theirs"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_written_whole_wins_and_an_exclusive_one_does_not() {
    let world = World::new();
    for (key, exclusive, want) in [("w", false, &b"mine"[..]), ("x", true, b"theirs")] {
        let (_, handle) = world.create(key, exclusive).await;
        world.write(handle, 0, b"mine").await;
        world.bucket.insert(&Key::from(key), &b"theirs"[..], Metadata::new());
        let closed = world.vfs().flush(handle, ME).await;
        assert_eq!(closed.is_ok(), !exclusive);
        assert_eq!(world.object(key).unwrap(), want);
        world.vfs.release(handle).unwrap();
    }
    assert_eq!(world.recovered().iter().filter(|bytes| **bytes == b"mine").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_close_keeps_the_bytes_and_they_come_later() {
    let world = World::new();
    let (ino, handle) = world.create("a", false).await;
    world.write(handle, 0, b"x").await;
    world.bucket.fail_next(Op::Put, ErrorKind::Unavailable);
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::EIO);
    let pending = world.vfs.pending();
    assert_eq!((pending.files, pending.failures.len()), (1, 1));
    world.vfs.release(handle).unwrap();
    assert_eq!(world.vfs.drain().await, []);
    assert_eq!(world.object("a").unwrap(), &b"x"[..]);
    assert_eq!(world.vfs().attr(ino).await.unwrap().size, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_after_a_failed_close_does_not_replace_what_came_meanwhile() {
    let world = World::new();
    let (_, handle) = world.create("a", false).await;
    world.write(handle, 0, b"mine").await;
    world.bucket.fail_next(Op::Put, ErrorKind::Unavailable);
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::EIO);
    world.bucket.insert(&Key::from("a"), &b"theirs"[..], Metadata::new());
    world.vfs.release(handle).unwrap();
    world.vfs.drain().await;
    assert_eq!(world.object("a").unwrap(), &b"theirs"[..]);
    assert!(world.recovered().contains(&b"mine".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_an_object_that_is_gone_is_kept_and_the_rest_goes_on() {
    let dead = World::new();
    dead.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = dead.lookup("a").await;
    let handle = dead.open(ino, Access::ReadWrite).await.handle;
    dead.write(handle, 0, b"new").await;
    let grave = dead.die_while_syncing(handle, 1).await;
    grave.bucket.remove(&Key::from("a"));

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len(), recovered.waiting), (0, 1, 0));
    assert_eq!(alive.object("a"), None);
    assert!(alive.recovered().contains(&b"new".to_vec()));
    assert!(is_noted(&alive, "the object was removed by another client"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_mode_and_times() {
    let dead = World::new();
    let (_, handle) = dead.create("a", false).await;
    dead.write(handle, 0, b"x").await;
    let grave = dead.die_while_syncing(handle, 1).await;
    let (alive, _) = grave.rise().await;
    let metadata = alive.bucket.meta(&Key::from("a")).unwrap().metadata;
    assert_eq!(metadata.get("mode").map(String::as_str), Some("33188"));
    assert_eq!(metadata.get("uid").map(String::as_str), Some("7"));
    assert!(metadata.contains_key("mtime"));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_sealed_bytes_are_uploaded_and_open_ones_kept() {
    let dead = World::new();
    let (_, sealed) = dead.create("sealed", false).await;
    dead.write(sealed, 0, b"sealed").await;
    let (_, open) = dead.create("open", false).await;
    dead.write(open, 0, b"open").await;
    let grave = dead.die_while_syncing(sealed, 1).await;

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 1));
    assert_eq!(alive.object("sealed").unwrap(), &b"sealed"[..]);
    assert_eq!(alive.object("open"), None);
    assert!(alive.recovered().contains(&b"open".to_vec()));
}

/// As of a power cut before the disk had them.
#[tokio::test(flavor = "multi_thread")]
async fn of_sealed_bytes_that_are_not_here_any_more_people_are_told() {
    let dead = World::new();
    let (_, sealed) = dead.create("sealed", false).await;
    dead.write(sealed, 0, b"sealed").await;
    let grave = dead.die_while_syncing(sealed, 1).await;
    grave.empty_staged_files();

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (0, 1));
    assert!(recovered.kept[0].display().to_string().contains("sealed"), "{:?}", recovered.kept);
    assert_eq!(alive.object("sealed"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_what_had_arrived_is_no_conflict() {
    let dead = World::new();
    let (_, handle) = dead.create("a", false).await;
    dead.write(handle, 0, b"there").await;
    // The object is written, its answer is lost, and we die before we have asked again.
    dead.bucket.lose_next_answer(Op::Put);
    let grave = dead.die_while_syncing(handle, 2).await;
    let before = grave.bucket.meta(&Key::from("a")).unwrap();

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (1, 0));
    assert_eq!(alive.bucket.meta(&Key::from("a")).unwrap().version, before.version);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_close_that_had_arrived_is_no_conflict_for_the_next() {
    let world = World::new();
    world.bucket.insert(&Key::from("a"), &b"old"[..], Metadata::new());
    let ino = world.lookup("a").await;
    let handle = world.open(ino, Access::ReadWrite).await.handle;
    world.write(handle, 0, b"one").await;
    world.bucket.lose_next_answer(Op::Put);
    // What follows fails until the deadline has passed.
    for _ in 0..100 {
        world.bucket.fail_next(Op::Put, ErrorKind::Transient { retry_after: None });
    }
    assert_eq!(told(world.vfs().flush(handle, ME).await), Errno::EIO);
    assert_eq!(world.object("a").unwrap(), &b"one"[..]);
    world.bucket.forget_faults();
    world.write(handle, 0, b"two").await;
    world.vfs().flush(handle, ME).await.unwrap();
    assert_eq!(world.object("a").unwrap(), &b"two"[..]);
    world.vfs.release(handle).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_never_replaces_a_newer_object() {
    let dead = World::new();
    let (_, handle) = dead.create("a", false).await;
    dead.write(handle, 0, b"late").await;
    let grave = dead.die_while_syncing(handle, 1).await;
    grave.bucket.insert(&Key::from("a"), &b"newer"[..], Metadata::new());

    let (alive, recovered) = grave.rise().await;
    assert_eq!((recovered.uploaded, recovered.kept.len()), (0, 1));
    assert_eq!(alive.object("a").unwrap(), &b"newer"[..]);
    assert!(alive.recovered().contains(&b"late".to_vec()));
}
