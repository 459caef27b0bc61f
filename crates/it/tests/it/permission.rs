//! Mounts that may not write, and mounts by people who are not root.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::time::Duration;

use rustix::io::Errno;
use testkit::{Login, MinIo, Mount, Plan, run, write_new};

use crate::{errno, mounted_with};

const WITHIN: Duration = Duration::from_mins(1);
const USER: &str = "nobody";

#[test]
fn a_mount_for_reading_refuses_every_change() {
    let (bucket, mount) = mounted_with(&["--read-only"]);
    bucket.put("folder/file", b"bytes");
    testkit::wait::until("the object to appear", crate::TTL, || mount.join("folder/file").exists());
    refuses_changes(&mount);
    assert_eq!(bucket.keys(), ["folder/file"]);
}

#[test]
fn credentials_that_may_not_write_make_a_mount_for_reading_and_it_says_so() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("folder/file", b"bytes");
    let attempt = Plan::of(&bucket).login(&store.reader()).attempt();
    let said = attempt.finished.stderr.to_lowercase();
    let is_said = said.contains("read-only") || said.contains("read only");
    assert!(is_said, "{}", attempt.finished.report());
    let mount = attempt.ok();
    refuses_changes(&mount);
    assert_eq!(bucket.keys(), ["folder/file"]);
    mount.umount();
}

#[test]
fn credentials_that_may_write_leave_nothing_in_an_untouched_bucket() {
    let (bucket, mount) = mounted_with(&[]);
    assert_eq!(bucket.keys(), Vec::<String>::new());
    mount.umount();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

/// Expects `folder/file` to hold `bytes`.
fn refuses_changes(mount: &Mount) {
    let file = mount.join("folder/file");
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
    assert_eq!(errno(write_new(&mount.join("new"), b"bytes")), Errno::ROFS);
    assert_eq!(errno(OpenOptions::new().append(true).open(&file)), Errno::ROFS);
    assert_eq!(errno(fs::create_dir(mount.join("new"))), Errno::ROFS);
    assert_eq!(errno(fs::remove_file(&file)), Errno::ROFS);
    assert_eq!(errno(fs::remove_dir(mount.join("folder"))), Errno::ROFS);
    assert_eq!(errno(fs::rename(&file, mount.join("new"))), Errno::ROFS);
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
}

#[test]
fn an_ordinary_user_mounts_reads_writes_and_unmounts() {
    let bucket = MinIo::shared().bucket();
    bucket.put("theirs", b"by the store's owner\n");
    let mount = Plan::of(&bucket).by_user(USER).mount();
    assert_eq!(mount.counter("passthrough_opens"), 0);
    let script = r#"
        [ "$(cat theirs)" = "by the store's owner" ]
        [ "$(stat -c %U theirs)" = nobody ]
        echo first > ours
        echo second >> ours
        mkdir folder
        mv ours folder/
        cat folder/ours folder/ours > both
        [ "$(wc -l < both)" = 4 ]
        rm theirs
    "#;
    // Only the user may enter, so it is the shell that goes there.
    let script = format!("cd '{}'\n{script}", mount.path().display());
    run(mount.plan().other_command(OsStr::new("sh")).args(["-ec", &script]), WITHIN).ok();
    assert_eq!(bucket.get("folder/ours").as_deref(), Some(&b"first\nsecond\n"[..]));
    assert_eq!(bucket.get("theirs"), None);

    // Not even root enters somebody else's mount unasked; that is the kernel's rule, and stays.
    assert_eq!(errno(fs::read_dir(mount.path())), Errno::ACCESS);
    mount.umount();
}

#[test]
fn others_enter_with_allow_other() {
    let (bucket, mount) = mounted_with(&["--allow-other"]);
    bucket.put("file", b"bytes");
    testkit::wait::until("the object to appear", crate::TTL, || mount.join("file").exists());
    let mut other = std::process::Command::new("setpriv");
    other.args(["--reuid", USER, "--regid", "nogroup", "--clear-groups", "cat"]);
    assert_eq!(run(other.arg(mount.join("file")), WITHIN).ok(), "bytes");
}

#[test]
fn a_login_that_may_only_read_still_reads_through_a_prefix() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("prefix/folder/file", b"bytes");
    let url = format!("{}/prefix", bucket.url());
    let reader: Login = store.reader();
    let mount = Plan::of(&bucket).instead_of_url(&url).login(&reader).mount();
    refuses_changes(&mount);
}
