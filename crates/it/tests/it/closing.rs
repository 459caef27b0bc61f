//! What a return of close, fsync and umount means: the bytes are in the bucket.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use testkit::{MinIo, Plan, Shape, SlowLink, close, mounted_at, noise, run, wait};

use crate::{SOON, mounted};

#[test]
pub(crate) fn what_was_closed_is_in_the_bucket() {
    let (bucket, mount) = mounted();
    for (name, len) in
        [("empty", 0), ("small", 100), ("granules", 1_000_000), ("parts", 40_000_000)]
    {
        let bytes = noise(len as u64, len);
        let mut file = File::create(mount.join(name)).unwrap();
        file.write_all(&bytes).unwrap();
        close(file).unwrap();
        assert!(bucket.get(name).unwrap() == bytes, "{name}");
    }
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
pub(crate) fn what_was_synced_is_in_the_bucket_while_the_file_is_still_open() {
    let (bucket, mount) = mounted();
    let mut file = File::create(mount.join("file")).unwrap();
    let mut want = Vec::new();
    for round in 0..3 {
        let bytes = noise(round, 200_000);
        file.write_all(&bytes).unwrap();
        want.extend(bytes);
        file.sync_all().unwrap();
        assert!(bucket.get("file").unwrap() == want, "sync {round}");
    }
    file.write_all(b"tail").unwrap();
    want.extend(b"tail");
    file.sync_data().unwrap();
    assert!(bucket.get("file").unwrap() == want, "sync of the data alone");
    close(file).unwrap();
    assert!(bucket.get("file").unwrap() == want, "close");
}

#[test]
fn a_child_that_ends_does_not_close_its_parents_file() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"by the parent, ").unwrap();
    let mut child = Command::new("printf");
    child.arg("by the child, ").stdout(file.try_clone().unwrap());
    assert!(child.status().unwrap().success());
    // It was the last to hold this copy of the descriptor; the parent's own is still open.
    drop(child);
    file.write_all(b"by the parent again").unwrap();
    close(file).unwrap();
    let want = b"by the parent, by the child, by the parent again";
    assert_eq!(bucket.get("file").as_deref(), Some(&want[..]));
}

#[test]
pub(crate) fn a_file_written_by_a_shell_is_in_the_bucket_when_the_shell_has_ended() {
    let (bucket, mount) = mounted();
    let script =
        "for i in 1 2 3; do echo line $i; done > out; gzip -k out; tar cf all.tar out out.gz";
    run(Command::new("sh").args(["-ec", script]).current_dir(mount.path()), SOON).ok();
    assert_eq!(bucket.keys(), ["all.tar", "out", "out.gz"]);
    assert_eq!(bucket.get("out").as_deref(), Some(&b"line 1\nline 2\nline 3\n"[..]));
    assert!(bucket.get("all.tar").unwrap() == fs::read(mount.join("all.tar")).unwrap());
}

#[test]
fn umount_waits_for_uploads_and_says_so() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let link = SlowLink::to(store.address(), Shape::default());
    let mount = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
    let bytes = noise(1, 1_000_000);
    link.hold_answers_to(&format!("PUT /{}/file", bucket.name()));
    let (closed, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let (path, bytes) = (mount.join("file"), &bytes);
        scope.spawn(move || {
            let mut file = File::create(path).unwrap();
            file.write_all(bytes).unwrap();
            closed.send(close(file)).unwrap();
        });
        wait::until("the upload to be under way", SOON, || link.held() > 0);

        let said = mount.plan().folder("said").join("stderr");
        let mut command = mount.plan().command(["umount"]);
        command.arg(mount.path()).stderr(Stdio::from(File::create(&said).unwrap()));
        let mut umount = command.spawn().unwrap();
        wait::until("umount to say what it waits for", SOON, || {
            let said = fs::read_to_string(&said).unwrap();
            said.contains("waiting") && said.contains("upload")
        });
        assert_eq!(umount.try_wait().unwrap(), None, "umount did not wait");
        assert!(told.try_recv().is_err(), "close did not wait");
        link.release();
        assert!(umount.wait().unwrap().success(), "{}", fs::read_to_string(&said).unwrap());
    });
    told.recv().unwrap().unwrap();
    assert!(!mounted_at(mount.path()));
    assert!(bucket.get("file").unwrap() == bytes);
}
