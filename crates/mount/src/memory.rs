//! Large buffers go back to the system when they are let go.
//!
//! The allocator keeps what was freed, by default even buffers of many megabytes, in as many pools as there
//! are threads that ever took some: a mount then holds several times what `--memory-limit` says.

/// Buffers of at least so many bytes are mapped one by one. Parts of uploads are; what the kernel sends at
/// a time is not, for mapping costs as much as copying it.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: i32 = 2 << 20;

/// What a pool keeps when it is used less. By default it is so little that a small file costs two calls of
/// the kernel, for room that is given back and taken again.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: i32 = 1 << 20;

/// What a pool grows by. By default it is a page, and each a call of the kernel; what is not used of it takes
/// no memory.
#[cfg(target_env = "gnu")]
const GROWTH_BYTES: i32 = 256 << 10;

/// Has the allocator keep no large buffers, and what small files need.
pub(crate) fn keep_no_large_buffers() {
    #[cfg(target_env = "gnu")]
    for (number, value) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX),
        (libc::M_TOP_PAD, GROWTH_BYTES),
    ] {
        // SAFETY: it only sets a number of the allocator, which takes its own lock for that.
        let is_set = unsafe { libc::mallopt(number, value) };
        if is_set == 0 {
            tracing::debug!(number, "the allocator keeps its own ways");
        }
    }
}
