//! Memory for parts of uploads: in large pages, and used again while uploads go on.
//!
//! A part is read into memory for as long as it is being sent. To get 16 MiB from the system anew for each is 4,096
//! faults in small pages, and every page is cleared first: together that takes longer than reading the part. What is
//! not in use is given back when the last upload ends.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};

/// Smaller buffers are the allocator's business.
const BUFFER_BYTES_MIN: usize = 4 << 20;

/// A multiple of the page of every machine.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// The memory that the uploads of today use, if there are any.
#[derive(Debug)]
pub(crate) struct PartMemory {
    /// How many bytes are kept that nobody uses.
    idle_bytes_max: usize,
    buffers: Mutex<Weak<Buffers>>,
}

/// Buffers that nobody uses now. They live while one upload holds this.
#[derive(Debug)]
pub(crate) struct Buffers {
    idle_bytes_max: usize,
    idle: Mutex<Vec<Vec<u8>>>,
}

/// A part's memory. What is in it at first is anything.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// At least `len` bytes.
    bytes: Vec<u8>,
    len: usize,
    home: Weak<Buffers>,
}

impl PartMemory {
    /// Keeps at most `idle_bytes_max` bytes that nobody uses.
    pub(crate) fn new(idle_bytes_max: u64) -> PartMemory {
        let idle_bytes_max = usize::try_from(idle_bytes_max).unwrap_or(usize::MAX);
        PartMemory { idle_bytes_max, buffers: Mutex::default() }
    }

    /// What all uploads of now share. Who uploads holds it from the first part to the last.
    pub(crate) fn buffers(&self) -> Arc<Buffers> {
        let mut buffers = self.buffers.lock();
        buffers.upgrade().unwrap_or_else(|| {
            let new =
                Arc::new(Buffers { idle_bytes_max: self.idle_bytes_max, idle: Mutex::default() });
            *buffers = Arc::downgrade(&new);
            new
        })
    }
}

impl Buffers {
    /// Memory for `len` bytes.
    pub(crate) fn take(self: &Arc<Buffers>, len: usize) -> Buffer {
        let fits = |bytes: &Vec<u8>| (len..=2 * len).contains(&bytes.len());
        let mut idle = self.idle.lock();
        let found = idle.iter().position(fits).map(|at| idle.swap_remove(at));
        drop(idle);
        let bytes = found.unwrap_or_else(|| in_large_pages(vec![0; len]));
        Buffer { bytes, len, home: Arc::downgrade(self) }
    }

    fn put_back(&self, bytes: Vec<u8>) {
        let mut idle = self.idle.lock();
        let all: usize = idle.iter().map(Vec::len).sum();
        if BUFFER_BYTES_MIN <= bytes.len() && all + bytes.len() <= self.idle_bytes_max {
            idle.push(bytes);
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.put_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl From<Buffer> for Bytes {
    fn from(buffer: Buffer) -> Bytes {
        Bytes::from_owner(buffer)
    }
}

/// `buffer`, of which nothing was touched yet, in large pages where the system has them.
fn in_large_pages(mut buffer: Vec<u8>) -> Vec<u8> {
    let start = buffer.as_mut_ptr();
    let before = start.align_offset(PAGE_BYTES_MAX);
    if BUFFER_BYTES_MIN <= buffer.len() {
        let len = (buffer.len() - before) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
        let from = start.wrapping_add(before).cast();
        // SAFETY: all of it is in the buffer, and this advice changes neither what is there nor who may touch it.
        let advised = unsafe { madvise(from, len, Advice::LinuxHugepage) };
        if let Err(error) = advised {
            tracing::debug!(%error, "a part in small pages");
        }
    }
    buffer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::{BUFFER_BYTES_MIN, PartMemory};

    const LARGE: usize = BUFFER_BYTES_MIN;

    /// Where its memory is.
    fn place(bytes: &[u8]) -> *const u8 {
        bytes.as_ptr()
    }

    #[test]
    fn the_memory_of_a_sent_part_is_the_next_ones() {
        let memory = PartMemory::new(1 << 30);
        let buffers = memory.buffers();
        let mut first = buffers.take(LARGE + 7);
        first.fill(1);
        let sent = Bytes::from(first);
        assert!(sent.len() == LARGE + 7 && sent.iter().all(|&byte| byte == 1));
        let was = place(&sent);
        drop(sent);
        let next = memory.buffers().take(LARGE);
        assert_eq!((place(&next), next.len()), (was, LARGE));
        assert_ne!(place(&buffers.take(LARGE)), was);
    }

    #[test]
    fn what_does_not_fit_well_is_not_used() {
        let buffers = PartMemory::new(1 << 30).buffers();
        let first = buffers.take(3 * LARGE);
        let was = place(&first);
        drop(first);
        assert_ne!(place(&buffers.take(LARGE)), was);
        assert_ne!(place(&buffers.take(4 * LARGE)), was);
        assert_eq!(place(&buffers.take(2 * LARGE)), was);
    }

    #[test]
    fn no_more_is_kept_than_allowed_and_nothing_small() {
        let buffers = PartMemory::new(3 * LARGE as u64).buffers();
        let taken = [1, 1, 2].map(|times| buffers.take(times * LARGE));
        drop(taken);
        drop(buffers.take(10));
        let kept: Vec<usize> = buffers.idle.lock().iter().map(Vec::len).collect();
        assert_eq!(kept, [LARGE, LARGE]);
    }

    #[test]
    fn all_of_it_goes_with_the_last_upload() {
        let memory = PartMemory::new(1 << 30);
        let buffers = memory.buffers();
        drop(buffers.take(LARGE));
        let left = buffers.take(LARGE);
        let weak = Arc::downgrade(&buffers);
        drop(buffers);
        assert!(weak.upgrade().is_none());
        drop(left);
        assert!(memory.buffers().idle.lock().is_empty());
    }
}
