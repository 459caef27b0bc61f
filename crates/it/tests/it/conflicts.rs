//! Two write one object: nobody's bytes are mixed, and nobody's are lost without a word.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use testkit::{close, noise, wait};

use crate::{SOON, TTL, errno, holds, mounted};

#[test]
fn an_edit_of_an_object_that_was_replaced_meanwhile_fails_and_is_kept() {
    let (bucket, mount) = mounted();
    let (old, theirs) = (noise(1, 500_000), noise(2, 400_000));
    bucket.put("file", &old);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let file = OpenOptions::new().write(true).open(mount.join("file")).unwrap();
    file.write_all_at(b"our edit", 1000).unwrap();
    bucket.put("file", &theirs);
    assert_eq!(errno(close(file)), Errno::STALE);

    assert!(bucket.get("file").unwrap() == theirs, "the other's object was replaced");
    let mut ours = old;
    ours[1000..1008].copy_from_slice(b"our edit");
    let recovery = mount.state().join("recovery");
    wait::until("our bytes to be in the recovery folder", SOON, || holds(&recovery, &ours));
    wait::until("the other's bytes to show", TTL, || {
        fs::read(mount.join("file")).is_ok_and(|read| read == theirs)
    });
}

#[test]
fn a_file_written_whole_replaces_what_came_meanwhile() {
    let (bucket, mount) = mounted();
    bucket.put("file", b"old");
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    for (round, name) in ["file", "new"].into_iter().enumerate() {
        let mut file = File::create(mount.join(name)).unwrap();
        let ours = noise(round as u64, 300_000);
        file.write_all(&ours).unwrap();
        bucket.put(name, b"theirs, in between");
        close(file).unwrap();
        assert!(bucket.get(name).unwrap() == ours, "{name}");
        assert!(fs::read(mount.join(name)).unwrap() == ours, "{name}");
    }
}

#[test]
fn an_exclusive_create_does_not_replace_what_came_meanwhile() {
    let (bucket, mount) = mounted();
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(mount.join("lock")).unwrap();
    file.write_all(b"ours").unwrap();
    bucket.put("lock", b"theirs");
    assert_eq!(errno(close(file)), Errno::STALE);
    assert_eq!(bucket.get("lock").as_deref(), Some(&b"theirs"[..]));
    let recovery = mount.state().join("recovery");
    wait::until("our bytes to be in the recovery folder", SOON, || holds(&recovery, b"ours"));
}

#[test]
fn an_edit_of_an_object_that_was_deleted_meanwhile_is_not_lost() {
    let (bucket, mount) = mounted();
    let mut want = noise(1, 300_000);
    bucket.put("file", &want);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let file = OpenOptions::new().write(true).open(mount.join("file")).unwrap();
    assert!(fs::read(mount.join("file")).unwrap() == want);
    file.write_all_at(b"our edit", 1000).unwrap();
    want[1000..1008].copy_from_slice(b"our edit");
    bucket.delete("file");
    let recovery = mount.state().join("recovery");
    match close(file) {
        Ok(()) => assert!(bucket.get("file").unwrap() == want),
        Err(_) => wait::until("our bytes to be kept", SOON, || holds(&recovery, &want)),
    }
}
