//! How the kernel does the I/O of an inode: through its page cache, on the backing file, or with a request
//! for each call.
//!
//! ```text
//!            a reader of what is wholly here
//!      ┌───────────────────────────────────▶ Passthrough ◀──┐ any other open
//!      │     who made it, to write only                     │
//!    Idle ───────────────────────────────▶ Direct ──────────┘
//!      │     any other open
//!      └───────────────────────────────▶ Cached
//! ```
//!
//! The last close leads back; that of the last in passthrough to who made the file, if he still writes.
//!
//! While an inode is in one mode, every open must be of that mode and, in passthrough, name the
//! same backing file: the kernel answers a mixture with EIO. Only direct opens of before may go on beside
//! passthrough: nothing of what they write is in the page cache, and all of it is in the backing file. A direct
//! open must have reached the kernel then, and answers may overtake one another. Who makes a file is waited for
//! until he goes on with it; after any other direct open there is no passthrough until all are closed.

use std::sync::Arc;

use crate::access::Access;
use crate::kernel::Backing;
use store::BackingFile;

/// The mode of one inode, with how many opens hold it there.
#[derive(Clone, Debug, Default)]
pub(crate) enum IoMode {
    /// Nothing is open.
    #[default]
    Idle,
    /// Reads and writes are requests, but for what the page cache answers.
    Cached { opens: u32 },
    /// Reads and writes are requests, and pass the page cache by.
    Direct { opens: u32, beside: Beside },
    /// The kernel reads the backing file itself; but for some opens of before, which are direct.
    Passthrough { opens: u32, direct: u32, backing: Arc<Lent> },
}

/// Whether passthrough may begin beside direct opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Passthrough,
    Nothing,
}

/// A backing file that the kernel reads.
#[derive(Debug)]
pub(crate) struct Lent {
    /// The kernel's number for it.
    pub(crate) backing: Box<dyn Backing>,
    /// While it is held here nothing of it is evicted.
    pub(crate) _file: Option<Arc<BackingFile>>,
}

/// How the next open is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Through the page cache.
    Cached,
    /// With a request for each read and write.
    Direct,
    /// On the backing file; it must be registered first, and if that fails it is what is given here.
    Begin(Otherwise),
    /// On the backing file that is registered already. Reads and writes of a writer are requests, so
    /// that we see the writes: the file must first be taken from the clean ones.
    Join,
}

/// How an open is answered whose backing file the kernel does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    Cached,
    Direct,
}

/// What an open counts as until its close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A direct one.
    Direct,
    /// One through the page cache, or on the backing file.
    Other,
}

impl IoMode {
    /// Decides the mode of an open of a file that is `here`.
    pub(crate) fn choose(&self, (access, opening): (Access, Opening), here: Whole) -> Choice {
        match (self, here) {
            (IoMode::Passthrough { .. }, _) => Choice::Join,
            (IoMode::Idle, Whole::Clean | Whole::Staged) if access == Access::Read => {
                Choice::Begin(Otherwise::Cached)
            }
            (IoMode::Idle, Whole::Staged)
                if (access, opening) == (Access::Write, Opening::Made) =>
            {
                Choice::Direct
            }
            (IoMode::Direct { beside: Beside::Passthrough, .. }, Whole::Clean | Whole::Staged) => {
                Choice::Begin(Otherwise::Direct)
            }
            (IoMode::Direct { .. }, _) => Choice::Direct,
            (IoMode::Idle | IoMode::Cached { .. }, _) => Choice::Cached,
        }
    }

    /// An open was answered with the page cache.
    pub(crate) fn open_cached(&mut self) {
        *self = match self {
            IoMode::Idle => IoMode::Cached { opens: 1 },
            IoMode::Cached { opens } => IoMode::Cached { opens: *opens + 1 },
            IoMode::Direct { .. } | IoMode::Passthrough { .. } => {
                panic!("a cached open in {self:?}")
            }
        };
    }

