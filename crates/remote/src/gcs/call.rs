//! One request to the bucket, with a token.

use std::fmt;
use std::sync::Arc;

use base::Clock;
use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;

use crate::http::{Answer, Http, Request, encode, query};
use crate::{Error, ErrorKind, KEY_BYTES_MAX, Key, Result, Secret};

use super::connect::GcsOptions;
use super::fault;
use super::token::TokensOf;

/// What is told of one object fits into this: its metadata is up to 8 KiB.
const OBJECT_BYTES_MAX: usize = 256 << 10;

/// A request to be: what it is for, and what goes with it.
#[derive(Clone)]
pub(super) struct Call<'a> {
    pub(super) op: &'static str,
    pub(super) key: &'a Key,
    pub(super) method: Method,
    /// What of the URL's path comes behind the bucket.
    pub(super) path: String,
    pub(super) service: Service,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<Bytes>,
    /// How much the store copies or puts together for it.
    pub(super) work_bytes: u64,
}

/// Which of the two doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// For everything but uploads.
    Plain,
    /// For uploads.
    Upload,
}

impl<'a> Call<'a> {
    /// A call for the bucket itself.
    pub(super) fn new(op: &'static str, method: Method, key: &'a Key) -> Call<'a> {
        Call {
            op,
            key,
            method,
            path: String::new(),
            service: Service::Plain,
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
            work_bytes: 0,
        }
    }

    /// A call for the object of its key.
    pub(super) fn object(op: &'static str, method: Method, key: &'a Key) -> Result<Call<'a>> {
        let path = object_path(op, key)?;
        Ok(Call { path, ..Call::new(op, method, key) })
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Call<'a> {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn queries(
        mut self,
        more: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Call<'a> {
        self.query.extend(more);
        self
    }

    pub(super) fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Call<'a> {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A body in JSON.
    pub(super) fn json(mut self, text: String) -> Call<'a> {
        self.body.push(text.into());
        self.header("content-type", "application/json")
    }

    /// The store copies or puts together so much for it.
    pub(super) fn works_on(mut self, bytes: u64) -> Call<'a> {
        self.work_bytes = bytes;
        self
    }
}

/// The part of a URL that names an object.
pub(super) fn object_path(op: &'static str, key: &Key) -> Result<String> {
    Ok(format!("/o/{}", encode(name(op, key)?.as_bytes())))
}

/// The key as text, which is all that the store takes.
pub(super) fn name<'a>(op: &'static str, key: &'a Key) -> Result<&'a str> {
    let refuse = |words: &str| Error::new(ErrorKind::Unsupported, op, key).because(words);
    match std::str::from_utf8(key.as_bytes()) {
        Ok("") => Err(refuse("an object needs a name")),
        Ok("." | "..") => Err(refuse("Google takes no objects of this name")),
        Ok(name) if name.contains(['\r', '\n', '\0']) => {
            Err(refuse("Google takes no line breaks in keys"))
        }
        Ok(name) if KEY_BYTES_MAX < name.len() => {
            Err(refuse("Google takes no keys over 1,024 bytes"))
        }
        Ok(name) => Ok(name),
        Err(_) => Err(refuse("Google takes only keys that are UTF-8")),
    }
}

