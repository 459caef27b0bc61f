//! Hands out a body only as far as it is what was asked for.

use base::ByteRange;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::answer::Answer;
use super::checksum::{Check, Checksum, Told};
use super::fault::Failure;
use super::text::parse_content_range;
use crate::{Body, Error, ErrorKind, Key, Result, Version};

const OP: &str = "get";

/// What a `get` asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) key: &'a Key,
    pub(crate) range: ByteRange,
    pub(crate) version: Option<&'a Version>,
}

/// The body of an answer that says of itself that it is what was asked for. `found` is the version
/// that it says it is of, `told` what the store says that the bytes come to.
pub(crate) fn ranged(
    asked: Asked<'_>,
    answer: Answer,
    found: Option<&Version>,
    told: Told,
) -> Result<Body> {
    let Asked { key, range, version } = asked;
    let fail = |kind, words: &str| Err(Error::new(kind, OP, key).because(words));
    let length = answer.length();
    let whole = match answer.header("content-range").map(parse_content_range) {
        Some(Some((sent, size))) if sent == Some(range) => range.len() == size,
        Some(Some((_, size))) if size < range.end() => {
            return fail(ErrorKind::Unsupported, "the range goes past the object's end");
        }
        // A server that ignores ranges sends it all, which may be what was asked for.
        None if range.start() == 0 && length == Some(range.len()) => true,
        Some(_) | None => return fail(ErrorKind::Corrupt, "the answer is not the range"),
    };
    if length != Some(range.len()) {
        return fail(ErrorKind::Corrupt, "the answer's length is not the range's");
    }
    // What something in between says by itself may have any length.
    let Some(found) = found else {
        let kind = ErrorKind::Transient { retry_after: None };
        return fail(kind, "the answer names no version: it is not the store's");
    };
    // Not everything between us and the store heeds conditions.
    if version.is_some_and(|version| found != version) {
        return fail(ErrorKind::Changed, "the answer is of another version");
    }
    let check = match told {
        Told::OfAnswer(checksum) => Some(Check::new(checksum)),
        Told::OfObject(checksum) if whole => Some(Check::new(checksum)),
        Told::OfObject(_) | Told::Nothing => None,
    };
    Ok(exactly(key.clone(), range.len(), answer.stream(), check))
}

/// All of a small body of `length` bytes, whose checksum is `checksum` if that is known.
pub(crate) async fn collect(
    key: &Key,
    length: u64,
    answer: Answer,
    checksum: Option<Checksum>,
) -> Result<Bytes> {
    let check = checksum.map(Check::new);
    let mut body = exactly(key.clone(), length, answer.stream(), check);
    let mut whole = BytesMut::new();
    while let Some(piece) = body.next().await {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole.freeze())
}

/// `stream` as it is, but for an error if it has more or fewer than `rest` bytes, or others than
/// the checksum says: then the last of them are not handed out.
fn exactly(
    key: Key,
    rest: u64,
    stream: BoxStream<'static, std::result::Result<Bytes, Failure>>,
    check: Option<Check>,
) -> Body {
    let state = Some((stream, rest, check));
    futures::stream::unfold(state, move |state| {
        let key = key.clone();
        async move {
            let (mut stream, rest, mut check) = state?;
            match step(&key, rest, stream.next().await, check.as_mut()) {
                Ok(Some(bytes)) => {
                    let rest = rest - bytes.len() as u64;
                    Some((Ok(bytes), Some((stream, rest, check))))
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
    piece: Option<std::result::Result<Bytes, Failure>>,
    check: Option<&mut Check>,
) -> Result<Option<Bytes>> {
    let fail = |kind, words: &str| Err(Error::new(kind, OP, key).because(words));
    match piece {
        Some(Ok(bytes)) if bytes.len() as u64 <= rest => {
            if let Some(check) = check {
                check.take(&bytes);
                if bytes.len() as u64 == rest && !check.holds() {
                    return fail(ErrorKind::Corrupt, "the checksum is another");
                }
            }
            Ok(Some(bytes))
        }
        Some(Ok(_)) => fail(ErrorKind::Corrupt, "the body is too long"),
        None if rest == 0 => Ok(None),
        None => fail(ErrorKind::Transient { retry_after: None }, "the body ended early"),
        Some(Err(failure)) => Err(failure.into_error(OP, key)),
    }
}
