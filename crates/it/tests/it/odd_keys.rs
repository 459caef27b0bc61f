//! Keys that make no ordinary names, on a store that takes every key.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use testkit::{Moto, Plan, Scratch, append, overwrite, run, wait, write_new};

use crate::{TTL, errno, mounted, names};

const WITHIN: Duration = Duration::from_mins(1);

/// Every file below `folder`, as its path from there and its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                files.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
            }
        }
    }
    files.sort();
    files
}

fn long(bytes: usize) -> String {
    "n".repeat(bytes)
}

#[test]
fn every_key_of_a_bucket_is_a_file_and_reads_back() {
    let store = Moto::start();
    let bucket = store.bucket();
    let (part, start, rest) = (long(300), long(252), long(48));
    let cases = [
        ("a//b", "a/%%:/b".to_owned()),
        ("/lead", "%%:/lead".to_owned()),
        ("dots/./x", "dots/%%:./x".to_owned()),
        ("dots/../x", "dots/%%:../x".to_owned()),
        ("dots/..", "dots/%%=%%:..".to_owned()),
        ("own/", "own/%%:".to_owned()),
        ("both", "%%=both".to_owned()),
        ("both/x", "both/x".to_owned()),
        ("signs/%%x", "signs/%%:%25%25x".to_owned()),
        ("signs/my%20file+1", "signs/my%20file+1".to_owned()),
        ("signs/\u{1}\t ", "signs/\u{1}\t ".to_owned()),
        (&part, format!("%%~{start}/{rest}")),
    ];
    for (key, _) in &cases {
        bucket.put(key, key.as_bytes());
    }
    let mount = Plan::of(&bucket).mount();
    let mut want: Vec<(PathBuf, Vec<u8>)> =
        cases.iter().map(|(key, path)| (path.into(), key.as_bytes().to_vec())).collect();
    want.sort();
    assert_eq!(files(mount.path()), want);

    for (key, path) in &cases {
        overwrite(&mount.join(path), b"new").unwrap();
        append(&mount.join(path), b"er").unwrap();
        assert_eq!(bucket.get(key).as_deref(), Some(&b"newer"[..]), "{key:?}");
    }
    let again = Plan::of(&bucket).mount();
    for (key, path) in &cases {
        assert_eq!(fs::read(again.join(path)).unwrap(), b"newer", "{key:?}");
        fs::remove_file(again.join(path)).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
    let left = bucket.keys().into_iter().filter(|key| !key.ends_with('/')).collect::<Vec<_>>();
    assert_eq!(left, [""; 0], "only markers of folders are left");
}

#[test]
fn odd_names_made_here_are_odd_keys_there() {
    let store = Moto::start();
    let bucket = store.bucket();
    let mount = Plan::of(&bucket).mount();
    fs::create_dir_all(mount.join("a/%%:")).unwrap();
    write_new(&mount.join("a/%%:/b"), b"1").unwrap();
    write_new(&mount.join("a/%%:.."), b"2").unwrap();
    write_new(&mount.join("%%=a"), b"3").unwrap();
    let raw = mount.path().join(OsStr::from_bytes(b"caf\xe9"));
    write_new(&raw, b"4").unwrap();
    assert_eq!(bucket.keys(), ["%%!caf%E9", "a", "a/", "a/..", "a//", "a//b"]);
    fs::rename(&raw, mount.join("plain")).unwrap();
    fs::rename(mount.join("a/%%:.."), mount.join("a/%%:.")).unwrap();
    assert_eq!(bucket.keys(), ["a", "a/", "a/.", "a//", "a//b", "plain"]);
    fs::remove_dir_all(mount.join("a")).unwrap();
    assert_eq!(bucket.keys(), ["a", "plain"]);
    assert_eq!(names(mount.path()), ["a", "plain"], "beside nothing it has its own name");
    assert_eq!(fs::read(mount.join("a")).unwrap(), b"3");

    for (name, want) in [("%%=plain", Errno::INVAL), ("%%:.quayfs-mine", Errno::PERM)] {
        assert_eq!(errno(write_new(&mount.join(name), b"x")), want, "{name}");
        assert_eq!(errno(fs::create_dir(mount.join(name))), want, "{name}");
        assert_eq!(errno(fs::rename(mount.join("plain"), mount.join(name))), want, "{name}");
        assert_eq!(errno(fs::metadata(mount.join(name))), Errno::NOENT, "{name}");
    }
}

/// Names that are quayfs' own for keys, or look like it, and their keys.
const LIKE_OURS: [(&str, &str); 7] = [
    ("%%", "%%@%25%25"),
    ("%%.", "%%@%25%25."),
    ("%%x", "%%@%25%25x"),
    ("%%:x", "%%@%25%25:x"),
    (".quayfs-", "%%@.quayfs-"),
    (".quayfs-attributes", "%%@.quayfs-attributes"),
    (".quayfs-unlinked", "%%@.quayfs-unlinked"),
];

#[test]
fn names_like_those_of_quayfs_are_made() {
    let (bucket, mount) = mounted();
    for (name, key) in LIKE_OURS {
        write_new(&mount.join(name), name.as_bytes()).unwrap();
        assert_eq!(bucket.get(key).as_deref(), Some(name.as_bytes()), "{name}");
        let folder = format!("{name}.d");
        fs::create_dir(mount.join(&folder)).unwrap();
        write_new(&mount.join(format!("{folder}/{name}")), b"inside").unwrap();
    }
    let again = Plan::of(&bucket).mount();
    for (name, _) in LIKE_OURS {
        assert_eq!(fs::read(again.join(name)).unwrap(), name.as_bytes(), "{name}");
        assert_eq!(fs::read(again.join(format!("{name}.d/{name}"))).unwrap(), b"inside", "{name}");
    }
}

#[test]
fn tar_and_rsync_copy_trees_with_odd_names() {
    let (bucket, mount) = mounted();
    let scratch = Scratch::new();
    let source = scratch.path().join("source");
    for dir in ["", ".quayfs-dir", "%%dir"].map(|dir| source.join(dir)) {
        fs::create_dir(&dir).unwrap();
        for (name, _) in LIKE_OURS {
            fs::write(dir.join(name), name).unwrap();
        }
        fs::write(dir.join(OsStr::from_bytes(b"%%\xff")), b"raw").unwrap();
        fs::write(dir.join(OsStr::from_bytes(b".quayfs-\xff")), b"raw").unwrap();
        fs::write(dir.join("empty %%"), b"").unwrap();
    }
    let copied = |name: &str| mount.join(name);
    let from = format!("{}/", source.display());
    let to = format!("{}/", copied("rsync").display());
    run(Command::new("rsync").arg("-a").args([&from, &to]), WITHIN).ok();
    fs::create_dir(copied("tar")).unwrap();
    let archive = scratch.path().join("tree.tar");
    run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&source).arg("."), WITHIN).ok();
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(copied("tar")), WITHIN).ok();
    let again = Plan::of(&bucket).mount();
    for name in ["rsync", "tar"] {
        assert_eq!(files(&mount.join(name)), files(&source), "{name}");
        assert_eq!(files(&again.join(name)), files(&source), "{name}, in another mount");
    }
}

