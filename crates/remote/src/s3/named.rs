//! What objects and versions are called; what S3 does not take is refused before it is asked.

use crate::{Error, ErrorKind, Key, Result, Version};

/// The key as text; S3 takes nothing else.
pub(super) fn name<'a>(op: &'static str, key: &'a Key) -> Result<&'a str> {
    let refuse = |words: &str| Error::new(ErrorKind::Unsupported, op, key).because(words);
    match std::str::from_utf8(key.as_bytes()) {
        Ok("") => Err(refuse("an object needs a name")),
        // The SDK would say that there is none, and be asked again and again.
        Ok(name) if name.trim().is_empty() => Err(refuse("a key of white space alone")),
        Ok(name) => Ok(name),
        Err(_) => Err(refuse("S3 takes only keys that are UTF-8")),
    }
}

/// The version that an answer names.
pub(super) fn version_of(op: &'static str, key: &Key, etag: Option<String>) -> Result<Version> {
    let etag = etag.filter(|etag| !etag.is_empty());
    let missing = || Error::new(ErrorKind::Corrupt, op, key).because("the answer has no etag");
    Ok(Version::new(&etag.ok_or_else(missing)?))
}
