//! The file exerciser `fsx`: random reads, writes, mappings, holes and truncations of one file, each
//! checked against what the file must hold.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Mount, Plan, Scratch, is_long, run, sha256_tree, tool};

/// Files at a time; together they are larger than the cache, so that what one reads was evicted for
/// another.
const FILES: u32 = 4;
const OPS_SHORT: u32 = 100_000;
const OPS_LONG: u32 = 1_000_000;
const WITHIN: Duration = Duration::from_hours(2);

#[test]
fn files_hold_what_was_written_whatever_is_done_to_them() {
    hold_what_was_written(&[], if is_long() { OPS_LONG } else { OPS_SHORT });
}

#[test]
fn files_hold_what_was_written_when_closes_do_not_wait_for_the_bucket() {
    let flags = ["--commit", "async", "--upload-delay", "100ms"];
    hold_what_was_written(&flags, if is_long() { OPS_LONG } else { OPS_SHORT / 5 });
}

fn hold_what_was_written(flags: &[&str], ops: u32) {
    // A folder is the bucket here: what is looked at is on this side of the store, and most of the
    // time would go into uploads.
    let objects = Scratch::new();
    let url = format!("file://{}", objects.path().display());
    let mount = Plan::of_url(&url).flags(["--cache-size", "1MiB"]).flags(flags).mount();
    let ops = ops / FILES;
    let plan = mount.plan();
    let artifacts: Vec<_> =
        (0..FILES).map(|file| plan.folder(&format!("artifacts-{file}"))).collect();
    thread::scope(|scope| {
        for (file, artifacts) in (0..FILES).zip(&artifacts) {
            let mount = &mount;
            scope.spawn(move || exercise(mount, file, ops, artifacts));
        }
    });
    let here = sha256_tree(mount.path());
    assert_eq!(here.len(), FILES as usize);
    // And the bucket has it all.
    fs::File::open(mount.path()).and_then(|folder| folder.sync_all()).unwrap();
    let mut published = sha256_tree(objects.path());
    published.retain(|key, _| !key.starts_with(".quayfs"));
    assert_eq!(here, published);
    let mount = mount.umount().mount();
    assert_eq!(here, sha256_tree(mount.path()), "after a remount");
}

/// Does `ops` operations on one file; the file's number is the seed, so that a failure comes again.
pub(crate) fn exercise(mount: &Mount, file: u32, ops: u32, artifacts: &Path) {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("fsx.toml");
    let mut fsx = Command::new(tool("fsx"));
    fsx.arg("-f").arg(config).args(["-N", &ops.to_string(), "-S", &file.to_string()]);
    fsx.arg("-P").arg(artifacts).arg(mount.join(format!("file-{file}")));
    let finished = run(&mut fsx, WITHIN);
    // What it did last is the end of what it says, and there may be very much of it.
    let said: Vec<&str> = finished.stdout.lines().chain(finished.stderr.lines()).collect();
    let last = said[said.len().saturating_sub(60)..].join("\n");
    assert!(finished.status.success(), "file {file}, {ops} operations:\n{last}");
    // The file as it should be is kept only of failures.
    let left = fs::read_dir(artifacts).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{last}");
}
