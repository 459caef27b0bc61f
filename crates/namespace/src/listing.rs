//! The entries of a folder as they come in: a sequence that grows, shared by all who read it.
//!
//! An entry keeps its place in the sequence for as long as anybody has the sequence. Whoever fills
//! it runs ahead of its readers by no more than it is allowed to, and stops when the last reader is
//! gone.

use std::sync::{Arc, Weak};

use base::{FileKind, Ino, Name};
use tokio::sync::watch;

use crate::{Error, ErrorKind, Result};

/// One entry of a folder, without its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name in its folder.
    pub name: Name,
    /// The number of what it names; not held.
    pub ino: Ino,
    /// What it names.
    pub kind: FileKind,
}

/// The entries of a folder but `.` and `..`, each once, in an order that stays.
#[derive(Clone, Debug)]
pub struct Listing {
    reader: Arc<Reader>,
}

#[derive(Debug)]
struct Reader {
    entries: watch::Receiver<Entries>,
    wanted: watch::Sender<usize>,
}

/// A listing that may be joined while somebody reads it.
#[derive(Clone, Debug)]
pub(crate) struct WeakListing(Weak<Reader>);

/// The end of a listing at which entries are put in.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    entries: Arc<watch::Sender<Entries>>,
    wanted: watch::Receiver<usize>,
}

/// What has come so far.
#[derive(Debug, Default)]
struct Entries {
    // Invariant: no chunk is empty, and each begins where the one before it ends.
    chunks: Vec<(usize, Chunk)>,
    len: usize,
    end: Option<End>,
}

#[derive(Clone, Debug)]
enum End {
    /// Nothing is missing.
    Whole,
    /// The rest could not be had.
    Failed(Arc<Error>),
}

/// Some entries, packed: an open folder may hold millions of them for long.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    names: Vec<u8>,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    ino: Ino,
    name_end: u32,
    kind: FileKind,
}

/// An empty listing, and the end to fill it at.
pub(crate) fn listing() -> (Filling, Listing) {
    let (entries, entries_read) = watch::channel(Entries::default());
    let (wanted, wanted_read) = watch::channel(0);
    let filling = Filling { entries: Arc::new(entries), wanted: wanted_read };
    (filling, Listing { reader: Arc::new(Reader { entries: entries_read, wanted }) })
}

impl Listing {
    /// A listing that is known already.
    pub fn of(entries: impl IntoIterator<Item = Listed>) -> Listing {
        let (filling, listing) = listing();
        let mut chunk = Chunk::default();
        for Listed { name, ino, kind } in entries {
            chunk.push(&name, ino, kind);
        }
        filling.put(chunk);
        filling.end();
        listing
    }

    /// At most `count_max` entries from the place `from` on, as soon as there is one; none at the
    /// end. Fails where the rest could not be had, never ends early instead.
    pub async fn page(&self, from: usize, count_max: usize) -> Result<Vec<Listed>> {
        let wanted = from.saturating_add(count_max);
        self.reader.wanted.send_if_modified(|before| {
            let more = *before < wanted;
            *before = wanted.max(*before);
            more
        });
        let mut entries = self.reader.entries.clone();
        let ready = entries.wait_for(|entries| from < entries.len || entries.end.is_some()).await;
        let Ok(entries) = ready else {
            // Nobody fills it any more: the mount is at its end.
            let kind = ErrorKind::Remote(remote::ErrorKind::Unavailable);
            return Err(Error { kind, op: "list", subject: "a folder".to_owned(), source: None });
        };
        match &entries.end {
            Some(End::Failed(error)) if entries.len <= from => Err(error.again()),
            Some(End::Whole | End::Failed(_)) | None => Ok(entries.page(from, count_max)),
        }
    }

    /// Every entry, once the last has come.
    pub async fn all(&self) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        loop {
            let page = self.page(all.len(), PAGE_ENTRIES).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    pub(crate) fn downgrade(&self) -> WeakListing {
        WeakListing(Arc::downgrade(&self.reader))
    }
}

/// How many entries are taken at a time by who takes all.
const PAGE_ENTRIES: usize = 1000;

impl WeakListing {
    pub(crate) fn upgrade(&self) -> Option<Listing> {
        self.0.upgrade().map(|reader| Listing { reader })
    }
}

impl Filling {
    /// Puts in entries.
    pub(crate) fn put(&self, chunk: Chunk) {
        if chunk.lines.is_empty() {
            return;
        }
        self.entries.send_modify(|entries| {
            let first = entries.len;
            entries.len += chunk.lines.len();
            entries.chunks.push((first, chunk.packed()));
        });
    }

    /// That was all.
    pub(crate) fn end(&self) {
        self.entries.send_modify(|entries| entries.end = Some(End::Whole));
    }

    /// The rest cannot be had.
    pub(crate) fn fail(&self, error: Error) {
        self.entries.send_modify(|entries| entries.end = Some(End::Failed(Arc::new(error))));
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len
    }

    /// How many entries the readers have asked for.
    pub(crate) fn wanted(&self) -> usize {
        *self.wanted.borrow()
    }

