//! One signed request to the container.

use std::fmt;
use std::sync::Arc;

use base::Clock;
use bytes::Bytes;
use http::Method;
use ring::hmac;

use crate::cloud_store::cannot_sign;
use crate::http::{Answer, Http, Request, Unless, decode, encode_path, http_date, query};
use crate::there::{Skew, There};
use crate::token::Tokens;
use crate::{Error, ErrorKind, Key, Result, Secret};

use super::connect::{AzureCredentials, AzureOptions, key_bytes};
use super::signed_url::{self, Blob, DELEGATION_SECS_MAX, DelegatedKey, SigningKey};
use super::{fault, sign, text};

/// The version of the service that we speak with: the first whose listings begin anywhere.
const SERVICE_VERSION: &str = "2026-02-06";

/// Longest answer with a user delegation key.
const DELEGATED_KEY_BYTES_MAX: usize = 64 << 10;

/// A request to be: what it is for, and what goes with it.
#[derive(Clone)]
pub(super) struct Call<'a> {
    pub(super) op: &'static str,
    pub(super) key: &'a Key,
    pub(super) method: Method,
    pub(super) door: Door,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
    /// How much the store copies or puts together for it.
    pub(super) work_bytes: u64,
}

/// Which of the account's two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// That for blobs.
    Blobs,
    /// That for paths, which accounts with a hierarchical namespace have.
    Paths,
}

impl<'a> Call<'a> {
    pub(super) fn new(op: &'static str, method: Method, key: &'a Key) -> Call<'a> {
        Call {
            op,
            key,
            method,
            door: Door::Blobs,
            query: Vec::new(),
            headers: Vec::new(),
            body: Bytes::new(),
            work_bytes: 0,
        }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Call<'a> {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Call<'a> {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn headers(mut self, more: impl IntoIterator<Item = (String, String)>) -> Call<'a> {
        self.headers.extend(more);
        self
    }

    pub(super) fn body(mut self, body: impl Into<Bytes>) -> Call<'a> {
        self.body = body.into();
        self
    }

    /// For the endpoint `door`.
    pub(super) fn through(mut self, door: Door) -> Call<'a> {
        self.door = door;
        self
    }

    /// The store copies or puts together so much for it.
    pub(super) fn works_on(mut self, bytes: u64) -> Call<'a> {
        self.work_bytes = bytes;
        self
    }
}

/// Where the container is, and who asks.
pub(super) struct Container {
    http: Http,
    there: There,
    account: String,
    /// Scheme and host of the endpoint for blobs.
    origin: String,
    /// And of that for paths: whoever has a host of his own for the account has one for both.
    pub(super) origin_of_paths: String,
    /// What of a URL's path is not the blob's name, without a slash at its end.
    path: String,
    signer: Signer,
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Container { origin, path, .. } = self;
        f.debug_struct("Container").field("url", &format!("{origin}{path}")).finish_non_exhaustive()
    }
}

enum Signer {
    No,
    Key(hmac::Key),
    Sas(Secret),
    Token(Tokens),
}

impl Container {
    pub(super) fn new(options: &AzureOptions, clock: Arc<dyn Clock>) -> Result<Container> {
        let refuse = |words: &str| {
            let key = Key::from(options.container.as_str());
            Error::new(ErrorKind::Unsupported, "connect", &key).because(words)
        };
        if options.container.is_empty() || options.container.contains('/') {
            return Err(refuse("not a container's name"));
        }
        let account = Container::of_account(options, clock)?;
        let name = encode_path(options.container.as_bytes());
        let path = format!("{}/{name}", account.path.trim_end_matches('/'));
        Ok(Container { path, ..account })
    }

