//! What `quayfs doctor` finds, and that it leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use testkit::{Cloud, Emulator, Finished, MinIo, Plan, Shape, SlowLink, run, wait};

use crate::USER;

const WITHIN: Duration = Duration::from_mins(1);

/// What the command finds of `url`, with these flags.
fn doctor(plan: &Plan, arguments: &[&str]) -> (Vec<Value>, Finished) {
    let mut command = plan.command(["doctor", "--json"]);
    let finished = run(command.args(arguments).arg("--cache-dir").arg(plan.state()), WITHIN);
    let found = serde_json::from_str(&finished.stdout);
    (found.unwrap_or_else(|_| panic!("{}", finished.report())), finished)
}

fn verdict<'a>(found: &'a [Value], subject: &str) -> &'a str {
    let of = found.iter().find(|finding| finding["subject"] == subject);
    of.unwrap_or_else(|| panic!("nothing of {subject} in {found:?}"))["verdict"].as_str().unwrap()
}

#[test]
fn the_machine_is_looked_at_and_a_mount_is_really_tried() {
    // What a mount of the user's has taken is not asked for again.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let plan = Plan::of_url("file:///").env("QUAYFS_METRICS_LISTEN", &address);
    let (found, finished) = doctor(&plan, &[]);
    for subject in
        ["kernel", "/dev/fuse", "cache file system", "cache speed", "mount and passthrough"]
    {
        assert_ne!(verdict(&found, subject), "fail", "{}", finished.report());
    }
    assert!(!found.iter().any(|finding| finding["subject"] == "bucket: put"));
    let advised = |finding: &&Value| (finding["verdict"] == "ok") == finding["advice"].is_null();
    assert_eq!(
        found.iter().filter(advised).count(),
        found.len(),
        "advice for what is not as it should be"
    );
    assert_eq!(fs::read_dir(plan.state()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn each_call_is_tried_on_the_bucket_and_what_was_made_is_removed() {
    let bucket = MinIo::shared().bucket();
    bucket.put("theirs", b"as it was");
    let plan = Plan::of(&bucket);
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint", bucket.endpoint()];
    let (found, finished) = doctor(&plan, &[&[&*bucket.url()], &flags[..]].concat());
    finished.ok();
    for subject in [
        "DNS",
        "credentials",
        "bucket: list",
        "bucket: put",
        "bucket: get",
        "bucket: conditional put",
        "bucket: copy",
        "bucket: upload in parts",
        "bucket: copy of parts",
        "bucket: order of listings",
        "bucket: delete",
        "clock",
    ] {
        assert_eq!(verdict(&found, subject), "ok", "{}", finished.report());
    }
    assert_eq!(bucket.all_keys(), ["theirs"]);
    assert_eq!(bucket.unfinished_uploads(), 0);
    let secret = testkit::Login::root().secret;
    assert!(!finished.stdout.contains(&secret) && !finished.stderr.contains(&secret));
}

#[test]
fn buckets_of_other_clouds_are_looked_at_as_well() {
    for cloud in [Cloud::Google, Cloud::Azure] {
        let emulator = Emulator::start(cloud);
        let bucket = emulator.bucket();
        bucket.put("theirs", b"as it was");
        let (name, value) = emulator.env();
        let (found, finished) = doctor(&Plan::of_url("").env(name, &value), &[&*bucket.url()]);
        for subject in [
            "DNS",
            "credentials",
            "bucket: list",
            "bucket: put",
            "bucket: get",
            "bucket: conditional put",
            "bucket: copy",
            "bucket: upload in parts",
            "bucket: delete",
        ] {
            assert_eq!(verdict(&found, subject), "ok", "{cloud:?}: {}", finished.report());
        }
        assert_eq!(bucket.all_keys(), ["theirs"], "{cloud:?}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_he_goes_without() {
    let plan = Plan::of_url("file:///").by_user(USER);
    let (found, finished) = doctor(&plan, &[]);
    finished.ok();
    assert_eq!(verdict(&found, "privileges"), "warn", "{}", finished.report());
    assert_eq!(verdict(&found, "fusermount3"), "ok", "{}", finished.report());
    assert_eq!(verdict(&found, "mount and passthrough"), "warn", "it was mounted without");
}

#[test]
fn one_who_is_told_to_end_removes_what_he_made() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let plan = Plan::of(&bucket);
    let mut command = plan.command(["doctor", &*bucket.url(), "--path-style"]);
    command.args(["--region", "us-east-1", "--endpoint", bucket.endpoint()]);
    command.arg("--cache-dir").arg(plan.state()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("bucket: put")));
    minio.freeze();
    let pid = Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    minio.thaw();
    let said: Vec<_> = lines.collect();
    let ended = child.wait_with_output().unwrap();
    assert!(!ended.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("told to end"), "{ended:?}");
    assert_eq!((bucket.all_keys(), bucket.unfinished_uploads()), (vec![], 0));
}

#[test]
fn one_who_is_told_to_end_removes_what_was_just_under_way() {
    // A PUT, the beginning of an upload in parts, and a copy of which nobody has heard yet.
    for words in ["PUT /", "?uploads", "x-amz-copy-source"] {
        let bucket = MinIo::shared().bucket();
        let link = SlowLink::to(MinIo::shared().address(), Shape::default());
        link.hold_answers_to(words);
        let plan = Plan::of(&bucket);
        let mut command = plan.command(["doctor", &*bucket.url(), "--path-style"]);
        command.args(["--region", "us-east-1", "--endpoint", &link.endpoint()]);
        command.arg("--cache-dir").arg(plan.state()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        wait::until("the request to be under way", WITHIN, || 0 < link.held());
        rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("told to end")), "{words}");
        link.release();
        let said: Vec<_> = lines.collect();
        assert!(!child.wait().unwrap().success(), "{words}: {said:?}");
        assert_eq!((bucket.all_keys(), bucket.unfinished_uploads()), (vec![], 0), "{words}");
    }
}

#[test]
fn one_who_waits_for_the_store_can_be_told_to_end() {
    let bucket = MinIo::shared().bucket();
    let link = SlowLink::to(MinIo::shared().address(), Shape::default());
    link.hold_answers_to("list-type");
    let plan = Plan::of(&bucket);
    let mut command = plan.command(["doctor", &*bucket.url(), "--path-style"]);
    command.args(["--region", "us-east-1", "--endpoint", &link.endpoint()]);
    command.arg("--cache-dir").arg(plan.state()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait::until("the request to be under way", WITHIN, || 0 < link.held());
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(!ended.status.success() && !said.contains("bucket"), "{said}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("told to end"), "{ended:?}");
    link.release();
}

#[test]
fn nothing_is_written_where_changes_are_not_allowed() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    let plan = Plan::of(&bucket).env("QUAYFS_READ_ONLY", "true");
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint", bucket.endpoint()];
    let (found, finished) = doctor(&plan, &[&[&*bucket.url()], &flags[..]].concat());
    finished.ok();
    assert_eq!(verdict(&found, "bucket: put"), "ok");
    assert!(!found.iter().any(|finding| finding["subject"] == "bucket: delete"), "{found:?}");
}

#[test]
fn who_may_only_read_is_told_what_he_lacks() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    bucket.put("theirs", b"as it was");
    let plan = Plan::of(&bucket).login(&minio.reader());
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint", bucket.endpoint()];
    let (found, finished) = doctor(&plan, &[&[&*bucket.url()], &flags[..]].concat());
    assert_eq!(verdict(&found, "bucket: put"), "warn", "{}", finished.report());
    assert_eq!(verdict(&found, "bucket: list"), "ok", "{}", finished.report());
    assert_eq!(bucket.all_keys(), ["theirs"]);
}

#[test]
fn what_could_not_be_removed_is_named_with_the_right_that_is_lacked() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let plan = Plan::of(&bucket).login(&minio.of_prefix(bucket.name(), "team"));
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint", bucket.endpoint()];
    let prefix = format!("{}/team", bucket.url());
    let (found, finished) = doctor(&plan, &[&[&*prefix], &flags[..]].concat());
    let removed = found.iter().find(|finding| finding["subject"] == "bucket: delete").unwrap();
    let advice = removed["advice"].as_str().unwrap();
    assert!(advice.contains("s3:AbortMultipartUpload"), "{}", finished.report());
    assert!(!advice.contains("s3:DeleteObject"), "{advice}");
    let upload = format!("the unfinished upload of {prefix}/.quayfs-doctor-");
    assert!(advice.contains(&upload), "{advice}");
    assert_eq!((bucket.all_keys(), bucket.unfinished_uploads()), (vec![], 1));
}

#[test]
fn a_bucket_that_is_not_there_is_a_failure() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket);
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint", bucket.endpoint()];
    let (found, finished) =
        doctor(&plan, &[&["s3://there-is-no-such-bucket"], &flags[..]].concat());
    assert!(!finished.status.success());
    assert_eq!(verdict(&found, "bucket"), "fail", "{}", finished.report());
}
