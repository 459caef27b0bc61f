//! Details of one object, and signed URLs of it.

use std::time::Duration;

use async_trait::async_trait;
use base::Timestamp;
use http::Method;
use serde::Deserialize;

use super::Gcs;
use super::call::{Call, name};
use super::json::{FIELDS, Object};
use super::objects::meta;
use super::url_signer::{Unsigned, UrlSigner};
use crate::cloud_store::{CloudStore, Details, SHARED_MAX, SharedUrl, cannot_sign};
use crate::{Key, Result};

/// An object with the fields that only people ask for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct More {
    #[serde(flatten)]
    object: Object,
    storage_class: Option<String>,
    kms_key_name: Option<String>,
    customer_encryption: Option<serde_json::Value>,
}

#[async_trait]
impl CloudStore for Gcs {
    async fn details(&self, key: &Key) -> Result<Details> {
        let op = "head";
        let fields = format!("{FIELDS},storageClass,kmsKeyName,customerEncryption");
        let call = Call::object(op, Method::GET, key)?.query("fields", fields);
        let More { object, storage_class, kms_key_name, customer_encryption } =
            self.shared.bucket.ask(call).await?;
        let meta = meta(op, key, object)?;
        let version_id = Some(meta.version.as_str().to_owned());
        let encryption = match (kms_key_name, customer_encryption) {
            (Some(name), _) => name,
            (None, Some(_)) => "with a key of the client".to_owned(),
            (None, None) => "Google-managed".to_owned(),
        };
        Ok(Details { meta, storage_class, encryption: Some(encryption), version_id })
    }

    async fn share(&self, key: &Key, valid: Duration) -> Result<SharedUrl> {
        let account = match &self.shared.url_signer {
            UrlSigner::Account(account) => account,
            UrlSigner::None(reason) => return Err(cannot_sign(key, reason)),
        };
        let name = name("share", key)?;
        let (service, bucket) = self.shared.bucket.address();
        let valid = valid.min(SHARED_MAX);
        let now = self.shared.clock.wall();
        let url = Unsigned { service, bucket, name, valid }.signed(account, now.secs);
        let url = url.ok_or_else(|| cannot_sign(key, "the service account's key does not sign"))?;
        let expires =
            Timestamp { secs: now.secs.saturating_add_unsigned(valid.as_secs()), nanos: 0 };
        Ok(SharedUrl { url, expires, credentials_end: None })
    }
}
