//! The calls that move bytes, straight over our own HTTP client: thousands of them are made in a second,
//! and the library's way costs as much processor time as the store's own work on a small file. What is
//! rare goes through the library.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use base::Timestamp;
use bytes::Bytes;
use http::Method;

use super::fault;
use super::keys::{Keys, system_time_of};
use super::named::{self, name};
use super::place::Place;
use super::sign::{self, Payload, Signer, Unsigned};
use super::terms::Header;
use crate::http::{Answer, Http, Request, Unless, encode_path, parse_http_date, query};
use crate::there::{Skew, There};
use crate::{Error, ErrorKind, Key, Meta, Metadata, Result, Version};

/// What the name of a header begins with that is part of an object's metadata.
const METADATA: &str = "x-amz-meta-";

/// Whom a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Object,
    Bucket,
}

/// A request to be: what it is for, and what goes with it.
#[derive(Clone)]
pub(super) struct Call<'a> {
    op: &'static str,
    target: Target,
    key: &'a Key,
    method: Method,
    /// What of it is asked for, or done with it, if that has a name: it stands for the query.
    resource: Option<&'static str>,
    query: Vec<(&'static str, String)>,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl<'a> Call<'a> {
    pub(super) fn new(op: &'static str, method: Method, key: &'a Key) -> Call<'a> {
        let (query, headers, body) = (Vec::new(), Vec::new(), Bytes::new());
        Call { op, target: Target::Object, key, method, resource: None, query, headers, body }
    }

    /// A question to the bucket itself about keys that begin with `prefix`.
    pub(super) fn of_bucket(
        op: &'static str,
        prefix: &'a Key,
        query: Vec<(&'static str, String)>,
    ) -> Call<'a> {
        Call { target: Target::Bucket, query, ..Call::new(op, Method::GET, prefix) }
    }

    pub(super) fn resource(mut self, name: &'static str) -> Call<'a> {
        self.resource = Some(name);
        self
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

    /// With what the bucket's terms say of it.
    pub(super) fn terms(mut self, headers: Vec<Header>) -> Call<'a> {
        self.headers.extend(headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
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
    pub(super) there: Arc<There>,
    /// As whom; `None` is no one.
    pub(super) keys: Option<(Signer, Arc<Keys>)>,
    pub(super) payload: Payload,
}

/// The way to a bucket.
#[derive(Clone)]
pub(super) struct Direct {
    asker: Asker,
    place: Place,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Direct {
    pub(super) fn new(asker: Asker, place: Place) -> Direct {
        Direct { asker, place }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Sends a call for the object of its key; an answer that is no success is an error, but for
    /// what has not changed.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Answer> {
        let Call { op, target, key, method, resource, query: pairs, mut headers, body } = call;
        let Asker { http, there, keys, payload } = &self.asker;
        let path = match target {
            Target::Object => encode_path(name(op, key)?.as_bytes()),
            Target::Bucket => String::new(),
        };
        let query = resource.map_or_else(|| query(&pairs), |name| format!("?{name}"));
        let url = format!("{}{path}{query}", self.place.url);
        let unless = Unless::of(&method, &headers);
        let mut used = None;
        if let Some((signer, keys)) = keys {
            let credentials =
                keys.now().await.map_err(|error| fault::of_credentials(op, key, &error))?;
            let hash = sign::hash(&body, *payload).await;
            let (headers_now, time) = (&headers[..], system_time_of(there.wall()));
            let unsigned =
                Unsigned { method: &method, url: &url, headers: headers_now, hash: &hash };
            let signed =
                sign::signature(&unsigned, (*signer, &credentials), (&self.place.scope, time));
            headers.extend(signed.map_err(|error| {
                Error::new(ErrorKind::Unsupported, op, key).because(error.to_string())
            })?);
            used = Some((keys, credentials));
        }
        let request = Request { headers, ..Request::new(method, url).body(body) };
        let sent = http.send(request).await;
        let answer = sent.map_err(|failure| failure.into_error(op, key))?;
        let skew = there.learn(answer.header("date"));
        if answer.is_success() || answer.is_unchanged(unless) {
            return Ok(answer);
        }
        let error = fault::of_answer(op, key, answer).await;
        match (skew, used) {
            // Perhaps for this alone.
            (Skew::Other, _) if error.kind == ErrorKind::Denied => Err(fault::in_passing(error)),
            (Skew::Same, Some((keys, credentials))) => {
                Err(keys.put_right(Some(&credentials), error).await)
            }
            (Skew::Other | Skew::Same, _) => Err(error),
        }
    }
}

impl Direct {
    /// Returns a URL of the object `key` that is signed for the time `valid`, and the time of the signature.
    pub(super) fn signed_url(
        &self,
        key: &Key,
        pairs: &[(&'static str, String)],
        (credentials, valid): (&Credentials, Duration),
    ) -> Result<(String, Timestamp)> {
        let path = encode_path(name("share", key)?.as_bytes());
        let url = format!("{}{path}{}", self.place.url, query(pairs));
        let now = self.asker.there.wall();
        let moment = system_time_of(now);
        let signed = sign::url_signature(&url, credentials, (&self.place.scope, moment, valid));
        let signed = signed.map_err(|error| {
            Error::new(ErrorKind::Unsupported, "share", key).because(error.to_string())
        })?;
        let between = if pairs.is_empty() { '?' } else { '&' };
        Ok((format!("{url}{between}{signed}"), now))
    }
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
