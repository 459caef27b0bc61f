//! How much of the disk is taken by bytes that the bucket does not have. Each staged file has a share in
//! it, which is given back when the file goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sum of all shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyBytes {
    total: Arc<AtomicU64>,
}

/// The part that one file has in the sum.
#[derive(Debug)]
pub(crate) struct DirtyShare {
    sum: DirtyBytes,
    bytes: AtomicU64,
}

impl DirtyBytes {
    /// How many bytes all files have together.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The share of one more file, of nothing yet.
    pub(crate) fn share(&self) -> DirtyShare {
        DirtyShare { sum: self.clone(), bytes: AtomicU64::new(0) }
    }
}

impl DirtyShare {
    /// The file has so many bytes now.
    pub(crate) fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        // Both in one step, and wrapping: what one file takes at a time is what it gives back.
        self.sum.total.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// How many bytes the file has.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for DirtyShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::DirtyBytes;

    #[test]
    fn a_share_goes_with_its_file() {
        let dirty = DirtyBytes::default();
        let (one, other) = (dirty.share(), dirty.share());
        one.set(10);
        other.set(5);
        one.set(3);
        assert_eq!((dirty.total(), one.bytes()), (8, 3));
        drop(other);
        assert_eq!(dirty.total(), 3);
    }
}
