//! Listings and sums of a bucket without a mount: page by page, with as much memory as a page takes.
//!
//! ```text
//!   remote ─▶ Pages ─▶ Inventory ─▶ lines         (with attributes: one more request a folder)
//!                          └──────▶ Tally ─▶ sums of folders
//! ```

use std::ops::ControlFlow;

use base::{FileKind, Timestamp};
use remote::{Entry, Folders, Fresh, Key, ListOrder, ListRequest, Remote, Result, in_order};

use super::attributes::book::SHARDS;
use super::attributes::place::{OBJECT, shard};
use super::attributes::sheet::{self, Items, Text};
use super::form::Form;
use super::inventory::{Found, Inventory};
use super::looks::{Looks, Source};
use super::tally::{FolderSum, Tally};
use super::{foreign, keys};
use crate::Owner;

/// How far below the folder a listing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The entries of the folder.
    Folder,
    /// All that is below it.
    All,
}

/// Mode and owner of entries that have none recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of folders.
    pub folder_mode: u16,
    /// Owner and group of both.
    pub owner: Owner,
}

/// An entry, as a mount shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browsed {
    /// Its path below the listed folder.
    pub path: Vec<u8>,
    /// What it is; without attributes a link is the file that its object is.
    pub kind: FileKind,
    /// Its size; 0 for a folder.
    pub size: u64,
    /// When it was changed; `None` for a folder that has no time recorded.
    pub mtime: Option<Timestamp>,
    /// Permission bits and owner, if attributes were asked for.
    pub looks: Option<(u16, Owner)>,
    /// Where a link points.
    pub target: Option<Vec<u8>>,
}

/// Attribute objects of more bytes than this are not read: a listing is to take little memory.
const ATTRIBUTES_BYTES_MAX: u64 = 16 << 20;

