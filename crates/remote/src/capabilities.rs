//! What a store can do, as far as its answers have shown: known once, and good for every client of it.
//!
//! Nobody asks for it: whoever makes a request learns from what comes back. A store that takes a
//! condition and does not keep to it gives itself away to [`probe`](crate::probe) only.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::shelf::Shelf;
use crate::{Error, ErrorKind, Result, Version};

/// Something that not every store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Writes an object only if there is none.
    PutIfAbsent,
    /// Writes an object only over the version that is named.
    PutIfMatch,
    /// Ends an upload in parts only if there is no object.
    CompleteIfAbsent,
    /// Ends an upload in parts only over the version that is named.
    CompleteIfMatch,
    /// Makes parts of what it has.
    PartCopy,
    /// Tells keys in byte order.
    SortedLists,
    /// Compares what is sent with the checksum that goes with it.
    UploadChecksum,
    /// Gives the CRC32C of an object with its bytes.
    Crc32cGiven,
    /// Gives the CRC64NVME of an object, or of an answer, with its bytes.
    Crc64NvmeGiven,
    /// Has folders of its own (a hierarchical namespace), which get another name in one step.
    RealFolders,
}

/// Whether a store can do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// It can.
    Yes,
    /// It cannot, or does not do it.
    No,
}

impl Capability {
    /// All there are.
    pub const ALL: [Capability; 10] = [
        Capability::PutIfAbsent,
        Capability::PutIfMatch,
        Capability::CompleteIfAbsent,
        Capability::CompleteIfMatch,
        Capability::PartCopy,
        Capability::SortedLists,
        Capability::UploadChecksum,
        Capability::Crc32cGiven,
        Capability::Crc64NvmeGiven,
        Capability::RealFolders,
    ];

    /// Its name, as it is remembered and told to programs.
    pub fn name(self) -> &'static str {
        match self {
            Capability::PutIfAbsent => "put-if-absent",
            Capability::PutIfMatch => "put-if-match",
            Capability::CompleteIfAbsent => "complete-if-absent",
            Capability::CompleteIfMatch => "complete-if-match",
            Capability::PartCopy => "part-copy",
            Capability::SortedLists => "sorted-lists",
            Capability::UploadChecksum => "upload-checksum",
            Capability::Crc32cGiven => "crc32c-given",
            Capability::Crc64NvmeGiven => "crc64nvme-given",
            Capability::RealFolders => "real-folders",
        }
    }

    fn place(self) -> usize {
        self as usize
    }
}

/// What is known of one store so far.
#[derive(Debug, Default)]
pub struct Learned {
    /// In the order of [`Capability::ALL`]: nothing is known, it has it, it lacks it.
    known: [AtomicU8; Capability::ALL.len()],
    archived: Shelf,
}

const YES: u8 = 1;
const NO: u8 = 2;

impl Learned {
    /// Of a service that is the same everywhere: it has these, and lacks the others.
    pub fn of_service(has: &[Capability]) -> Learned {
        Learned::of_buckets(has, &[])
    }

    /// As [`Learned::of_service`], but for what is not the same for all of its buckets and has yet to show.
    pub fn of_buckets(has: &[Capability], differs: &[Capability]) -> Learned {
        let learned = Learned::default();
        for capability in Capability::ALL.into_iter().filter(|one| !differs.contains(one)) {
            let has = if has.contains(&capability) { Has::Yes } else { Has::No };
            learned.learn(capability, has);
        }
        learned
    }

    /// Whether it has `capability`; `None` if nothing has shown yet.
    pub fn has(&self, capability: Capability) -> Option<Has> {
        match self.known[capability.place()].load(Ordering::Relaxed) {
            YES => Some(Has::Yes),
            NO => Some(Has::No),
            _ => None,
        }
    }

    /// Whether it is known to lack `capability`.
    pub fn lacks(&self, capability: Capability) -> bool {
        self.has(capability) == Some(Has::No)
    }

