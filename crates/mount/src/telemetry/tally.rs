//! How many requests to the store each call sent: counted in the span of the call.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Span, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The spans of calls, and the events of requests.
const CALLS: &str = "quayfs_mount::call";
const REQUESTS: &str = "quayfs_remote::request";

/// Counts.
#[derive(Debug)]
pub(super) struct Tally;

/// The requests of one call.
struct Requests(AtomicU64);

impl Tally {
    /// What it has to see.
    pub(super) fn wants() -> Targets {
        Targets::new().with_target(CALLS, Level::DEBUG).with_target(REQUESTS, Level::DEBUG)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Tally {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Requests(AtomicU64::new(0)));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != REQUESTS {
            return;
        }
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(Requests(count)) = span.extensions().get() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// How many requests the call of this span has sent that are answered; `None` where nobody counts.
pub(crate) fn requests_of(call: &Span) -> Option<u64> {
    let count = call.with_subscriber(|(id, dispatch)| {
        let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
        let extensions = span.extensions();
        extensions.get().map(|Requests(count)| count.load(Ordering::Relaxed))
    });
    count.flatten()
}
