//! Owners, modes, times and numbers of files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use testkit::{MinIo, Plan, close, run, wait, write_new};

use crate::{TTL, errno, mounted};

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn objects_of_others_belong_to_who_mounted_with_ordinary_modes() {
    let (bucket, mount) = mounted();
    bucket.put("folder/file", b"bytes");
    let path = mount.join("folder/file");
    wait::until("the object to appear", TTL, || path.exists());
    let (file, folder) =
        (fs::metadata(&path).unwrap(), fs::metadata(mount.join("folder")).unwrap());
    assert_eq!((file.mode(), folder.mode()), (0o100_644, 0o040_755));
    assert_eq!((file.uid(), file.gid(), folder.uid()), (0, 0, 0));
    assert_eq!((file.nlink(), file.len()), (1, 5));
    let here = mount.plan().folder("local").join("now");
    fs::write(&here, b"").unwrap();
    let age = fs::metadata(&here).unwrap().mtime() - file.mtime();
    assert!((-1..120).contains(&age), "{age} s since the object was put");
}

#[test]
fn a_new_file_has_the_mode_its_creator_asked_for() {
    let (_bucket, mount) = mounted();
    let path = mount.join("private");
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    close(file).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn modes_and_times_that_are_set_hold_while_the_mount_lasts() {
    let (bucket, mount) = mounted();
    let path = mount.join("script");
    write_new(&path, b"#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    run(Command::new("touch").args(["-d", "2001-02-03 04:05:06 UTC"]).arg(&path), WITHIN).ok();
    bucket.put("later", b"");
    wait::until("the time to live to pass", TTL, || mount.join("later").exists());
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o755, 981_173_106));
    assert_eq!(run(&mut Command::new(&path), WITHIN).ok(), "ran\n");
}

#[test]
fn copies_that_keep_modes_and_times_keep_them_across_mounts() {
    let (bucket, mount) = mounted();
    let source = mount.plan().folder("source").join("tool");
    fs::write(&source, b"bytes").unwrap();
    run(Command::new("touch").args(["-d", "2001-02-03 04:05:06 UTC"]).arg(&source), WITHIN).ok();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o750)).unwrap();
    let mut file = OpenOptions::new();
    let mut file = file.write(true).create_new(true).mode(0o750).open(mount.join("tool")).unwrap();
    file.write_all(b"bytes").unwrap();
    file.set_modified(fs::metadata(&source).unwrap().modified().unwrap()).unwrap();
    close(file).unwrap();
    assert_eq!(fs::metadata(mount.join("tool")).unwrap().mtime(), 981_173_106);
    // What s3fs and others look for.
    let metadata = bucket.head("tool").unwrap().metadata;
    assert!(metadata["mtime"].starts_with("981173106"), "{metadata:?}");
    assert_eq!(metadata["mode"].parse(), Ok(0o100_750), "{metadata:?}");
}

#[test]
fn inode_numbers_are_the_same_in_every_mount() {
    let bucket = MinIo::shared().bucket();
    bucket.put("folder/one", b"1");
    bucket.put("folder/two", b"2");
    let (one, other) = (Plan::of(&bucket).mount(), Plan::of(&bucket).mount());
    let number = |path: &Path| fs::metadata(path).unwrap().ino();
    for name in ["folder", "folder/one", "folder/two"] {
        assert_eq!(number(&one.join(name)), number(&other.join(name)), "{name}");
    }
    assert_ne!(number(&one.join("folder/one")), number(&one.join("folder/two")));
}

#[test]
fn a_renamed_file_and_the_one_that_took_its_name_keep_their_numbers_over_a_remount() {
    let (bucket, mount) = mounted();
    fs::create_dir(mount.join("d")).unwrap();
    for name in ["x", "d/x"] {
        write_new(&mount.join(name), b"1").unwrap();
    }
    let number = |mount: &testkit::Mount, name: &str| fs::metadata(mount.join(name)).unwrap().ino();
    let (x, below) = (number(&mount, "x"), number(&mount, "d/x"));
    for (from, to) in [("x", "y"), ("d/x", "d/y")] {
        fs::rename(mount.join(from), mount.join(to)).unwrap();
        write_new(&mount.join(from), b"2").unwrap();
    }
    assert_eq!((number(&mount, "y"), number(&mount, "d/y")), (x, below));
    let paths = ["x", "y", "d", "d/x", "d/y"];
    let before = paths.map(|path| number(&mount, path));
    assert!(before[0] != before[1] && before[3] != before[4]);

    let mount = mount.umount().mount();
    assert_eq!(paths.map(|path| number(&mount, path)), before);
    // On another host the paths alone say the numbers.
    let other = Plan::of(&bucket).mount();
    assert_eq!(number(&other, "d"), before[2]);
    assert_eq!((number(&other, "x"), number(&other, "d/x")), (x, below));
}

#[test]
fn what_this_version_cannot_do_is_refused_with_the_right_word() {
    let (_bucket, mount) = mounted();
    write_new(&mount.join("file"), b"bytes").unwrap();
    assert_eq!(errno(fs::hard_link(mount.join("file"), mount.join("link"))), Errno::PERM);
}

#[test]
fn a_lock_is_held_among_the_processes_of_this_host() {
    let (_bucket, mount) = mounted();
    let path = mount.join("lock");
    let file = File::create(&path).unwrap();
    file.lock().unwrap();
    let try_lock = || run(Command::new("flock").arg("-n").arg(&path).arg("true"), WITHIN);
    assert_eq!(try_lock().status.code(), Some(1));
    file.unlock().unwrap();
    try_lock().ok();
}

#[test]
fn programs_are_run_from_the_mount() {
    let (_bucket, mount) = mounted();
    let path = mount.join("true");
    testkit::copy_program("/bin/true".as_ref(), &path);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o111, 0o111, "copied with its mode");
    run(&mut Command::new(&path), WITHIN).ok();
}