    /// Takes note of what an answer has shown.
    pub fn learn(&self, capability: Capability, has: Has) {
        let word = match has {
            Has::Yes => YES,
            Has::No => NO,
        };
        // Most answers show what is known: then nobody's copy of it in a cache is spoilt.
        if self.known[capability.place()].load(Ordering::Relaxed) != word {
            self.known[capability.place()].store(word, Ordering::Relaxed);
        }
    }

    /// Takes note of what came of a call that is one thing that not every store can do.
    pub fn learn_of_call<T>(&self, capability: Capability, called: &Result<T>) {
        match called {
            Ok(_) => self.learn(capability, Has::Yes),
            Err(error) if is_not_implemented(error) => self.learn(capability, Has::No),
            // Perhaps of something else.
            Err(_) => {}
        }
    }

    /// Takes note of what came of a write whose condition did not hold, and says what that shows.
    pub fn learn_of_unmet(&self, capability: Capability, written: &Result<Version>) -> Option<Has> {
        let has = match written {
            Ok(_) => Has::No,
            Err(error) if is_not_implemented(error) => Has::No,
            Err(error) => match error.kind {
                ErrorKind::Changed | ErrorKind::NotFound => Has::Yes,
                ErrorKind::Transient { .. }
                | ErrorKind::Unavailable
                | ErrorKind::Denied
                | ErrorKind::Corrupt
                | ErrorKind::Unsupported
                | ErrorKind::Archived
                | ErrorKind::Full => {
                    tracing::debug!(%error, capability = capability.name(), "not found out");
                    return None;
                }
            },
        };
        self.learn(capability, has);
        Some(has)
    }

    /// Whether the store has said that `version` is in an archive; it may have been restored since.
    pub fn may_be_archived(&self, version: &Version) -> bool {
        self.archived.has(version)
    }

    /// Takes note that the store says so.
    pub(crate) fn learn_archived(&self, version: &Version) {
        self.archived.put(version);
    }

    /// All that is known.
    pub fn known(&self) -> Vec<(Capability, Has)> {
        let known = |capability| Some((capability, self.has(capability)?));
        Capability::ALL.into_iter().filter_map(known).collect()
    }
}

/// Whether the store says that it does not know how to do this at all.
pub(crate) fn is_not_implemented(error: &Error) -> bool {
    let said = error.provider_error();
    said.is_some_and(|said| ["NotImplemented", "HTTP 501"].contains(&&said.code[..]))
}

#[cfg(test)]
mod tests {
    use super::{Capability, Has, Learned};

    #[test]
    fn what_was_learnt_last_is_known_and_the_rest_is_not() {
        let learned = Learned::default();
        assert_eq!(learned.known(), []);
        learned.learn(Capability::PartCopy, Has::No);
        learned.learn(Capability::SortedLists, Has::Yes);
        assert!(learned.lacks(Capability::PartCopy));
        learned.learn(Capability::PartCopy, Has::Yes);
        let want = [(Capability::PartCopy, Has::Yes), (Capability::SortedLists, Has::Yes)];
        assert_eq!(learned.known(), want);
        assert_eq!(learned.has(Capability::PutIfMatch), None);
    }

    #[test]
    fn each_has_a_place_and_a_name_of_its_own() {
        for (place, capability) in Capability::ALL.into_iter().enumerate() {
            assert_eq!(capability.place(), place);
            let same = Capability::ALL.iter().filter(|other| other.name() == capability.name());
            assert_eq!(same.count(), 1);
        }
    }

    #[test]
    fn a_service_has_what_is_said_and_lacks_the_rest() {
        let learned = Learned::of_service(&[Capability::PartCopy]);
        assert_eq!(learned.known().len(), Capability::ALL.len());
        assert!(!learned.lacks(Capability::PartCopy) && learned.lacks(Capability::PutIfMatch));
        let learned = Learned::of_buckets(&[Capability::PartCopy], &[Capability::RealFolders]);
        assert_eq!(learned.has(Capability::RealFolders), None);
        assert_eq!(learned.known().len(), Capability::ALL.len() - 1);
    }
}