/// Lists `remote`, in the order of keys as far as the store has one, until `tell` wants no more.
pub async fn browse(
    remote: &dyn Remote,
    depth: Depth,
    assumed: Option<Assumed>,
    tell: &mut (dyn FnMut(Browsed) -> ControlFlow<()> + Send),
) -> Result<()> {
    let mut pages = Pages::new(remote, depth);
    let mut inventory = Inventory::default();
    let mut sheets = Sheets::default();
    loop {
        let page = pages.next().await?;
        let mut found = Vec::new();
        let is_over = take(&mut inventory, page, &mut |one| found.push(one));
        for one in found {
            let browsed = match assumed {
                Some(assumed) => sheets.dressed(remote, one, assumed).await?,
                None => plain(one),
            };
            if tell(browsed).is_break() {
                return Ok(());
            }
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Sums up the files of `remote` by folder, to `depth` folders below the listed one. Tells each folder after those in it.
pub async fn sum_up(
    remote: &dyn Remote,
    depth: usize,
    tell: &mut (dyn FnMut(FolderSum) + Send),
) -> Result<()> {
    let mut pages = Pages::new(remote, Depth::All);
    let mut tally = Tally::new(depth);
    while let Some(Page { begins, entries, .. }) = pages.next().await? {
        if let Some(folder) = begins {
            tally.folder(&folder, tell);
        }
        for entry in &entries {
            if let Entry::Object(key, meta) = entry
                && !keys::is_hidden(&Key::from(""), key)
                && !key.as_bytes().is_empty()
            {
                tally.object(key, meta.size, tell);
            }
        }
    }
    tally.end(tell);
    Ok(())
}

/// Puts a page into the inventory. True at the end.
fn take(inventory: &mut Inventory, page: Option<Page>, tell: &mut dyn FnMut(Found)) -> bool {
    let Some(Page { begins, entries, ends }) = page else {
        inventory.end(tell);
        return true;
    };
    if let Some(folder) = begins {
        inventory.begin(&folder);
    }
    for entry in entries {
        inventory.entry(entry, tell);
    }
    if ends {
        inventory.end(tell);
    }
    false
}

/// A page of a listing.
#[derive(Debug)]
struct Page {
    /// The folder whose listing begins with it, where each folder is listed by itself.
    begins: Option<Key>,
    entries: Vec<Entry>,
    /// Whether the listing of that folder ends with it.
    ends: bool,
}

/// The pages of a listing.
///
/// Where the store lists keys in their order, one listing has all that is below a folder. Elsewhere folders are listed
/// one by one.
#[derive(Debug)]
struct Pages<'a> {
    remote: &'a dyn Remote,
    how: How,
    /// Folders to be listed, the next one at the end.
    folders: Vec<Key>,
    /// The listing under way, and the folders that were found in it.
    request: Option<(ListRequest, Vec<Key>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    AllAtOnce,
    OneFolder,
    FolderByFolder,
}

impl<'a> Pages<'a> {
    fn new(remote: &'a dyn Remote, depth: Depth) -> Pages<'a> {
        let naming = remote.personality().naming;
        let is_whole = naming.order == ListOrder::Keys && naming.folders != Folders::Real;
        let how = match depth {
            Depth::Folder => How::OneFolder,
            Depth::All if is_whole => How::AllAtOnce,
            Depth::All => How::FolderByFolder,
        };
        Pages { remote, how, folders: vec![Key::from("")], request: None }
    }

    async fn next(&mut self) -> Result<Option<Page>> {
        let mut begins = None;
        let (request, below) = match &mut self.request {
            Some(under_way) => under_way,
            none => {
                let Some(prefix) = self.folders.pop() else { return Ok(None) };
                begins = Some(prefix.clone());
                let request = ListRequest {
                    prefix,
                    delimited: self.how != How::AllAtOnce,
                    start_after: None,
                    continuation: None,
                    entries_max: 1000,
                };
                none.insert((request, Vec::new()))
            }
        };
        let page = in_order(self.remote, request).await?;
        if self.how == How::FolderByFolder {
            below.extend(page.entries.iter().filter_map(|entry| match entry {
                Entry::Prefix(prefix) => Some(prefix.clone()),
                Entry::Object(..) => None,
            }));
        }
        let ends = page.next.is_none();
        request.continuation = page.next;
        if ends && let Some((_, below)) = self.request.take() {
            self.folders.extend(below.into_iter().rev());
        }
        Ok(Some(Page { begins, entries: page.entries, ends }))
    }
}

/// An entry without attributes.
fn plain(found: Found) -> Browsed {
    let Found { path, object, .. } = found;
    let (kind, size, mtime) = match object {
        Some(meta) => (foreign::form(&meta.metadata).kind(), meta.size, Some(meta.modified)),
        None => (FileKind::Directory, 0, None),
    };
    Browsed { path, kind, size, mtime, looks: None, target: None }
}

/// The attributes of the folders above the last entry.
#[derive(Debug, Default)]
struct Sheets {
    open: Vec<(Key, Items)>,
}

impl Sheets {
    async fn dressed(
        &mut self,
        remote: &dyn Remote,
        found: Found,
        assumed: Assumed,
    ) -> Result<Browsed> {
        let items = self.of(remote, &found.folder).await?;
        let version = found.object.as_ref().map(|meta| &meta.version);
        let item = items.get(&found.label).filter(|item| item.version.as_ref() == version);
        let mut browsed = plain(found.clone());
        let mode = if browsed.kind == FileKind::Directory {
            assumed.folder_mode
        } else {
            assumed.file_mode
        };
        let since = browsed.mtime.unwrap_or(Timestamp { secs: 0, nanos: 0 });
        let mut looks = Looks::new(mode, assumed.owner, since, Source::Assumed);
        if let Some(meta) = &found.object {
            looks = looks.with_metadata(&meta.metadata);
            if let Form::Link(Some(target)) = foreign::form(&meta.metadata) {
                browsed.target = Some(target.to_vec());
            }
        }
        if let Some(item) = item {
            looks = looks.with_item(item);
            browsed.kind = item.kind;
            browsed.target = item.target.as_ref().map(|target| target.to_vec());
        }
        if browsed.mtime.is_some() || looks.mtime != since {
            browsed.mtime = Some(looks.mtime);
        }
        browsed.looks = Some((looks.mode, looks.owner));
        Ok(browsed)
    }

    /// The attributes in the folder `prefix`. Those of folders that are over are forgotten.
    async fn of(&mut self, remote: &dyn Remote, prefix: &Key) -> Result<&Items> {
        while let Some((open, _)) = self.open.last() {
            if prefix.as_bytes().starts_with(open.as_bytes()) {
                break;
            }
            self.open.pop();
        }
        if self.open.last().is_none_or(|(open, _)| open != prefix) {
            let items = read_attributes(remote, prefix).await?;
            self.open.push((prefix.clone(), items));
        }
        Ok(self.open.last().map(|(_, items)| items).expect("it was put there"))
    }
}

async fn read_attributes(remote: &dyn Remote, prefix: &Key) -> Result<Items> {
    match read_sheet(remote, &prefix.join(OBJECT)).await? {
        Some(Text::Items { items, .. }) => Ok(items),
        Some(Text::Split { id, .. }) => {
            let mut all = Items::new();
            for at in 0..SHARDS {
                let part = read_sheet(remote, &prefix.join(&shard(&id, at))).await?;
                if let Some(Text::Items { items, .. }) = part {
                    all.extend(items);
                }
            }
            Ok(all)
        }
        Some(Text::Unknown) | None => Ok(Items::new()),
    }
}

/// An attribute object; `None` if there is none that can be read.
async fn read_sheet(remote: &dyn Remote, key: &Key) -> Result<Option<Text>> {
    use remote::ErrorKind;
    match remote.get_whole(key, None, ATTRIBUTES_BYTES_MAX).await {
        Ok(Fresh::New(_, bytes)) => Ok(Some(sheet::read(&bytes))),
        Ok(Fresh::Same) => Ok(None),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Unsupported) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
