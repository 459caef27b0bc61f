//! Times of files and folders change by calls of programs only, never by an upload.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, Timestamps, XattrFlags, setxattr, statx, utimensat};
use testkit::{Mount, close, write_new};

use crate::mounted_with;

/// Access, modification, and change, in seconds and nanoseconds.
type Times = [(i64, u32); 3];

/// When a change is made.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Open,
    Closed,
}

/// A change of a file that was just written; returns the path that it has then.
type Change = fn(&Path) -> PathBuf;

const CHANGES: &[(&str, Change)] = &[
    ("none", Path::to_owned),
    ("mode", |path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        path.to_owned()
    }),
    ("owner", |path| {
        chown(path, Some(12), Some(13)).unwrap();
        path.to_owned()
    }),
    ("access-time", |path| set_times(path, Some(1_000_000_000), None)),
    ("modification-time", |path| set_times(path, None, Some(1_000_000_001))),
    ("both-times", |path| set_times(path, Some(1_000_000_002), Some(1_000_000_003))),
    ("touched", |path| {
        let now = || rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now(), last_modification: now() };
        utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
        path.to_owned()
    }),
    ("attribute", |path| {
        setxattr(path, c"user.note", b"1", XattrFlags::empty()).unwrap();
        path.to_owned()
    }),
    ("renamed", |path| {
        let to = path.with_extension("to");
        fs::rename(path, &to).unwrap();
        to
    }),
    ("shorter", |path| {
        OpenOptions::new().write(true).open(path).unwrap().set_len(2).unwrap();
        path.to_owned()
    }),
    ("of-the-same-size", |path| {
        OpenOptions::new().write(true).open(path).unwrap().set_len(5).unwrap();
        path.to_owned()
    }),
    ("longer", |path| {
        OpenOptions::new().write(true).open(path).unwrap().set_len(20_000).unwrap();
        path.to_owned()
    }),
];

fn set_times(path: &Path, accessed: Option<i64>, modified: Option<i64>) -> PathBuf {
    let time = |secs: Option<i64>| match secs {
        Some(tv_sec) => rustix::fs::Timespec { tv_sec, tv_nsec: 123_456_789 },
        None => rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    };
    let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
    path.to_owned()
}

/// The times that the daemon tells, whatever the kernel remembers.
fn times(path: &Path) -> Times {
    let told = statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS).unwrap();
    [told.stx_atime, told.stx_mtime, told.stx_ctime].map(|time| (time.tv_sec, time.tv_nsec))
}

fn change_time(path: &Path) -> (i64, u32) {
    times(path)[2]
}

#[test]
fn upload_changes_no_times() {
    check(&["--commit", "close"]);
}

#[test]
fn late_upload_changes_no_times() {
    check(&["--commit", "async", "--upload-delay", "1h"]);
}

fn check(flags: &[&str]) {
    let (_bucket, mount) = mounted_with(flags);
    let folder = mount.join("folder");
    fs::create_dir(&folder).unwrap();
    let mut seen = Vec::new();
    for &(name, change) in CHANGES {
        for moment in [Moment::Open, Moment::Closed] {
            for earlier in [None, Some(b"what was there earlier")] {
                let path = folder.join(format!("{name}-{moment:?}-{}", earlier.is_some()));
                if let Some(bytes) = earlier {
                    write_new(&path, bytes).unwrap();
                    sync(&mount);
                }
                seen.push(write_and_change(&path, change, moment));
            }
        }
    }
    for path in [mount.path().to_owned(), folder] {
        let now = times(&path);
        seen.push((path, now));
    }
    sync(&mount);
    same(&seen, "after the upload");
    let mount = mount.umount().mount();
    // The folder of the mount keeps no times of changed names; and a rename by itself, no time of it.
    let is_kept = |path: &Path| {
        path != mount.path()
            && !path.ends_with("renamed-Closed-true.to")
            && !path.ends_with("renamed-Closed-false.to")
    };
    seen.retain(|(path, _)| is_kept(path));
    same(&seen, "after a remount");
}

/// Returns the path that the file has in the end, and its times before it may be uploaded.
fn write_and_change(path: &Path, change: Change, moment: Moment) -> (PathBuf, Times) {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    let written = change_time(path);
    match moment {
        Moment::Open => {
            let path = change(path);
            assert!(written <= change_time(&path), "{}", path.display());
            let before = times(&path);
            close(file).unwrap();
            (path, before)
        }
        Moment::Closed => {
            close(file).unwrap();
            let path = change(path);
            assert!(written <= change_time(&path), "{}", path.display());
            let before = times(&path);
            (path, before)
        }
    }
}

fn sync(mount: &Mount) {
    File::open(mount.path()).unwrap().sync_all().unwrap();
}

fn same(seen: &[(PathBuf, Times)], when: &str) {
    let moved: Vec<String> = seen
        .iter()
        .map(|(path, before)| (path, before, times(path)))
        .filter(|(_, before, after)| *before != after)
        .map(|(path, before, after)| format!("{}: {before:?} -> {after:?}", path.display()))
        .collect();
    assert!(moved.is_empty(), "{when}, atime, mtime and ctime moved:\n{}", moved.join("\n"));
}