    /// Waits until the readers ask for more than `count` entries.
    pub(crate) async fn wanted_more(&self, count: usize) {
        if self.wanted.clone().wait_for(|&wanted| count < wanted).await.is_err() {
            // They are gone and never will.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn abandoned(&self) {
        self.entries.closed().await;
    }

    /// Every name that was put in.
    pub(crate) fn names(&self) -> Vec<Name> {
        let entries = self.entries.borrow();
        entries.page(0, entries.len).into_iter().map(|listed| listed.name).collect()
    }
}

impl Entries {
    fn page(&self, from: usize, count_max: usize) -> Vec<Listed> {
        let chunk = self.chunks.partition_point(|(first, chunk)| first + chunk.lines.len() <= from);
        let later = self.chunks.get(chunk..).unwrap_or_default().iter();
        let places = later.flat_map(|(first, chunk)| {
            let skipped = from.saturating_sub(*first);
            (skipped..chunk.lines.len()).map(|place| chunk.listed(place))
        });
        places.take(count_max).collect()
    }
}

impl Chunk {
    pub(crate) fn push(&mut self, name: &Name, ino: Ino, kind: FileKind) {
        self.names.extend_from_slice(name.as_bytes());
        let name_end = u32::try_from(self.names.len()).expect("less than 4 GiB of names");
        self.lines.push(Line { ino, name_end, kind });
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    fn packed(mut self) -> Chunk {
        self.names.shrink_to_fit();
        self.lines.shrink_to_fit();
        self
    }

    fn listed(&self, place: usize) -> Listed {
        let end = |line: &Line| usize::try_from(line.name_end).expect("32 bits fit");
        let start = place.checked_sub(1).map_or(0, |before| end(&self.lines[before]));
        let line = &self.lines[place];
        let name = Name::new(&self.names[start..end(line)]).expect("it was one when it was put in");
        Listed { name, ino: line.ino, kind: line.kind }
    }
}

#[cfg(test)]
mod tests {
    use base::{FileKind, Ino, Name};

    use super::{Chunk, Filling, Line, Listed, Listing, listing};
    use crate::{Error, ErrorKind};

    fn chunk(numbers: std::ops::Range<u64>) -> Chunk {
        let mut chunk = Chunk::default();
        for number in numbers {
            chunk.push(&name(number), Ino(number), FileKind::File);
        }
        chunk
    }

    fn name(number: u64) -> Name {
        Name::new(format!("name{number}").as_bytes()).unwrap()
    }

    async fn numbers(listing: &Listing, from: usize, count_max: usize) -> Vec<u64> {
        let page = listing.page(from, count_max).await.unwrap();
        for listed in &page {
            assert_eq!(listed.name, name(listed.ino.0));
        }
        page.iter().map(|listed| listed.ino.0).collect()
    }

    #[tokio::test]
    async fn an_entry_keeps_its_place_while_others_come() {
        let (filling, listing) = listing();
        filling.put(chunk(0..3));
        assert_eq!(numbers(&listing, 1, 10).await, [1, 2]);
        filling.put(Chunk::default());
        filling.put(chunk(3..7));
        assert_eq!(numbers(&listing, 1, 4).await, [1, 2, 3, 4]);
        assert_eq!(numbers(&listing, 5, 1).await, [5]);
        filling.end();
        assert!(numbers(&listing, 7, 10).await.is_empty());
        assert!(numbers(&listing, 70, 10).await.is_empty());
        assert_eq!(listing.all().await.unwrap().len(), 7);
    }

    #[tokio::test]
    async fn what_came_before_a_failure_is_read_and_then_the_failure() {
        let (filling, listing) = listing();
        filling.put(chunk(0..3));
        filling.fail(Error::node(ErrorKind::Stale, "list", Ino(9)));
        assert_eq!(numbers(&listing, 0, 10).await, [0, 1, 2]);
        for _ in 0..2 {
            assert_eq!(listing.page(3, 10).await.unwrap_err().kind, ErrorKind::Stale);
        }
        assert!(listing.all().await.is_err());
    }

    #[tokio::test]
    async fn who_fills_is_told_how_much_is_wanted_and_when_nobody_reads() {
        let (filling, listing) = listing();
        filling.put(chunk(0..3));
        listing.page(0, 2).await.unwrap();
        assert_eq!((filling.len(), filling.wanted()), (3, 2));
        listing.page(0, 1).await.unwrap();
        assert_eq!(filling.wanted(), 2, "what was wanted once stays wanted");
        let again = listing.downgrade().upgrade().unwrap();
        drop(listing);
        tokio::select! {
            biased;
            () = filling.abandoned() => panic!("it is read still"),
            () = std::future::ready(()) => {}
        }
        let weak = again.downgrade();
        drop(again);
        filling.abandoned().await;
        assert!(weak.upgrade().is_none());
    }

    #[tokio::test]
    async fn a_listing_that_is_given_up_fails_for_its_readers() {
        let (filling, listing): (Filling, Listing) = listing();
        drop(filling);
        assert!(listing.page(0, 1).await.is_err());
    }

    #[test]
    fn an_entry_of_an_open_folder_takes_16_bytes_and_its_name() {
        assert_eq!(size_of::<Line>(), 16);
        let packed = chunk(0..10).packed();
        assert_eq!((packed.lines.capacity(), packed.names.capacity()), (10, 50));
    }

    #[tokio::test]
    async fn a_known_listing_is_read_like_any_other() {
        let entry = Listed { name: name(5), ino: Ino(5), kind: FileKind::Directory };
        let listing = Listing::of([entry.clone()]);
        assert_eq!(listing.all().await.unwrap(), [entry]);
        assert!(Listing::of([]).all().await.unwrap().is_empty());
    }
}
