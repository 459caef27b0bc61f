//! The same file system where the kernel's requests come through `io_uring`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use testkit::{Bucket, MinIo, Mount, Plan, Shape, SlowLink, is_long, noise, wait, write_new};

use crate::concurrency::while_reads_wait;
use crate::model::Commit;
use crate::{SOON, model, names, posix};

fn mounted(flags: &[&str]) -> (Bucket<'static>, Mount) {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(flags).by_io_uring().mount();
    assert!(!session_threads(&mount).is_empty(), "requests come by /dev/fuse");
    (bucket, mount)
}

/// The processors that each thread of the daemon may run on, of those whose name begins so.
fn threads(mount: &Mount, name: &str) -> Vec<String> {
    let tasks = format!("/proc/{}/task", mount.status()["pid"]);
    let of = |task: &Path| {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let field = |name: &str| {
            status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
        };
        field("Name:")?.starts_with(name).then_some(())?;
        field("Cpus_allowed_list:")
    };
    let tasks = fs::read_dir(tasks).unwrap();
    tasks.filter_map(|task| of(&task.unwrap().path())).collect()
}

fn session_threads(mount: &Mount) -> Vec<String> {
    threads(mount, "fuse-ring")
}

#[test]
fn every_case_of_the_posix_suite_passes() {
    let (_bucket, mount) = mounted(&["--allow-other"]);
    posix::check(&mount);
}

#[test]
fn a_mount_and_a_local_folder_are_alike_whatever_is_done_to_both() {
    let cases = if is_long() { 200 } else { 12 };
    model::stay_alike(&|| mounted(&model::FLAGS), Commit::Close, cases);
}

/// How many threads of the machine wait for a disk, by what the kernel makes its load and its pressure of.
fn waiting_for_disks() -> usize {
    let counts = fs::read_to_string("/proc/stat").unwrap();
    let count = counts.lines().find_map(|line| line.strip_prefix("procs_blocked "));
    count.and_then(|count| count.parse().ok()).expect("the kernel counts them")
}

/// Whether the kernel can tell a wait for requests from one for a disk: since Linux 6.15.
fn tells_waits_apart() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    vec![6, 15] <= numbers
}

#[test]
fn a_mount_that_rests_does_not_count_as_waiting_for_a_disk() {
    let (_bucket, mount) = mounted(&[]);
    let threads = session_threads(&mount).len();
    let is_counted = || threads <= waiting_for_disks();
    wait::until("what is counted", SOON, || is_counted() != tells_waits_apart());
}

#[test]
fn each_session_thread_stays_on_its_processor_and_the_others_go_anywhere() {
    let (bucket, mount) = mounted(&[]);
    bucket.put("file", &noise(1, 3_000_000));
    wait::until("the object to appear", SOON, || names(mount.path()).len() == 1);
    assert_eq!(fs::read(mount.join("file")).unwrap().len(), 3_000_000);
    write_new(&mount.join("new"), b"new").unwrap();
    let own: Vec<String> = session_threads(&mount);
    let distinct: BTreeSet<&String> = own.iter().collect();
    assert_eq!(distinct.len(), own.len(), "one processor each: {own:?}");
    let others = threads(&mount, "quayfs");
    let anywhere = fs::read_to_string("/proc/self/status").unwrap();
    let anywhere = anywhere.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    assert!(others.iter().all(|cpus| cpus == anywhere.unwrap().trim()), "{others:?}");
}

#[test]
fn a_mount_that_is_kept_from_it_takes_requests_by_the_device() {
    let (_bucket, _mount) = mounted(&[]);
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).by_io_uring().flags(["--no-io-uring"]).mount();
    write_new(&mount.join("new"), b"new").unwrap();
    assert_eq!(session_threads(&mount), Vec::<String>::new());
}

/// Far more than session threads; what needs the store as well waits for its turn there.
#[test]
fn hundreds_of_slow_reads_do_not_hold_up_what_is_known_here() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let count = 300;
    for number in 0..count {
        bucket.put(&format!("held/{number}"), &noise(number, 200_000));
    }
    bucket.put("quick", b"quick");
    let link = SlowLink::to(store.address(), Shape::default());
    let plan = Plan::of(&bucket).instead("--endpoint", &link.endpoint());
    let flags = ["--deadline", "300s", "--metadata-ttl", "1h"];
    let mount = plan.flags(flags).by_io_uring().mount();
    assert_eq!(names(&mount.join("held")).len(), 300);
    assert_eq!(fs::read(mount.join("quick")).unwrap(), b"quick");
    while_reads_wait(count, &bucket, &link, &mount, || {
        assert_eq!(fs::read(mount.join("quick")).unwrap(), b"quick");
    });
}

#[test]
fn what_a_killed_daemon_had_acknowledged_is_there_at_the_next_mount() {
    let (bucket, mount) = mounted(&["--commit", "async", "--upload-delay", "1h"]);
    for number in 0..50 {
        write_new(&mount.join(format!("file-{number}")), &noise(number, 3000)).unwrap();
    }
    mount.kill();
    let mount = mount.abandon().mount();
    for number in 0..50 {
        assert_eq!(fs::read(mount.join(format!("file-{number}"))).unwrap(), noise(number, 3000));
    }
    mount.umount();
    for number in 0..50 {
        assert_eq!(bucket.get(&format!("file-{number}")), Some(noise(number, 3000)));
    }
}
