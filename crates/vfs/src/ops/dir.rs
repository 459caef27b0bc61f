//! opendir, readdir, releasedir.

use std::sync::Arc;

use base::{Attr, FileKind, HandleId, Ino};
use namespace::Entry;

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

/// What an entry takes in the kernel's buffer besides its name, at least.
const ENTRY_BYTES_MIN: u32 = 24;

impl Vfs {
    /// Opens a folder.
    pub fn open_dir(&self, ino: Ino) -> HandleId {
        self.handles.add_dir(Dir::new(ino))
    }

    /// Entries from `offset` on, about as many as fit in `size` bytes; with attributes and a
    /// reference each if `plus`.
    pub async fn read_dir(
        self: Arc<Self>,
        handle: HandleId,
        offset: u64,
        size: u32,
        plus: Plus,
    ) -> Result<DirPage> {
        let dir = self.handles.dir(handle)?;
        let listed = match dir.entries() {
            Some(listed) if 0 < offset => listed,
            Some(_) | None => dir.fix(self.namespace.list(dir.ino).await?),
        };
        let parent = self.namespace.parent(dir.ino)?;
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        let count = ENTRIES_MAX.min((size / ENTRY_BYTES_MIN).max(1) as usize);
        let end = first.saturating_add(count).min(DOTS + listed.len());
        let mut entries = Vec::with_capacity(end.saturating_sub(first));
        for place in first..end {
            match place {
                0 => entries.push(dot(b".", dir.ino, place)),
                1 => entries.push(dot(b"..", parent, place)),
                _ => {
                    let entry = &listed[place - DOTS];
                    entries.extend(self.listed(dir.ino, entry, place, plus).await?);
                }
            }
        }
        Ok(DirPage { entries })
    }

    /// Closes a folder.
    pub fn release_dir(&self, handle: HandleId) -> Result<()> {
        self.handles.remove_dir(handle).map(|_| ())
    }

    /// What was listed, as it is sent; `None` if it is not there any more.
    async fn listed(
        &self,
        dir: Ino,
        entry: &Entry,
        place: usize,
        plus: Plus,
    ) -> Result<Option<DirEntry>> {
        let attr = match plus {
            Plus::No => None,
            Plus::Yes => match self.hand_out(entry.attr) {
                Ok(attr) => Some(attr),
                // Its number was forgotten since it was listed.
                Err(_) => match self.namespace.lookup(dir, &entry.name).await {
                    Ok(found) => Some(self.hand_out(found.attr)?),
                    Err(error) if error.kind == namespace::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error.into()),
                },
            },
        };
        Ok(Some(DirEntry {
            name: entry.name.as_bytes().to_vec(),
            ino: attr.map_or(entry.attr.ino, |attr| attr.ino),
            kind: entry.attr.kind,
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
