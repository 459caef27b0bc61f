//! State of the kernel's page cache for one inode: may an open keep the pages?
//!
//! An open whose answer does not say "keep" drops all pages, but the kernel does that some time after the answer. An
//! open that is answered meanwhile keeps the old pages. A buffered write beside it may leave its own old bytes: the
//! kernel puts new bytes into the cache, sends them, and a read after the drop can overtake the write. So the daemon
//! drops stale pages itself, before it answers.
//!
//! ```text
//!             open                  edit                     publish
//!   Empty ───────────▶ Of(version) ───────▶ Written ───────────────────────▶ Of(version)
//!     ▲                     │                  │
//!     └──── dropped ◀──── Stale ◀── another version, or a write past the cache
//! ```
//!
//! Invariant: pages that are not `Stale` hold no bytes older than those that the daemon has answered.

use base::ByteRange;

/// Drops at a time. Each holds a thread until reads that are under way are answered, and those may need one, too.
pub(crate) const DROPS_MAX: usize = 64;

/// How the kernel sends a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// From the page cache. The kernel may hold locks of its pages until the answer.
    Buffered,
    /// Past the page cache. After an asynchronous one the kernel leaves pages that a read has filled meanwhile, with
    /// the old bytes.
    Direct,
}

/// Whether the kernel holds the lock of the inode (`i_rwsem`) while it waits for an answer. It does for fsync and lseek.
/// Every buffered write takes that lock until it is answered, so none runs beside a drop then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeLock {
    Held,
    Free,
}

/// The bytes that the page cache may hold of an inode.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    pages: Pages,
    /// Changes that made the pages stale. A drop that began before one of them proves nothing.
    passed: u64,
    /// Drops beside which a buffered write may have run, and left old bytes.
    drops: Drops,
}

/// Drops that buffered writes may run beside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    begun: u64,
    ended: u64,
}

/// Buffered writes of one open that a drop may have run beside.
#[derive(Debug)]
pub(crate) struct Unsettled {
    drops: Drops,
    /// All bytes that were written since, and those between them.
    written: Option<ByteRange>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Pages {
    /// No pages.
    #[default]
    Empty,
    /// Bytes that were written through the cache, over what was there.
    Written,
    /// Bytes of this version only.
    Of(Box<[u8]>),
    /// Bytes that may be old.
    Stale,
}

/// The bytes that an open reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// Those of a version.
    Version(&'a [u8]),
    /// Those of a staged file.
    Staged,
}

/// Whether the pages are those that the open is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Keep,
    /// They have to be dropped first.
    Stale,
}

/// A drop of pages that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropBegun {
    passed: u64,
    lock: InodeLock,
}

/// The pages that a drop has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    All,
    /// Pages outside of the range, or all of them if the kernel refused.
    Some,
}

impl PageCache {
    /// An open goes through the page cache, for `content`.
    pub(crate) fn open(&mut self, content: Content<'_>) -> Fit {
        let next = match (&self.pages, content) {
            (Pages::Stale, _) => None,
            (Pages::Written | Pages::Of(_) | Pages::Empty, Content::Staged) => Some(Pages::Written),
            (Pages::Empty, Content::Version(version)) => Some(Pages::Of(version.into())),
            (Pages::Of(of), Content::Version(version)) if **of == *version => return Fit::Keep,
            (Pages::Of(_) | Pages::Written, Content::Version(_)) => None,
        };
        if let Some(next) = next {
            self.pages = next;
            Fit::Keep
        } else {
            self.pass();
            Fit::Stale
        }
    }

    /// The bytes of `version` are changed through the cache from now on.
    pub(crate) fn edit(&mut self, version: &[u8]) {
        match &self.pages {
            Pages::Of(of) if **of == *version => self.pages = Pages::Written,
            Pages::Empty | Pages::Stale => {}
            Pages::Of(_) | Pages::Written => self.pass(),
        }
    }

    /// The bytes that were written are the version `version` now.
    pub(crate) fn publish(&mut self, version: &[u8]) {
        match self.pages {
            Pages::Written | Pages::Of(_) => self.pages = Pages::Of(version.into()),
            Pages::Empty | Pages::Stale => {}
        }
    }

    /// The bytes change from now on, or have changed, without the cache seeing it. No open has filled the cache since
    /// it was empty.
    pub(crate) fn bypass(&mut self) {
        if self.pages != Pages::Empty {
            self.pass();
        }
    }

    /// The bytes have changed without the cache seeing it, and reads or mappings may have filled it meanwhile.
    pub(crate) fn pass(&mut self) {
        self.pages = Pages::Stale;
        self.passed += 1;
    }

    /// The kernel is asked to drop pages.
    pub(crate) fn begin_drop(&mut self, lock: InodeLock) -> DropBegun {
        self.drops.begun += u64::from(lock == InodeLock::Free);
        DropBegun { passed: self.passed, lock }
    }

    /// The kernel has dropped pages, as far as `dropped` says.
    pub(crate) fn end_drop(&mut self, begun: DropBegun, dropped: Dropped) {
        self.drops.ended += u64::from(begun.lock == InodeLock::Free);
        let is_clean = dropped == Dropped::All && begun.passed == self.passed;
        if is_clean && self.pages == Pages::Stale {
            self.pages = Pages::Empty;
        }
    }

    /// The drops that buffered writes may have run beside.
    pub(crate) fn drops(&self) -> Drops {
        self.drops
    }

    /// Whether some pages may be old.
    pub(crate) fn is_stale(&self) -> bool {
        self.pages == Pages::Stale
    }
}

impl Unsettled {
    /// An open at this moment.
    pub(crate) fn new(drops: Drops) -> Unsettled {
        Unsettled { drops, written: None }
    }

