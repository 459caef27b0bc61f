//! Checksums that a store gives with an object, compared with those of the bytes that come.

use base::crc32c_append;
use crc_fast::{CrcAlgorithm, Digest as CrcDigest};

/// What a store says that bytes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    Crc32c(u32),
    Crc64Nvme(u64),
}

/// What a store says of the bytes of an answer, by itself: what a writer once noted, and nobody checked
/// or renewed since, is no reason to refuse bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// What all bytes of the object come to, of which the answer may be a part.
    OfObject(Checksum),
    /// What these bytes come to.
    OfAnswer(Checksum),
}

impl Told {
    /// That of the object, if it is known.
    pub(crate) fn of_object(checksum: Option<Checksum>) -> Told {
        checksum.map_or(Told::Nothing, Told::OfObject)
    }

    /// That of the answer, if it is known.
    pub(crate) fn of_answer(checksum: Option<Checksum>) -> Told {
        checksum.map_or(Told::Nothing, Told::OfAnswer)
    }
}

/// A checksum on its way.
pub(super) struct Check {
    want: Checksum,
    have: Have,
}

enum Have {
    Crc32c(u32),
    Crc64Nvme(Box<CrcDigest>),
}

impl Check {
    pub(super) fn new(want: Checksum) -> Check {
        let have = match want {
            Checksum::Crc32c(_) => Have::Crc32c(0),
            Checksum::Crc64Nvme(_) => {
                Have::Crc64Nvme(Box::new(CrcDigest::new(CrcAlgorithm::Crc64Nvme)))
            }
        };
        Check { want, have }
    }

    /// Takes the next bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        match &mut self.have {
            Have::Crc32c(sum) => *sum = crc32c_append(*sum, bytes),
            Have::Crc64Nvme(digest) => digest.update(bytes),
        }
    }

    /// Whether all that was taken is what was said.
    pub(super) fn holds(&self) -> bool {
        let have = match &self.have {
            Have::Crc32c(sum) => Checksum::Crc32c(*sum),
            Have::Crc64Nvme(digest) => Checksum::Crc64Nvme(digest.finalize()),
        };
        have == self.want
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, Checksum};

    #[test]
    fn the_sums_of_the_catalogues_are_those_of_ours() {
        for want in [Checksum::Crc32c(0xe306_9283), Checksum::Crc64Nvme(0xae8b_1486_0a79_9888)] {
            let mut check = Check::new(want);
            check.take(b"1234");
            assert!(!check.holds(), "{want:?}");
            check.take(b"56789");
            assert!(check.holds(), "{want:?}");
        }
    }
}
