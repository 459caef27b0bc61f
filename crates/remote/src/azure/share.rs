//! Details of one blob, and signed URLs of it.

use std::time::Duration;

use async_trait::async_trait;
use base::Timestamp;
use http::Method;

use super::call::Call;
use super::{Azure, meta_of};
use crate::cloud_store::{CloudStore, Details, SharedUrl};
use crate::{Key, Result};

#[async_trait]
impl CloudStore for Azure {
    async fn details(&self, key: &Key) -> Result<Details> {
        let answer = self.blob(Call::new("head", Method::HEAD, key)).await?;
        let text = |name: &str| answer.header(name).map(str::to_owned);
        let is_encrypted = answer.header("x-ms-server-encrypted") == Some("true");
        let encryption = match (text("x-ms-encryption-scope"), is_encrypted) {
            (Some(scope), _) => Some(format!("scope {scope}")),
            (None, true) => Some("Azure-managed or as the account says".to_owned()),
            (None, false) => None,
        };
        Ok(Details {
            meta: meta_of("head", key, &answer)?,
            storage_class: text("x-ms-access-tier"),
            encryption,
            version_id: text("x-ms-version-id"),
        })
    }

    async fn share(&self, key: &Key, valid: Duration) -> Result<SharedUrl> {
        let now = self.shared.clock.wall();
        let ends_secs = now.secs.saturating_add_unsigned(valid.as_secs());
        let url = self.shared.container.signed_url(key, now.secs, ends_secs).await?;
        let expires = Timestamp { secs: ends_secs, nanos: 0 };
        Ok(SharedUrl { url, expires, credentials_end: None })
    }
}