#[test]
fn control_characters_and_signs_in_names_are_those_of_the_key() {
    let (bucket, mount) = mounted();
    let ours = ["\u{1}\t \n\r\u{7f}", "%41+&=?#;", "\u{fffe}", " x ", "~", "'\"\\*"];
    for name in ours {
        write_new(&mount.join(name), name.as_bytes()).unwrap();
        assert_eq!(bucket.get(name).as_deref(), Some(name.as_bytes()), "{name:?}");
    }
    let mut want = ours.map(str::to_owned);
    want.sort();
    let again = Plan::of(&bucket).mount();
    assert_eq!(names(again.path()), want);
    for name in ours {
        assert_eq!(fs::read(again.join(name)).unwrap(), name.as_bytes(), "{name:?}");
    }
}

#[test]
fn a_store_that_takes_no_odd_keys_says_so_before_anything_is_written() {
    let (bucket, mount) = mounted();
    fs::create_dir(mount.join("d")).unwrap();
    // What is nothing but white space the client library does not take.
    for name in ["d/%%:.", "d/%%:..", " "] {
        assert_eq!(errno(fs::metadata(mount.join(name))), Errno::NOENT, "{name}");
        assert_eq!(errno(write_new(&mount.join(name), b"x")), Errno::INVAL, "{name}");
    }
    assert_eq!(bucket.keys(), ["d/"]);
}

#[test]
fn an_object_that_gets_a_folder_beside_it_stays_the_same_open_file() {
    let store = Moto::start();
    let bucket = store.bucket();
    bucket.put("a", b"bytes");
    let mount = Plan::of(&bucket).mount();
    let number = fs::metadata(mount.join("a")).unwrap().ino();
    bucket.put("a/b", b"below");
    wait::until("the folder to appear", TTL, || mount.join("a").is_dir());
    assert_eq!(fs::metadata(mount.join("%%=a")).unwrap().ino(), number);
    assert_eq!(fs::read(mount.join("%%=a")).unwrap(), b"bytes");
    assert_eq!(fs::read(mount.join("a/b")).unwrap(), b"below");
}
