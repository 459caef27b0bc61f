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

/// The bytes that the page cache may hold of an inode.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    pages: Pages,
    /// Changes that made the pages stale. A drop that began before one of them proves nothing.
    passed: u64,
    /// Drops that began, and drops that ended. A buffered write beside a drop may leave old bytes.
    drops: u64,
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
    pub(crate) fn begin_drop(&mut self) -> DropBegun {
        self.drops += 1;
        DropBegun { passed: self.passed }
    }

    /// The kernel has dropped pages, as far as `dropped` says.
    pub(crate) fn end_drop(&mut self, begun: DropBegun, dropped: Dropped) {
        self.drops += 1;
        let is_clean = dropped == Dropped::All && begun.passed == self.passed;
        if is_clean && self.pages == Pages::Stale {
            self.pages = Pages::Empty;
        }
    }

    /// A number that changes with every drop, at its begin and at its end.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Whether some pages may be old.
    pub(crate) fn is_stale(&self) -> bool {
        self.pages == Pages::Stale
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Dropped, Fit, PageCache};

    const V1: Content<'_> = Content::Version(b"v1");
    const V2: Content<'_> = Content::Version(b"v2");

    fn drop_all(cache: &mut PageCache) {
        let begun = cache.begin_drop();
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
        let begun = cache.begin_drop();
        cache.pass();
        cache.end_drop(begun, Dropped::All);
        assert!(cache.is_stale());
        let begun = cache.begin_drop();
        cache.end_drop(begun, Dropped::Some);
        assert!(cache.is_stale(), "not all were dropped");
        drop_all(&mut cache);
        assert!(!cache.is_stale());
    }

    #[test]
    fn drop_count_changes_at_begin_and_end() {
        let mut cache = PageCache::default();
        let before = cache.drops();
        let begun = cache.begin_drop();
        let during = cache.drops();
        cache.end_drop(begun, Dropped::All);
        assert!(before != during && during != cache.drops());
    }
}
