//! The commands themselves: what they print, what they return, what they leave open.

use std::process::Command;
use std::time::Duration;

use testkit::{MinIo, Plan, mounted_at, quayfs, run, wait, write_new};

use crate::{SOON, mounted};

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn the_version_is_told() {
    let said = run(Command::new(quayfs()).arg("--version"), WITHIN);
    assert!(said.ok().starts_with("quayfs "), "{}", said.report());
}

#[test]
fn every_command_tells_its_flags() {
    for command in ["mount", "umount", "sync", "status", "recover", "config"] {
        let said = run(Command::new(quayfs()).args([command, "--help"]), WITHIN);
        assert!(said.ok().contains("Usage"), "{}", said.report());
    }
    let said = run(Command::new(quayfs()).args(["mount", "--help"]), WITHIN);
    for flag in [
        "--foreground",
        "--read-only",
        "--endpoint",
        "--region",
        "--aws-profile",
        "--anonymous",
        "--path-style",
        "--cache-dir",
        "--cache-size",
        "--metadata-ttl",
        "--memory-limit",
        "--part-size",
        "--allow-other",
        "--uid",
        "--gid",
        "--file-mode",
        "--dir-mode",
        "--umask",
        "--no-passthrough",
        "--deadline",
        "--log-file",
        "--log-level",
    ] {
        assert!(said.ok().contains(flag), "{flag} is not in the help");
    }
}

#[test]
fn a_mount_in_the_background_lets_go_of_the_output() {
    let bucket = MinIo::shared().bucket();
    // The reader at the other end of the pipe ends only when everyone has closed it.
    Plan::of(&bucket).through_pipe().mount().umount();
}

#[test]
fn a_mount_in_the_foreground_serves_until_it_is_unmounted() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).flags(["--foreground"]);
    let (mut child, mount) = plan.in_foreground();
    wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
    write_new(&mount.join("file"), b"bytes").unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    mount.try_umount().ok();
    assert!(child.wait().unwrap().success());
    assert_eq!(bucket.get("file").as_deref(), Some(&b"bytes"[..]));
}

#[test]
fn a_mount_in_the_foreground_ends_well_on_ctrl_c() {
    let bucket = MinIo::shared().bucket();
    let (mut child, mount) = Plan::of(&bucket).flags(["--foreground"]).in_foreground();
    wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
    write_new(&mount.join("file"), b"bytes").unwrap();
    run(Command::new("kill").args(["-INT", &child.id().to_string()]), WITHIN).ok();
    assert!(child.wait().unwrap().success());
    assert!(!mounted_at(mount.path()));
    assert_eq!(bucket.get("file").as_deref(), Some(&b"bytes"[..]));
}

#[test]
fn the_status_tells_what_a_script_wants_to_know() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("file"), &vec![1; 100_000]).unwrap();
    assert_eq!(bucket.head("file").unwrap().size, 100_000);
    let status = mount.status();
    assert!(status["pid"].as_u64().is_some(), "{status}");
    assert_eq!(status["pending_uploads"], 0, "{status}");
    assert!(status["cache"].is_object(), "{status}");
    let counters = status["counters"].as_object().unwrap();
    for name in ["fuse_reads", "fuse_writes", "remote_gets", "remote_puts", "uploads_done"] {
        assert!(counters[name].as_u64().is_some(), "{name} in {status}");
    }
    assert_eq!(counters["uploads_done"], 1);
    assert!(counters["fuse_write_bytes"].as_u64() >= Some(100_000));

    let mut command = mount.plan().command(["status"]);
    let said = run(command.arg(mount.path()), WITHIN);
    assert!(said.ok().contains(&status["pid"].to_string()), "{}", said.report());
}

#[test]
fn status_and_umount_of_a_folder_that_is_not_mounted_say_so() {
    let plan = Plan::of_url("s3://unused");
    for command in ["status", "umount"] {
        let said = run(plan.command([command]).arg(plan.path()), WITHIN);
        assert!(!said.status.success(), "{}", said.report());
        assert!(
            said.stderr.contains("not mounted") || said.stderr.contains("no mount"),
            "{}",
            said.report()
        );
        assert!(said.stderr.lines().count() <= 3, "{}", said.report());
    }
}

#[test]
fn umount_returns_when_the_daemon_has_ended() {
    for _ in 0..5 {
        let (_bucket, mount) = mounted();
        write_new(&mount.join("file"), b"bytes").unwrap();
        mount.try_umount().ok();
        assert!(!mount.is_alive(), "the daemon lives on");
    }
}

#[test]
fn umount_takes_a_path_written_in_any_way() {
    let (_bucket, mount) = mounted();
    let parent = mount.path().parent().unwrap();
    let mut command = mount.plan().command(["umount", "./mnt/"]);
    run(command.current_dir(parent), WITHIN).ok();
    assert!(!mounted_at(mount.path()));
}