    /// For what is of no container.
    pub(super) fn of_account(options: &AzureOptions, clock: Arc<dyn Clock>) -> Result<Container> {
        let refuse = |words: &str| {
            let key = Key::from(options.container.as_str());
            Error::new(ErrorKind::Unsupported, "connect", &key).because(words)
        };
        let service = options.service_url();
        let (scheme, rest) = service.split_once("://").ok_or_else(|| refuse("not a URL"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = format!("/{}", path.trim_matches('/'));
        let http = Http::new(options.patience, &options.authorities, Arc::clone(&clock));
        let signer = match &options.credentials {
            AzureCredentials::Entra(entra) => {
                Signer::Token(entra.tokens(http.clone(), Arc::clone(&clock)))
            }
            AzureCredentials::Anonymous => Signer::No,
            AzureCredentials::Sas(token) => Signer::Sas(token.clone()),
            AzureCredentials::SharedKey(key) => {
                let bytes =
                    key_bytes(key).ok_or_else(|| refuse("the account's key is not base64"))?;
                Signer::Key(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
            }
        };
        let origin = format!("{scheme}://{host}");
        Ok(Container {
            http,
            there: There::new(clock),
            account: options.account.clone(),
            origin_of_paths: origin.replacen(".blob.", ".dfs.", 1),
            origin,
            path,
            signer,
        })
    }

    /// Sends a call for the blob of its key; an answer that is no success is an error, but
    /// for what has not changed.
    pub(super) async fn blob(&self, call: Call<'_>) -> Result<Answer> {
        let path = self.blob_path(call.op, call.key)?;
        self.send(call, path).await
    }

    /// Sends a call for the container itself.
    pub(super) async fn container(&self, call: Call<'_>) -> Result<Answer> {
        self.send(call, self.path.clone()).await
    }

    /// The URL of a blob for the service's own use, which must be allowed to read it.
    pub(super) fn source_url(&self, op: &'static str, key: &Key) -> Result<String> {
        let mut url = format!("{}{}", self.origin, self.blob_path(op, key)?);
        if let Signer::Sas(token) = &self.signer {
            url.push('?');
            url.push_str(token.reveal());
        }
        Ok(url)
    }

    /// Returns a URL by which any client can read the blob `key` until `ends_secs`.
    pub(super) async fn signed_url(
        &self,
        key: &Key,
        now_secs: i64,
        ends_secs: i64,
    ) -> Result<String> {
        let op = "share";
        let path = self.blob_path(op, key)?;
        let (_, container) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let container = decode(container).unwrap_or_default();
        let blob = Blob {
            account: &self.account,
            container: &String::from_utf8_lossy(&container),
            name: text::name(key).map_err(|words| cannot_sign(key, words))?,
            is_plain: self.origin.starts_with("http:"),
        };
        let pairs = match &self.signer {
            Signer::No => {
                let words = "the mount has no credentials to sign with";
                return Err(cannot_sign(key, words));
            }
            Signer::Sas(_) => {
                let words = "a shared access signature cannot sign a URL: use the key of the account or Entra ID";
                return Err(cannot_sign(key, words));
            }
            Signer::Key(account_key) => {
                signed_url::query(&SigningKey::Account(account_key), blob, ends_secs)
            }
            Signer::Token(_) => {
                if DELEGATION_SECS_MAX < ends_secs - now_secs {
                    let words = "with Entra ID a URL is valid for 7 days at most";
                    return Err(cannot_sign(key, words));
                }
                let granted = self.delegated_key(key, (now_secs, ends_secs)).await?;
                signed_url::query(&SigningKey::Delegated(&granted), blob, ends_secs)
            }
        };
        Ok(format!("{}{path}{}", self.origin, query(&pairs)))
    }

    /// Asks Entra ID for a key that is valid for this time.
    async fn delegated_key(
        &self,
        key: &Key,
        (now_secs, ends_secs): (i64, i64),
    ) -> Result<DelegatedKey> {
        let op = "share";
        let call = Call::new(op, Method::POST, key)
            .query("restype", "service")
            .query("comp", "userdelegationkey")
            .body(signed_url::key_request(now_secs, ends_secs));
        // The request is to the service, above its containers.
        let (service, _) = self.path.rsplit_once('/').unwrap_or(("", ""));
        let answer = self.send(call, format!("{service}/")).await?;
        let document = answer.bytes(DELEGATED_KEY_BYTES_MAX).await;
        let document = document.map_err(|failure| failure.into_error(op, key))?;
        let garbled = || Error::new(ErrorKind::Corrupt, op, key).because("not a delegation key");
        DelegatedKey::parse(&document).ok_or_else(garbled)
    }

    /// The name of a path as that of what is to be renamed, which the service must be allowed to do.
    pub(super) fn rename_source(&self, op: &'static str, key: &Key) -> Result<String> {
        let path = self.blob_path(op, key)?;
        let (_, container) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let mut source = format!("/{container}{}", &path[self.path.len()..]);
        if let Signer::Sas(token) = &self.signer {
            source.push('?');
            source.push_str(token.reveal());
        }
        Ok(source)
    }

    /// Scheme and host of an endpoint.
    pub(super) fn origin_of(&self, door: Door) -> &str {
        match door {
            Door::Blobs => &self.origin,
            Door::Paths => &self.origin_of_paths,
        }
    }

    /// Whether both endpoints are at one host.
    pub(super) fn has_one_door(&self) -> bool {
        self.origin == self.origin_of_paths
    }

    fn blob_path(&self, op: &'static str, key: &Key) -> Result<String> {
        let refuse =
            |words: &'static str| Error::new(ErrorKind::Unsupported, op, key).because(words);
        let name = text::name(key).map_err(refuse)?;
        Ok(format!("{}/{}", self.path, encode_path(name.as_bytes())))
    }

    /// When the token that is in use ends.
    pub(super) fn token_ends_secs(&self) -> Option<i64> {
        match &self.signer {
            Signer::Token(tokens) => tokens.ends_secs(),
            Signer::No | Signer::Key(_) | Signer::Sas(_) => None,
        }
    }

    async fn send(&self, call: Call<'_>, path: String) -> Result<Answer> {
        let (op, key) = (call.op, call.key);
        let unless = Unless::of(&call.method, &call.headers);
        let answer = match &self.signer {
            Signer::Token(tokens) => {
                let token = self.token(tokens, op, key).await?;
                let answer = self.send_signed(call.clone(), &path, Some(&token)).await?;
                if answer.status() == 401 {
                    // It ended before its time, or was called back: perhaps there is a new one.
                    tokens.drop(&token);
                    let token = self.token(tokens, op, key).await?;
                    self.send_signed(call, &path, Some(&token)).await?
                } else {
                    answer
                }
            }
            Signer::No | Signer::Key(_) | Signer::Sas(_) => {
                self.send_signed(call, &path, None).await?
            }
        };
        let skew = self.there.learn(answer.header("date"));
        if answer.is_success() || answer.is_unchanged(unless) {
            return Ok(answer);
        }
        let error = fault::of_answer(op, key, answer, self.there.wall().secs).await;
        let is_key = matches!(self.signer, Signer::Key(_));
        Err(match skew {
            // Perhaps for this alone.
            Skew::Other if is_key && error.kind == ErrorKind::Denied => {
                Error { kind: ErrorKind::Transient { retry_after: None }, ..error }
            }
            Skew::Other | Skew::Same => error,
        })
    }

    async fn token(&self, tokens: &Tokens, op: &'static str, key: &Key) -> Result<Secret> {
        let token = tokens.token().await;
        token.map_err(|refused| Error::new(refused.kind, op, key).because(refused.said))
    }

    async fn send_signed(
        &self,
        call: Call<'_>,
        path: &str,
        token: Option<&Secret>,
    ) -> Result<Answer> {
        let Call { op, key, method, door, query: pairs, mut headers, body, work_bytes } = call;
        let now = self.there.wall();
        headers.push(("x-ms-version".to_owned(), SERVICE_VERSION.to_owned()));
        headers.push(("x-ms-date".to_owned(), http_date(now)));
        if let Some(token) = token {
            headers.push(("authorization".to_owned(), format!("Bearer {}", token.reveal())));
        }
        let mut url = format!("{}{path}{}", self.origin_of(door), query(&pairs));
        match &self.signer {
            Signer::No | Signer::Token(_) => {}
            Signer::Sas(token) => {
                url.push(if pairs.is_empty() { '?' } else { '&' });
                url.push_str(token.reveal());
            }
            Signer::Key(signing_key) => {
                let signed = sign::Signed {
                    account: &self.account,
                    method: &method,
                    path,
                    query: &pairs,
                    headers: &headers,
                    length: body.len(),
                };
                let authorization = sign::authorization(signing_key, &signed);
                headers.push(("authorization".to_owned(), authorization));
            }
        }
        let request = Request { headers, work_bytes, ..Request::new(method, url).body(body) };
        self.http.send(request).await.map_err(|failure| failure.into_error(op, key))
    }
}
