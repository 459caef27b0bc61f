//! What the ledger is told of a change of attributes.
//!
//! ```text
//!   "+" length of the prefix (4 bytes, big endian) prefix, text of an attribute object of one entry
//!   "-" length of the prefix (4 bytes, big endian) prefix, name
//! ```

use remote::Key;

use super::item::{Item, Label};
use super::line::Usual;
use super::sheet::{self, Text};

/// A change that was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Noted {
    /// What the keys of the folder begin with.
    pub(in crate::bucket) prefix: Key,
    pub(in crate::bucket) label: Label,
    /// What is to be said of the name.
    pub(in crate::bucket) item: Option<Item>,
    /// Tells this change from others of the name.
    pub(in crate::bucket) number: u64,
}

impl Noted {
    /// The words of its record.
    pub(in crate::bucket) fn words(&self, usual: Usual) -> Vec<u8> {
        let (sign, rest) = match &self.item {
            Some(item) => (b'+', sheet::write_one(&self.label, item, usual).into_bytes()),
            None => (b'-', self.label.clone()),
        };
        let prefix = self.prefix.as_bytes();
        let length = u32::try_from(prefix.len()).expect("keys are short").to_be_bytes();
        [&[sign], &length[..], prefix, &rest].concat()
    }
}

/// Reads such words: a folder, a name in it, and what is to be said of that.
pub(in crate::bucket) fn read(words: &[u8]) -> Option<(Key, Label, Option<Item>)> {
    let (&sign, rest) = words.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (prefix, rest) = rest.split_at_checked(length)?;
    let prefix = Key::from(prefix);
    match sign {
        b'+' => match sheet::read(rest) {
            Text::Items { mut items, .. } if items.len() == 1 => {
                let (label, item) = items.pop_first()?;
                Some((prefix, label, Some(item)))
            }
            Text::Items { .. } | Text::Split { .. } | Text::Unknown => None,
        },
        b'-' if !rest.is_empty() => Some((prefix, rest.to_vec(), None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;
    use remote::Key;

    use super::{Noted, read};
    use crate::bucket::attributes::line::tests::{USUAL, entry};

    proptest! {
        #[test]
        fn every_record_survives_the_round_trip((label, item) in entry(), prefix: Vec<u8>) {
            let prefix = Key::new(prefix);
            for item in [Some(item), None] {
                let noted =
                    Noted { prefix: prefix.clone(), label: label.clone(), item: item.clone(), number: 1 };
                let words = noted.words(USUAL);
                assert_eq!(read(&words), Some((prefix.clone(), label.clone(), item)));
            }
        }

        #[test]
        fn no_record_makes_the_reader_panic(words: Vec<u8>) {
            read(&words);
        }
    }
}
