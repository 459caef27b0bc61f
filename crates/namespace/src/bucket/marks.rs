//! Which objects of a move were moved, in a few bytes each.
//!
//! A mark stands for an object in one version. What has no mark is not removed: two objects of the
//! same mark are as likely as a wrong bit in memory.

use std::collections::HashSet;
use std::hash::Hasher;

use remote::Version;
use siphasher::sip::SipHasher24;

/// The keys of the hash. The journal keeps marks: changing them makes it unreadable.
const HASH_KEYS: (u64, u64) = (0x7175_6179_6673_2d6d, 0x6172_6b73_2d76_3031);

/// On which side of the move an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// It was copied from there.
    From,
    /// It was made there.
    To,
}

/// What was moved.
#[derive(Debug, Default)]
pub(super) struct Marks {
    copied: HashSet<u64>,
    manner: Manner,
}

/// How it was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Manner {
    /// Objects were copied, and have marks.
    #[default]
    Copied,
    /// The store moved all that was there at once, each object in the version that it was; nothing has a
    /// mark.
    AtOnce,
}

impl Marks {
    /// Adds those of an earlier try.
    pub(super) fn join(&mut self, other: Marks) {
        self.copied.extend(other.copied);
        if other.manner == Manner::AtOnce {
            self.manner = Manner::AtOnce;
        }
    }

    /// Adds marks.
    pub(super) fn extend(&mut self, marks: &[u64]) {
        self.copied.extend(marks);
    }

    /// All was moved at once.
    pub(super) fn set_at_once(&mut self) {
        self.manner = Manner::AtOnce;
    }

    /// How it was moved.
    pub(super) fn manner(&self) -> Manner {
        self.manner
    }

    /// Whether nothing has a mark.
    pub(super) fn is_empty(&self) -> bool {
        self.copied.is_empty()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<u64> {
        self.copied.iter().copied().collect()
    }

    /// Whether the object, whose key goes on with `rest` behind the prefix, has a mark.
    pub(super) fn has(&self, side: Side, rest: &[u8], version: &Version) -> bool {
        self.copied.contains(&mark(side, rest, version))
    }

    /// Whether what was the version `old` at the old prefix is the version `now` at the new one.
    pub(super) fn moved(&self, rest: &[u8], old: &Version, now: &Version) -> bool {
        match self.manner {
            Manner::Copied => self.has(Side::From, rest, old) && self.has(Side::To, rest, now),
            Manner::AtOnce => old == now,
        }
    }
}

/// The mark of an object.
pub(super) fn mark(side: Side, rest: &[u8], version: &Version) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
    hasher.write(match side {
        Side::From => b"f",
        Side::To => b"t",
    });
    hasher.write(&(rest.len() as u64).to_be_bytes());
    hasher.write(rest);
    hasher.write(version.as_str().as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use remote::Version;

    use super::{Marks, Side, mark};

    #[test]
    fn marks_are_the_same_in_every_release() {
        assert_eq!(mark(Side::From, b"a/b", &Version::new("v")), 10_425_278_561_469_638_828);
        assert_eq!(mark(Side::To, b"a/b", &Version::new("v")), 5_921_607_335_838_748_744);
    }

    #[test]
    fn only_what_was_marked_has_a_mark() {
        let mut marks = Marks::default();
        marks.extend(&[mark(Side::From, b"a", &Version::new("v"))]);
        assert!(marks.has(Side::From, b"a", &Version::new("v")));
        assert!(!marks.has(Side::To, b"a", &Version::new("v")));
        assert!(!marks.has(Side::From, b"a", &Version::new("w")));
        assert!(!marks.has(Side::From, b"av", &Version::new("")));
        let (v, w) = (Version::new("v"), Version::new("w"));
        assert!(!marks.moved(b"a", &v, &v), "no copy has a mark");
        marks.set_at_once();
        assert!(marks.moved(b"b", &v, &v) && !marks.moved(b"b", &v, &w));
        assert!(!marks.has(Side::From, b"b", &v), "what comes later is none of ours");
    }
}
