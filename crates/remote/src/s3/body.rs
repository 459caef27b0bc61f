//! Hands out a body only as far as it is what was asked for.

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use base::ByteRange;
use bytes::Bytes;
use futures::StreamExt as _;

use super::text::timestamp;
use super::{fault, text};
use crate::{Body, Error, ErrorKind, Fresh, Key, Meta, ProviderError, Result, Trouble, Version};

const OP: &str = "get";

/// The body of an answer that says of itself that it is `range` of `version`.
pub(super) fn checked(
    key: &Key,
    range: ByteRange,
    version: Option<&Version>,
    answer: GetObjectOutput,
) -> Result<Body> {
    let fail = |kind, words: &str| Err(Error::new(kind, OP, key).because(words));
    let length = answer.content_length.and_then(|length| u64::try_from(length).ok());
    match answer.content_range.as_deref().map(text::parse_content_range) {
        Some(Some((sent, _))) if sent == range => {}
        Some(Some((sent, size))) if sent.start() == range.start() && size < range.end() => {
            return fail(ErrorKind::Unsupported, "the range goes past the object's end");
        }
        // A server that ignores ranges sends it all, which may be what was asked for.
        None if range.start() == 0 && length == Some(range.len()) => {}
        Some(_) | None => return fail(ErrorKind::Corrupt, "the answer is not the range"),
    }
    if length != Some(range.len()) {
        return fail(ErrorKind::Corrupt, "the answer's length is not the range's");
    }
    // Not every store that speaks S3 heeds If-Match.
    let found = answer.e_tag.as_deref();
    if version.is_some_and(|version| found.is_some_and(|found| found != version.as_str())) {
        return fail(ErrorKind::Changed, "the answer is of another version");
    }
    Ok(exactly(key.clone(), range.len(), answer.body))
}

/// All of a small object, unless it is the version `unless` or larger than `bytes_max`.
pub(super) async fn whole(
    op: &'static str,
    key: &Key,
    (unless, bytes_max): (Option<&Version>, u64),
    answer: GetObjectOutput,
) -> Result<Fresh> {
    let fail = |kind, words: &str| Error::new(kind, op, key).because(words.to_owned());
    let size = answer.content_length.and_then(|length| u64::try_from(length).ok());
    let size = size.ok_or_else(|| fail(ErrorKind::Corrupt, "the answer has no length"))?;
    let etag = answer.e_tag.as_deref().filter(|etag| !etag.is_empty());
    let etag = etag.ok_or_else(|| fail(ErrorKind::Corrupt, "the answer has no etag"))?;
    let version = Version::new(etag);
    // Not every store that speaks S3 heeds If-None-Match.
    if unless == Some(&version) {
        return Ok(Fresh::Same);
    }
    if bytes_max < size {
        return Err(fail(ErrorKind::Unsupported, "the object is larger than wanted"));
    }
    let modified = timestamp(answer.last_modified.as_ref());
    let metadata = answer.metadata.unwrap_or_default().into_iter().collect();
    let mut bytes = Vec::new();
    let mut body = exactly(key.clone(), size, answer.body);
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(Fresh::New(Meta { size, version, modified, metadata }, bytes.into()))
}

/// `stream` as it is, but for an error if it has more or fewer than `rest` bytes.
fn exactly(key: Key, rest: u64, stream: ByteStream) -> Body {
    let state = Some((stream, rest));
    futures::stream::unfold(state, move |state| {
        let key = key.clone();
        async move {
            let (mut stream, rest) = state?;
            match step(&key, rest, stream.next().await) {
                Ok(Some(bytes)) => {
                    let rest = rest - bytes.len() as u64;
                    Some((Ok(bytes), Some((stream, rest))))
                }
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }
    })
    .boxed()
}

fn step(
    key: &Key,
    rest: u64,
    piece: Option<std::result::Result<Bytes, aws_sdk_s3::primitives::ByteStreamError>>,
) -> Result<Option<Bytes>> {
    let transient = ErrorKind::Transient { retry_after: None };
    match piece {
        Some(Ok(bytes)) if bytes.len() as u64 <= rest => Ok(Some(bytes)),
        Some(Ok(_)) => Err(Error::new(ErrorKind::Corrupt, OP, key).because("the body is too long")),
        None if rest == 0 => Ok(None),
        None => Err(Error::new(transient, OP, key).because("the body ended early")),
        Some(Err(error)) => Err(Error::new(transient, OP, key).because(ProviderError {
            code: "BodyFailed".to_owned(),
            message: fault::chain(&error),
            request_id: None,
            trouble: Trouble::Unreachable,
        })),
    }
}
