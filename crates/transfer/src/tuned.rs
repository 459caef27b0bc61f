//! Sizes that follow the network, as whoever watches it says from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A size in bytes. Copies of it are one and the same.
#[derive(Clone, Debug)]
pub struct Tuned(Arc<AtomicU64>);

impl Tuned {
    /// It is `bytes` until somebody says otherwise.
    pub fn of(bytes: u64) -> Tuned {
        Tuned(Arc::new(AtomicU64::new(bytes)))
    }

    /// From now on it is `bytes`.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
