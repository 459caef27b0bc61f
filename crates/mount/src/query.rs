//! Questions about a path, asked by reading extended attributes of the path.
//!
//! ```text
//!   quayfs.status   ──▶ one BriefStatus
//!   quayfs.info     ──▶ one Info
//!   quayfs.sync     ──▶ one Wait with a ticket, such as 7: a wait for uploads at and below the path begins
//!   quayfs.sync.7   ──▶ one Wait, after a second at most: progress of that wait
//! ```
//!
//! The kernel checks that the caller may read the path before it sends the request, in every mount namespace. So an
//! ordinary user of a shared mount, or a program in a container, needs no access to the control socket. Listings name
//! none of these attributes. Callers poll a wait because the kernel keeps a caller from being killed while the daemon
//! has its request.

use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::missing::Missing;
use crate::status::UploadState;

/// Longest answer, which is the longest value that the kernel accepts.
pub(crate) const ANSWER_BYTES_MAX: u32 = 64 << 10;

/// A question about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Status,
    Info,
    /// Begins a wait for uploads.
    Sync,
    /// Polls the wait with this ticket.
    SyncOf(u64),
}

/// State of a mount for users that did not mount it: no names of files, credentials or local paths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BriefStatus {
    /// URL of the mounted bucket.
    pub source: String,
    /// Health in one word.
    pub health: Health,
    /// Seconds since the mount began.
    pub mounted_secs: u64,
    /// Files with bytes that are not uploaded.
    pub pending_uploads: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Changes of names that are not in the bucket.
    pub pending_changes: u64,
    /// Bytes in the cache.
    pub cached_bytes: u64,
}

/// Progress of a wait for uploads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) ticket: u64,
    pub(crate) pending_uploads: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) done: bool,
    /// Changes that could not be uploaded.
    #[serde(flatten)]
    pub(crate) missing: Missing,
}

/// State of one file or directory of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Info {
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    pub kind: String,
    /// URL of the object, or of the prefix of a directory.
    pub url: String,
    /// Key of the object in its bucket; `None` for a directory.
    pub key: Option<String>,
    /// Size in bytes, as `stat` shows it.
    pub bytes: u64,
    /// Version of the object that the mount reads, such as an `ETag`; `None` if the file was never uploaded.
    pub version: Option<String>,
    /// Number of that version in a bucket with versioning.
    pub version_id: Option<String>,
    /// Storage class or access tier.
    pub storage_class: Option<String>,
    /// Encryption at rest.
    pub encryption: Option<String>,
    /// Reason for which version number, class and encryption are not known.
    pub store_error: Option<String>,
    /// Bytes in the cache.
    pub cached_bytes: u64,
    /// Whether a pin covers the path.
    pub pinned: bool,
    /// Progress of the upload; `None` if the bucket has all bytes.
    pub upload: Option<UploadState>,
    /// Reason for which the last upload failed.
    pub upload_error: Option<String>,
    /// Files at or below the path with bytes that are not uploaded.
    pub pending_files: u64,
    /// Open handles.
    pub handles: u64,
}

impl Query {
    /// Returns the question that the attribute `name` stands for.
    pub(crate) fn parse(name: &[u8]) -> Option<Query> {
        match name.strip_prefix(b"quayfs.")? {
            b"status" => Some(Query::Status),
            b"info" => Some(Query::Info),
            b"sync" => Some(Query::Sync),
            rest => {
                let number = std::str::from_utf8(rest.strip_prefix(b"sync.")?).ok()?;
                let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| is_plain).map(Query::SyncOf)
            }
        }
    }

    /// Returns the name of the attribute.
    pub(crate) fn name(self) -> String {
        match self {
            Query::Status => "quayfs.status".to_owned(),
            Query::Info => "quayfs.info".to_owned(),
            Query::Sync => "quayfs.sync".to_owned(),
            Query::SyncOf(ticket) => format!("quayfs.sync.{ticket}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn attribute_names_stand_for_questions() {
        for query in [Query::Status, Query::Info, Query::Sync, Query::SyncOf(7)] {
            assert_eq!(Query::parse(query.name().as_bytes()), Some(query));
        }
        for other in ["user.quayfs.info", "quayfs.", "quayfs.sync.", "quayfs.sync.+7", "quayfs.x"] {
            assert_eq!(Query::parse(other.as_bytes()), None, "{other}");
        }
    }
}
