//! Names that change: of folders with everything in them, of what is open, and in the middle of it
//! the daemon is killed.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use testkit::{MinIo, Plan, Shape, SlowLink, noise, read_at, wait, write_new};

use crate::{SOON, errno, mounted, mounted_with, names};

const FILES: usize = 300;

#[test]
pub(crate) fn a_folder_is_renamed_with_everything_in_it() {
    let (bucket, mount) = mounted();
    bucket.put_many("old/", FILES, "bytes");
    bucket.put("old/sub/deep/file", b"deep");
    fs::create_dir(mount.join("old/empty")).unwrap();
    let before = names(&mount.join("old"));
    fs::rename(mount.join("old"), mount.join("new")).unwrap();
    assert_eq!(names(mount.path()), ["new"]);
    assert_eq!(names(&mount.join("new")), before);
    assert_eq!(fs::read(mount.join("new/sub/deep/file")).unwrap(), b"deep");
    assert_eq!(bucket.get("new/sub/deep/file").unwrap(), b"deep");
    let keys = bucket.keys();
    assert!(keys.iter().all(|key| key.starts_with("new/")), "{keys:?}");
    assert_eq!(keys.iter().filter(|key| !key.ends_with('/')).count(), FILES + 1);

    // Onto an empty folder, below another, and not where it cannot be.
    fs::create_dir_all(mount.join("a/b")).unwrap();
    fs::rename(mount.join("new"), mount.join("a/b")).unwrap();
    assert_eq!(names(&mount.join("a/b")), before);
    fs::create_dir(mount.join("full")).unwrap();
    write_new(&mount.join("full/file"), b"x").unwrap();
    assert_eq!(errno(fs::rename(mount.join("a"), mount.join("full"))), Errno::NOTEMPTY);
    assert_eq!(errno(fs::rename(mount.join("a"), mount.join("a/b/c"))), Errno::INVAL);
    mount.umount();
}

/// With both kinds of commit: a key below the directory is as long as the store takes it.
#[test]
fn directory_with_a_deep_key_keeps_its_name() {
    for commit in ["close", "async"] {
        let (bucket, mount) = mounted_with(&["--commit", commit]);
        let deep = |top: &str| {
            let dirs = vec!["d".repeat(200); 5].join("/");
            let begins = format!("{top}/{dirs}/");
            format!("{begins}{}", "f".repeat(1024 - begins.len()))
        };
        bucket.put(&deep("dir"), b"deep");
        bucket.put("dir/file", b"file");
        fs::create_dir(mount.join("longer")).unwrap();
        wait::until("the objects to appear", SOON, || mount.join("dir/file").exists());
        wait::until("the folder to be made", SOON, || {
            bucket.keys().iter().any(|key| key == "longer/")
        });
        let before = bucket.keys();
        for to in ["renamed", "longer"] {
            let renamed = fs::rename(mount.join("dir"), mount.join(to));
            assert_eq!(errno(renamed), Errno::NAMETOOLONG, "{commit} {to}");
        }
        assert_eq!(names(mount.path()), ["dir", "longer"]);
        assert_eq!(bucket.keys(), before);
        fs::rename(mount.join("dir"), mount.join("rid")).unwrap();
        assert_eq!(fs::read(mount.join(deep("rid"))).unwrap(), b"deep");
        mount.umount();
        assert_eq!(bucket.get(&deep("rid")).unwrap(), b"deep");
    }
}

#[test]
pub(crate) fn files_open_in_a_renamed_folder_are_read_and_written_on() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 9_000_000);
    bucket.put("old/large", &bytes);
    wait::until("the object to appear", SOON, || mount.join("old/large").exists());
    let large = fs::File::open(mount.join("old/large")).unwrap();
    assert!(read_at(&large, 0, 1000).unwrap() == bytes[..1000]);
    let mut fresh = fs::File::create(mount.join("old/fresh")).unwrap();
    fresh.write_all(b"one").unwrap();
    fs::rename(mount.join("old"), mount.join("new")).unwrap();
    assert!(read_at(&large, 0, bytes.len()).unwrap() == bytes);
    fresh.write_all(b" two").unwrap();
    testkit::close(fresh).unwrap();
    assert_eq!(bucket.get("new/fresh").unwrap(), b"one two");
    assert_eq!(bucket.get("old/fresh"), None);
    drop(large);
    mount.umount();
}

#[test]
pub(crate) fn a_large_file_removed_while_open_is_read_to_its_end() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 40_000_000);
    bucket.put("large", &bytes);
    wait::until("the object to appear", SOON, || mount.join("large").exists());
    let mut file = fs::File::open(mount.join("large")).unwrap();
    assert!(read_at(&file, 0, 1000).unwrap() == bytes[..1000]);
    fs::remove_file(mount.join("large")).unwrap();
    assert_eq!(bucket.get("large"), None);
    let mut read = Vec::new();
    file.read_to_end(&mut read).unwrap();
    assert!(read == bytes);
    drop(file);
    wait::until("nothing to be left of it", SOON, || bucket.keys().is_empty());
    mount.umount();
}