    /// An open was answered with a request for each call.
    pub(crate) fn open_direct(&mut self) {
        *self = match self {
            IoMode::Idle => IoMode::Direct { opens: 1, beside: Beside::Passthrough },
            IoMode::Direct { opens, .. } => {
                IoMode::Direct { opens: *opens + 1, beside: Beside::Nothing }
            }
            IoMode::Cached { .. } | IoMode::Passthrough { .. } => {
                panic!("a direct open in {self:?}")
            }
        };
    }

    /// An open was answered with the backing file; `begun` is the registration if it is the first.
    pub(crate) fn open_backing(&mut self, begun: Option<Lent>) -> u32 {
        let (opens, direct, backing) = match (&*self, begun) {
            (IoMode::Idle, Some(begun)) => (1, 0, Arc::new(begun)),
            (IoMode::Direct { opens, beside: Beside::Passthrough }, Some(begun)) => {
                (1, *opens, Arc::new(begun))
            }
            (IoMode::Passthrough { opens, direct, backing }, None) => {
                (opens + 1, *direct, Arc::clone(backing))
            }
            (mode, begun) => panic!("a passthrough open ({begun:?}) in {mode:?}"),
        };
        let id = backing.backing.id();
        *self = IoMode::Passthrough { opens, direct, backing };
        id
    }

    /// An open of this kind was released: its last descriptor and mapping are gone.
    pub(crate) fn close(&mut self, kind: Kind) {
        let opens = match (&mut *self, kind) {
            (IoMode::Cached { opens } | IoMode::Passthrough { opens, .. }, Kind::Other) => opens,
            (
                IoMode::Direct { opens, .. } | IoMode::Passthrough { direct: opens, .. },
                Kind::Direct,
            ) => opens,
            (mode, _) => panic!("a close of {kind:?} in {mode:?}"),
        };
        *opens -= 1;
        if 0 < *opens {
            return;
        }
        let direct = match self {
            IoMode::Passthrough { opens: 0, direct, .. } => *direct,
            IoMode::Passthrough { .. } => return,
            IoMode::Idle | IoMode::Cached { .. } | IoMode::Direct { .. } => 0,
        };
        *self = match direct {
            0 => IoMode::Idle,
            opens => IoMode::Direct { opens, beside: Beside::Passthrough },
        };
    }

    /// Whether reads go through the page cache now.
    pub(crate) fn is_cached(&self) -> bool {
        matches!(self, IoMode::Cached { .. })
    }

    /// Whether the page cache may get bytes while an open writes past it: another open, or its mapping, reads there.
    pub(crate) fn fills_pages_beside_a_writer(&self) -> bool {
        match self {
            IoMode::Idle | IoMode::Passthrough { .. } => false,
            IoMode::Cached { opens } | IoMode::Direct { opens, .. } => 1 < *opens,
        }
    }

    /// Whether the kernel reads the backing file itself now.
    pub(crate) fn is_passthrough(&self) -> bool {
        matches!(self, IoMode::Passthrough { .. })
    }
}

/// Whether an open is of a name that is just being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Made,
    Found,
}

/// Whether a file is completely here, and the kernel may be given its backing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// It is, and is clean.
    Clean,
    /// It is, with bytes that the bucket does not have.
    Staged,
    No,
}

#[cfg(test)]
mod tests {
    use super::{Choice, IoMode, Kind, Lent, Opening, Otherwise, Whole};
    use crate::access::Access;
    use crate::kernel::Backing;

    #[derive(Debug)]
    struct Seven;

    impl Backing for Seven {
        fn id(&self) -> u32 {
            7
        }
    }

    fn seven() -> Lent {
        Lent { backing: Box::new(Seven), _file: None }
    }

    const BEGIN: Choice = Choice::Begin(Otherwise::Cached);

    fn found(mode: &IoMode, access: Access, whole: Whole) -> Choice {
        mode.choose((access, Opening::Found), whole)
    }

