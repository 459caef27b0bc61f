//! How far streams may be read ahead, as whoever watches the network says from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Less would make a stream wait for each request.
const BYTES_MIN: u64 = 1 << 20;

/// The largest window of a stream. Copies of it are one and the same.
#[derive(Clone, Debug)]
pub struct Window(Arc<AtomicU64>);

impl Window {
    /// A window of at most `bytes`.
    pub fn of(bytes: u64) -> Window {
        Window(Arc::new(AtomicU64::new(bytes.max(BYTES_MIN))))
    }

    /// From now on it is at most `bytes`.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes.max(BYTES_MIN), Ordering::Relaxed);
    }

    /// What it is at most now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
