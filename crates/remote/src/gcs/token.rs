//! Tokens: asked for once, used by all, and asked for again before they end.

use std::fmt;
use std::sync::Arc;

use aws_smithy_types::base64;
use base::Clock;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, Shared};
use http::Method;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::RSA_PKCS1_SHA256;
use serde::Deserialize;

use crate::http::{Failure, Http, Request, encode, kind_of_status};
use crate::{ErrorKind, ProviderError, Secret, Trouble};

use super::connect::{GcsCredentials, ServiceAccount, User};

/// What a token must still be good for: longer than a call takes, shorter than the five minutes
/// before its end in which a machine's own service hands out the same token.
const SPARE_SECS: i64 = 225;

/// A token's answer fits into this.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What a token allows: objects, and no settings of buckets.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// How long an assertion of a service account is good for; Google's own limit.
const ASSERTION_SECS: i64 = 3600;

/// A token that lasts until then.
#[derive(Clone, Debug)]
struct Token {
    text: Secret,
    ends_secs: i64,
}

/// Why there is no token.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) kind: ErrorKind,
    pub(super) said: ProviderError,
}

type Outcome = Result<Token, Refused>;

/// Where tokens come from.
pub(super) struct Tokens {
    asker: Asker,
    /// The latest request for a token, under way or answered. Whoever finds it under way waits for
    /// it as well, so that there is one at a time.
    latest: Mutex<Option<Shared<BoxFuture<'static, Outcome>>>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// Who asks for tokens, and as whom.
#[derive(Clone)]
struct Asker {
    http: Http,
    clock: Arc<dyn Clock>,
    source: Source,
}

#[derive(Clone)]
enum Source {
    None,
    Fixed(Secret),
    Account(ServiceAccount, Arc<KeyPair>),
    User(User),
    Machine(String),
}

impl Tokens {
    /// An error if the credentials cannot be used.
    pub(super) fn new(
        credentials: &GcsCredentials,
        http: Http,
        clock: Arc<dyn Clock>,
    ) -> Result<Tokens, &'static str> {
        let source = match credentials {
            GcsCredentials::Anonymous => Source::None,
            GcsCredentials::Token(token) => Source::Fixed(token.clone()),
            GcsCredentials::User(user) => Source::User(user.clone()),
            GcsCredentials::Machine(url) => Source::Machine(url.trim_end_matches('/').to_owned()),
            GcsCredentials::ServiceAccount(account) => {
                let key = key_pair(&account.key).ok_or("the service account's key is not one")?;
                Source::Account(account.clone(), Arc::new(key))
            }
        };
        Ok(Tokens { asker: Asker { http, clock, source }, latest: Mutex::new(None) })
    }

    /// A token that is good now; none where none is needed.
    pub(super) async fn token(&self) -> Result<Option<Secret>, Refused> {
        match &self.asker.source {
            Source::None => Ok(None),
            Source::Fixed(token) => Ok(Some(token.clone())),
            Source::Account(..) | Source::User(_) | Source::Machine(_) => {
                let latest = self.current();
                latest.await.map(|token| Some(token.text))
            }
        }
    }

    /// When the token that is in use ends.
    pub(super) fn ends_secs(&self) -> Option<i64> {
        let latest = self.latest.lock();
        let token = latest.as_ref()?.peek()?.as_ref().ok()?;
        Some(token.ends_secs)
    }

    /// Forgets a token that the store did not take. Says whether there may be a better one.
    pub(super) fn drop(&self, token: &Secret) -> bool {
        let mut latest = self.latest.lock();
        let is_this = |found: &Shared<BoxFuture<'static, Outcome>>| matches!(found.peek(), Some(Ok(found)) if found.text == *token);
        if latest.as_ref().is_some_and(is_this) {
            *latest = None;
        }
        match self.asker.source {
            Source::None | Source::Fixed(_) => false,
            Source::Account(..) | Source::User(_) | Source::Machine(_) => true,
        }
    }

    fn current(&self) -> Shared<BoxFuture<'static, Outcome>> {
        let mut latest = self.latest.lock();
        let now_secs = self.asker.clock.wall().secs;
        let is_good = |found: &Shared<BoxFuture<'static, Outcome>>| match found.peek() {
            None => true,
            Some(Ok(token)) => now_secs < token.ends_secs - SPARE_SECS,
            Some(Err(_)) => false,
        };
        if let Some(found) = latest.as_ref().filter(|found| is_good(found)) {
            return found.clone();
        }
        let asker = self.asker.clone();
        let asked = async move { asker.ask().await }.boxed().shared();
        *latest = Some(asked.clone());
        asked
    }
}

