//! Whether an object is the copy of another that we asked for.
//!
//! Who takes a stranger's object for his copy removes the original, so a guess must not do: what is
//! taken for a copy has the same upload's id, the same version, or the same bytes.

use futures::TryStreamExt as _;
use remote::{Body, Error, ErrorKind, Key, Meta, Result, UPLOAD_ID};

use super::shared::Shared;

/// How much of both is compared at a time: many pairs may be, side by side.
const STEP_BYTES: u64 = 1 << 20;

/// What the metadata of two objects say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    /// One is a copy of the other.
    Copy,
    /// Only the bytes can tell.
    Perhaps,
    Other,
}

/// Decides. A store gives some copies another version than what they were copied from.
fn likeness(source: &Meta, copy: &Meta) -> Likeness {
    if source.size != copy.size {
        return Likeness::Other;
    }
    if source.version == copy.version {
        return Likeness::Copy;
    }
    match (source.metadata.get(UPLOAD_ID), copy.metadata.get(UPLOAD_ID)) {
        (Some(source), Some(copy)) if source == copy => Likeness::Copy,
        (None, None) if source.metadata == copy.metadata && source.modified <= copy.modified => {
            Likeness::Perhaps
        }
        (Some(_) | None, Some(_) | None) => Likeness::Other,
    }
}

/// Whether a request that failed like this may have been carried out all the same, or an earlier
/// try of it.
pub(super) fn may_have_arrived(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Transient { .. } | ErrorKind::Unavailable | ErrorKind::Changed => true,
        ErrorKind::NotFound
        | ErrorKind::Denied
        | ErrorKind::Archived
        | ErrorKind::Corrupt
        | ErrorKind::Unsupported
        | ErrorKind::Full => false,
    }
}

impl Shared {
    /// Whether `copy` is a copy of `source`; each is a key and what a HEAD said of it.
    pub(super) async fn is_copy(
        &self,
        (from, source): (&Key, &Meta),
        (to, copy): (&Key, &Meta),
    ) -> Result<bool> {
        match likeness(source, copy) {
            Likeness::Copy => Ok(true),
            Likeness::Other => Ok(false),
            Likeness::Perhaps => self.same_bytes((from, source), (to, copy)).await,
        }
    }

    async fn same_bytes(
        &self,
        (from, source): (&Key, &Meta),
        (to, copy): (&Key, &Meta),
    ) -> Result<bool> {
        let whole = base::ByteRange::new(0, source.size);
        for range in whole.into_iter().flat_map(|whole| whole.pieces(STEP_BYTES)) {
            let parts = futures::try_join!(
                async { joined(self.remote.get(from, range, Some(&source.version)).await?).await },
                async { joined(self.remote.get(to, range, Some(&copy.version)).await?).await },
            );
            match parts {
                Ok((one, other)) if one == other => {}
                Ok(_) => return Ok(false),
                // One of them is not what it was a moment ago.
                Err(Error { kind: ErrorKind::Changed | ErrorKind::NotFound, .. }) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

async fn joined(body: Body) -> Result<Vec<u8>> {
    body.try_fold(Vec::new(), async |mut whole, piece| {
        whole.extend_from_slice(&piece);
        Ok(whole)
    })
    .await
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use remote::{Meta, Metadata, UPLOAD_ID, Version};

    use super::{Likeness, likeness};

    fn object(version: &str, size: u64, secs: i64, id: Option<&str>) -> Meta {
        let id = id.map(|id| (UPLOAD_ID.to_owned(), id.to_owned()));
        let metadata: Metadata = id.into_iter().collect();
        let modified = Timestamp { secs, nanos: 0 };
        Meta { size, version: Version::new(version), modified, metadata }
    }

    #[test]
    fn only_what_cannot_be_another_object_is_a_copy_without_a_look_at_its_bytes() {
        let source = object("s", 5, 10, None);
        let ours = object("s", 5, 10, Some("id"));
        for (source, copy, want) in [
            (&source, object("s", 5, 20, None), Likeness::Copy),
            (&source, object("t", 5, 20, None), Likeness::Perhaps),
            (&source, object("t", 5, 5, None), Likeness::Other),
            (&source, object("t", 6, 20, None), Likeness::Other),
            (&source, object("t", 5, 20, Some("id")), Likeness::Other),
            (&ours, object("t", 5, 20, Some("id")), Likeness::Copy),
            (&ours, object("t", 5, 20, Some("other")), Likeness::Other),
        ] {
            assert_eq!(likeness(source, &copy), want, "{source:?} {copy:?}");
        }
    }
}
