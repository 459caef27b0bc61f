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
    let said = run(Command::new(quayfs()).arg("--help"), WITHIN);
    let (_, commands) = said.ok().split_once("Commands:").unwrap();
    let (commands, rest) = commands.split_once("Options:").unwrap();
    assert!(rest.contains("Examples:"), "{}", said.report());
    let commands = commands.lines().filter_map(|line| line.split_whitespace().next());
    let commands: Vec<&str> = commands.filter(|name| *name != "help").collect();
    assert!(commands.contains(&"sync"), "{}", said.report());
    for command in commands {
        let said = run(Command::new(quayfs()).args([command, "--help"]), WITHIN);
        assert!(said.ok().contains("Usage"), "{}", said.report());
        assert!(said.ok().contains("Example"), "it teaches by examples: {}", said.report());
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
        "--no-io-uring",
        "--deadline",
        "--log-file",
        "--log-level",
    ] {
        assert!(said.ok().contains(flag), "{flag} is not in the help");
    }
}

#[test]
fn what_the_output_does_not_take_is_a_failure_unless_its_reader_has_enough() {
    let of = |script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("set -o pipefail; {script}"), "bash"]).arg(quayfs());
        run(&mut shell, WITHIN)
    };
    for command in ["list --json", "config", "completions bash"] {
        let said = of(&format!("\"$1\" {command} > /dev/full"));
        assert_eq!(said.status.code(), Some(1), "{}", said.report());
        assert_eq!(said.stderr.matches("cannot write").count(), 1, "{}", said.report());
        let said = of(&format!("\"$1\" {command} | true"));
        assert!(said.status.success() && said.stderr.is_empty(), "{}", said.report());
    }
}

#[test]
fn what_is_for_closes_that_do_not_wait_is_refused_where_they_do() {
    for flags in [
        &["--commit-last", "_SUCCESS"][..],
        &["--upload-delay", "5s"],
        &["--upload-delay", "5s", "--profile", "training", "--foreground"],
        &["-o", "upload_delay=5s,commit=close"],
    ] {
        let attempt = Plan::of_url("file:///srv").flags(flags).attempt();
        let said = attempt.finished.report();
        assert!(!attempt.finished.status.success(), "{said}");
        let late = if flags.contains(&"_SUCCESS") { "--commit-last" } else { "--upload-delay" };
        assert!(said.contains(&format!("{late} is for --commit async")), "{said}");
    }
    let flags = ["--profile", "pipeline", "--upload-delay", "5s", "--commit-last", "_SUCCESS"];
    Plan::of(&MinIo::shared().bucket()).flags(flags).mount().umount();
}

#[test]
fn who_has_no_mount_is_told_so_and_nothing_else() {
    // A user of whom there is nothing on this machine.
    let plan = Plan::of_url("file:///").by_user("daemon");
    let said = run(&mut plan.command(["status"]), WITHIN);
    assert_eq!(said.ok(), "", "{}", said.report());
    assert!(said.stderr.contains("nothing of yours is mounted"), "{}", said.report());
}

#[test]
fn a_mount_that_is_gone_or_of_another_is_said_to_be() {
    let (_bucket, mount) = mounted();
    let other = Plan::of_url("file:///").by_user("daemon");
    for command in ["status", "pin", "unpin", "bench", "log-level", "umount"] {
        let said = run(other.command([command]).arg(mount.path()).args(level(command)), WITHIN);
        assert!(said.stderr.contains("by another user"), "{command}: {}", said.report());
    }
    mount.kill();
    for command in ["status", "top", "sync", "warm", "evict", "pin", "unpin", "bench", "log-level"]
    {
        let mut asked = mount.plan().command([command]);
        let said = run(asked.arg(mount.path()).args(level(command)), WITHIN);
        assert_eq!(said.status.code(), Some(1), "{}", said.report());
        assert!(said.stderr.contains("has died: `quayfs umount"), "{command}: {}", said.report());
    }
}

fn level(command: &str) -> &[&'static str] {
    if command == "log-level" { &["info"] } else { &[] }
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
fn what_would_not_be_done_as_it_says_is_refused() {
    let plan = Plan::of_url("s3://unused");
    for (command, words) in [
        (&["recover", "--give-up", "s3://unused", "--json"][..], "--json"),
        (&["recover", "--discard", "name", "--json"], "--json"),
        (&["config", "s3://unused", "--commit=async", "--commit-last=*.done"], "no patterns"),
    ] {
        let said = run(&mut plan.command(command), WITHIN);
        assert_eq!(said.status.code(), Some(2), "{}", said.report());
        assert!(said.stderr.contains(words), "{}", said.report());
    }
}

#[test]
fn folder_in_a_mount_stands_for_it_in_status_alone() {
    let (_bucket, mount) = crate::mounted();
    std::fs::create_dir(mount.join("folder")).unwrap();
    let want = format!("not mounted: it is in the mount at {}", mount.path().display());
    let run_on_folder =
        |command| run(mount.plan().command([command]).arg(mount.join("folder")), WITHIN);
    let said = run_on_folder("umount");
    assert!(!said.status.success() && said.stderr.contains(&want), "{}", said.report());
    let said = run_on_folder("status");
    let title = format!(" on {}: ", mount.path().display());
    assert!(said.ok().contains(&title), "{}", said.report());
    mount.umount();
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
fn who_names_the_mount_of_another_program_is_told_what_it_is() {
    let plan = Plan::of_url("s3://unused");
    for command in ["status", "umount", "log-level"] {
        let said = run(plan.command([command, "/proc"]).args(level(command)), WITHIN);
        let want = "/proc: no mount of quayfs: proc is mounted there";
        assert!(!said.status.success() && said.stderr.contains(want), "{}", said.report());
    }
}

#[test]
fn umount_returns_when_the_daemon_has_ended() {
    for _ in 0..5 {
        let (_bucket, mount) = mounted();
        write_new(&mount.join("file"), b"bytes").unwrap();
        let said = mount.try_umount();
        said.ok();
        // A test that has mounts of its own may have a copy of this one for a moment.
        let is_kept = said.stderr.contains("other mount namespaces");
        assert!(is_kept || !mount.is_alive(), "the daemon lives on");
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