impl Asker {
    async fn ask(self) -> Outcome {
        let now_secs = self.clock.wall().secs;
        let request = match &self.source {
            Source::None | Source::Fixed(_) => {
                return Err(refused(ErrorKind::Denied, "no token is needed"));
            }
            Source::Machine(url) => {
                let path = "/computeMetadata/v1/instance/service-accounts/default/token";
                Request::new(Method::GET, format!("{url}{path}"))
                    .header("metadata-flavor", "Google")
            }
            Source::Account(account, key) => {
                let assertion = assertion(account, key, now_secs)?;
                form(
                    &account.token_url,
                    &[
                        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                        ("assertion", &assertion),
                    ],
                )
            }
            Source::User(user) => form(
                &user.token_url,
                &[
                    ("grant_type", "refresh_token"),
                    ("client_id", &user.client_id),
                    ("client_secret", user.client_secret.reveal()),
                    ("refresh_token", user.refresh_token.reveal()),
                ],
            ),
        };
        let transient = ErrorKind::Transient { retry_after: None };
        // Where there is no metadata service, nobody has said who we are.
        let is_machine = matches!(self.source, Source::Machine(_));
        let failed = |failure: Failure| {
            let mut refused = refused(transient, &failure.words());
            if is_machine {
                refused.said.trouble = Trouble::NoCredentials;
            }
            refused
        };
        let answer = self.http.send(request).await.map_err(failed)?;
        let status = answer.status();
        let body = answer.bytes(ANSWER_BYTES_MAX).await.map_err(failed)?;
        if status == 200 {
            return parse(&body, now_secs).ok_or_else(|| refused(transient, "not a token"));
        }
        Err(of_status(status, &body))
    }
}

/// A form as it is posted.
fn form(url: &str, fields: &[(&str, &str)]) -> Request {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encode(value.as_bytes())));
    Request::new(Method::POST, url.to_owned())
        .header("content-type", "application/x-www-form-urlencoded")
        .body(pairs.collect::<Vec<String>>().join("&"))
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: i64,
}

fn parse(body: &Bytes, now_secs: i64) -> Option<Token> {
    let granted: Granted = serde_json::from_slice(body).ok()?;
    let ends_secs = now_secs.checked_add(granted.expires_in)?;
    let plain = granted.access_token.bytes().all(|byte| byte.is_ascii_graphic());
    (plain && !granted.access_token.is_empty())
        .then(|| Token { text: Secret::new(granted.access_token), ends_secs })
}

/// Why a token was refused, in the words of who hands them out, which repeat no secret.
#[derive(Deserialize)]
struct Denied {
    error: Option<String>,
    error_description: Option<String>,
}

fn of_status(status: u16, body: &Bytes) -> Refused {
    let denied: Option<Denied> = serde_json::from_slice(body).ok();
    let words = denied.and_then(|denied| match (denied.error, denied.error_description) {
        (Some(error), Some(words)) => Some(format!("{error}: {words}")),
        (Some(words), None) | (None, Some(words)) => Some(words),
        (None, None) => None,
    });
    let words = words.unwrap_or_else(|| format!("no token: HTTP {status}"));
    // A login that has ended is 400 there, and a machine without an account 404.
    let kind = kind_of_status(status).0;
    let is_transient = matches!(kind, ErrorKind::Transient { .. });
    refused(if is_transient { kind } else { ErrorKind::Denied }, &words)
}

fn refused(kind: ErrorKind, words: &str) -> Refused {
    let is_transient = matches!(kind, ErrorKind::Transient { .. });
    let trouble = if is_transient { Trouble::Unreachable } else { Trouble::BadCredentials };
    let (code, message) = ("CredentialsFailed".to_owned(), words.to_owned());
    Refused { kind, said: ProviderError { code, message, request_id: None, trouble } }
}

/// The key of a service account, from PEM.
fn key_pair(key: &Secret) -> Option<KeyPair> {
    let lines = key.reveal().lines().map(str::trim);
    let inside: String = lines.filter(|line| !line.starts_with("-----")).collect();
    KeyPair::from_pkcs8(&base64::decode(inside).ok()?).ok()
}

/// What a service account says of itself, signed (RFC 7523).
fn assertion(account: &ServiceAccount, key: &KeyPair, now_secs: i64) -> Result<String, Refused> {
    let mut header = serde_json::json!({"alg": "RS256", "typ": "JWT"});
    if let Some(id) = &account.key_id {
        header["kid"] = id.as_str().into();
    }
    let claims = serde_json::json!({
        "iss": account.email,
        "scope": SCOPE,
        "aud": account.token_url,
        "iat": now_secs,
        "exp": now_secs + ASSERTION_SECS,
    });
    let text = format!("{}.{}", base64_url(header.to_string()), base64_url(claims.to_string()));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| refused(ErrorKind::Denied, "the service account's key does not sign"))?;
    Ok(format!("{text}.{}", base64_url(signature)))
}

fn base64_url(bytes: impl AsRef<[u8]>) -> String {
    base64::encode(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}
