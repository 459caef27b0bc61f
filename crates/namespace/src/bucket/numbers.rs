//! Inode numbers: a hash of the path, so that a remount gives every file its number again.

use std::hash::Hasher;

use base::Ino;
use siphasher::sip::SipHasher24;

/// The keys of the hash. Changing them changes every inode number of every mount.
const HASH_KEYS: (u64, u64) = (0x7175_6179_6673_2d69, 0x6e6f_6465_2d76_3031);

/// A number for `path`, relative to the mounted folder and without slashes at its ends, that is
/// neither reserved nor `taken`: the hash, or the first free number after it.
pub(super) fn number(path: &[u8], taken: impl Fn(Ino) -> bool) -> Ino {
    let mut number = hash(path);
    while number <= Ino::ROOT.0 || taken(Ino(number)) {
        number = number.wrapping_add(1);
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

    use super::{hash, number};

    #[test]
    fn numbers_are_the_same_in_every_release() {
        assert_eq!(hash(b"a"), 15_976_368_985_522_245_355);
        assert_eq!(hash(b"some/folder/file.txt"), 17_856_586_537_907_836_788);
    }

    #[test]
    fn a_number_in_use_is_not_given_again() {
        let first = number(b"a", |_| false);
        let second = number(b"a", |ino| ino == first);
        assert_eq!(second, Ino(first.0.wrapping_add(1)));
    }
}
