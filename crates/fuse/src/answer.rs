//! Asks the service and sends its answers; panics, counters and tracing are wrapped once around
//! every request here.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base::{Counter, Errno, Ino, Metrics};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::decode::{self, Message};
use crate::service::{Answer, Caller, Reply, Request, Service};
use crate::ticket::{Outlet, Ticket};
use crate::wire::Header;

type Work = BoxFuture<'static, Result<Reply, Errno>>;

/// Asks the service and sends its answers.
pub(crate) struct Core {
    service: Arc<dyn Service>,
    runtime: Handle,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(service: Arc<dyn Service>, runtime: Handle, metrics: Arc<Metrics>) -> Core {
        Core { service, runtime, metrics }
    }

    /// Answers a request: its `struct fuse_*_in`, and the names and data behind it. The reply goes
    /// to `outlet`, now or when the work is done; the kernel waits for none to a forget.
    pub(crate) fn take(
        self: &Arc<Core>,
        header: &Header,
        fixed: &[u8],
        rest: &[u8],
        outlet: &Arc<dyn Outlet>,
    ) {
        let caller = decode::caller(header);
        match decode::decode(header, fixed, rest) {
            Message::Ask(op, request, shape) => {
                self.count(&request);
                let ticket = Ticket::new(header.unique, shape, Arc::clone(outlet));
                self.ask(caller, op, request, ticket);
            }
            Message::Forget(nodes) => {
                for (ino, count) in nodes {
                    self.forget(caller, ino, count);
                }
            }
            Message::Refused(errno) => outlet.send(header.unique, Err(errno)),
        }
    }

    /// Asks the service once, and answers now or when the work is done.
    fn ask(self: &Arc<Core>, caller: Caller, op: &'static str, request: Request, ticket: Ticket) {
        match self.serve(caller, op, request) {
            Answer::Now(outcome) => self.finish(caller, op, ticket, outcome),
            Answer::Later(work) => {
                let core = Arc::clone(self);
                // The task needs no owner who waits for it: who waits is the kernel, and a ticket
                // that goes down with the runtime answers EIO.
                self.runtime.spawn(async move {
                    let outcome = core.outcome(op, work).await;
                    core.finish(caller, op, ticket, outcome);
                });
            }
        }
    }

    /// Takes back references that the kernel has given up, or has never got.
    fn forget(self: &Arc<Core>, caller: Caller, ino: Ino, count: u64) {
        const OP: &str = "forget";
        if let Answer::Later(work) = self.serve(caller, OP, Request::Forget { ino, count }) {
            let core = Arc::clone(self);
            self.runtime.spawn(async move { core.outcome(OP, work).await });
        }
    }

    async fn outcome(&self, op: &'static str, work: Work) -> Result<Reply, Errno> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(panic) => self.panicked(op, panic.as_ref()),
        }
    }

    fn serve(self: &Arc<Core>, caller: Caller, op: &'static str, request: Request) -> Answer {
        self.metrics.add(Counter::FuseRequests, 1);
        tracing::trace!(op, pid = caller.pid, uid = caller.uid, request = ?Brief(&request));
        match catch_unwind(AssertUnwindSafe(|| self.service.serve(caller, request))) {
            Ok(answer) => answer,
            Err(panic) => Answer::Now(self.panicked(op, panic.as_ref())),
        }
    }

    fn finish(
        self: &Arc<Core>,
        caller: Caller,
        op: &'static str,
        ticket: Ticket,
        outcome: Result<Reply, Errno>,
    ) {
        for ino in ticket.answer(op, outcome, &self.metrics) {
            self.forget(caller, ino, 1);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only reads and writes are counted apart")]
    fn count(&self, request: &Request) {
        match request {
            Request::Read { .. } => self.metrics.add(Counter::FuseReads, 1),
            Request::Write { data, .. } => {
                self.metrics.add(Counter::FuseWrites, 1);
                self.metrics.add(Counter::FuseWriteBytes, data.len() as u64);
            }
            _ => {}
        }
    }

    fn panicked(&self, op: &'static str, panic: &(dyn Any + Send)) -> Result<Reply, Errno> {
        self.metrics.add(Counter::FusePanics, 1);
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no text");
        tracing::error!(op, panic = text, "a request ended in a panic");
        Err(Errno::EIO)
    }
}

/// A request without the data that it carries.
struct Brief<'a>(&'a Request<'a>);

impl fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Request::Write { ino, fh, offset, data, direct } = self.0 {
            let how = if *direct { ", direct" } else { "" };
            return write!(f, "Write {{ {ino:?}, {fh:?}, {offset}, {} bytes{how} }}", data.len());
        }
        self.0.fmt(f)
    }
}
