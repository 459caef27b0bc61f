//! The calls that move bytes, straight over our own HTTP client: thousands of them are made in a second,
//! and the library's way costs as much processor time as the store's own work on a small file. What is
//! rare goes through the library.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use base::Clock;
use bytes::Bytes;
use http::Method;

use super::fault;
use super::keys::{Keys, system_time};
use super::named::{self, name};
use super::place::Place;
use super::sign::{self, Payload, Unsigned};
use crate::http::{Answer, Http, Request, encode_path, parse_http_date, query};
use crate::{Error, ErrorKind, Key, Meta, Metadata, Result, Version};

/// What the name of a header begins with that is part of an object's metadata.
const METADATA: &str = "x-amz-meta-";

/// A request to be: what it is for, and what goes with it.
pub(super) struct Call<'a> {
    op: &'static str,
    key: &'a Key,
    method: Method,
    query: Vec<(&'static str, String)>,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl<'a> Call<'a> {
    pub(super) fn new(op: &'static str, method: Method, key: &'a Key) -> Call<'a> {
        let (query, headers, body) = (Vec::new(), Vec::new(), Bytes::new());
        Call { op, key, method, query, headers, body }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Call<'a> {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Call<'a> {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn maybe(self, name: &str, value: Option<String>) -> Call<'a> {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    pub(super) fn metadata(mut self, metadata: &Metadata) -> Call<'a> {
        let named =
            metadata.iter().map(|(name, value)| (format!("{METADATA}{name}"), value.clone()));
        self.headers.extend(named);
        self
    }

    pub(super) fn body(mut self, body: Bytes) -> Call<'a> {
        self.body = body;
        self
    }
}

/// Who asks, and how.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) http: Http,
    pub(super) clock: Arc<dyn Clock>,
    /// As whom; `None` is no one.
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) payload: Payload,
}

/// The way to a bucket.
pub(super) struct Direct {
    asker: Asker,
    place: Place,
    /// By so many seconds the server's clock is before ours. It refuses what is signed at another time.
    skew_secs: AtomicI64,
}

/// Clocks that differ by less are the same.
const SKEW_SECS_MIN: i64 = 60;

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Direct {
    pub(super) fn new(asker: Asker, place: Place) -> Direct {
        Direct { asker, place, skew_secs: AtomicI64::new(0) }
    }

    /// Sends a call for the object of its key; an answer that is no success is an error, but for 304.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Answer> {
        let Call { op, key, method, query: pairs, mut headers, body } = call;
        let Asker { http, clock, keys, payload } = &self.asker;
        let path = encode_path(name(op, key)?.as_bytes());
        let url = format!("{}{path}{}", self.place.url, query(&pairs));
        if let (Some(region), Some(keys)) = (&self.place.region, keys) {
            let credentials =
                keys.now().await.map_err(|error| fault::of_credentials(op, key, &error))?;
            let hash = sign::hash(&body, *payload).await;
            let (headers_now, time) = (&headers[..], self.time_there(clock.as_ref()));
            let unsigned =
                Unsigned { method: &method, url: &url, headers: headers_now, hash: &hash };
            let signed = sign::signature(&unsigned, &credentials, (region, time));
            headers.extend(signed.map_err(|error| {
                Error::new(ErrorKind::Unsupported, op, key).because(error.to_string())
            })?);
        }
        let request = Request { headers, ..Request::new(method, url).body(body) };
        let sent = http.send(request).await;
        let answer = sent.map_err(|failure| failure.into_error(op, key))?;
        let skew = self.learn_skew(&answer, clock.as_ref());
        if answer.is_success() || answer.status() == 304 {
            return Ok(answer);
        }
        let error = fault::of_answer(op, key, answer).await;
        match skew {
            // Perhaps for this alone.
            Skew::Other if error.kind == ErrorKind::Denied => Err(fault::in_passing(error)),
            Skew::Other | Skew::Same => Err(error),
        }
    }

    /// What time it is where the bucket is.
    fn time_there(&self, clock: &dyn Clock) -> SystemTime {
        let skew = self.skew_secs.load(Ordering::Relaxed);
        let skew_size = Duration::from_secs(skew.unsigned_abs());
        let here = system_time(clock);
        let there =
            if skew < 0 { here.checked_sub(skew_size) } else { here.checked_add(skew_size) };
        there.unwrap_or(here)
    }

    fn learn_skew(&self, answer: &Answer, clock: &dyn Clock) -> Skew {
        let Some(there) = answer.header("date").and_then(parse_http_date) else {
            return Skew::Same;
        };
        let skew = there.secs.saturating_sub(clock.wall().secs);
        let known = self.skew_secs.load(Ordering::Relaxed);
        if skew.saturating_sub(known).saturating_abs() < SKEW_SECS_MIN {
            return Skew::Same;
        }
        self.skew_secs.store(skew, Ordering::Relaxed);
        Skew::Other
    }
}

/// Whether the clocks differ otherwise than was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skew {
    Same,
    Other,
}

/// What an answer says of the object that it is about.
pub(super) fn meta(op: &'static str, key: &Key, answer: &Answer) -> Result<Meta> {
    let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no size");
    let modified = answer.header("last-modified").and_then(parse_http_date);
    let metadata = answer
        .headers()
        .filter_map(|(name, value)| Some((name.strip_prefix(METADATA)?, value)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Meta {
        size: answer.length().ok_or_else(missing)?,
        version: version(op, key, answer)?,
        modified: modified.unwrap_or_default(),
        metadata: metadata.collect(),
    })
}

/// The version that an answer says it is about.
pub(super) fn version(op: &'static str, key: &Key, answer: &Answer) -> Result<Version> {
    named::version_of(op, key, answer.header("etag").map(str::to_owned))
}
