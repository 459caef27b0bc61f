//! How the kernel does the I/O of an inode: through its page cache, or on the backing file.
//!
//! ```text
//!             open, complete and clean            close of the last
//!    Idle ───────────────────────────▶ Passthrough ───────────────▶ Idle
//!      └───────────────────────────▶ Cached ──────────────────────▶ Idle
//!                  any other open
//! ```
//!
//! While an inode is in one mode, every open must be of that mode and, in passthrough, name the
//! same backing file: the kernel answers a mixture with EIO.

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
    /// The kernel reads the backing file itself.
    Passthrough { opens: u32, backing: Arc<Lent> },
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
    /// On the backing file; it must be registered first, and if that fails it is `Cached`.
    Begin,
    /// On the backing file that is registered already.
    Join,
    /// On that backing file too, but with reads and writes as requests, so that we see the writes.
    /// The file must first be taken from the clean ones.
    JoinWriting,
}

impl IoMode {
    /// Decides the mode of an open; `whole` says whether the file is clean and completely here.
    pub(crate) fn choose(&self, access: Access, whole: Whole) -> Choice {
        match (self, access, whole) {
            (IoMode::Passthrough { .. }, Access::Read, _) => Choice::Join,
            (IoMode::Passthrough { .. }, Access::Write | Access::ReadWrite, _) => {
                Choice::JoinWriting
            }
            (IoMode::Idle, Access::Read, Whole::Yes) => Choice::Begin,
            (IoMode::Idle | IoMode::Cached { .. }, _, _) => Choice::Cached,
        }
    }

    /// An open was answered with the page cache.
    pub(crate) fn open_cached(&mut self) {
        *self = match self {
            IoMode::Idle => IoMode::Cached { opens: 1 },
            IoMode::Cached { opens } => IoMode::Cached { opens: *opens + 1 },
            IoMode::Passthrough { .. } => panic!("a cached open of an inode in passthrough"),
        };
    }

    /// An open was answered with the backing file; `begun` is the registration if it is the first.
    pub(crate) fn open_backing(&mut self, begun: Option<Lent>) -> u32 {
        let (opens, backing) = match (&*self, begun) {
            (IoMode::Idle, Some(begun)) => (1, Arc::new(begun)),
            (IoMode::Passthrough { opens, backing }, None) => (opens + 1, Arc::clone(backing)),
            (mode, begun) => panic!("a passthrough open ({begun:?}) in {mode:?}"),
        };
        let id = backing.backing.id();
        *self = IoMode::Passthrough { opens, backing };
        id
    }

    /// An open of this mode was released: its last descriptor and mapping are gone.
    pub(crate) fn close(&mut self) {
        let (IoMode::Cached { opens } | IoMode::Passthrough { opens, .. }) = self else {
            panic!("a close of an inode that is not open");
        };
        *opens -= 1;
        if *opens == 0 {
            *self = IoMode::Idle;
        }
    }

    /// Whether the kernel reads the backing file itself now.
    pub(crate) fn is_passthrough(&self) -> bool {
        matches!(self, IoMode::Passthrough { .. })
    }
}

/// Whether a file is clean, completely here, and the kernel may be given its backing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::{Choice, IoMode, Lent, Whole};
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

    #[test]
    fn only_a_reader_of_a_whole_idle_file_begins_passthrough() {
        for (access, whole, want) in [
            (Access::Read, Whole::Yes, Choice::Begin),
            (Access::Read, Whole::No, Choice::Cached),
            (Access::Write, Whole::Yes, Choice::Cached),
            (Access::ReadWrite, Whole::Yes, Choice::Cached),
        ] {
            assert_eq!(IoMode::Idle.choose(access, whole), want);
        }
    }

    #[test]
    fn a_file_stays_in_its_mode_until_the_last_close() {
        let mut mode = IoMode::Idle;
        mode.open_cached();
        assert_eq!(mode.choose(Access::Read, Whole::Yes), Choice::Cached);
        mode.open_cached();
        mode.close();
        assert_eq!(mode.choose(Access::Read, Whole::Yes), Choice::Cached);
        mode.close();
        assert_eq!(mode.choose(Access::Read, Whole::Yes), Choice::Begin);

        assert_eq!(mode.open_backing(Some(seven())), 7);
        assert_eq!(mode.choose(Access::Read, Whole::No), Choice::Join);
        assert_eq!(mode.choose(Access::Write, Whole::No), Choice::JoinWriting);
        assert_eq!(mode.open_backing(None), 7);
        mode.close();
        assert!(mode.is_passthrough());
        mode.close();
        assert!(!mode.is_passthrough());
    }

    #[test]
    #[should_panic(expected = "a cached open of an inode in passthrough")]
    fn a_mixture_is_a_bug() {
        let mut mode = IoMode::Idle;
        mode.open_backing(Some(seven()));
        mode.open_cached();
    }
}
