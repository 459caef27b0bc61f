//! Tokens: asked for once, used by all, and asked for again before they end.
//!
//! Who hands them out is [`Source`]'s business, one for each cloud; here is what all have in common.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, Shared};
use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::http::{Failure, Http, Request, encode, kind_of_status};
use crate::there::{Skew, There};
use crate::{ErrorKind, ProviderError, Secret, Trouble};

/// What a token must still be good for: longer than a call takes, shorter than the five minutes
/// before its end in which a machine's own service hands out the same token.
const SPARE_SECS: i64 = 225;

/// What it must still be good for at least, where nobody gives another; and how long whoever has given none is not
/// asked again meanwhile.
const LAST_SECS: i64 = 10;
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A token's answer fits into this.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A token that lasts until then.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: Secret,
    pub(crate) ends_secs: i64,
}

/// Why there is no token.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) kind: ErrorKind,
    pub(crate) said: ProviderError,
}

pub(crate) type Outcome = Result<Token, Refused>;

/// Who hands out tokens.
pub(crate) trait Source: Send + Sync + 'static {
    /// A new token.
    fn ask(self: Arc<Self>) -> BoxFuture<'static, Outcome>;
}

/// The token of now.
pub(crate) struct Tokens {
    source: Arc<dyn Source>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The latest request for a token, under way or answered. Whoever finds it under way waits for
    /// it as well, so that there is one at a time.
    latest: Option<Asked>,
    /// The last token that was granted.
    granted: Option<Token>,
    /// When nobody gave another.
    failed: Option<Duration>,
}

type Asked = Shared<BoxFuture<'static, Outcome>>;

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(source: Arc<dyn Source>, clock: Arc<dyn Clock>) -> Tokens {
        Tokens { source, clock, state: Mutex::default() }
    }

    /// A token that is good now. One that is about to end has to do where nobody gives another: whoever hands
    /// them out may be back before it has ended.
    pub(crate) async fn token(&self) -> Result<Secret, Refused> {
        let asked = match self.current() {
            Current::Asked(asked) => asked,
            Current::Old(token) => return Ok(token),
        };
        let refused = match asked.await {
            Ok(token) => {
                let text = token.text.clone();
                self.state.lock().grant(token);
                return Ok(text);
            }
            Err(refused) => refused,
        };
        let mut state = self.state.lock();
        let Some(token) = state.usable(self.clock.wall().secs) else { return Err(refused) };
        tracing::warn!(error = %refused.said, "no new token: the old one has to do");
        state.failed = Some(self.clock.monotonic());
        Ok(token)
    }

    /// When the token that is in use ends; one that has ended is replaced at the next call.
    pub(crate) fn ends_secs(&self) -> Option<i64> {
        let ends_secs = self.state.lock().granted.as_ref()?.ends_secs;
        (self.clock.wall().secs < ends_secs).then_some(ends_secs)
    }

    /// Forgets a token that the store did not take.
    pub(crate) fn drop(&self, token: &Secret) {
        let mut state = self.state.lock();
        if state.granted.as_ref().is_some_and(|granted| granted.text == *token) {
            state.granted = None;
        }
        let is_this =
            |found: &Asked| matches!(found.peek(), Some(Ok(found)) if found.text == *token);
        if state.latest.as_ref().is_some_and(is_this) {
            state.latest = None;
        }
    }

    fn current(&self) -> Current {
        let mut state = self.state.lock();
        let (now_secs, now) = (self.clock.wall().secs, self.clock.monotonic());
        let is_good = |found: &Asked| match found.peek() {
            None => true,
            Some(Ok(token)) => now_secs < token.ends_secs.saturating_sub(SPARE_SECS),
            Some(Err(_)) => false,
        };
        if let Some(found) = state.latest.as_ref().filter(|found| is_good(found)) {
            return Current::Asked(found.clone());
        }
        if state.failed.is_some_and(|failed| now < failed + AGAIN_AFTER)
            && let Some(token) = state.usable(now_secs)
        {
            return Current::Old(token);
        }
        let asked = Arc::clone(&self.source).ask().shared();
        state.latest = Some(asked.clone());
        Current::Asked(asked)
    }
}

/// Where a token is to be had.
enum Current {
    /// From who hands them out.
    Asked(Asked),
    /// It is known.
    Old(Secret),
}

impl State {
    fn grant(&mut self, token: Token) {
        (self.granted, self.failed) = (Some(token), None);
    }

    /// The token that was granted, if it has not ended.
    fn usable(&self, now_secs: i64) -> Option<Secret> {
        let token = self.granted.as_ref()?;
        (now_secs < token.ends_secs.saturating_sub(LAST_SECS)).then(|| token.text.clone())
    }
}

/// A file with a token that somebody else renews, so that it is read each time.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    read: fn(&Path) -> std::io::Result<String>,
}

impl TokenFile {
    /// The file at `path`, read by `read`.
    pub fn new(path: impl Into<PathBuf>, read: fn(&Path) -> std::io::Result<String>) -> TokenFile {
        TokenFile { path: path.into(), read }
    }

