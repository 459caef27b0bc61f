//! What `quayfs doctor` finds, and that it leaves nothing behind.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use testkit::{Finished, MinIo, Plan, run};

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
    let plan = Plan::of_url("file:///");
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
        "name of the store",
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
fn a_bucket_that_is_not_there_is_a_failure() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket);
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint", bucket.endpoint()];
    let (found, finished) =
        doctor(&plan, &[&["s3://there-is-no-such-bucket"], &flags[..]].concat());
    assert!(!finished.status.success());
    assert_eq!(verdict(&found, "bucket"), "fail", "{}", finished.report());
}
