//! Tests of the whole: the real binary, mounted, over a real store, judged by other people's
//! programs. Each test is a sentence that is true of quayfs.
//!
//! They want root (passthrough, loop disks, other users), the tools of `scripts/setup`, and the
//! `quayfs` binary; `make test` sees to all three. `QUAYFS_LONG=1` makes some of them larger.
#![cfg(test)]

mod addresses;
mod all_buckets;
mod archive;
mod attributes;
mod bandwidth;
mod bench_command;
mod browsing;
mod bytes;
mod cache_commands;
mod capabilities;
mod chaos;
mod close_to_open;
mod closing;
mod clouds;
mod coherence;
mod command_line;
mod command_pages;
mod concurrency;
mod conflicts;
mod crash;
mod docs;
mod doctor;
mod editing;
mod ending;
mod engines;
mod exercise;
mod failing_store;
mod faults;
mod files;
mod folder;
mod fsck;
mod full_disk;
mod fusion;
mod health;
mod holes;
mod insight;
mod io_uring;
mod json_names;
mod keeping;
mod launchers;
mod layers;
mod listings;
mod locks;
mod logins;
mod model;
mod nextflow;
mod node_metrics;
mod numbers;
mod odd_keys;
mod outage;
mod passthrough;
mod permission;
mod posix;
mod power_cuts;
mod prefix_logins;
mod programs;
mod promises;
mod quick_starts;
mod recorded;
mod recover;
mod refusals;
mod renames;
mod restoring;
mod run;
mod secrets;
mod settings;
mod shared_cache;
mod shared_mount;
mod signed_urls;
mod slides;
mod stale_pages;
mod starting;
mod system;
mod times;
mod top;
mod tree_model;
mod trees;
mod visibility;

use std::path::Path;
use std::time::Duration;

use testkit::{Bucket, MinIo, Mount, Plan};

/// What takes a moment is waited for this long; a busy machine must not fail a test.
const SOON: Duration = Duration::from_secs(20);

/// An ordinary user.
const USER: &str = "nobody";

/// `--metadata-ttl` is 1 s by default; what others did must show within it, and a moment to look.
const TTL: Duration = Duration::from_secs(5);

/// A fresh bucket on the shared server, mounted with the flags most tests want: none.
fn mounted() -> (Bucket<'static>, Mount) {
    mounted_with(&[])
}

fn mounted_with(flags: &[&str]) -> (Bucket<'static>, Mount) {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(flags).mount();
    (bucket, mount)
}

/// The errno of what should have failed.
fn errno<T>(result: std::io::Result<T>) -> rustix::io::Errno {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => rustix::io::Errno::from_io_error(&error).expect("an error of the kernel"),
    }
}

/// Whether some file below `folder` begins with `bytes`.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    finds(folder, |found| found.starts_with(bytes))
}

/// Whether the bytes of some file below `folder` are what is looked for.
fn finds(folder: &Path, is_it: impl Fn(&[u8]) -> bool + Copy) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            finds(&path, is_it)
        } else {
            std::fs::read(path).is_ok_and(|found| is_it(&found))
        }
    })
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