    /// What is in it now.
    pub(crate) async fn text(&self) -> Result<String, Refused> {
        let file = self.clone();
        let read = tokio::task::spawn_blocking(move || (file.read)(&file.path)).await;
        let failed = |words: String| {
            refused(ErrorKind::Denied, &format!("{}: {words}", self.path.display()))
        };
        let text = read.map_err(|error| failed(error.to_string()))?;
        text.map_err(|error| failed(error.to_string()))
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenFile").field(&self.path).finish()
    }
}

impl PartialEq for TokenFile {
    fn eq(&self, other: &TokenFile) -> bool {
        self.path == other.path
    }
}

impl Eq for TokenFile {}

/// Whom a token is asked of, and what a failure to reach them means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// A server on the network.
    Server,
    /// The service of the machine itself, which is asked last. Where it gives no token, there are no credentials.
    Machine,
}

/// The body of the answer to a request for a token, which tells what time it is `there`.
pub(crate) async fn asked(
    (http, there): (&Http, &There),
    request: Request,
    giver: Giver,
) -> Result<Bytes, Refused> {
    let failed = |failure: Failure| {
        let trouble = failure.trouble();
        let mut refused = refused(ErrorKind::Transient { retry_after: None }, &failure.words());
        refused.said.trouble = match giver {
            Giver::Machine => Trouble::NoCredentials,
            Giver::Server => trouble,
        };
        refused
    };
    let answer = http.send(request).await.map_err(failed)?;
    let (status, skew) = (answer.status(), there.learn(answer.header("date")));
    let body = answer.bytes(ANSWER_BYTES_MAX).await.map_err(failed)?;
    match (status, skew) {
        (200, _) => Ok(body),
        (_, Skew::Same) => {
            let mut refused = of_status(status, &body);
            if giver == Giver::Machine {
                refused.said.trouble = Trouble::NoCredentials;
            }
            Err(refused)
        }
        // Perhaps for what we said of the time.
        (_, Skew::Other) => {
            let kind = ErrorKind::Transient { retry_after: None };
            Err(Refused { kind, ..of_status(status, &body) })
        }
    }
}

/// A form as it is posted.
pub(crate) fn form(url: &str, fields: &[(&str, &str)]) -> Request {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encode(value.as_bytes())));
    Request::new(Method::POST, url.to_owned())
        .header("content-type", "application/x-www-form-urlencoded")
        .body(pairs.collect::<Vec<String>>().join("&"))
}

/// A token, in the words of OAuth 2.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<Seconds>,
    /// Of Azure's App Service, which says when instead of how soon.
    expires_on: Option<Seconds>,
}

/// Not all write numbers as numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(i64),
    Text(String),
}

impl Seconds {
    fn number(self) -> Option<i64> {
        match self {
            Seconds::Number(secs) => Some(secs),
            Seconds::Text(text) => text.parse().ok(),
        }
    }
}

/// The token that an answer grants at `now_secs`.
pub(crate) fn granted(body: &Bytes, now_secs: i64) -> Outcome {
    let read = || {
        let granted: Granted = serde_json::from_slice(body).ok()?;
        let ends_secs = match (granted.expires_in, granted.expires_on) {
            (Some(left), _) => now_secs.checked_add(left.number()?)?,
            (None, end) => end?.number()?,
        };
        token(granted.access_token, ends_secs)
    };
    read().ok_or_else(no_token)
}

/// A token, if it can be sent as one.
pub(crate) fn token(text: String, ends_secs: i64) -> Option<Token> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| Token { text: Secret::new(text), ends_secs })
}

/// Something answered, and it was no token.
pub(crate) fn no_token() -> Refused {
    refused(ErrorKind::Transient { retry_after: None }, "not a token")
}

/// Why a token was refused, in the words of who hands them out, which repeat no secret.
#[derive(Deserialize)]
struct Denied {
    error: Option<serde_json::Value>,
    error_description: Option<String>,
}

fn of_status(status: u16, body: &Bytes) -> Refused {
    let denied: Option<Denied> = serde_json::from_slice(body).ok();
    let words = denied.and_then(|denied| {
        // Google's newer services have an object there.
        let error = denied.error.and_then(|error| {
            let words = error.get("message").unwrap_or(&error);
            words.as_str().map(str::to_owned)
        });
        match (error, denied.error_description) {
            (Some(error), Some(words)) => Some(format!("{error}: {words}")),
            (Some(words), None) | (None, Some(words)) => Some(words),
            (None, None) => None,
        }
    });
    let words = words.unwrap_or_else(|| format!("no token: HTTP {status}"));
    // A login that has ended is 400 there, and a machine without an account 404.
    let kind = kind_of_status(status).0;
    let is_transient = matches!(kind, ErrorKind::Transient { .. });
    refused(if is_transient { kind } else { ErrorKind::Denied }, &words)
}

