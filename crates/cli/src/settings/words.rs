//! The stores' words for how objects are kept and by whom, as people write them. Pure.

use mount::Tags;

/// Which keys the store encrypts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sse {
    /// Its own.
    Store,
    /// Those of its key service.
    Kms,
}

/// `store` or `kms`; S3's own words for them as well.
pub(super) fn sse(text: &str) -> Result<Sse, String> {
    match text {
        "store" | "AES256" => Ok(Sse::Store),
        "kms" | "aws:kms" => Ok(Sse::Kms),
        _ => Err(format!("{text}: neither store nor kms")),
    }
}

/// The classes whose objects cannot be read as soon as they are written.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// A class of S3, or of what speaks like it, which may have others.
pub(super) fn storage_class(text: &str) -> Result<String, String> {
    let class = text.to_ascii_uppercase();
    let is_of_classes = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if class.is_empty() || !class.bytes().all(is_of_classes) {
        return Err(format!("{text}: not a storage class like STANDARD_IA"));
    }
    if ARCHIVES.contains(&&class[..]) {
        return Err(format!(
            "{class}: what is written could not be read again; archive it by a lifecycle rule of the bucket"
        ));
    }
    Ok(class)
}

/// The lists that S3 has.
const ACLS: [&str; 7] = [
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
];

pub(super) fn acl(text: &str) -> Result<String, String> {
    let known = ACLS.contains(&text);
    known.then(|| text.to_owned()).ok_or_else(|| format!("{text}: not one of {}", ACLS.join(", ")))
}

/// A name that Azure gives to a storage account; it becomes a part of a host's name.
pub(super) fn account(text: &str) -> Result<String, String> {
    let is_of_names = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if (3..=24).contains(&text.len()) && text.bytes().all(is_of_names) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text}: storage accounts have names of 3 to 24 small letters and digits"))
    }
}

pub(super) fn tags(text: &str) -> Result<Tags, String> {
    Tags::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Sse, account, acl, sse, storage_class, tags};

    #[test]
    fn what_could_not_be_read_back_or_is_not_known_is_refused() {
        for archive in ["GLACIER", "deep_archive"] {
            assert!(storage_class(archive).unwrap_err().contains("lifecycle"));
        }
        assert_eq!(storage_class("glacier_ir").as_deref(), Ok("GLACIER_IR"));
        assert_eq!((sse("kms"), sse("AES256")), (Ok(Sse::Kms), Ok(Sse::Store)));
        assert!(storage_class("a b").is_err() && acl("everyone").is_err() && sse("x").is_err());
        assert_eq!(account("lab1").as_deref(), Ok("lab1"));
        for name in ["", "ab", "Lab", "lab.evil/x", &"a".repeat(25)] {
            assert!(account(name).is_err(), "{name}");
        }
        assert!(tags("project").unwrap_err().contains("project"));
    }
}