#[test]
fn what_a_removed_file_left_in_the_bucket_goes_with_the_next_mount_after_a_kill() {
    let (bucket, mount) = mounted();
    bucket.put("large", &noise(1, 40_000_000));
    wait::until("the object to appear", SOON, || mount.join("large").exists());
    let file = fs::File::open(mount.join("large")).unwrap();
    read_at(&file, 0, 1000).unwrap();
    fs::remove_file(mount.join("large")).unwrap();
    assert_eq!(bucket.keys().len(), 1, "kept for who reads it");
    mount.kill();
    drop(file);
    let mount = mount.umount().mount();
    assert_eq!(bucket.keys(), Vec::<String>::new());
    mount.umount();
}

#[test]
fn a_folder_whose_rename_is_killed_has_its_old_names_or_its_new_ones_after_the_next_mount() {
    let store = MinIo::shared();
    // Counted in objects that the copies have added, and that the removals have left.
    let moments: [fn(usize, usize) -> bool; 5] = [
        |_, new| 0 < new,
        |_, new| FILES / 2 < new,
        |_, new| new == FILES,
        |old, _| old < FILES,
        |old, _| old < FILES / 2,
    ];
    for (number, is_now) in moments.into_iter().enumerate() {
        let bucket = store.bucket();
        bucket.put_many("old/", FILES, "the same bytes");
        let latency = Duration::from_millis(20);
        let link = SlowLink::to(store.address(), Shape { latency, ..Shape::default() });
        let mount = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
        assert_eq!(names(&mount.join("old")).len(), FILES);
        fs::set_permissions(mount.join("old"), fs::Permissions::from_mode(0o710)).unwrap();
        std::thread::scope(|scope| {
            let (from, to) = (mount.join("old"), mount.join("new"));
            let renaming = scope.spawn(move || fs::rename(from, to));
            wait::until("the moment to kill it", SOON, || {
                let old = bucket.keys().iter().filter(|key| key.starts_with("old/")).count();
                let new = bucket.keys().iter().filter(|key| key.starts_with("new/")).count();
                is_now(old, new) || renaming.is_finished()
            });
            mount.kill();
            // Killed before its end or after it.
            let _ = renaming.join().unwrap();
        });
        let mount = mount.umount().mount();
        let keys: Vec<_> = bucket.keys().into_iter().filter(|key| !key.ends_with('/')).collect();
        assert_eq!(keys.len(), FILES, "killed at moment {number}: {keys:?}");
        let folder = keys[0].split_once('/').unwrap().0.to_owned();
        assert!(keys.iter().all(|key| key.starts_with(&format!("{folder}/"))), "{keys:?}");
        for key in [&keys[0], &keys[FILES / 2], &keys[FILES - 1]] {
            assert_eq!(bucket.get(key).unwrap(), b"the same bytes");
        }
        assert_eq!(names(mount.path()), [folder.as_str()]);
        assert_eq!(names(&mount.join(&folder)).len(), FILES);
        let mode = fs::metadata(mount.join(&folder)).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o710, "of {folder}, killed at moment {number}");
        mount.umount();
    }
}

#[test]
pub(crate) fn two_names_change_places() {
    let (bucket, mount) = mounted();
    bucket.put("d/x", b"in d");
    bucket.put("d/sub/y", b"below d");
    write_new(&mount.join("file"), b"a file").unwrap();
    write_new(&mount.join("other"), b"another").unwrap();
    let swap = |one: &str, other: &str| {
        renameat_with(CWD, mount.join(one), CWD, mount.join(other), RenameFlags::EXCHANGE)
    };
    swap("file", "other").unwrap();
    assert_eq!(fs::read(mount.join("file")).unwrap(), b"another");
    assert_eq!(bucket.get("other").unwrap(), b"a file");
    swap("d", "file").unwrap();
    assert_eq!(fs::read(mount.join("d")).unwrap(), b"another");
    assert_eq!(fs::read(mount.join("file/sub/y")).unwrap(), b"below d");
    assert_eq!(bucket.keys(), ["d", "file/sub/y", "file/x", "other"]);
    assert_eq!(swap("d", "nothing"), Err(Errno::NOENT));
    let taken =
        renameat_with(CWD, mount.join("d"), CWD, mount.join("other"), RenameFlags::NOREPLACE);
    assert_eq!(taken, Err(Errno::EXIST));
    mount.umount();
}
