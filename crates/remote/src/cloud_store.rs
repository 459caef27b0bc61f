//! Requests of a cloud store that a file system does not need: details of an object, and signed URLs.
//!
//! [`Remote`](crate::Remote) has the operations of the file system; commands such as `quayfs info` use these.

use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use base::Timestamp;

use crate::{Error, ErrorKind, Identified, Key, Meta, Result};

/// Longest validity of a signed URL of S3 and Google.
pub const SHARED_MAX: Duration = Duration::from_hours(7 * 24);

/// Store of a cloud.
#[async_trait]
pub trait CloudStore: Identified {
    /// Asks for the details of the object `key`, by one request.
    async fn details(&self, key: &Key) -> Result<Details>;

    /// Returns a URL by which any client can read `key` for the time `valid`.
    ///
    /// Sends no request about the object, so the object may be missing. Fails with `Unsupported` and the reason if the
    /// credentials cannot sign.
    async fn share(&self, key: &Key, valid: Duration) -> Result<SharedUrl>;
}

/// Details of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Size, version, time and metadata.
    pub meta: Meta,
    /// Storage class or access tier, in the words of the provider.
    pub storage_class: Option<String>,
    /// Encryption at rest, in the words of the provider.
    pub encryption: Option<String>,
    /// Number of the version in a bucket with versioning.
    pub version_id: Option<String>,
}

/// Signed URL of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedUrl {
    /// The URL, a secret: any client that has it can read the object.
    pub url: String,
    /// Time at which the signature expires.
    pub expires: Timestamp,
    /// Time at which the credentials expire, if that is earlier.
    pub credentials_end: Option<Timestamp>,
}

/// Returns the error for credentials that cannot sign.
pub(crate) fn cannot_sign(key: &Key, words: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "share", key).because(words.to_owned())
}

/// Formats a time as `2026-01-02T03:04:05Z`.
pub(crate) fn iso_seconds(secs: i64) -> String {
    // Only years before 1 and after 9999 cannot be formatted.
    DateTime::from_secs(secs).fmt(Format::DateTime).unwrap_or_default()
}

/// Formats a time as `20260102T030405Z`.
pub(crate) fn compact_seconds(secs: i64) -> String {
    iso_seconds(secs).replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::{compact_seconds, iso_seconds};

    #[test]
    fn moments_have_both_spellings() {
        assert_eq!(iso_seconds(1_767_323_045), "2026-01-02T03:04:05Z");
        assert_eq!(compact_seconds(1_767_323_045), "20260102T030405Z");
    }
}
