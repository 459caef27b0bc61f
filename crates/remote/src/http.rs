//! A thin HTTP/1.1 client: connections that are kept, deadlines, streamed and bounded answers.
//!
//! It repeats nothing and follows no redirect: that is `retry`'s and the provider's business. What
//! it says of failures names no URL and no header, because both may carry credentials.

mod answer;
mod checksum;
mod connect;
mod fault;
mod line;
mod page;
mod proxies;
mod ranged;
#[cfg(test)]
pub(crate) mod recording;
mod roots;
mod sending;
mod text;
mod waiting;

pub(crate) use answer::{Answer, Unless};
pub(crate) use checksum::{Checksum, Told};
pub(crate) use fault::{Failure, is_untrusted, kind_of_status, retry_after};
pub(crate) use page::{is_html, is_page};
pub(crate) use proxies::is_asked_straight;
pub(crate) use ranged::{Asked, collect, ranged};
pub use roots::{Authorities, CaBundle, CaBundleError};
pub(crate) use text::{
    decode, encode, encode_path, http_date, parse_http_date, query, range_header,
};
pub(crate) use waiting::bytes_of_parts;

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

use connect::Connector;
use proxies::Proxies;
use sending::Sending;
use waiting::{Limits, Waiting};

/// One client with its own pool of connections; clones share it.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Connector, Sending>,
    proxies: Proxies,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What is asked of a server. It has no `Debug`: URLs and headers may carry credentials.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// In pieces, sent one after the other.
    pub(crate) body: Vec<Bytes>,
    /// How much the store copies or puts together for it.
    pub(crate) work_bytes: u64,
}

impl Request {
    pub(crate) fn new(method: Method, url: String) -> Request {
        Request { method, url, headers: Vec::new(), body: Vec::new(), work_bytes: 0 }
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
    /// A client that waits for no connection and no answer longer than `patience`, and that believes
    /// whom `authorities` has.
    pub(crate) fn new(
        patience: Duration,
        authorities: &Authorities,
        clock: Arc<dyn Clock>,
    ) -> Http {
        let proxies = Proxies::of_environment();
        let client = connect::client(patience, authorities, proxies.clone());
        Http { client, proxies, clock, limits: Limits::new(patience) }
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
        let mut wanted =
            wanted.body(body).map_err(|error| Failure::Malformed(error.to_string()))?;
        if let Some(login) = self.proxies.login(wanted.uri()) {
            wanted.headers_mut().insert("proxy-authorization", login);
        }
        let waiting = Waiting::new(self.limits, self.clock.monotonic(), length, request.work_bytes);
        let answer = self.answer(wanted, waiting, &sent).await?;
        let answer = Answer::new(answer, Arc::clone(&self.clock), self.limits.stall());
        if is_page(answer.status(), |name| answer.header(name)) {
            return Err(Failure::Page);
        }
        Ok(answer)
    }

    /// What comes of `asking`, another way to ask for work on so many bytes, if it comes in the time
    /// that there is for it here.
    pub(crate) async fn in_time<T>(
        &self,
        work_bytes: u64,
        asking: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let pause = self.clock.sleep(self.limits.work(work_bytes));
        match select(pin!(asking), pause).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(_) => Err(Failure::Timeout("no answer in time")),
        }
    }

    /// The answer's headers, if they come before `waiting` ends; of the body so much was `sent`.
    async fn answer(
        &self,
        wanted: http::Request<Sending>,
        mut waiting: Waiting,
        sent: &AtomicU64,
    ) -> Result<http::Response<Incoming>, Failure> {
        let mut answer = pin!(self.client.request(wanted));
        loop {
            let step = waiting.step(self.clock.monotonic(), sent.load(Ordering::Relaxed));
            let pause = self.clock.sleep(step.map_err(Failure::Timeout)?);
            if let Either::Left((answer, _)) = select(answer.as_mut(), pause).await {
                return answer.map_err(|error| Failure::of_client(&error));
            }
        }
    }
}

#[cfg(test)]
impl Http {
    /// As [`Http::new`], through these proxies.
    fn through(proxies: Proxies, clock: Arc<dyn Clock>) -> Http {
        let patience = Duration::from_secs(30);
        let client = connect::client(patience, &Authorities::default(), proxies.clone());
        Http { client, proxies, clock, limits: Limits::new(patience) }
    }
}

#[cfg(test)]
mod tests;
