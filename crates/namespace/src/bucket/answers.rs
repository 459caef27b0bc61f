//! Takes note of whether the bucket answers ([`outage`](super::outage)), and tries again while it does not.

use std::sync::Arc;

use remote::ErrorKind as RemoteErrorKind;
use tracing::Instrument as _;

use super::shared::Shared;
use crate::{Error, ErrorKind, Result};

impl Shared {
    /// Takes note of whether the bucket answered.
    pub(super) fn heard<T>(&self, answer: Result<T>) -> Result<T> {
        match &answer {
            Err(error) if is_unanswered(error) => {
                if self.state().outage.begins(self.clock.monotonic()) {
                    tracing::warn!(%error, "bucket unreachable: serving cached names until it answers");
                }
            }
            Err(Error { kind: ErrorKind::Remote(_), .. }) => self.answered(),
            // It may be an answer from memory.
            Ok(_) | Err(_) => {}
        }
        answer
    }

    /// The bucket answered just now.
    pub(super) fn answered(&self) {
        if self.state().outage.ends() {
            tracing::info!("the bucket answers again");
        }
    }

    /// Has the bucket asked by a task of its own: who was told what is remembered does not wait for it.
    pub(super) fn try_again(self: &Arc<Self>, ask: impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::clone(self);
        let tried = async move {
            ask.await;
            let now = shared.clock.monotonic();
            shared.state().uncounted().outage.tried(now);
        };
        tokio::spawn(tried.in_current_span());
    }
}

/// Whether the bucket said nothing for as long as anybody waits.
pub(super) fn is_unanswered(error: &Error) -> bool {
    error.kind == ErrorKind::Remote(RemoteErrorKind::Unavailable)
}