    /// A buffered write of `range` begins.
    pub(crate) fn wrote(&mut self, range: ByteRange) {
        let (start, end) = (range.start(), range.end());
        self.written = self
            .written
            .map_or(Some(range), |all| ByteRange::new(all.start().min(start), all.end().max(end)));
    }

    /// Returns the bytes whose pages may be old. They are forgotten only under the lock of the inode: without it another
    /// thread may be in the middle of a write, beside a drop that is still to come.
    pub(crate) fn settle(&mut self, drops: Drops, lock: InodeLock) -> Option<ByteRange> {
        let is_beside = self.drops != drops || drops.begun != drops.ended;
        let unsettled = self.written.filter(|_| is_beside);
        if lock == InodeLock::Held {
            *self = Unsettled::new(drops);
        }
        unsettled
    }
}

#[cfg(test)]
mod tests {
    use base::ByteRange;

    use super::{Content, Dropped, Fit, InodeLock, PageCache, Unsettled};

    const V1: Content<'_> = Content::Version(b"v1");
    const V2: Content<'_> = Content::Version(b"v2");

    fn drop_all(cache: &mut PageCache) {
        let begun = cache.begin_drop(InodeLock::Free);
        cache.end_drop(begun, Dropped::All);
    }

    #[test]
    fn pages_are_kept_for_the_same_version_only() {
        let mut cache = PageCache::default();
        assert_eq!(cache.open(V1), Fit::Keep, "there are none");
        assert_eq!(cache.open(V1), Fit::Keep);
        assert_eq!(cache.open(V2), Fit::Stale);
        assert_eq!(cache.open(V1), Fit::Stale, "the drop is still to come");
        drop_all(&mut cache);
        assert_eq!(cache.open(V2), Fit::Keep);
    }

    #[test]
    fn pages_follow_bytes_that_are_written_through_them() {
        let mut cache = PageCache::default();
        assert_eq!(cache.open(V1), Fit::Keep);
        cache.edit(b"v1");
        assert_eq!(cache.open(Content::Staged), Fit::Keep);
        cache.publish(b"v2");
        assert_eq!(cache.open(V2), Fit::Keep);
    }

    #[test]
    fn pages_of_another_version_are_stale_for_an_edit() {
        let mut cache = PageCache::default();
        assert_eq!(cache.open(V1), Fit::Keep);
        cache.edit(b"v2");
        assert_eq!(cache.open(Content::Staged), Fit::Stale);
    }

    #[test]
    fn publishing_does_not_revive_stale_pages() {
        let mut cache = PageCache::default();
        assert_eq!(cache.open(V1), Fit::Keep);
        cache.pass();
        cache.publish(b"v2");
        assert_eq!(cache.open(V2), Fit::Stale);
    }

    #[test]
    fn bypass_spoils_pages_only_if_there_are_any() {
        let mut cache = PageCache::default();
        cache.bypass();
        assert_eq!(cache.open(V1), Fit::Keep);
        cache.bypass();
        assert_eq!(cache.open(V1), Fit::Stale);
    }

    #[test]
    fn drop_proves_nothing_for_a_later_change() {
        let mut cache = PageCache::default();
        cache.pass();
        let begun = cache.begin_drop(InodeLock::Free);
        cache.pass();
        cache.end_drop(begun, Dropped::All);
        assert!(cache.is_stale());
        let begun = cache.begin_drop(InodeLock::Free);
        cache.end_drop(begun, Dropped::Some);
        assert!(cache.is_stale(), "not all were dropped");
        drop_all(&mut cache);
        assert!(!cache.is_stale());
    }

    #[test]
    fn write_beside_a_drop_is_unsettled_once() {
        let range = |start, end| ByteRange::new(start, end).unwrap();
        let mut cache = PageCache::default();
        let mut open = Unsettled::new(cache.drops());
        open.wrote(range(0, 10));
        let held = InodeLock::Held;
        assert_eq!(open.settle(cache.drops(), held), None, "no drop");
        drop_all(&mut cache);
        assert_eq!(open.settle(cache.drops(), held), None, "no write since");
        open.wrote(range(5, 10));
        drop_all(&mut cache);
        open.wrote(range(20, 30));
        assert_eq!(open.settle(cache.drops(), held), Some(range(5, 30)));
        open.wrote(range(5, 10));
        assert_eq!(open.settle(cache.drops(), held), None);
    }

    #[test]
    fn write_stays_unsettled_when_a_duplicate_is_closed() {
        let range = ByteRange::new(0, 10).unwrap();
        let mut cache = PageCache::default();
        let mut open = Unsettled::new(cache.drops());
        open.wrote(range);
        assert_eq!(open.settle(cache.drops(), InodeLock::Free), None);
        drop_all(&mut cache);
        assert_eq!(open.settle(cache.drops(), InodeLock::Free), Some(range));
        assert_eq!(open.settle(cache.drops(), InodeLock::Free), Some(range), "the last close");
    }

    #[test]
    fn write_is_unsettled_while_a_drop_runs() {
        let mut cache = PageCache::default();
        let begun = cache.begin_drop(InodeLock::Free);
        let mut open = Unsettled::new(cache.drops());
        open.wrote(ByteRange::new(0, 10).unwrap());
        assert!(open.settle(cache.drops(), InodeLock::Held).is_some());
        cache.end_drop(begun, Dropped::All);
    }

    #[test]
    fn drop_under_the_inode_lock_unsettles_no_write() {
        let mut cache = PageCache::default();
        let mut open = Unsettled::new(cache.drops());
        open.wrote(ByteRange::new(0, 10).unwrap());
        let begun = cache.begin_drop(InodeLock::Held);
        cache.end_drop(begun, Dropped::All);
        assert_eq!(open.settle(cache.drops(), InodeLock::Free), None);
    }
}
