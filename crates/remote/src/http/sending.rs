//! A request's body, and how much of it has left.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};

/// The pieces in which a body is handed to the connection: small enough to see it move.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes in pieces, of known length.
#[derive(Debug)]
pub(super) struct Sending {
    pieces: VecDeque<Bytes>,
    left: u64,
    /// How much was handed to the connection.
    sent: Arc<AtomicU64>,
}

impl Sending {
    pub(super) fn new(pieces: Vec<Bytes>, sent: Arc<AtomicU64>) -> Sending {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Sending { pieces, left, sent }
    }

    pub(super) fn length(&self) -> u64 {
        self.left
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.pieces.front_mut() else { return Poll::Ready(None) };
        let some = piece.split_to(piece.len().min(PIECE_BYTES));
        if !piece.has_remaining() {
            self.pieces.pop_front();
        }
        let length = some.len() as u64;
        self.left -= length;
        self.sent.fetch_add(length, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(some))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
