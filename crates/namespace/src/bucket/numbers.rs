//! Inode numbers: a hash of the path, so that a remount gives every file its number again; and the
//! exceptions, which the ledger remembers: numbers that moved with their files, and those of files
//! that found the number of their path taken.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use base::Ino;
use siphasher::sip::SipHasher24;

use crate::Ledger;

/// The keys of the hash. Changing them changes every inode number of every mount.
const HASH_KEYS: (u64, u64) = (0x7175_6179_6673_2d69, 0x6e6f_6465_2d76_3031);

/// Gives numbers to paths, relative to the mounted folder and without slashes at their ends.
pub(super) struct Numbers {
    ledger: Arc<dyn Ledger>,
}

impl Numbers {
    /// Those of which `ledger` remembers the exceptions.
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> Numbers {
        Numbers { ledger }
    }

    /// The number of what is found at `path`: the one it had, else one that is neither `taken` nor
    /// kept for another.
    pub(super) fn choose(&self, path: &[u8], taken: impl Fn(Ino) -> bool) -> Ino {
        let kept = self.ledger.number(path);
        if let Some(kept) = kept
            && kept.0 < END
            && !taken(kept)
        {
            return kept;
        }
        let ino = number(path, |ino| taken(ino) || self.ledger.is_kept(ino));
        self.note(path, kept, ino);
        ino
    }

    /// What has the number `ino` was moved from one path to another.
    pub(super) fn moved(&self, from: &[u8], to: &[u8], ino: Ino) {
        self.removed(from, ino);
        self.note(to, self.ledger.number(to), ino);
    }

    /// What has the number `ino` is not at `path` any more; something else may be.
    pub(super) fn removed(&self, path: &[u8], ino: Ino) {
        if self.ledger.number(path) == Some(ino) {
            self.ledger.set_number(path, None);
        }
    }

    fn note(&self, path: &[u8], kept: Option<Ino>, ino: Ino) {
        let exception = (ino != number(path, |_| false)).then_some(ino);
        if exception != kept {
            self.ledger.set_number(path, exception);
        }
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

/// All numbers are below.
const END: u64 = 1 << Ino::BITS;

/// A number for `path` that is neither reserved nor `taken`: the hash, as far as it fits, or the first
/// free number after it.
fn number(path: &[u8], taken: impl Fn(Ino) -> bool) -> Ino {
    let mut number = hash(path) % END;
    while number <= Ino::ROOT.0 || taken(Ino(number)) {
        number = (number + 1) % END;
    }
    Ino(number)
}

fn hash(path: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
    hasher.write(path);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use base::Ino;

    use super::{END, hash, number};

    #[test]
    fn numbers_are_the_same_in_every_release() {
        assert_eq!(hash(b"a"), 15_976_368_985_522_245_355);
        assert_eq!(hash(b"some/folder/file.txt"), 17_856_586_537_907_836_788);
    }

    #[test]
    fn a_number_in_use_is_not_given_again() {
        let first = number(b"a", |_| false);
        let second = number(b"a", |ino| ino == first);
        assert_eq!(second, Ino(first.0 + 1));
    }

    #[test]
    fn numbers_leave_room_above_them() {
        assert!((0..1000_u32).all(|n| number(&n.to_be_bytes(), |_| false).0 < END));
    }
}
