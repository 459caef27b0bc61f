//! Details of one object, and signed URLs of it.

use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use base::Timestamp;
use http::Method;

use super::sign::Scope;
use super::terms::Purpose;
use super::{BucketKind, Encryption, Payer, S3, direct, fault};
use crate::cloud_store::{CloudStore, Details, SHARED_MAX, SharedUrl, cannot_sign};
use crate::{Key, Result};

/// Class of an object for which the store names none.
const CLASS_USUAL: &str = "STANDARD";

#[async_trait]
impl CloudStore for S3 {
    async fn details(&self, key: &Key) -> Result<Details> {
        let op = "head";
        let answer = self.send(self.call(op, Method::HEAD, key, Purpose::Read)).await?;
        let text = |name: &str| answer.header(name).map(str::to_owned);
        let customer = "x-amz-server-side-encryption-customer-algorithm";
        let encryption = match (text("x-amz-server-side-encryption"), text(customer)) {
            (Some(kind), _) => Some(match text("x-amz-server-side-encryption-aws-kms-key-id") {
                Some(key_id) => format!("{kind} {key_id}"),
                None => kind,
            }),
            (None, Some(algorithm)) => Some(format!("{algorithm} with a customer key")),
            (None, None) => None,
        };
        Ok(Details {
            meta: direct::meta(op, key, &answer)?,
            storage_class: text("x-amz-storage-class").or_else(|| Some(CLASS_USUAL.to_owned())),
            encryption,
            version_id: text("x-amz-version-id"),
        })
    }

    async fn share(&self, key: &Key, valid: Duration) -> Result<SharedUrl> {
        if self.kind == BucketKind::Directory {
            return Err(cannot_sign(
                key,
                "a URL of a directory bucket would expire within five minutes, with its session",
            ));
        }
        if matches!(self.terms.encryption, Encryption::Customer(_)) {
            let words =
                "an object with a customer key (--sse-key-file) cannot be read by a URL alone";
            return Err(cannot_sign(key, words));
        }
        let way = self.ways.now();
        if !matches!(way.direct.place().scope, Scope::Region(_)) {
            let words = "a URL of a multi-region access point cannot be signed";
            return Err(cannot_sign(key, words));
        }
        let Some(keys) = self.ways.account() else {
            return Err(cannot_sign(key, "the mount has no credentials to sign with"));
        };
        let credentials =
            keys.now().await.map_err(|error| fault::of_credentials("share", key, &error))?;
        let terms = match self.terms.payer {
            Payer::Owner => Vec::new(),
            Payer::Requester => vec![("x-amz-request-payer", "requester".to_owned())],
        };
        let valid = valid.min(SHARED_MAX);
        let (url, signed) = way.direct.signed_url(key, &terms, (&credentials, valid))?;
        let expires =
            Timestamp { secs: signed.secs.saturating_add_unsigned(valid.as_secs()), nanos: 0 };
        let end = credentials.expiry().and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let end = end.and_then(|end| i64::try_from(end.as_secs()).ok());
        let end = end.filter(|&end| end < expires.secs);
        let credentials_end = end.map(|secs| Timestamp { secs, nanos: 0 });
        Ok(SharedUrl { url, expires, credentials_end })
    }
}
