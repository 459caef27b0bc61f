//! Files that come last: who finds one of them in the bucket finds all else of its folder there, too. Pure.
//!
//! Programs leave such a file behind to say that all is done. Uploads that nobody waits for have no order but
//! this one.

use base::Name;
use remote::Key;

/// What the name of a file ends with that holds back the one of the name before it.
const HELD: &[u8] = b".held";

/// The names of files that come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Last {
    names: Vec<Name>,
}

impl Last {
    /// Those of these names, in whichever folder.
    pub fn named(names: Vec<Name>) -> Last {
        Last { names }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the file at `path` is one of them.
    pub(crate) fn has_path(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next();
        self.names.iter().any(|last| Some(last.as_bytes()) == name)
    }

    /// Whether the file at `path` holds those of its folder back while somebody has it open for writing: it is called
    /// like one of them, and `.held`.
    pub(crate) fn is_held_by(&self, path: &[u8]) -> bool {
        path.strip_suffix(HELD).is_some_and(|last| self.has_path(last))
    }

    /// Whether the object is one of them.
    pub(crate) fn has_key(&self, key: &Key) -> bool {
        self.has_path(key.as_bytes())
    }
}

/// The object of who holds the one of `key` back, if that comes last.
pub(crate) fn holder_of(key: &Key) -> Key {
    key.join(HELD)
}

#[cfg(test)]
mod tests {
    use base::Name;
    use remote::Key;

    use super::Last;

    #[test]
    fn a_file_comes_last_by_its_name_in_whichever_folder() {
        let last = Last::named(vec![Name::new(b".exitcode").unwrap()]);
        for (key, want) in [
            (".exitcode", true),
            ("a/b/.exitcode", true),
            ("a/.exitcode/b", false),
            ("a/.exitcode2", false),
            ("", false),
        ] {
            assert_eq!(last.has_key(&Key::from(key)), want, "{key}");
            assert!(!Last::default().has_key(&Key::from(key)));
        }
    }

    #[test]
    fn a_file_is_held_back_by_one_of_its_name_and_held() {
        let last = Last::named(vec![Name::new(b".exitcode").unwrap()]);
        for (path, want) in [
            (".exitcode.held", true),
            ("a/.exitcode.held", true),
            ("a/.exitcode", false),
            ("a/other.held", false),
            ("a/.exitcode.held/b", false),
            (".held", false),
        ] {
            assert_eq!(last.is_held_by(path.as_bytes()), want, "{path}");
            assert!(!Last::default().is_held_by(path.as_bytes()));
        }
    }
}
