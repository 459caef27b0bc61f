//! How many bytes of objects were asked to move, in all and at a time.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    sent: AtomicU64,
    fetched: AtomicU64,
    in_flight: AtomicU64,
    in_flight_most: AtomicU64,
}

/// Bytes that are being sent.
#[derive(Debug)]
pub(super) struct Sending<'a> {
    traffic: &'a Traffic,
    bytes: u64,
}

impl Traffic {
    /// So many bytes are sent for as long as the answer is held.
    pub(super) fn send(&self, bytes: usize) -> Sending<'_> {
        let bytes = bytes as u64;
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        let now = self.in_flight.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.in_flight_most.fetch_max(now, Ordering::Relaxed);
        Sending { traffic: self, bytes }
    }

    /// So many bytes are asked for.
    pub(super) fn fetch(&self, bytes: u64) {
        self.fetched.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight_most(&self) -> u64 {
        self.in_flight_most.load(Ordering::Relaxed)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.traffic.in_flight.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