/// Where the bucket is, and who asks.
pub(super) struct Bucket {
    http: Http,
    clock: Arc<dyn Clock>,
    tokens: TokensOf,
    service: String,
    /// As it stands in a URL; empty for what is of no bucket.
    name: String,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Bucket {
    /// When the token that is in use ends.
    pub(super) fn token_ends_secs(&self) -> Option<i64> {
        self.tokens.ends_secs()
    }

    pub(super) fn new(options: &GcsOptions, clock: Arc<dyn Clock>) -> Result<Bucket> {
        let refuse = |words: &str| {
            let key = Key::from(options.bucket.as_str());
            Error::new(ErrorKind::Unsupported, "connect", &key).because(words)
        };
        if options.bucket.is_empty() || options.bucket.contains('/') {
            return Err(refuse("not a bucket name"));
        }
        let account = Bucket::of_account(options, clock)?;
        Ok(Bucket { name: encode(options.bucket.as_bytes()), ..account })
    }

    /// For what is of no bucket.
    pub(super) fn of_account(options: &GcsOptions, clock: Arc<dyn Clock>) -> Result<Bucket> {
        let refuse = |words: &str| {
            let key = Key::from(options.bucket.as_str());
            Error::new(ErrorKind::Unsupported, "connect", &key).because(words)
        };
        let http = Http::new(options.patience, &options.authorities, Arc::clone(&clock));
        let tokens = TokensOf::new(&options.credentials, http.clone(), Arc::clone(&clock));
        Ok(Bucket {
            http,
            clock,
            tokens: tokens.map_err(refuse)?,
            service: options.service_url().to_owned(),
            name: String::new(),
        })
    }

    /// The service's URL, and the bucket as it stands in one.
    pub(super) fn address(&self) -> (&str, &str) {
        (&self.service, &self.name)
    }

    /// Makes the bucket, for tests.
    #[cfg(feature = "testing")]
    pub(super) async fn create(&self) -> Result<()> {
        let key = Key::from("");
        let name = serde_json::json!({"name": self.name}).to_string();
        let request =
            Request::new(Method::POST, format!("{}/storage/v1/b?project=q", self.service))
                .header("content-type", "application/json")
                .body(name);
        let answer = self.http.send(request).await;
        let answer = answer.map_err(|failure| failure.into_error("create", &key))?;
        if answer.is_success() {
            return Ok(());
        }
        Err(fault::of_answer("create", &key, answer, self.clock.wall().secs).await)
    }

    /// The part of a URL that names an object of this bucket as the goal of a copy.
    pub(super) fn goal(&self, op: &'static str, key: &Key) -> Result<String> {
        Ok(format!("/b/{}{}", self.name, object_path(op, key)?))
    }

    /// Sends a call; an answer that is no success is an error.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Answer> {
        let (op, key) = (call.op, call.key);
        let token = self.token(op, key).await?;
        let answer = self.send_with(call.clone(), token.as_ref()).await?;
        let refused = token.filter(|_| answer.status() == 401);
        let answer = match refused {
            // It ended before its time, or was called back: perhaps there is a new one.
            Some(token) if self.tokens.drop(&token) => {
                let token = self.token(op, key).await?;
                self.send_with(call, token.as_ref()).await?
            }
            Some(_) | None => answer,
        };
        if answer.is_success() {
            return Ok(answer);
        }
        Err(fault::of_answer(op, key, answer, self.clock.wall().secs).await)
    }

    /// As [`Bucket::send`], with what the answer says.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T> {
        let (op, key) = (call.op, call.key);
        let answer = self.send(call).await?;
        let body = answer.bytes(OBJECT_BYTES_MAX).await;
        let body = body.map_err(|failure| failure.into_error(op, key))?;
        // Something in between spoke under a good status; who asks again may reach the store. What was
        // written all the same is known by its id.
        let garbled = |_| {
            let kind = ErrorKind::Transient { retry_after: None };
            Error::new(kind, op, key).because("not an answer of Google's")
        };
        serde_json::from_slice(&body).map_err(garbled)
    }

    async fn token(&self, op: &'static str, key: &Key) -> Result<Option<Secret>> {
        let token = self.tokens.token().await;
        token.map_err(|refused| Error::new(refused.kind, op, key).because(refused.said))
    }

    async fn send_with(&self, call: Call<'_>, token: Option<&Secret>) -> Result<Answer> {
        let Call { op, key, method, path, service, query: pairs, mut headers, body, work_bytes } =
            call;
        let door = match service {
            Service::Plain => "/storage/v1/b",
            Service::Upload => "/upload/storage/v1/b",
        };
        let between = if self.name.is_empty() { "" } else { "/" };
        let pairs = query(&pairs);
        let url = format!("{}{door}{between}{}{path}{pairs}", self.service, self.name);
        if let Some(token) = token {
            headers.push(("authorization".to_owned(), format!("Bearer {}", token.reveal())));
        }
        let request = Request { method, url, headers, body, work_bytes };
        self.http.send(request).await.map_err(|failure| failure.into_error(op, key))
    }
}
