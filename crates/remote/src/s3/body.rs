//! Takes of an answer with a whole object what is wanted.

use crate::http::{Answer, collect};
use crate::{Error, ErrorKind, Fresh, Key, Result, Version};

use super::{direct, text};

/// All of a small object, unless it is the version `unless` or larger than `bytes_max`.
pub(super) async fn whole(
    op: &'static str,
    key: &Key,
    (unless, bytes_max): (Option<&Version>, u64),
    answer: Answer,
) -> Result<Fresh> {
    let meta = direct::meta(op, key, &answer)?;
    // Not every store that speaks S3 heeds If-None-Match.
    if unless == Some(&meta.version) {
        return Ok(Fresh::Same);
    }
    if bytes_max < meta.size {
        let error = Error::new(ErrorKind::Unsupported, op, key);
        return Err(error.because("the object is larger than wanted"));
    }
    let checksum = text::checksum(|name| answer.header(name));
    let bytes = collect(key, meta.size, answer, checksum).await?;
    Ok(Fresh::New(meta, bytes))
}
