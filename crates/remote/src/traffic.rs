//! Requests to one store as they go on: those in flight, when the store last answered, the last failure.
//!
//! [`Retry`](crate::Retry) adds a request when its caller asks and removes it when the caller has the answer, so that
//! its age has the repeats and the pauses between them in it. [`Meter`](crate::Meter) notes each answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::{Clock, InFlight, Oldest, Place, Timing};
use parking_lot::Mutex;

use crate::{Error, ErrorKind, Key, Result, Trouble};

/// Requests to one store as they go on.
#[derive(Debug)]
pub struct Traffic {
    clock: Arc<dyn Clock>,
    in_flight: InFlight<Asked>,
    /// When the store last answered, in microseconds of the clock.
    answered_micros: AtomicU64,
    /// Whether the store has ever accepted these credentials.
    is_known: AtomicBool,
    /// Whether `last` has a refusal: answers look here without its lock.
    is_refused: AtomicBool,
    last: Mutex<Last>,
}

/// The last failure, and whether the store still accepts the credentials.
#[derive(Debug, Default)]
struct Last {
    failure: Option<Failure>,
    refusal: Option<Refusal>,
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its kind.
    pub kind: Timing,
    /// Its object or prefix.
    pub key: Key,
    /// Bytes that it sends.
    pub bytes: u64,
    /// When its caller asked, by the monotonic clock of the mount.
    pub begun: Duration,
    /// Tries that failed so far.
    pub failed: u32,
    /// Why the last of them failed.
    pub failure: Option<String>,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, by the monotonic clock of the mount.
    pub at: Duration,
    /// The request and the store's words.
    pub text: String,
}

/// Credentials that the store accepted once and does not accept any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub trouble: Trouble,
    /// The store's words.
    pub text: String,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    traffic: Arc<Traffic>,
    place: Option<Place>,
}

impl Traffic {
    /// Nothing in flight.
    pub fn new(clock: Arc<dyn Clock>) -> Traffic {
        Traffic {
            clock,
            in_flight: InFlight::default(),
            answered_micros: AtomicU64::new(0),
            is_known: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            last: Mutex::default(),
        }
    }

    /// The oldest requests in flight, at most `requests_max`.
    pub fn oldest(&self, requests_max: usize) -> Oldest<Asked> {
        self.in_flight.oldest(requests_max, |asked| asked.begun)
    }

    /// All requests in flight, in no order.
    pub fn each(&self, look: impl FnMut(&Asked)) {
        self.in_flight.each(look);
    }

    /// When the store last answered, or sent bytes.
    pub fn answered(&self) -> Duration {
        Duration::from_micros(self.answered_micros.load(Ordering::Relaxed))
    }

    /// The last request that failed, if one has.
    pub fn failure(&self) -> Option<Failure> {
        self.last.lock().failure.clone()
    }

    /// Why the store does not accept the credentials any more, if it does not.
    pub fn refusal(&self) -> Option<Refusal> {
        self.last.lock().refusal.clone()
    }

    /// Adds a request that sends `bytes`.
    pub(crate) fn ask(self: &Arc<Self>, kind: Timing, key: &Key, bytes: u64) -> Ticket {
        let begun = self.clock.monotonic();
        let asked = Asked { kind, key: key.clone(), bytes, begun, failed: 0, failure: None };
        // Spread by time: requests are few, and come from any thread.
        let spread = u64::try_from(begun.as_micros()).unwrap_or_default();
        let place = Some(self.in_flight.add(spread, asked));
        Ticket { traffic: Arc::clone(self), place }
    }

    /// Notes what came of one try, or of one piece of an answer; returns whether it is a failure.
    ///
    /// That an object is not there, was changed, or is denied to these credentials is an answer. That the store does not
    /// accept credentials which it accepted before is a failure.
    pub(crate) fn note<T>(&self, result: &Result<T>) -> bool {
        let Err(error) = result else {
            self.answered_now();
            self.is_known.store(true, Ordering::Relaxed);
            if self.is_refused.load(Ordering::Relaxed) {
                self.is_refused.store(false, Ordering::Relaxed);
                self.last.lock().refusal = None;
            }
            return false;
        };
        let trouble = error.trouble();
        if trouble.is_of_credentials() {
            if !self.is_known.load(Ordering::Relaxed) {
                return false;
            }
            self.last.lock().refusal = Some(Refusal { trouble, text: words(error) });
            self.is_refused.store(true, Ordering::Relaxed);
        } else if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Changed | ErrorKind::Denied)
        {
            self.answered_now();
            return false;
        }
        let failure = Failure { at: self.clock.monotonic(), text: told(error) };
        self.last.lock().failure = Some(failure);
        true
    }

    fn answered_now(&self) {
        let micros = u64::try_from(self.clock.monotonic().as_micros()).unwrap_or(u64::MAX);
        self.answered_micros.store(micros, Ordering::Relaxed);
    }
}

