//! Which lines of a listing lie behind a key, for stores that begin a listing earlier; pure.

use crate::{Entry, Key};

/// Whether `entry` belongs into a listing of what comes after `key`. A folded prefix does if any
/// of its keys may.
pub(crate) fn is_behind(entry: &Entry, key: &Key) -> bool {
    match entry {
        Entry::Object(found, _) => key < found,
        Entry::Prefix(found) => key < found || key.as_bytes().starts_with(found.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_behind;
    use crate::{Entry, Key};

    #[test]
    fn a_folder_counts_as_far_as_its_keys() {
        for (prefix, after, want) in [
            ("a/", "a", true),
            ("a/", "a/", true),
            ("a/", "a/zzz", true),
            ("a/", "a0", false),
            ("b/", "a/zzz", true),
        ] {
            let entry = Entry::Prefix(Key::from(prefix));
            assert_eq!(is_behind(&entry, &Key::from(after)), want, "{prefix} after {after}");
        }
    }
}
