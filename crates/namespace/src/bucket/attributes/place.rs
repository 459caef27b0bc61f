//! Where attribute objects are: their keys, behind the prefix of their folder.

use remote::Key;

/// Digits of the id of a split object, as others may write it.
const ID_BYTES_MAX: usize = 32;

/// The object of a folder.
pub(in crate::bucket) const OBJECT: &[u8] = b".quayfs-attributes";

/// The part `at` of the entries of a large folder; in octal, as people count to 64.
pub(in crate::bucket) fn shard(id: &str, at: usize) -> Vec<u8> {
    [OBJECT, format!(".{id}.{at:02o}").as_bytes()].concat()
}

/// Whether what follows a folder's prefix is of an attribute object.
pub(in crate::bucket) fn is_attributes(rest: &[u8]) -> bool {
    rest.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Whether what follows a directory's prefix is the whole of the key of an attribute object that is written here:
/// other keys that begin like it are none of ours.
pub(in crate::bucket) fn is_object(rest: &[u8]) -> bool {
    let Some(rest) = rest.strip_prefix(OBJECT) else { return false };
    match rest.split(|&byte| byte == b'.').collect::<Vec<_>>()[..] {
        [b""] => true,
        [b"", id, [b'0'..=b'7', b'0'..=b'7']] => {
            (1..=ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_hexdigit)
        }
        _ => false,
    }
}

/// What follows the prefix in the longest key of such an object that is written here.
pub(in crate::bucket) const LONGEST: &[u8] = b".quayfs-attributes.01234567.77";

/// Whether a folder whose keys begin with `prefix` has such an object: all but the parts of names
/// that are too long, and those so deep that the store would not take its key.
pub(in crate::bucket) fn has_attributes(prefix: &Key, key_bytes_max: usize) -> bool {
    let fits = prefix.as_bytes().len() + LONGEST.len() <= key_bytes_max;
    fits && (prefix.as_bytes().is_empty() || prefix.as_bytes().ends_with(b"/"))
}

#[cfg(test)]
mod tests {
    use remote::Key;

    use super::{LONGEST, has_attributes, is_attributes, is_object, shard};

    #[test]
    fn a_folder_so_deep_that_the_store_does_not_take_the_key_has_no_attribute_object() {
        assert_eq!(LONGEST.len(), shard("01234567", 63).len());
        let folder = |bytes: usize| Key::from(format!("{}/", "x".repeat(bytes - 1)).as_str());
        assert!(has_attributes(&folder(1024 - LONGEST.len()), 1024));
        assert!(!has_attributes(&folder(1025 - LONGEST.len()), 1024));
    }

    #[test]
    fn object_is_ours_only_by_its_whole_key() {
        for (rest, want) in [
            (&b".quayfs-attributes"[..], true),
            (b".quayfs-attributes.1f.00", true),
            (b".quayfs-attributes.1f.77", true),
            (b".quayfs-attributes.1f.78", false),
            (b".quayfs-attributes.1f.000", false),
            (b".quayfs-attributes.1f", false),
            (b".quayfs-attributes..00", false),
            (b".quayfs-attributes.xy.00", false),
            (b".quayfs-attributesX", false),
            (b".quayfs-attributes/a", false),
            (b".quayfs-attributes.1f.00/a", false),
            (b"a", false),
        ] {
            assert_eq!(is_object(rest), want, "{}", rest.escape_ascii());
        }
    }

    #[test]
    fn attribute_objects_are_told_from_others() {
        assert_eq!(shard("1f", 63), b".quayfs-attributes.1f.77");
        for (rest, want) in [
            (&b".quayfs-attributes"[..], true),
            (b".quayfs-attributes.1f.00", true),
            (b".quayfs-attributesx", false),
            (b".quayfs-other", false),
            (b"a", false),
        ] {
            assert_eq!(is_attributes(rest), want, "{rest:?}");
        }
    }
}
