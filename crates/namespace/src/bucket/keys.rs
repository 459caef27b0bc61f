//! Keys to names and back, and which keys have no name.
//!
//! The key of a file is its path without a leading slash; a folder's keys begin with its path and a
//! slash, and its marker, if it has one, is that prefix itself. A key with a part that is empty,
//! `.`, `..`, longer than 255 bytes, or that has a NUL in it, has no name yet and is left out.

use base::{Name, NameError};
use remote::Key;

use crate::ErrorKind;

/// The longest key that every store takes.
pub(super) const KEY_BYTES_MAX: usize = 1024;

/// What a line of a folder's listing is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The folder's own marker.
    Marker,
    /// An object or a prefix of this name.
    Named(Name),
    /// A key that has no name.
    Nameless,
}

/// Reads `key`, an object or a folded prefix, in the listing of the folder `prefix`.
pub(super) fn line(prefix: &Key, key: &Key) -> Line {
    let Some(rest) = key.as_bytes().strip_prefix(prefix.as_bytes()) else {
        return Line::Nameless;
    };
    if rest.is_empty() {
        return Line::Marker;
    }
    match Name::new(rest.strip_suffix(b"/").unwrap_or(rest)) {
        Ok(name) => Line::Named(name),
        Err(NameError::TooLong | NameError::Invalid) => Line::Nameless,
    }
}

/// The key of the file `name` in the folder `prefix`.
pub(super) fn file(prefix: &Key, name: &Name) -> Key {
    prefix.join(name.as_bytes())
}

/// The prefix of the folder `name` in the folder `prefix`; also the key of its marker.
pub(super) fn folder(prefix: &Key, name: &Name) -> Key {
    Key::new([prefix.as_bytes(), name.as_bytes(), b"/"].concat())
}

/// Refuses a name whose key, or whose folder marker, no store would take.
pub(super) fn check_length(prefix: &Key, name: &Name) -> Result<(), ErrorKind> {
    let bytes = prefix.as_bytes().len() + name.as_bytes().len() + 1;
    if bytes <= KEY_BYTES_MAX { Ok(()) } else { Err(ErrorKind::NameTooLong) }
}

/// A key below that of `name` in the folder `prefix`, and above nearly all others below it: where
/// to start a page that is to begin with `name`. `None` where no such key is certain to be text.
pub(super) fn just_below(prefix: &Key, name: &Name) -> Option<Key> {
    let (last, rest) = name.as_bytes().split_last()?;
    // Between `!` and `~` the byte is a whole character, and so is the one before it.
    (b'!'..=b'~')
        .contains(last)
        .then(|| Key::new([prefix.as_bytes(), rest, &[last - 1, b'~']].concat()))
}

#[cfg(test)]
mod tests {
    use base::Name;
    use remote::Key;

    use super::{Line, check_length, just_below, line};
    use crate::ErrorKind;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_line_is_the_marker_or_one_name_or_has_none() {
        let long = format!("d/{}", "x".repeat(256));
        for (prefix, key, want) in [
            ("", "a", Line::Named(name("a"))),
            ("", "a/", Line::Named(name("a"))),
            ("d/", "d/a", Line::Named(name("a"))),
            ("d/", "d/a/", Line::Named(name("a"))),
            ("d/", "d/...", Line::Named(name("..."))),
            ("d/", "d/", Line::Marker),
            ("d/", "d//", Line::Nameless),
            ("", "/", Line::Nameless),
            ("d/", "d/./", Line::Nameless),
            ("d/", "d/..", Line::Nameless),
            ("d/", "d/a\0b", Line::Nameless),
            ("d/", &long, Line::Nameless),
            ("d/", "elsewhere", Line::Nameless),
        ] {
            assert_eq!(line(&Key::from(prefix), &Key::from(key)), want, "{prefix} {key}");
        }
    }

    #[test]
    fn a_key_of_more_than_1024_bytes_is_refused_before_any_store_is_asked() {
        let name = name(&"n".repeat(255));
        assert_eq!(check_length(&Key::from("p".repeat(768).as_str()), &name), Ok(()));
        let too_long = check_length(&Key::from("p".repeat(769).as_str()), &name);
        assert_eq!(too_long, Err(ErrorKind::NameTooLong));
    }

    #[test]
    fn a_page_can_be_asked_to_begin_with_a_name() {
        let below = |text| just_below(&Key::from("d/"), &name(text));
        assert_eq!(below("file2"), Some(Key::from("d/file1~")));
        assert!(below("file2").unwrap() < Key::from("d/file2"));
        assert_eq!(below("é"), None);
    }
}
