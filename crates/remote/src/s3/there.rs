//! What time it is at the server, told by its answers: it refuses what is signed at another time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use base::Clock;

use super::keys::system_time;
use crate::http::parse_http_date;

/// Clocks that differ by less are the same.
const SKEW_SECS_MIN: i64 = 60;

/// The clock of the server.
#[derive(Debug)]
pub(super) struct There {
    here: Arc<dyn Clock>,
    /// By so many seconds it is before ours.
    skew_secs: AtomicI64,
}

/// Whether the clocks differ otherwise than was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skew {
    Same,
    Other,
}

impl There {
    pub(super) fn new(here: Arc<dyn Clock>) -> There {
        There { here, skew_secs: AtomicI64::new(0) }
    }

    /// The time to sign with.
    pub(super) fn now(&self) -> SystemTime {
        let skew = self.skew_secs.load(Ordering::Relaxed);
        let skew_size = Duration::from_secs(skew.unsigned_abs());
        let here = system_time(self.here.as_ref());
        let there =
            if skew < 0 { here.checked_sub(skew_size) } else { here.checked_add(skew_size) };
        there.unwrap_or(here)
    }

    /// Takes note of the `Date` of an answer that has just come.
    pub(super) fn learn(&self, date: Option<&str>) -> Skew {
        let Some(there) = date.and_then(parse_http_date) else { return Skew::Same };
        let skew = there.secs.saturating_sub(self.here.wall().secs);
        let known = self.skew_secs.load(Ordering::Relaxed);
        if skew.saturating_sub(known).saturating_abs() < SKEW_SECS_MIN {
            return Skew::Same;
        }
        self.skew_secs.store(skew, Ordering::Relaxed);
        Skew::Other
    }
}

/// Listens to the answers that the library gets. What the library signs by itself follows them too.
#[derive(Clone, Debug)]
pub(super) struct Listening(pub(super) Arc<There>);

impl Intercept for Listening {
    fn name(&self) -> &'static str {
        "time there"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response();
        match self.0.learn(answer.headers().get("date")) {
            // Perhaps for this alone.
            Skew::Other if [401, 403].contains(&answer.status().as_u16()) => Err(WrongTime.into()),
            Skew::Other | Skew::Same => Ok(()),
        }
    }
}

/// A request was refused that was signed before the time there was known.
#[derive(Debug)]
pub(super) struct WrongTime;

impl fmt::Display for WrongTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the clock of this machine, or that of the store, is wrong")
    }
}

impl std::error::Error for WrongTime {}
