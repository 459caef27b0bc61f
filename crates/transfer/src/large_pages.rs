//! Parts of uploads in large pages.
//!
//! A part is read into memory that the system has just given and gets back soon. In pages of 4 KiB the first touch
//! of 16 MiB is 4,096 faults, which take more time than reading the part does.

use rustix::mm::{Advice, madvise};

/// Smaller buffers come out of what the allocator has, or are not worth a call.
const BUFFER_BYTES_MIN: usize = 4 << 20;

/// A multiple of the page of every machine.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// `buffer`, of which nothing was touched yet, in large pages where the system has them.
pub(crate) fn in_large_pages(mut buffer: Vec<u8>) -> Vec<u8> {
    let start = buffer.as_mut_ptr();
    let before = start.align_offset(PAGE_BYTES_MAX);
    if BUFFER_BYTES_MIN <= buffer.capacity() {
        let len = (buffer.capacity() - before) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
        // SAFETY: all of it is in the buffer, and this advice changes neither what is there nor who may touch it.
        let advised =
            unsafe { madvise(start.wrapping_add(before).cast(), len, Advice::LinuxHugepage) };
        if let Err(error) = advised {
            tracing::debug!(%error, "a part in small pages");
        }
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::{BUFFER_BYTES_MIN, in_large_pages};

    #[test]
    fn a_buffer_stays_what_it_is() {
        for len in [0, 1, BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MIN, 4 * BUFFER_BYTES_MIN + 7] {
            let mut buffer = in_large_pages(vec![0; len]);
            assert!(buffer.iter().all(|&byte| byte == 0) && buffer.len() == len);
            buffer.fill(7);
            let empty = in_large_pages(Vec::with_capacity(len));
            assert!(empty.is_empty() && len <= empty.capacity());
        }
    }
}
