//! `quayfs bench` measures, in a bounded time, and leaves nothing behind.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{run, wait};

use crate::{SOON, mounted};

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn a_mount_its_bucket_and_its_disk_are_measured_and_nothing_is_left() {
    let (bucket, mount) = mounted();
    fs::write(mount.join("theirs"), b"as it was").unwrap();
    let mut command = mount.plan().command(["bench", "--bytes", "16MiB", "--json"]);
    let finished = run(command.arg(mount.path()), WITHIN);
    let measured: Value = serde_json::from_str(finished.ok()).unwrap();
    for place in ["mount", "bucket", "disk"] {
        for figure in [
            "write_bytes",
            "first_read_bytes",
            "read_bytes",
            "random_reads",
            "small_writes",
            "small_reads",
        ] {
            let is_some = measured[place][figure].as_u64().is_some_and(|figure| 0 < figure);
            assert!(is_some, "{place} {figure}: {}", finished.report());
        }
    }
    // What is said of the file that stays is no part of the bench.
    let of_bench = |key: &String| key != ".quayfs-attributes";
    assert_eq!(bucket.all_keys().into_iter().filter(of_bench).collect::<Vec<_>>(), ["theirs"]);
    assert_eq!(bucket.unfinished_uploads(), 0);
    assert_eq!(crate::names(mount.path()), ["theirs"]);
    let left = fs::read_dir(mount.state()).unwrap().flatten();
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("bench")));
}

#[test]
fn an_interrupt_ends_it_and_nothing_is_left() {
    let (bucket, mount) = mounted();
    let mut command = mount.plan().command(["bench", "--bytes", "4GiB"]);
    command.arg(mount.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.process_group(0).spawn().unwrap();
    let begun = || fs::read_dir(mount.path()).is_ok_and(|entries| entries.count() == 1);
    wait::until("the bench to begin", SOON, begun);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    wait::until("the bench to end", WITHIN, || child.try_wait().unwrap().is_some());
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    mount.umount();
    assert_eq!(bucket.all_keys(), Vec::<String>::new());
}