/// No token, because of `words`.
pub(crate) fn refused(kind: ErrorKind, words: &str) -> Refused {
    let is_transient = matches!(kind, ErrorKind::Transient { .. });
    let trouble = if is_transient { Trouble::Unreachable } else { Trouble::BadCredentials };
    let (code, message) = ("CredentialsFailed".to_owned(), words.to_owned());
    Refused { kind, said: ProviderError { code, message, request_id: None, trouble } }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use base::{Clock as _, ManualClock};
    use bytes::Bytes;
    use futures::future::{BoxFuture, FutureExt as _};
    use proptest::prelude::*;

    use super::{AGAIN_AFTER, LAST_SECS, Outcome, SPARE_SECS, Source, Tokens, granted, of_status};
    use super::{no_token, token};

    /// Grants tokens for an hour, the number of the call as their text, but for some calls.
    struct Giver {
        clock: Arc<ManualClock>,
        calls: AtomicI64,
        fails: fn(i64) -> bool,
    }

    impl Source for Giver {
        fn ask(self: Arc<Self>) -> BoxFuture<'static, Outcome> {
            let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let ends_secs = self.clock.wall().secs + HOUR_SECS;
            let granted = token(call.to_string(), ends_secs).filter(|_| !(self.fails)(call));
            futures::future::ready(granted.ok_or_else(no_token)).boxed()
        }
    }

    const HOUR_SECS: i64 = 3600;

    fn tokens(fails: fn(i64) -> bool) -> (Tokens, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        let giver = Giver { clock: Arc::clone(&clock), calls: AtomicI64::new(0), fails };
        (Tokens::new(Arc::new(giver), Arc::clone(&clock) as _), clock)
    }

    async fn text(tokens: &Tokens) -> String {
        tokens.token().await.map_or_else(|_| "none".to_owned(), |token| token.reveal().to_owned())
    }

    fn secs(secs: i64) -> Duration {
        Duration::from_secs(secs.unsigned_abs())
    }

    #[tokio::test]
    async fn a_token_is_asked_for_again_before_it_ends_and_used_until_then() {
        let (tokens, clock) = tokens(|call| call == 2 || call == 3);
        assert_eq!(text(&tokens).await, "1");
        clock.advance(secs(HOUR_SECS - SPARE_SECS - 1));
        assert_eq!(text(&tokens).await, "1");
        clock.advance(secs(1));
        for _ in 0..3 {
            assert_eq!(text(&tokens).await, "1", "nobody gives another, nor is asked all the time");
        }
        assert!(tokens.ends_secs().is_some());
        clock.advance(AGAIN_AFTER);
        assert_eq!(text(&tokens).await, "1", "nor now");
        clock.advance(AGAIN_AFTER);
        assert_eq!(text(&tokens).await, "4");
    }

    #[tokio::test]
    async fn a_token_that_has_ended_or_is_not_taken_is_not_used() {
        let (tokens, clock) = tokens(|call| call % 2 == 0);
        assert_eq!(text(&tokens).await, "1");
        clock.advance(secs(HOUR_SECS - LAST_SECS));
        assert_eq!(text(&tokens).await, "none");
        assert_eq!(text(&tokens).await, "3");
        let third = tokens.token().await.unwrap();
        tokens.drop(&third);
        assert_eq!([text(&tokens).await, text(&tokens).await], ["none", "5"]);
    }

    const GRANTED: &str = r#"{"access_token":"a.b","expires_in":"7","error":{"message":"x"}}"#;

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(
            at in 0..GRANTED.len(),
            bytes in prop::collection::vec(any::<u8>(), 0..4),
            now_secs: i64,
        ) {
            let mut answer = GRANTED.as_bytes().to_vec();
            let end = (at + bytes.len()).min(answer.len());
            answer.splice(at..end, bytes);
            let answer = Bytes::from(answer);
            if let Ok(token) = granted(&answer, now_secs) {
                prop_assert!(token.text.reveal().bytes().all(|byte| byte.is_ascii_graphic()));
            }
            of_status(400, &answer);
        }
    }

    #[test]
    fn only_what_can_be_sent_is_a_token() {
        for (body, want) in [
            (r#"{"access_token":"a.b","expires_in":7}"#, Some(17)),
            (r#"{"access_token":"a.b","expires_in":"7"}"#, Some(17)),
            // Of an app of Azure's: when, not how soon.
            (r#"{"access_token":"a.b","expires_on":"17"}"#, Some(17)),
            (r#"{"access_token":"a.b","expires_on":17}"#, Some(17)),
            (r#"{"access_token":"a b","expires_in":7}"#, None),
            (r#"{"access_token":"","expires_in":7}"#, None),
            (r#"{"access_token":"a.b","expires_in":9223372036854775807}"#, None),
            (r#"{"access_token":"a.b"}"#, None),
            ("<html>", None),
        ] {
            let token = granted(&Bytes::from(body), 10).ok();
            assert_eq!(token.map(|token| token.ends_secs), want, "{body}");
        }
    }
}
