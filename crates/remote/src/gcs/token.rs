//! Who hands out tokens for Google Cloud Storage, and what they want to see.

use std::sync::Arc;

use aws_smithy_types::DateTime;
use aws_smithy_types::base64;
use aws_smithy_types::date_time::Format;
use base::Clock;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use http::Method;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::RSA_PKCS1_SHA256;
use serde::Deserialize;

use crate::http::{Http, Request};
use crate::there::There;
use crate::token::{
    Giver, Outcome, Refused, Source, Tokens, asked, form, granted, no_token, refused, token,
};
use crate::{ErrorKind, Secret};

use super::connect::{GcsCredentials, ServiceAccount};
use super::federation::{Federation, Subject, SubjectFormat};

/// What a token allows: objects, and no settings of buckets.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// What a token must allow with which a token for somebody else is asked for.
const SCOPE_OF_OTHERS: &str = "https://www.googleapis.com/auth/cloud-platform";

/// How long an assertion of a service account is good for; Google's own limit.
const ASSERTION_SECS: i64 = 3600;

/// Where tokens come from.
#[derive(Debug)]
pub(super) enum TokensOf {
    /// None are needed.
    Nobody,
    /// Somebody else looks after this one.
    Outside(Secret),
    /// They are asked for.
    Giver(Tokens),
}

impl TokensOf {
    /// An error if the credentials cannot be used.
    pub(super) fn new(
        credentials: &GcsCredentials,
        http: Http,
        clock: Arc<dyn Clock>,
    ) -> Result<TokensOf, &'static str> {
        Ok(match credentials {
            GcsCredentials::Anonymous => TokensOf::Nobody,
            GcsCredentials::Token(token) => TokensOf::Outside(token.clone()),
            GcsCredentials::ServiceAccount(_)
            | GcsCredentials::User(_)
            | GcsCredentials::Machine(_)
            | GcsCredentials::Federated(_)
            | GcsCredentials::Impersonated { .. } => {
                let who = Who::new(credentials)?;
                let there = There::new(Arc::clone(&clock));
                let asker = Asker { http, clock: Arc::clone(&clock), there, who };
                TokensOf::Giver(Tokens::new(Arc::new(asker), clock))
            }
        })
    }

    /// A token that is good now; none where none is needed.
    pub(super) async fn token(&self) -> Result<Option<Secret>, Refused> {
        match self {
            TokensOf::Nobody => Ok(None),
            TokensOf::Outside(token) => Ok(Some(token.clone())),
            TokensOf::Giver(tokens) => tokens.token().await.map(Some),
        }
    }

    /// When the token that is in use ends.
    pub(super) fn ends_secs(&self) -> Option<i64> {
        match self {
            TokensOf::Nobody | TokensOf::Outside(_) => None,
            TokensOf::Giver(tokens) => tokens.ends_secs(),
        }
    }

    /// Forgets a token that the store did not take. Says whether there may be a better one.
    pub(super) fn drop(&self, token: &Secret) -> bool {
        match self {
            TokensOf::Nobody | TokensOf::Outside(_) => false,
            TokensOf::Giver(tokens) => {
                tokens.drop(token);
                true
            }
        }
    }
}

/// Who asks for tokens, and as whom.
struct Asker {
    http: Http,
    clock: Arc<dyn Clock>,
    /// The time at who hands out tokens, who believe nobody who says another.
    there: There,
    who: Who,
}

enum Who {
    Account(ServiceAccount, KeyPair),
    /// Where tokens are handed out, and what is posted there.
    User(String, Vec<(&'static str, Secret)>),
    Machine(String),
    Federated(Federation),
    /// Somebody, as whom a token for somebody else is asked for at this URL.
    Impersonated(Box<Who>, String),
}

impl Who {
    fn new(credentials: &GcsCredentials) -> Result<Who, &'static str> {
        Ok(match credentials {
            GcsCredentials::Anonymous | GcsCredentials::Token(_) => {
                return Err("these credentials cannot act for a service account");
            }
            GcsCredentials::User(user) => {
                let fields = vec![
                    ("client_id", Secret::new(&user.client_id[..])),
                    ("client_secret", user.client_secret.clone()),
                    ("refresh_token", user.refresh_token.clone()),
                ];
                Who::User(user.token_url.clone(), fields)
            }
            GcsCredentials::Machine(url) => Who::Machine(url.trim_end_matches('/').to_owned()),
            GcsCredentials::ServiceAccount(account) => {
                let key = key_pair(&account.key).ok_or("the service account's key is not one")?;
                Who::Account(account.clone(), key)
            }
            GcsCredentials::Federated(federation) => Who::Federated(federation.clone()),
            GcsCredentials::Impersonated { by, url } => {
                Who::Impersonated(Box::new(Who::new(by)?), url.clone())
            }
        })
    }
}

impl Source for Asker {
    fn ask(self: Arc<Self>) -> BoxFuture<'static, Outcome> {
        async move { self.token_for(&self.who, SCOPE).await }.boxed()
    }
}

impl Asker {
    async fn asked(&self, request: Request, giver: Giver) -> Result<Bytes, Refused> {
        asked((&self.http, &self.there), request, giver).await
    }

