//! Asks the service and sends its answers; panics, counters and tracing are wrapped once around
//! every request here.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Counter, Errno, Ino, Metrics};
use futures::FutureExt;
use tokio::runtime::Handle;

use crate::convert::errno;
use crate::service::{Answer, Caller, Reply, Request, Service};
use crate::slot::{Silence, Slot};

/// What a listing is first asked to hold: what newer kernels ask for on behalf of `getdents`.
const LIST_BYTES_FIRST: u32 = 32 * 1024;

/// No kernel asks for less.
const LIST_BYTES_MIN: u32 = 4096;

/// Asks the service and sends its answers.
pub(crate) struct Core {
    /// Set before the first session thread starts.
    service: OnceLock<Arc<dyn Service>>,
    runtime: Handle,
    metrics: Arc<Metrics>,
    /// How many bytes of entries the kernel takes at a time. `fuser` 0.18 does not tell, so it is
    /// learned from what did not fit; kernels before 6.16 take one page.
    list_bytes: AtomicU32,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(runtime: Handle, metrics: Arc<Metrics>) -> Core {
        let list_bytes = AtomicU32::new(LIST_BYTES_FIRST);
        Core { service: OnceLock::new(), runtime, metrics, list_bytes }
    }

    /// Names the service; once, before the session threads start.
    pub(crate) fn open(&self, service: Arc<dyn Service>) {
        self.service.set(service).expect("a mount is served once: serving consumes it");
    }

    /// Takes back references that the kernel has given up, or has never got.
    pub(crate) fn forget(self: &Arc<Core>, caller: Caller, ino: Ino, count: u64) {
        self.answer(caller, "forget", Request::Forget { ino, count }, Silence);
    }

    /// Remembers that only `sent` bytes of entries fitted.
    pub(crate) fn learn_list_bytes(&self, sent: usize) {
        let room = u32::try_from(sent.next_multiple_of(LIST_BYTES_MIN as usize));
        let room = room.unwrap_or(u32::MAX).max(LIST_BYTES_MIN);
        self.list_bytes.fetch_min(room, Ordering::Relaxed);
    }

    /// How many bytes of entries to ask the service for.
    pub(crate) fn list_bytes(&self) -> u32 {
        self.list_bytes.load(Ordering::Relaxed)
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Asks the service once, and answers now or when the work is done.
    pub(crate) fn answer(
        self: &Arc<Core>,
        caller: Caller,
        op: &'static str,
        request: Request,
        slot: impl Slot,
    ) {
        self.metrics.add(Counter::FuseRequests, 1);
        tracing::trace!(op, pid = caller.pid, uid = caller.uid, request = ?Brief(&request));
        let service = self.service.get().expect("session threads start after the service is named");
        match catch_unwind(AssertUnwindSafe(|| service.serve(caller, request))) {
            Ok(Answer::Now(outcome)) => finish(op, slot, outcome),
            Ok(Answer::Later(work)) => {
                let core = Arc::clone(self);
                // The task needs no owner who waits for it: who waits is the kernel, and a slot
                // that goes down with the runtime answers EIO.
                self.runtime.spawn(async move {
                    let outcome = match AssertUnwindSafe(work).catch_unwind().await {
                        Ok(outcome) => outcome,
                        Err(panic) => core.panicked(op, panic.as_ref()),
                    };
                    finish(op, slot, outcome);
                });
            }
            Err(panic) => finish(op, slot, self.panicked(op, panic.as_ref())),
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

fn finish(op: &'static str, slot: impl Slot, outcome: Result<Reply, Errno>) {
    match outcome {
        Ok(reply) => {
            if let Err((slot, reply)) = slot.fill(reply) {
                tracing::error!(op, ?reply, "a bug: the request cannot be answered like that");
                slot.refuse(fuser::Errno::EIO);
            }
        }
        Err(error) => slot.refuse(errno(error)),
    }
}

/// A request without the data that it carries.
struct Brief<'a>(&'a Request<'a>);

impl fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Request::Write { ino, fh, offset, data } = self.0 {
            return write!(f, "Write {{ {ino:?}, {fh:?}, {offset}, {} bytes }}", data.len());
        }
        self.0.fmt(f)
    }
}
