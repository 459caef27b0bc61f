//! What a store can do is found out once, remembered, told, and worked around where it is lacking.

use std::fs;

use serde_json::{Value, json};
use testkit::{Faults, MinIo, Mount, Plan, Weather, noise, write_new};

use crate::{conflicts, editing, renames};

/// A mount through `proxy`.
fn plan(proxy: &Faults, bucket: &testkit::Bucket<'_>) -> Plan {
    Plan::of(bucket).instead("--endpoint", &proxy.endpoint())
}

/// What the mount's status says of the only store.
fn store(mount: &Mount) -> Value {
    mount.status()["stores"][0].clone()
}

fn names<'a>(store: &'a Value, which: &str) -> Vec<&'a str> {
    store[which].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn conditions_are_found_out_by_the_first_mount_and_remembered() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    let proxy = Faults::before(minio.address(), Weather::calm());
    // What is said of files would be read with the first look at the top folder.
    let mount = plan(&proxy, &bucket).flags(["--attributes", "off"]).mount();
    let first = proxy.requests();
    let known = store(&mount);
    for name in ["put-if-match", "complete-if-match"] {
        assert!(names(&known, "has").contains(&name), "{known}");
    }
    assert_eq!(names(&known, "lacks"), [""; 0], "{known}");
    assert_eq!(bucket.all_keys(), [""; 0], "nothing is left behind");
    assert_eq!(bucket.unfinished_uploads(), 0);

    // What is done with it shows more, which is remembered as well.
    write_new(&mount.join("file"), &noise(1, 300_000)).unwrap();
    let known = store(&mount);
    assert!(names(&known, "has").contains(&"upload-checksum"), "{known}");
    let plan = mount.umount();

    let before = proxy.requests();
    let mount = plan.mount();
    assert_eq!(proxy.requests() - before, first - 3, "three requests less, to find out");
    assert!(names(&store(&mount), "has").contains(&"upload-checksum"));
    mount.umount();
}

#[test]
fn a_mount_that_may_not_write_finds_nothing_out() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    bucket.put("file", b"bytes");
    let proxy = Faults::before(minio.address(), Weather::calm());
    let mount = plan(&proxy, &bucket).flags(["--read-only"]).mount();
    assert_eq!(fs::read(mount.join("file")).unwrap(), b"bytes");
    let known = store(&mount);
    assert!(!names(&known, "has").contains(&"put-if-match"), "{known}");
    mount.umount();
}

#[test]
fn doctor_tells_all_of_it_and_mounts_know_it_then() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    let mount = Plan::of(&bucket).mount();
    let plan = mount.umount();
    let mut command = plan.command(["doctor", "--json", "--path-style", "--region", "us-east-1"]);
    command.args(["--endpoint", bucket.endpoint(), &bucket.url(), "--cache-dir"]);
    let finished = testkit::run(command.arg(plan.state()), crate::SOON * 3);
    let found: Vec<Value> = serde_json::from_str(finished.ok()).unwrap();
    let line = found.iter().find(|line| line["subject"] == "store: what it can do").unwrap();
    let seen = line["seen"].as_str().unwrap();
    assert_eq!(line["verdict"], json!("ok"), "{seen}");
    for name in ["put-if-absent", "complete-if-absent", "part-copy", "sorted-lists"] {
        assert!(seen.contains(name), "{seen}");
    }
    assert_eq!(bucket.all_keys(), [""; 0]);
    let mount = plan.mount();
    let known = store(&mount);
    for name in ["put-if-absent", "put-if-match", "complete-if-absent", "part-copy"] {
        assert!(names(&known, "has").contains(&name), "{known}");
    }
    mount.umount();
}

#[test]
fn a_store_that_knows_no_conditions_is_looked_at_before_each_write() {
    let minio = MinIo::shared();
    let proxy = Faults::before(minio.address(), Weather::calm());
    proxy.refuse_conditions();
    proxy.around(&minio.endpoint(), || {
        let bucket = minio.bucket();
        let attempt = Plan::of(&bucket).attempt();
        let said = attempt.finished.stderr.clone();
        assert!(said.contains("ignores conditions of writes"), "{said}");
        let mount = attempt.ok();
        let known = store(&mount);
        assert_eq!(names(&known, "lacks"), ["put-if-match", "complete-if-match"]);
        fs::create_dir(mount.join("folder")).unwrap();
        write_new(&mount.join("folder/file"), b"bytes").unwrap();
        assert_eq!(bucket.get("folder/file").unwrap(), b"bytes");
        assert!(names(&store(&mount), "lacks").contains(&"put-if-absent"));
        mount.umount();
        // And nobody's changes are lost but in the very moment of a write.
        conflicts::an_edit_of_an_object_that_was_replaced_meanwhile_fails_and_is_kept();
        conflicts::an_exclusive_create_does_not_replace_what_came_meanwhile();
        editing::an_edit_in_the_middle_of_a_large_object_keeps_the_rest();
        renames::a_folder_is_renamed_with_everything_in_it();
    });
}
