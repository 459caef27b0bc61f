//! A thin HTTP/1.1 client: connections that are kept, deadlines, streamed and bounded answers.
//!
//! It repeats nothing and follows no redirect: that is `retry`'s and the provider's business. What
//! it says of failures names no URL and no header, because both may carry credentials.

mod answer;
mod connect;
mod fault;
mod page;
mod ranged;
#[cfg(test)]
pub(crate) mod recording;
mod sending;
mod text;

pub(crate) use answer::Answer;
pub(crate) use fault::{Failure, kind_of_status, retry_after};
pub(crate) use page::is_page;
pub(crate) use ranged::{Asked, collect, ranged};
pub(crate) use text::{
    decode, encode, encode_path, http_date, parse_http_date, query, range_header,
};

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Clock;
use bytes::Bytes;
use futures::future::{Either, select};
use http::Method;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;

use answer::STALL_MAX;
use connect::Connector;
use sending::Sending;

/// How long an answer may take to begin.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// As [`ANSWER_MAX`], for what the store may work on for long, or a slow line send.
const WORK_MAX: Duration = Duration::from_mins(15);

/// Up to here a body has no more time than any other request: a line that is slower is down.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// One client with its own pool of connections; clones share it.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Connector, Sending>,
    clock: Arc<dyn Clock>,
    patience: Duration,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("patience", &self.patience).finish_non_exhaustive()
    }
}

/// What is asked of a server. It has no `Debug`: URLs and headers may carry credentials.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// In pieces, sent one after the other.
    pub(crate) body: Vec<Bytes>,
    pub(crate) work: Work,
}

/// What an answer has to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Looking something up.
    Short,
    /// Putting together or copying much.
    Long,
}

impl Request {
    pub(crate) fn new(method: Method, url: String) -> Request {
        Request { method, url, headers: Vec::new(), body: Vec::new(), work: Work::Short }
    }

    pub(crate) fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn body(mut self, piece: impl Into<Bytes>) -> Request {
        self.body.push(piece.into());
        self
    }
}

impl Http {
    /// A client that waits for no connection and no answer longer than `patience`.
    pub(crate) fn new(patience: Duration, clock: Arc<dyn Clock>) -> Http {
        let client = connect::client(patience);
        Http { client, clock, patience: patience.min(ANSWER_MAX) }
    }

    /// Sends the request; returns when the answer's headers are there.
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, Failure> {
        let sent = Arc::new(AtomicU64::new(0));
        let body = Sending::new(request.body, Arc::clone(&sent));
        let length = body.length();
        // An upload of nothing says so; of other requests nothing is expected.
        let is_upload = request.method == Method::PUT || request.method == Method::POST;
        let mut wanted = http::Request::builder().method(request.method).uri(request.url);
        if is_upload {
            wanted = wanted.header("content-length", length);
        }
        for (name, value) in request.headers {
            wanted = wanted.header(name, value);
        }
        let wanted = wanted.body(body).map_err(|error| Failure::Malformed(error.to_string()))?;
        let limit = match request.work {
            Work::Short if length <= SMALL_BYTES_MAX => self.patience,
            Work::Short | Work::Long => WORK_MAX,
        };
        let answer = self.answer(wanted, limit, (length, &sent)).await?;
        let answer = Answer::new(answer, Arc::clone(&self.clock));
        if is_page(answer.status(), |name| answer.header(name)) {
            return Err(Failure::Page);
        }
        Ok(answer)
    }

    /// The answer's headers, if they come within `limit` and the body, of which so much was
    /// `sent`, does not stand still.
    async fn answer(
        &self,
        wanted: http::Request<Sending>,
        limit: Duration,
        (length, sent): (u64, &AtomicU64),
    ) -> Result<http::Response<Incoming>, Failure> {
        let begun = self.clock.monotonic();
        let mut answer = pin!(self.client.request(wanted));
        let mut sent_before = 0;
        loop {
            let left = limit.saturating_sub(self.clock.monotonic().saturating_sub(begun));
            if left.is_zero() {
                return Err(Failure::Timeout("no answer in time"));
            }
            let pause = self.clock.sleep(left.min(STALL_MAX));
            match select(answer.as_mut(), pause).await {
                Either::Left((answer, _)) => {
                    return answer.map_err(|error| Failure::of_client(&error));
                }
                Either::Right(_) => {}
            }
            let sent_now = sent.load(Ordering::Relaxed);
            if sent_now < length && sent_now == sent_before {
                return Err(Failure::Timeout("the upload stands still"));
            }
            sent_before = sent_now;
        }
    }
}

#[cfg(test)]
mod tests;
