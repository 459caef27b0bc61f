//! Paths in what programs read: JSON has text only, and a name may be any bytes.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

/// `path` as text that loses nothing.
pub fn spelled(path: &Path) -> Cow<'_, str> {
    base::spelled(path.as_os_str().as_bytes())
}

/// The path that is [`spelled`] as `text`.
pub(crate) fn unspelled(text: &OsStr) -> PathBuf {
    std::ffi::OsString::from_vec(base::unspelled(text.as_bytes()).into_owned()).into()
}

pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&spelled(path))
}

#[expect(clippy::ref_option, reason = "what serde asks for")]
pub(crate) fn serialize_some<S: Serializer>(
    path: &Option<PathBuf>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.serialize_some(&spelled(path)),
        None => to.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(unspelled(OsStr::new(&String::deserialize(from)?)))
}
