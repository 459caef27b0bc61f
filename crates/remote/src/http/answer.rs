//! An answer whose headers are there: its body as a stream, or whole if it is small.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use bytes::{Bytes, BytesMut};
use futures::future::{Either, select};
use futures::stream::{BoxStream, StreamExt as _};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::fault::Failure;

const NOT_MODIFIED: u16 = 304;

/// Whether a request is for what it names only unless that is the same as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unless {
    /// It asks in any case.
    Never,
    /// Not if it is the same.
    Same,
}

impl Unless {
    /// What a request asks that has these headers.
    pub(crate) fn of(method: &Method, headers: &[(String, String)]) -> Unless {
        let named = headers.iter().any(|(name, _)| name == "if-none-match");
        if method == Method::GET && named { Unless::Same } else { Unless::Never }
    }
}

/// The beginning of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    parts: http::response::Parts,
    body: Incoming,
    clock: Arc<dyn Clock>,
    /// How long the body may stand still.
    stall: Duration,
}

impl Answer {
    pub(super) fn new(
        answer: http::Response<Incoming>,
        clock: Arc<dyn Clock>,
        stall: Duration,
    ) -> Answer {
        let (parts, body) = answer.into_parts();
        Answer { parts, body, clock, stall }
    }

    pub(crate) fn status(&self) -> u16 {
        self.parts.status.as_u16()
    }

    pub(crate) fn is_success(&self) -> bool {
        self.parts.status.is_success()
    }

    /// Whether it says, to who asked so, that nothing has changed. To anybody else it says nothing.
    pub(crate) fn is_unchanged(&self, asked: Unless) -> bool {
        asked == Unless::Same && self.status() == NOT_MODIFIED
    }

    /// A header's value, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// Every header that is text, which need not be ASCII; names are in lower case.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.headers.iter().filter_map(|(name, value)| {
            let value = str::from_utf8(value.as_bytes()).ok()?;
            Some((name.as_str(), value))
        })
    }

    /// How long the body says it is.
    pub(crate) fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// The body, which may not stand still.
    pub(crate) fn stream(self) -> BoxStream<'static, Result<Bytes, Failure>> {
        let stall = self.stall;
        let state = Some((self.body, self.clock));
        futures::stream::unfold(state, move |state| async move {
            let (mut body, clock) = state?;
            match next(&mut body, clock.as_ref(), stall).await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some((body, clock)))),
                Ok(None) => None,
                Err(failure) => Some((Err(failure), None)),
            }
        })
        .boxed()
    }

    /// All of the body; a failure if it is longer than `bytes_max`.
    pub(crate) async fn bytes(self, bytes_max: usize) -> Result<Bytes, Failure> {
        if self.length().is_some_and(|length| (bytes_max as u64) < length) {
            return Err(Failure::TooLarge);
        }
        let mut whole = BytesMut::new();
        let mut stream = self.stream();
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            if bytes_max - whole.len() < piece.len() {
                return Err(Failure::TooLarge);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

/// The next piece of a body.
async fn next(
    body: &mut Incoming,
    clock: &dyn Clock,
    stall: Duration,
) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = match select(body.frame(), clock.sleep(stall)).await {
            Either::Left((frame, _)) => frame,
            Either::Right(_) => return Err(Failure::Timeout("the answer stands still")),
        };
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(Failure::Broken(error.to_string())),
            // Trailers are of no interest.
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}
