//! Limits of bandwidth, also when they change while a mount is in use.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use testkit::{Mount, Plan, noise, run, wait, write_new};

const WITHIN: Duration = Duration::from_mins(1);

const MIB: usize = 1 << 20;

/// A mount of a folder, which is as fast as the disk.
fn mounted(flags: &[&str]) -> (PathBuf, Mount) {
    let plan = Plan::of_url("file:///").flags(["--part-size", "5MiB"]).flags(flags);
    let store = plan.folder("store");
    let url = format!("file://{}", store.display());
    (store, plan.instead_of_url(&url).mount())
}

#[test]
fn upload_takes_as_long_as_its_limit_says() {
    let (store, mount) = mounted(&["--upload-limit", "5MiB/s"]);
    let bytes = noise(1, 20 * MIB);
    let ((), took) = wait::timed(|| write_new(&mount.join("file"), &bytes).unwrap());
    // The fourth part begins when three are paid for, but for the half second that an idle line is given.
    assert!(Duration::from_millis(2400) < took, "{took:?}");
    assert!(fs::read(store.join("file")).unwrap() == bytes, "other bytes");
    mount.umount();
}

#[test]
fn download_takes_as_long_as_its_limit_says() {
    let (store, mount) = mounted(&["--download-limit", "4MiB/s"]);
    let bytes = noise(2, 20 * MIB);
    fs::write(store.join("file"), &bytes).unwrap();
    let (read, took) = wait::timed(|| fs::read(mount.join("file")).unwrap());
    assert!(read == bytes, "other bytes");
    // A request is of 8 MiB at most, and all before the last one are paid for.
    assert!(Duration::from_millis(2400) < took, "{took:?}");
    mount.umount();
}

#[test]
fn upload_under_way_follows_a_new_limit() {
    let plan = Plan::of_url("file:///");
    let file = plan.folder("etc").join("config.toml");
    let limit = |rate: &str| {
        fs::write(&file, format!("[general]\nupload-limit = \"{rate}\"\n")).unwrap();
    };
    limit("64KiB");
    let store = plan.folder("store");
    let plan = plan.instead_of_url(&format!("file://{}", store.display()));
    let plan = plan.flags(["--part-size", "5MiB", "--commit", "async", "--upload-delay", "0s"]);
    let mount = plan.flags(["--config".as_ref(), file.as_os_str()]).mount();
    // Four minutes at the first limit.
    write_new(&mount.join("file"), &noise(3, 20 * MIB)).unwrap();
    limit("0");
    let said = run(mount.plan().command(["reload"]).arg(mount.path()), WITHIN);
    assert_eq!(said.ok(), "upload-limit: 64KiB -> 0\n");
    wait::until("the upload", 2 * WITHIN, || store.join("file").exists());
    mount.umount();
}
