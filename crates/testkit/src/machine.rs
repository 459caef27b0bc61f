//! What a page of figures says of where they were measured.

use std::fs;

/// Processors, memory and kernel, in a sentence.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = total
        .and_then(|line| line.split_whitespace().next())
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    let gib = kib.div_ceil(1 << 20);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<&str> = release.trim().split(['.', '-']).take(2).collect();
    let kernel = kernel.join(".");
    format!(
        "Measured on a machine of this kind: {cores} cores, {gib} GiB of memory, Linux {kernel}."
    )
}
