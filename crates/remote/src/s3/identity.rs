//! Whose keys S3 is asked with.

use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use base::Timestamp;

use super::S3;
use crate::identity::{Identified, Identity, shortened};

#[async_trait]
impl Identified for S3 {
    async fn identity(&self) -> Option<Identity> {
        let Some(keys) = self.ways.account() else { return Some(Identity::anonymous()) };
        let credentials = keys.now().await.ok()?;
        let expires = credentials.expiry().and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        Some(Identity {
            kind: match credentials.session_token() {
                Some(_) => "temporary access key",
                None => "access key",
            },
            name: shortened(credentials.access_key_id()),
            expires: expires.map(|end| Timestamp {
                secs: i64::try_from(end.as_secs()).unwrap_or(i64::MAX),
                nanos: 0,
            }),
        })
    }
}
