//! What a page of figures says of where they were measured.

use std::fs;

use fuse::{RingSwitch, RingWish, ring_switch};

use crate::place::ring_wish;

/// The bytes of memory that the kernel tells of under this name, such as `MemFree`; 0 if it does not.
pub fn memory_bytes(name: &str) -> u64 {
    let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mut lines = told.lines().filter_map(|line| line.split_once(':'));
    let kib = lines.find(|(found, _)| *found == name).and_then(|(_, size)| {
        let size = size.split_whitespace().next()?;
        size.parse::<u64>().ok()
    });
    kib.unwrap_or(0) << 10
}

/// Processors, memory and kernel, and how that hands over requests, in two sentences.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let gib = memory_bytes("MemTotal").div_ceil(1 << 30);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<&str> = release.trim().split(['.', '-']).take(2).collect();
    let kernel = kernel.join(".");
    let by_rings = ring_switch() == RingSwitch::On && ring_wish() == RingWish::Wanted;
    let way = if by_rings { "through io_uring" } else { "by /dev/fuse" };
    format!(
        "Measured on a machine of this kind: {cores} cores, {gib} GiB of memory, Linux {kernel}. Requests came {way} \
         (see [tuning](tuning.md))."
    )
}
