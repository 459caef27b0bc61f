//! opendir, readdir, releasedir.

use std::sync::Arc;

use base::{Attr, FileKind, HandleId, Ino};
use namespace::{Listed, Listing};

use crate::dir::Dir;
use crate::errno::Result;
use crate::vfs::Vfs;

/// Part of a folder's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirPage {
    /// In order.
    pub entries: Vec<DirEntry>,
}

/// One entry of a folder's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name; `.` and `..` are the first two.
    pub name: Vec<u8>,
    /// The node.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Its attributes, with one more reference to it; none for `.` and `..`.
    pub attr: Option<Attr>,
    /// Where the stream goes on after this entry.
    pub next_offset: u64,
}

/// `.` and `..` come before the names.
const DOTS: usize = 2;

/// What an entry takes in the kernel's buffer at least, without attributes and with them.
const ENTRY_BYTES_MIN: u32 = 32;
const ENTRY_PLUS_BYTES_MIN: u32 = 160;

impl Vfs {
    /// Opens a folder.
    pub fn open_dir(&self, ino: Ino) -> HandleId {
        self.handles.add_dir(Dir::new(ino))
    }

    /// Entries from `offset` on that are known by now, and at least one unless there are no more;
    /// at most about as many as fit in `size` bytes. With attributes and a reference each if `plus`.
    /// Fails where the rest of the folder could not be listed, and does not end early instead.
    pub async fn read_dir(
        self: Arc<Self>,
        handle: HandleId,
        offset: u64,
        size: u32,
        plus: Plus,
    ) -> Result<DirPage> {
        let dir = self.handles.dir(handle)?;
        let listing = match dir.listing() {
            Some(listing) if 0 < offset => listing,
            Some(_) | None => dir.begin(self.namespace.listing(dir.ino).await?),
        };
        let entry_bytes = match plus {
            Plus::Yes => ENTRY_PLUS_BYTES_MIN,
            Plus::No => ENTRY_BYTES_MIN,
        };
        let count_max = ENTRIES_MAX.min((size / entry_bytes).max(1) as usize);
        let mut entries = Vec::new();
        let mut place = usize::try_from(offset).unwrap_or(usize::MAX);
        if place == 0 {
            entries.push(dot(b".", dir.ino, place));
            place += 1;
        }
        if place == 1 && entries.len() < count_max {
            // A folder that was removed is in no other.
            let parent = self.namespace.parent(dir.ino).unwrap_or(dir.ino);
            entries.push(dot(b"..", parent, place));
            place += 1;
        }
        if DOTS <= place && entries.len() < count_max {
            let count_max = count_max - entries.len();
            entries.extend(self.listed(dir.ino, &listing, (place, count_max), plus).await?);
        }
        Ok(DirPage { entries })
    }

    /// Closes a folder.
    pub fn release_dir(&self, handle: HandleId) -> Result<()> {
        self.handles.remove_dir(handle).map(|_| ())
    }

    /// At most `count_max` entries from `place` on; none only at the end.
    async fn listed(
        &self,
        dir: Ino,
        listing: &Listing,
        (mut place, count_max): (usize, usize),
        plus: Plus,
    ) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        while entries.is_empty() {
            let page = listing.page(place - DOTS, count_max).await?;
            if page.is_empty() {
                break;
            }
            for listed in page {
                match self.entry(dir, listed, place, plus).await {
                    Ok(entry) => entries.extend(entry),
                    // The references of those before are handed out; who asks for more hears of it.
                    Err(_) if !entries.is_empty() => return Ok(entries),
                    Err(error) => return Err(error),
                }
                place += 1;
            }
        }
        Ok(entries)
    }

    /// What was listed, as it is sent; `None` if it is not there any more.
    async fn entry(
        &self,
        dir: Ino,
        Listed { name, ino, kind }: Listed,
        place: usize,
        plus: Plus,
    ) -> Result<Option<DirEntry>> {
        let attr = match plus {
            Plus::No => None,
            Plus::Yes => match self.hand_out_listed(ino) {
                Some(attr) => Some(attr),
                // Its number was forgotten since it was listed.
                None => match self.namespace.lookup(dir, &name).await {
                    Ok(found) => Some(self.hand_out(found.attr)?),
                    Err(error) if error.kind == namespace::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error.into()),
                },
            },
        };
        Ok(Some(DirEntry {
            name: name.as_bytes().to_vec(),
            ino: attr.map_or(ino, |attr| attr.ino),
            kind: attr.map_or(kind, |attr| attr.kind),
            attr,
            next_offset: place as u64 + 1,
        }))
    }
}

/// Whether attributes are wanted with the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// Names with attributes.
    Yes,
    /// Names alone.
    No,
}

/// One reply holds no more than this: the kernel's buffer for it is one page to 32 pages.
const ENTRIES_MAX: usize = 1024;

fn dot(name: &[u8], ino: Ino, place: usize) -> DirEntry {
    DirEntry {
        name: name.to_vec(),
        ino,
        kind: FileKind::Directory,
        attr: None,
        next_offset: place as u64 + 1,
    }
}