    fn token_for<'a>(&'a self, who: &'a Who, scope: &'a str) -> BoxFuture<'a, Outcome> {
        // One may act for another, who acts for a third.
        async move {
            let now_secs = self.clock.wall().secs;
            let (request, giver) = match who {
                Who::Machine(url) => (of_machine(url), Giver::Machine),
                Who::Account(account, key) => {
                    let there_secs = self.there.wall().secs;
                    (of_account(account, key, (scope, there_secs))?, Giver::Server)
                }
                Who::User(url, fields) => {
                    let fields = fields.iter().map(|(name, value)| (*name, value.reveal()));
                    let fields: Vec<(&str, &str)> =
                        [("grant_type", "refresh_token")].into_iter().chain(fields).collect();
                    (form(url, &fields), Giver::Server)
                }
                Who::Federated(federation) => {
                    (self.of_federation(federation, scope).await?, Giver::Server)
                }
                Who::Impersonated(by, url) => {
                    let by = self.token_for(by, SCOPE_OF_OTHERS).await?;
                    let body = self.asked(of_other(url, &by.text, scope), Giver::Server);
                    let body = body.await?;
                    let ends = |secs| self.there.here_secs(secs);
                    return granted_for_other(&body, ends).ok_or_else(no_token);
                }
            };
            granted(&self.asked(request, giver).await?, now_secs)
        }
        .boxed()
    }

    /// Exchanges what another identity provider says of us for a token (RFC 8693).
    async fn of_federation(
        &self,
        federation: &Federation,
        scope: &str,
    ) -> Result<Request, Refused> {
        let said = match &federation.subject {
            Subject::File(file) => file.text().await?,
            Subject::Url { url, headers } => {
                let mut request = Request::new(Method::GET, url.clone());
                for (name, value) in headers {
                    request = request.header(name, value.reveal());
                }
                let body = self.asked(request, Giver::Server).await?;
                String::from_utf8(body.to_vec()).map_err(|_| no_token())?
            }
        };
        let subject = subject(&said, &federation.format).ok_or_else(|| {
            refused(ErrorKind::Denied, "the credential source has no token as its format says")
        })?;
        Ok(form(
            &federation.token_url,
            &[
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("audience", &federation.audience),
                ("scope", scope),
                ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
                ("subject_token_type", &federation.subject_type),
                ("subject_token", &subject),
            ],
        ))
    }
}

fn of_machine(url: &str) -> Request {
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    Request::new(Method::GET, format!("{url}{path}")).header("metadata-flavor", "Google")
}

fn of_account(
    account: &ServiceAccount,
    key: &KeyPair,
    (scope, now_secs): (&str, i64),
) -> Result<Request, Refused> {
    let assertion = assertion(account, key, (scope, now_secs))?;
    Ok(form(
        &account.token_url,
        &[("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &assertion)],
    ))
}

fn of_other(url: &str, by: &Secret, scope: &str) -> Request {
    let wanted = serde_json::json!({"scope": [scope], "lifetime": "3600s"});
    Request::new(Method::POST, url.to_owned())
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", by.reveal()))
        .body(wanted.to_string())
}

/// A token for somebody else, in words of Google's own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrantedForOther {
    access_token: String,
    expire_time: String,
}

fn granted_for_other(body: &Bytes, here_secs: impl Fn(i64) -> i64) -> Option<crate::token::Token> {
    let granted: GrantedForOther = serde_json::from_slice(body).ok()?;
    let ends = DateTime::from_str(&granted.expire_time, Format::DateTimeWithOffset).ok()?;
    token(granted.access_token, here_secs(ends.secs()))
}

/// The token in what a credential source says.
fn subject(said: &str, format: &SubjectFormat) -> Option<String> {
    let text = match format {
        SubjectFormat::Text => said.trim().to_owned(),
        SubjectFormat::Json { field } => {
            let said: serde_json::Value = serde_json::from_str(said).ok()?;
            said.get(field)?.as_str()?.to_owned()
        }
    };
    (!text.is_empty()).then_some(text)
}

/// The key of a service account, from PEM.
pub(super) fn key_pair(key: &Secret) -> Option<KeyPair> {
    let lines = key.reveal().lines().map(str::trim);
    let inside: String = lines.filter(|line| !line.starts_with("-----")).collect();
    KeyPair::from_pkcs8(&base64::decode(inside).ok()?).ok()
}

/// What a service account says of itself, signed (RFC 7523).
fn assertion(
    account: &ServiceAccount,
    key: &KeyPair,
    (scope, now_secs): (&str, i64),
) -> Result<String, Refused> {
    let mut header = serde_json::json!({"alg": "RS256", "typ": "JWT"});
    if let Some(id) = &account.key_id {
        header["kid"] = id.as_str().into();
    }
    let claims = serde_json::json!({
        "iss": account.email,
        "scope": scope,
        "aud": account.token_url,
        "iat": now_secs,
        "exp": now_secs + ASSERTION_SECS,
    });
    let text = format!("{}.{}", base64_url(header.to_string()), base64_url(claims.to_string()));
    let signature = sign(key, text.as_bytes())
        .ok_or_else(|| refused(ErrorKind::Denied, "the service account's key does not sign"))?;
    Ok(format!("{text}.{}", base64_url(signature)))
}

/// The signature of `text`; `None` if the key does not sign.
pub(super) fn sign(key: &KeyPair, text: &[u8]) -> Option<Vec<u8>> {
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).ok()?;
    Some(signature)
}

fn base64_url(bytes: impl AsRef<[u8]>) -> String {
    base64::encode(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}
