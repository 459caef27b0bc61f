//! Memory that a virtual machine has used before.
//!
//! The first use of a page costs its host a fault, several times what it costs to write the page. Whoever
//! keeps what he writes, as a mount and the local disk do, would pay for that, and whoever does not would not.

use std::fs;

use crate::report::say;

/// Left to all others.
const LEFT_BYTES: usize = 2 << 30;
const CHUNK_BYTES: usize = 64 << 20;
const PAGE_BYTES: usize = 4096;

/// Uses once what is free, unless a control group bounds us.
pub(crate) fn touch() {
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    if !matches!(limit.trim(), "" | "max") {
        return;
    }
    let free = usize::try_from(testkit::memory_bytes("MemFree")).unwrap_or(0);
    let bytes = free.saturating_sub(LEFT_BYTES);
    say(&format!("using {} MiB of memory once", bytes >> 20));
    let chunk = || -> Vec<u8> {
        let mut chunk = vec![0; CHUNK_BYTES];
        chunk.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        std::hint::black_box(chunk)
    };
    // All of it is held until the last is used, or the same pages would be used again.
    let chunks: Vec<Vec<u8>> = (0..bytes / CHUNK_BYTES).map(|_| chunk()).collect();
    drop(chunks);
}
