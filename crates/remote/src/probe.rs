//! Finds out whether a store keeps to the conditions that it takes, by writes that must be refused: where
//! they are, nothing is left behind.

use bytes::Bytes;

use crate::capabilities::{Capability, Has, Learned};
use crate::{Condition, Key, Metadata, PartNumber, PutOptions, Remote, Result, UploadId, Version};

/// The version of no object.
const NO_VERSION: &str = "\"00000000000000000000000000000000\"";

/// Asks what is not known yet, of an upload of `key` that is under way and may be spoilt, and of `key`
/// itself, at which no object of anybody's may be.
pub async fn probe(remote: &dyn Remote, key: &Key, upload: &UploadId, learned: &Learned) {
    if learned.has(Capability::PutIfMatch).is_none() {
        let put = put(remote, key, Condition::Is(Version::new(NO_VERSION))).await;
        if learned.learn_of_unmet(Capability::PutIfMatch, &put) == Some(Has::No) {
            // It is there now, if the condition was ignored.
            if put.is_ok() {
                let again = self::put(remote, key, Condition::Absent).await;
                learned.learn_of_unmet(Capability::PutIfAbsent, &again);
            }
            remove(remote, key).await;
        }
    }
    if learned.has(Capability::CompleteIfMatch).is_none() {
        let completed = complete(remote, key, upload).await;
        if learned.learn_of_unmet(Capability::CompleteIfMatch, &completed) == Some(Has::No) {
            remove(remote, key).await;
        }
    }
}

async fn put(remote: &dyn Remote, key: &Key, condition: Condition) -> Result<Version> {
    let options = PutOptions { condition, metadata: Metadata::new() };
    remote.put(key, Bytes::new(), &options).await
}

async fn complete(remote: &dyn Remote, key: &Key, upload: &UploadId) -> Result<Version> {
    let number = PartNumber(1);
    let tag = remote.upload_part(key, upload, number, Bytes::new()).await?;
    let condition = Condition::Is(Version::new(NO_VERSION));
    remote.upload_complete(key, upload, &[(number, tag)], &condition).await
}

async fn remove(remote: &dyn Remote, key: &Key) {
    if let Err(error) = remote.delete(key).await {
        tracing::warn!(%error, "an object that showed what the store cannot do is left");
    }
}
