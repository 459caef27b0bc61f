//! Two mounts of one bucket over one local state.

use std::fs;

use testkit::{Bucket, MinIo, Mount, Plan, append, noise, overwrite, wait, write_new};

use crate::{TTL, mounted};

fn two() -> (Bucket<'static>, Mount, Mount) {
    let (bucket, one) = mounted();
    let other = Plan::of(&bucket).state_in(one.state()).mount();
    (bucket, one, other)
}

#[test]
fn what_one_mount_closed_the_other_opens_within_the_ttl() {
    let (bucket, one, other) = two();
    let mut want = noise(0, 400_000);
    write_new(&one.join("file"), &want).unwrap();
    wait::until("the new file", TTL, || fs::read(other.join("file")).is_ok_and(|it| it == want));
    for round in 1..6 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        if round == 3 {
            append(&writer.join("file"), b"appended").unwrap();
            want.extend(b"appended");
        } else {
            want = noise(round, 400_000);
            overwrite(&writer.join("file"), &want).unwrap();
        }
        wait::until("the other's bytes", TTL, || {
            fs::read(reader.join("file")).is_ok_and(|read| read == want)
        });
        assert!(bucket.get("file").unwrap() == want, "round {round}");
    }
}

#[test]
fn what_one_mount_removed_the_other_misses_within_the_ttl() {
    let (_bucket, one, other) = two();
    write_new(&one.join("file"), b"bytes").unwrap();
    wait::until("the file to appear", TTL, || other.join("file").exists());
    fs::remove_file(one.join("file")).unwrap();
    wait::until("the file to disappear", TTL, || !other.join("file").exists());
}

#[test]
fn what_one_mount_fetched_the_other_does_not_fetch_again() {
    let bucket = MinIo::shared().bucket();
    let bytes = noise(1, 4_000_000);
    bucket.put("file", &bytes);
    let one = Plan::of(&bucket).mount();
    let other = Plan::of(&bucket).state_in(one.state()).mount();
    assert!(fs::read(one.join("file")).unwrap() == bytes);
    assert!(one.counter("remote_get_bytes") >= 4_000_000);
    assert!(fs::read(other.join("file")).unwrap() == bytes);
    assert_eq!(other.counter("remote_get_bytes"), 0);
}

#[test]
fn one_mount_ends_and_the_other_goes_on() {
    let (bucket, one, other) = two();
    write_new(&one.join("first"), b"first").unwrap();
    one.kill();
    write_new(&other.join("second"), b"second").unwrap();
    one.umount();
    assert_eq!(fs::read(other.join("second")).unwrap(), b"second");
    assert_eq!(bucket.keys(), ["first", "second"]);
    other.umount();
}
