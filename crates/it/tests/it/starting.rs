//! The time before a mount answers: signals, and uploads that an earlier mount left.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use testkit::{MinIo, Plan, run, wait, write_new};

use crate::SOON;

const WITHIN: Duration = Duration::from_mins(1);

/// The exit status of a daemon that could not upload everything.
const NOT_UPLOADED: i32 = 174;

#[test]
fn uploads_left_over_are_told_and_an_end_is_orderly() {
    let bucket = MinIo::shared().bucket();
    let bytes = vec![7; 4 << 20];
    let mount = Plan::of(&bucket).flags(["--commit", "async", "--upload-delay", "1h"]).mount();
    for name in ["one", "two"] {
        write_new(&mount.join(name), &bytes).unwrap();
    }
    mount.kill();
    let plan = mount.abandon();

    // At this rate each of them takes a minute.
    let place = plan.folder("").join("notified");
    let manager = UnixDatagram::bind(&place).unwrap();
    manager.set_read_timeout(Some(SOON)).unwrap();
    let plan = plan.env("NOTIFY_SOCKET", place.to_str().unwrap());
    let (mut child, mount) =
        plan.flags(["--foreground", "--upload-limit", "64KiB"]).in_foreground();
    let mut said = [0; 1024];
    let length = manager.recv(&mut said).expect("the manager is told in time");
    let said = String::from_utf8_lossy(&said[..length]);
    let words = "EXTEND_TIMEOUT_USEC=120000000\nSTATUS=uploading ";
    assert!(said.starts_with(words) && said.contains("left over"), "{said}");
    for signal in ["HUP", "USR1", "USR2", "ALRM", "TERM"] {
        run(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]), WITHIN)
            .ok();
    }
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(NOT_UPLOADED), "{}", mount.plan().last_log());
    // The dead mount of the killed daemon is still there.
    mount.try_umount().ok();
    let ended = mount.abandon();

    let next = Plan::of(&bucket).state_in(ended.state()).mount();
    assert!(["one", "two"].iter().all(|name| bucket.get(name).is_some_and(|got| got == bytes)));
    next.umount();
}

#[test]
fn end_before_the_store_answers_tells_of_files_left_over() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let mount = Plan::of(&bucket).flags(["--commit", "async", "--upload-delay", "1h"]).mount();
    write_new(&mount.join("one"), b"bytes").unwrap();
    mount.kill();
    let plan = mount.abandon();
    minio.freeze();
    let (mut child, mount) = plan.flags(["--foreground"]).in_foreground();
    let status = format!("/proc/{}/status", child.id());
    let handles_term = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(caught, 16).unwrap() & 1 << 14 != 0
    };
    wait::until("signals to be handled", WITHIN, handles_term);
    run(Command::new("kill").args(["-TERM", &child.id().to_string()]), WITHIN).ok();
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(NOT_UPLOADED), "{}", mount.plan().last_log());
    minio.thaw();
    mount.try_umount().ok();
    mount.abandon();
}