    #[test]
    fn the_first_open_decides_by_where_the_bytes_are() {
        for (access, whole, want) in [
            (Access::Read, Whole::Clean, BEGIN),
            (Access::Read, Whole::Staged, BEGIN),
            (Access::Read, Whole::No, Choice::Cached),
            (Access::Write, Whole::Clean, Choice::Cached),
            (Access::Write, Whole::Staged, Choice::Cached),
            (Access::Write, Whole::No, Choice::Cached),
            (Access::ReadWrite, Whole::Clean, Choice::Cached),
            (Access::ReadWrite, Whole::Staged, Choice::Cached),
        ] {
            assert_eq!(found(&IoMode::Idle, access, whole), want);
        }
        for (access, whole, want) in [
            (Access::Write, Whole::Staged, Choice::Direct),
            (Access::Write, Whole::No, Choice::Cached),
            (Access::ReadWrite, Whole::Staged, Choice::Cached),
        ] {
            assert_eq!(IoMode::Idle.choose((access, Opening::Made), whole), want);
        }
    }

    #[test]
    fn a_file_stays_in_its_mode_until_the_last_close() {
        let mut mode = IoMode::Idle;
        mode.open_cached();
        assert_eq!(found(&mode, Access::Read, Whole::Clean), Choice::Cached);
        assert_eq!(found(&mode, Access::Write, Whole::Staged), Choice::Cached);
        mode.open_cached();
        mode.close(Kind::Other);
        assert_eq!(found(&mode, Access::Read, Whole::Clean), Choice::Cached);
        mode.close(Kind::Other);
        assert_eq!(found(&mode, Access::Read, Whole::Clean), BEGIN);

        assert_eq!(mode.open_backing(Some(seven())), 7);
        for access in [Access::Read, Access::Write, Access::ReadWrite] {
            assert_eq!(found(&mode, access, Whole::No), Choice::Join);
        }
        assert_eq!(mode.open_backing(None), 7);
        mode.close(Kind::Other);
        assert!(mode.is_passthrough());
        mode.close(Kind::Other);
        assert!(!mode.is_passthrough());
    }

    #[test]
    fn nobody_reads_through_the_page_cache_what_is_written_past_it() {
        let mut mode = IoMode::Idle;
        mode.open_direct();
        for access in [Access::Read, Access::Write, Access::ReadWrite] {
            for whole in [Whole::Staged, Whole::Clean] {
                assert_eq!(found(&mode, access, whole), Choice::Begin(Otherwise::Direct));
            }
            assert_eq!(found(&mode, access, Whole::No), Choice::Direct);
        }
    }

    #[test]
    fn after_a_direct_open_that_may_be_overtaken_all_are_direct() {
        let mut mode = IoMode::Idle;
        mode.open_direct();
        mode.open_direct();
        mode.close(Kind::Direct);
        for access in [Access::Read, Access::Write, Access::ReadWrite] {
            assert_eq!(found(&mode, access, Whole::Staged), Choice::Direct);
        }
        mode.close(Kind::Direct);
        assert_eq!(found(&mode, Access::Read, Whole::Staged), BEGIN);
    }

    #[test]
    fn who_made_a_file_goes_on_beside_readers_of_the_backing_file() {
        let mut mode = IoMode::Idle;
        mode.open_direct();
        mode.open_backing(Some(seven()));
        mode.close(Kind::Other);
        assert!(matches!(mode, IoMode::Direct { opens: 1, .. }));
        mode.open_backing(Some(seven()));
        mode.close(Kind::Direct);
        assert!(mode.is_passthrough());
        mode.close(Kind::Other);
        assert!(matches!(mode, IoMode::Idle));
    }

    #[test]
    #[should_panic(expected = "a cached open in Passthrough")]
    fn a_mixture_is_a_bug() {
        let mut mode = IoMode::Idle;
        mode.open_backing(Some(seven()));
        mode.open_cached();
    }
}
