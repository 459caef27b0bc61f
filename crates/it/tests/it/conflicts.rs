//! Two write one object: nobody's bytes are mixed, and nobody's are lost without a word.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use testkit::{Mount, Opening, Program, noise, wait};

use crate::{SOON, TTL, errno, finds, holds, mounted, mounted_with};

#[test]
pub(crate) fn an_edit_of_an_object_that_was_replaced_meanwhile_fails_and_is_kept() {
    let (bucket, mount) = mounted();
    let (old, theirs) = (noise(1, 500_000), noise(2, 400_000));
    bucket.put("file", &old);
    // Read once, so that what is not edited is here, too.
    wait::until("the object to appear", TTL, || {
        fs::read(mount.join("file")).is_ok_and(|read| read == old)
    });
    let mut program = Program::open(&mount.join("file"), Opening::Edit).unwrap();
    program.write_at(b"our edit", 1000).unwrap();
    bucket.put("file", &theirs);
    assert_eq!(errno(program.close()), Errno::STALE);

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
fn edit_of_an_object_that_was_removed_says_so() {
    let (bucket, mount) = mounted();
    bucket.put("file", &noise(1, 5_000));
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let mut program = Program::open(&mount.join("file"), Opening::Edit).unwrap();
    program.write_at(&noise(2, 5_000), 0).unwrap();
    bucket.delete("file");
    assert_eq!(errno(program.close()), Errno::STALE);
    let mut command = mount.plan().command(["recover", "--list", "--cache-dir"]);
    let listed = testkit::run(command.arg(mount.state()), SOON);
    let is_said = listed.ok().contains("the object was removed by another client");
    assert!(is_said, "{}", listed.report());
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
pub(crate) fn an_edit_of_which_the_rest_is_gone_is_kept_at_its_place() {
    let (bucket, mount) = mounted();
    let theirs = noise(2, 400_000);
    bucket.put("file", &noise(1, 500_000));
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let mut program = Program::open(&mount.join("file"), Opening::Edit).unwrap();
    program.write_at(b"our edit", 200_000).unwrap();
    bucket.put("file", &theirs);
    assert_eq!(errno(program.close()), Errno::STALE);
    assert!(bucket.get("file").unwrap() == theirs, "the other's object was replaced");
    let recovery = mount.state().join("recovery");
    let is_kept = |bytes: &[u8]| bytes.get(200_000..200_008) == Some(b"our edit");
    wait::until("our bytes to be in the recovery folder", SOON, || finds(&recovery, is_kept));
}

#[test]
pub(crate) fn a_file_written_whole_replaces_what_came_meanwhile() {
    let (bucket, mount) = mounted();
    bucket.put("file", b"old");
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    for (round, name) in ["file", "new"].into_iter().enumerate() {
        let mut program = Program::open(&mount.join(name), Opening::Whole).unwrap();
        let ours = noise(round as u64, 300_000);
        program.write(&ours).unwrap();
        bucket.put(name, b"theirs, in between");
        program.close().unwrap();
        assert!(bucket.get(name).unwrap() == ours, "{name}");
        assert!(fs::read(mount.join(name)).unwrap() == ours, "{name}");
    }
}

#[test]
pub(crate) fn an_exclusive_create_does_not_replace_what_came_meanwhile() {
    let (bucket, mount) = mounted();
    let mut program = Program::open(&mount.join("lock"), Opening::Exclusive).unwrap();
    program.write(b"ours").unwrap();
    bucket.put("lock", b"theirs");
    assert_eq!(errno(program.close()), Errno::STALE);
    assert_eq!(bucket.get("lock").as_deref(), Some(&b"theirs"[..]));
    let recovery = mount.state().join("recovery");
    wait::until("our bytes to be in the recovery folder", SOON, || holds(&recovery, b"ours"));
}

#[test]
pub(crate) fn an_edit_of_an_object_that_was_deleted_meanwhile_is_not_lost() {
    let (bucket, mount) = mounted();
    let mut want = noise(1, 300_000);
    bucket.put("file", &want);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let mut program = Program::open(&mount.join("file"), Opening::Edit).unwrap();
    assert!(fs::read(mount.join("file")).unwrap() == want);
    program.write_at(b"our edit", 1000).unwrap();
    want[1000..1008].copy_from_slice(b"our edit");
    bucket.delete("file");
    let recovery = mount.state().join("recovery");
    match program.close() {
        Ok(()) => assert!(bucket.get("file").unwrap() == want),
        Err(_) => wait::until("our bytes to be kept", SOON, || holds(&recovery, &want)),
    }
}

/// Asks the daemon of `mount`, and goes when the answer begins.
fn ask_and_go(mount: &Mount, question: &str) {
    let device = fs::metadata(mount.path()).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let socket = Path::new("/run/quayfs").join(format!("{major}-{minor}.sock"));
    let mut asking = UnixStream::connect(socket).unwrap();
    writeln!(asking, "{question}").unwrap();
    asking.read_exact(&mut [0]).unwrap();
}

#[test]
fn who_is_gone_before_it_has_heard_of_a_lost_edit_leaves_that_to_who_waits_next() {
    let (bucket, mount) = mounted_with(&["--commit", "async", "--upload-delay", "1h"]);
    bucket.put("file", &noise(1, 500_000));
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let mut program = Program::open(&mount.join("file"), Opening::Edit).unwrap();
    program.write_at(b"our edit", 1000).unwrap();
    program.close().unwrap();
    bucket.put("file", &noise(2, 400_000));
    // Nobody waits for this upload.
    ask_and_go(&mount, "hasten");
    let recovery = mount.state().join("recovery");
    wait::until("our bytes to be in the recovery folder", SOON, || {
        fs::read_dir(&recovery).is_ok_and(|mut kept| kept.next().is_some())
    });
    ask_and_go(&mount, "drain");
    let told = mount.try_umount();
    assert!(!told.status.success() && told.stderr.contains("recovery folder"), "{}", told.report());
    // Once it was told, it is told no more.
    mount.umount();
}
