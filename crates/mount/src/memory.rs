//! Large buffers go back to the system when they are let go.
//!
//! The allocator keeps what was freed, by default even buffers of many megabytes, in as many pools as there
//! are threads that ever took some: a mount then holds several times what `--memory-limit` says.

/// Buffers of at least so many bytes are mapped one by one. Parts of uploads are; what the kernel sends at
/// a time is not, for mapping costs as much as copying it.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: i32 = 2 << 20;

/// Has the allocator keep no large buffers.
pub(crate) fn keep_no_large_buffers() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it only sets a number of the allocator, which takes its own lock for that.
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN) };
        if is_set == 0 {
            tracing::debug!("the allocator keeps large buffers");
        }
    }
}