impl Ticket {
    /// Notes that a try failed.
    pub(crate) fn failed(&self, error: &Error) {
        let text = words(error);
        let Some(place) = &self.place else { return };
        self.traffic.in_flight.change(place, |asked| {
            asked.failed += 1;
            asked.failure = Some(text);
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.traffic.in_flight.remove(place);
        }
    }
}

/// The store's own words, or what is known without them.
fn words(error: &Error) -> String {
    match (error.provider_error(), &error.source) {
        (Some(said), _) => format!("{}: {}", said.code, said.message),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.kind.to_string(),
    }
}

/// The request that failed, and why: `LIST data/: SlowDown: Please reduce your request rate`.
fn told(error: &Error) -> String {
    let (op, key) = (error.op.to_ascii_uppercase(), error.key.to_string());
    let space = if key.is_empty() { "" } else { " " };
    format!("{op}{space}{key}: {}", words(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use base::{Clock as _, ManualClock, Timing};

    use super::Traffic;
    use crate::{Error, ErrorKind, Key, ProviderError, Result, Trouble};

    fn traffic() -> (Arc<ManualClock>, Arc<Traffic>) {
        let clock = Arc::new(ManualClock::default());
        (Arc::clone(&clock), Arc::new(Traffic::new(clock)))
    }

    fn error(kind: ErrorKind, code: &str, trouble: Trouble) -> Result<()> {
        let (code, message) = (code.to_owned(), "words".to_owned());
        let said = ProviderError { code, message, request_id: None, trouble };
        Err(Error::new(kind, "list", &Key::from("data/")).because(said))
    }

    #[test]
    fn request_is_in_flight_until_its_ticket_is_dropped() {
        let (clock, traffic) = traffic();
        clock.advance(Duration::from_secs(5));
        let first = traffic.ask(Timing::StoreGet, &Key::from("a"), 0);
        clock.advance(Duration::from_secs(1));
        let second = traffic.ask(Timing::StorePut, &Key::from("b"), 7);
        second.failed(&error(ErrorKind::Unavailable, "HTTP 503", Trouble::Busy).unwrap_err());
        let in_flight = traffic.oldest(10).entries;
        assert_eq!(in_flight[0].key, Key::from("a"));
        assert_eq!(in_flight[0].begun, Duration::from_secs(5));
        assert_eq!((in_flight[1].bytes, in_flight[1].failed), (7, 1));
        assert_eq!(in_flight[1].failure.as_deref(), Some("HTTP 503: words"));
        drop((first, second));
        assert_eq!(traffic.oldest(10).count, 0);
    }

    #[test]
    fn last_failure_is_told_with_the_words_of_the_store() {
        let (clock, traffic) = traffic();
        clock.advance(Duration::from_secs(3));
        assert!(!traffic.note(&error(ErrorKind::NotFound, "NoSuchKey", Trouble::Other)));
        assert_eq!((traffic.failure(), traffic.answered()), (None, clock.monotonic()));
        clock.advance(Duration::from_secs(1));
        assert!(traffic.note(&error(ErrorKind::Unavailable, "SlowDown", Trouble::Busy)));
        let failure = traffic.failure().unwrap();
        assert_eq!(failure.text, "LIST data/: SlowDown: words");
        assert_eq!((failure.at, traffic.answered()), (clock.monotonic(), Duration::from_secs(3)));
    }

    #[test]
    fn refusal_lasts_until_the_store_accepts_the_credentials() {
        let (_clock, traffic) = traffic();
        let refused = || error(ErrorKind::Denied, "InvalidAccessKeyId", Trouble::BadCredentials);
        assert!(!traffic.note(&refused()), "they were never accepted");
        assert_eq!(traffic.refusal(), None);
        traffic.note(&Ok(()));
        assert!(traffic.note(&refused()));
        assert_eq!(traffic.refusal().unwrap().text, "InvalidAccessKeyId: words");
        assert!(!traffic.note(&error(ErrorKind::Denied, "AccessDenied", Trouble::Denied)));
        assert!(traffic.refusal().is_some());
        traffic.note(&Ok(()));
        assert_eq!(traffic.refusal(), None);
    }
}
