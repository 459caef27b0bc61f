//! An outage that is longer than the deadline: names are shown as they were last known, nobody waits for them
//! again and again, and what is not known is an error.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use testkit::{MinIo, Mount, Plan, run, wait};

use crate::{SOON, errno, names};

/// What a few questions with `--deadline 3s` may take, also where a silent store is waited for longer.
const WITHIN: Duration = Duration::from_mins(1);

/// So many folders would take minutes if each waited for the deadline.
const FOLDERS: usize = 60;

/// A mount of a store of its own, with a short deadline. It believes what it knows for so short that each
/// look asks the store.
fn mounted_over(store: &MinIo) -> (testkit::Bucket<'_>, Mount) {
    let bucket = store.bucket();
    let mount = Plan::of(&bucket).flags(["--deadline", "3s", "--metadata-ttl", "1ms"]).mount();
    (bucket, mount)
}

/// What `find` tells of all that is below `folder`.
fn found(folder: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    let ran = run(find.arg(folder).args(["-printf", "%y %s %p\n"]), WITHIN);
    let mut lines: Vec<String> = ran.ok().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The names in `folder`, or the first error.
fn try_names(folder: &Path) -> std::io::Result<Vec<String>> {
    let folder = folder.to_owned();
    wait::within("the listing", WITHIN, move || {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().unwrap())).collect()
    })
}

/// Lists a tree before and after the store is taken away by `down`, and once more when `up` brought it back.
fn check_listings(down: fn(&MinIo), up: fn(&MinIo)) {
    let store = MinIo::start();
    let (bucket, mount) = mounted_over(&store);
    for folder in 0..FOLDERS {
        bucket.put(&format!("tree/{folder:02}/file"), b"bytes");
    }
    let before = found(mount.path());
    assert_eq!(before.len(), 2 + 2 * FOLDERS);
    down(&store);
    assert_eq!(found(mount.path()), before);
    assert_eq!(try_names(mount.path()).unwrap(), ["tree"]);
    assert_eq!(try_names(&mount.join("tree")).unwrap().len(), FOLDERS);
    up(&store);
    bucket.put("tree/00/new", b"bytes");
    wait::until("another's file to show", SOON, || {
        names(&mount.join("tree/00")) == ["file", "new"]
    });
    assert_eq!(found(mount.path()).len(), before.len() + 1);
}

#[test]
fn what_was_listed_is_listed_and_found_while_the_store_is_down() {
    check_listings(MinIo::stop, MinIo::start_again);
}

#[test]
fn what_was_listed_is_listed_and_found_while_the_store_is_silent() {
    check_listings(MinIo::freeze, MinIo::thaw);
}

#[test]
fn a_folder_of_which_not_all_is_known_is_an_error_and_not_empty_while_the_store_is_down() {
    let store = MinIo::start();
    let (bucket, mount) = mounted_over(&store);
    for file in ["unseen/file", "partly/one", "partly/two"] {
        bucket.put(file, b"bytes");
    }
    assert_eq!(names(mount.path()), ["partly", "unseen"]);
    assert!(mount.join("partly/one").exists());
    store.stop();
    for folder in ["unseen", "partly"] {
        assert_eq!(errno(try_names(&mount.join(folder))), Errno::IO, "{folder}");
    }
    let mut listed = try_names(mount.path()).unwrap();
    listed.sort();
    assert_eq!(listed, ["partly", "unseen"]);
    store.start_again();
    wait::until("the folders to be listed", SOON, || {
        try_names(&mount.join("unseen")).is_ok_and(|names| names == ["file"])
    });
    assert_eq!(names(&mount.join("partly")), ["one", "two"]);
}
