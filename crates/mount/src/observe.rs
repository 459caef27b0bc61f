//! Around every call of the kernel: how long it took, a span that ties it to its requests to the store, a
//! line when it was slow, and what it says of hot files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::call::{Subject, bytes_of};
use crate::hot::Hot;
use crate::in_flight::{Call, Calls, path_of};
use crate::telemetry;
use crate::volumes::Volumes;
use base::{Clock, Counter, Errno, Ino, Metrics, Place, Timing};
use fuse::{Answer, Caller, Reply, Request, Service};
use tracing::Instrument as _;
use tracing::Span;

/// A file system whose calls are observed.
#[derive(Debug)]
pub(crate) struct Observed {
    inner: Arc<dyn Service>,
    observer: Arc<Observer>,
}

/// What observes.
pub(crate) struct Observer {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hot: Arc<Hot>,
    pub(crate) volumes: Arc<Volumes>,
    /// Calls that wait for their answer.
    pub(crate) calls: Arc<Calls>,
    /// Calls that take longer are logged.
    pub(crate) slow: Option<Duration>,
    /// The number of the last call that was logged.
    pub(crate) last: AtomicU64,
}

/// A call that is not answered yet.
struct Observing {
    observer: Arc<Observer>,
    timing: Timing,
    ino: Ino,
    /// Where calls may be logged by name.
    name: Option<Vec<u8>>,
    bytes: u64,
    begun: Duration,
    span: Span,
}

impl Observed {
    pub(crate) fn new(inner: Arc<dyn Service>, observer: Observer) -> Observed {
        Observed { inner, observer: Arc::new(observer) }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("slow", &self.slow).finish_non_exhaustive()
    }
}

impl Service for Observed {
    fn serve(&self, caller: Caller, request: Request<'_>) -> Answer {
        let subject = Subject::of(&request);
        let call = self.observer.begin(subject);
        let answer = call.span.in_scope(|| self.inner.serve(caller, request));
        match answer {
            Answer::Now(answer) => {
                call.end(&answer);
                Answer::Now(answer)
            }
            Answer::Later(work) => {
                let span = call.span.clone();
                // Most calls are answered at once, and are not in the table.
                let listed = self.observer.list(&call, caller, subject.name);
                let observed = async move {
                    let answer = work.await;
                    drop(listed);
                    call.end(&answer);
                    answer
                };
                Answer::Later(Box::pin(observed.instrument(span)))
            }
        }
    }
}

impl Observer {
    fn begin(self: &Arc<Self>, subject: Subject<'_>) -> Observing {
        let Subject { timing, ino, name, bytes } = subject;
        let span = tracing::debug_span!(
            target: "quayfs_mount::call",
            "call",
            request = self.last.fetch_add(1, Ordering::Relaxed) + 1,
            op = timing.name(),
        );
        Observing {
            name: name.filter(|_| self.slow.is_some()).map(<[u8]>::to_vec),
            observer: Arc::clone(self),
            timing,
            ino,
            bytes,
            begun: self.clock.monotonic(),
            span,
        }
    }

    /// Enters a call that waits into the table.
    fn list(&self, call: &Observing, caller: Caller, name: Option<&[u8]>) -> Listed {
        let entry = Call {
            timing: call.timing,
            ino: call.ino,
            name: name.map(<[u8]>::to_vec),
            thread: caller.pid,
            uid: caller.uid,
            begun: call.begun,
        };
        let place = Some(self.calls.add(u64::from(caller.pid) ^ call.ino.0, entry));
        Listed { calls: Arc::clone(&self.calls), place }
    }
}

/// The place of a call in the table of those that wait, until it is dropped.
struct Listed {
    calls: Arc<Calls>,
    place: Option<Place>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.calls.remove(place);
        }
    }
}

impl Observing {
    fn end(self, answer: &Result<Reply, Errno>) {
        let Observer { metrics, clock, hot, slow, .. } = &*self.observer;
        let now = clock.monotonic();
        let took = now.saturating_sub(self.begun);
        metrics.record(self.timing, took);
        let bytes = self.bytes.max(bytes_of(answer));
        if self.timing == Timing::Read {
            hot.note(self.ino, (bytes, 0), now);
            if matches!(answer, Err(Errno::ESTALE)) {
                metrics.add(Counter::StaleReads, 1);
            }
        } else if self.timing == Timing::Write {
            hot.note(self.ino, (0, bytes), now);
        }
        let errno = answer.as_ref().err().map(tracing::field::display);
        self.span.in_scope(|| {
            let ino = self.ino.0;
            tracing::debug!(target: "quayfs_mount::call", ino, bytes, ?took, errno, "answered");
        });
        if slow.is_some_and(|slow| slow <= took) {
            self.span.in_scope(|| self.tell_slow(took, bytes, answer));
        }
    }

    fn tell_slow(&self, took: Duration, bytes: u64, answer: &Result<Reply, Errno>) {
        let path = path_of(&self.observer.volumes, self.ino, self.name.as_deref());
        tracing::warn!(
            target: "slow",
            op = self.timing.name(),
            path = %base::spelled(&path),
            bytes,
            ?took,
            requests = telemetry::requests_of(&self.span),
            errno = answer.as_ref().err().map(tracing::field::display),
            "a slow call"
        );
    }
}
