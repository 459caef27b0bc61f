//! Chunks in flight on one connection: a queue bounded in bytes, each chunk with its time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Bytes that arrive at their time.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) due: Instant,
}

#[derive(Debug)]
pub(super) struct Flight {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    // Invariant: the sum over `chunks`; above `bytes_max` by less than one chunk.
    bytes: usize,
    ended: bool,
}

impl Flight {
    pub(super) fn new(bytes_max: usize) -> Flight {
        Flight { bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for room. `false` when the flight has ended and nobody will take the chunk.
    pub(super) fn push(&self, bytes: Vec<u8>, due: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while self.bytes_max <= state.bytes && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return false;
        }
        state.bytes += bytes.len();
        state.chunks.push_back(Chunk { bytes, due });
        self.changed.notify_all();
        true
    }

    /// Waits for the next chunk; `None` after the last one.
    pub(super) fn next(&self) -> Option<Chunk> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.chunks.is_empty() && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let chunk = state.chunks.pop_front()?;
        state.bytes -= chunk.bytes.len();
        self.changed.notify_all();
        Some(chunk)
    }

    /// No more chunks come; those in flight still arrive.
    pub(super) fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.changed.notify_all();
    }
}
