//! The promise that a request is answered once.

use std::sync::Arc;

use base::{Counter, Errno, Ino, Metrics};

use crate::reply::{Encoded, Shape, encode};
use crate::service::Reply;

/// Where replies go.
pub(crate) trait Outlet: Send + Sync {
    /// Sends the reply to the request that the kernel calls `unique`: a body, or an error.
    fn send(&self, unique: u64, outcome: Result<Vec<u8>, Errno>);
}

/// A request that waits for its reply. Dropped without one it is answered EIO.
pub(crate) struct Ticket {
    unique: u64,
    shape: Shape,
    /// Taken by the reply.
    outlet: Option<Arc<dyn Outlet>>,
}

impl Ticket {
    pub(crate) fn new(unique: u64, shape: Shape, outlet: Arc<dyn Outlet>) -> Ticket {
        Ticket { unique, shape, outlet: Some(outlet) }
    }

    /// Sends the reply. Returns the nodes of entries that did not fit, whose references the kernel
    /// has never got.
    pub(crate) fn answer(
        mut self,
        op: &'static str,
        outcome: Result<Reply, Errno>,
        metrics: &Metrics,
    ) -> Vec<Ino> {
        let (outcome, unsent) = match outcome.map(|reply| encode(self.shape, reply)) {
            Ok(Ok(Encoded::Body(body))) => {
                if let Shape::Read { .. } = self.shape {
                    metrics.add(Counter::FuseReadBytes, body.len() as u64);
                }
                (Ok(body), Vec::new())
            }
            Ok(Ok(Encoded::Entries(body, unsent))) => (Ok(body), unsent),
            Ok(Ok(Encoded::TooLong)) => (Err(Errno::ERANGE), Vec::new()),
            Ok(Err(reply)) => {
                tracing::error!(op, ?reply, "a bug: the request cannot be answered like that");
                (Err(Errno::EIO), Vec::new())
            }
            Err(errno) => (Err(errno), Vec::new()),
        };
        self.send(outcome);
        unsent
    }

    fn send(&mut self, outcome: Result<Vec<u8>, Errno>) {
        if let Some(outlet) = self.outlet.take() {
            outlet.send(self.unique, outcome);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.send(Err(Errno::EIO));
    }
}
