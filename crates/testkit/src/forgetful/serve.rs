//! What a disk that forgets answers the kernel.
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not served is refused")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Errno, FileKind, HandleId};
use fuse::{Answer, Caller, DirEntry, OpenReply, Reply, Request, Service, Statfs};

use super::tree::Tree;

/// Nothing changes but through the mount, so the kernel may believe everything.
const TTL: Duration = Duration::from_hours(1);

const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const NOREPLACE: u32 = 1;

/// A mounted disk.
#[derive(Debug)]
pub(super) struct Disk {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tree: Tree,
    /// What is listed of each open folder.
    listings: BTreeMap<HandleId, Vec<DirEntry>>,
    last_handle: u64,
}

impl Disk {
    pub(super) fn new(tree: Tree) -> Disk {
        let state = State { tree, listings: BTreeMap::new(), last_handle: 0 };
        Disk { state: Mutex::new(state) }
    }

    /// What a power cut leaves of it.
    pub(super) fn after_cut(&self, draw: &mut dyn FnMut(u64) -> u64) -> Tree {
        self.state().tree.after_cut(draw)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Disk {
    fn serve(&self, _: Caller, request: Request<'_>) -> Answer {
        let mut state = self.state();
        Answer::Now(match request {
            Request::OpenDir { .. }
            | Request::ReadDir { .. }
            | Request::ReleaseDir { .. }
            | Request::FsyncDir { .. } => state.folder(&request),
            Request::Open { .. }
            | Request::Read { .. }
            | Request::Write { .. }
            | Request::Flush { .. }
            | Request::Release { .. }
            | Request::Fsync { .. }
            | Request::Fallocate { .. } => state.file(&request),
            _ => state.name(&request),
        })
    }
}

impl State {
    fn name(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        let tree = &mut self.tree;
        match *request {
            Request::Lookup { parent, name } => match tree.lookup(parent, name) {
                Err(Errno::ENOENT) => Ok(Reply::NoEntry(TTL)),
                found => Ok(Reply::Entry(found?, TTL)),
            },
            Request::Forget { ino, count } => {
                tree.forget(ino, count);
                Ok(Reply::Done)
            }
            Request::GetAttr { ino, .. } => Ok(Reply::Attr(tree.attr(ino)?, TTL)),
            Request::SetAttr { ino, size, mode, .. } => {
                if let Some(size) = size {
                    tree.bytes(ino)?.set_size(size);
                }
                if let Some(mode) = mode {
                    tree.set_mode(ino, bits(mode))?;
                }
                Ok(Reply::Attr(tree.attr(ino)?, TTL))
            }
            Request::MkDir { parent, name, mode, umask } => {
                let attr = tree.make((parent, name), FileKind::Directory, bits(mode & !umask))?;
                Ok(Reply::Entry(attr, TTL))
            }
            Request::Create { parent, name, mode, umask, .. } => {
                let attr = tree.make((parent, name), FileKind::File, bits(mode & !umask))?;
                Ok(Reply::Created(attr, TTL, HandleId(0), OpenReply::CachedKeep))
            }
            Request::Unlink { parent, name } | Request::RmDir { parent, name } => {
                tree.remove(parent, name).map(|()| Reply::Done)
            }
            Request::Rename { parent, name, new_parent, new_name, flags } => {
                if flags & !NOREPLACE != 0 {
                    return Err(Errno::EINVAL);
                }
                if flags == NOREPLACE && tree.lookup(new_parent, new_name).is_ok() {
                    return Err(Errno::EEXIST);
                }
                tree.rename((parent, name), (new_parent, new_name)).map(|()| Reply::Done)
            }
            Request::StatFs { .. } => Ok(Reply::Statfs(Statfs {
                block_bytes: 4096,
                blocks: 50 << 20,
                blocks_free: 40 << 20,
                files: 2 << 20,
                files_free: 1 << 20,
                name_bytes_max: 255,
            })),
            Request::Lseek { .. } => Err(Errno::ENOSYS),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn file(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        let tree = &mut self.tree;
        match *request {
            Request::Open { .. } => Ok(Reply::Opened(HandleId(0), OpenReply::CachedKeep)),
            Request::Read { ino, offset, size, .. } => {
                Ok(Reply::Data(tree.bytes(ino)?.read(offset, size as usize)))
            }
            Request::Write { ino, offset, data, .. } => {
                tree.bytes(ino)?.write(offset, data);
                Ok(Reply::Written(u32::try_from(data.len()).expect("a request's data")))
            }
            Request::Fsync { ino, .. } => tree.sync(ino).map(|()| Reply::Done),
            Request::Fallocate { ino, offset, length, mode, .. } => {
                match mode {
                    // There is always room.
                    KEEP_SIZE => {}
                    mode if mode == KEEP_SIZE | PUNCH_HOLE => {
                        tree.bytes(ino)?.punch(offset, offset + length);
                    }
                    _ => return Err(Errno::EOPNOTSUPP),
                }
                Ok(Reply::Done)
            }
            // Closing a file brings nothing to the disk.
            _ => Ok(Reply::Done),
        }
    }

    fn folder(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        match *request {
            Request::OpenDir { ino } => {
                self.last_handle += 1;
                let handle = HandleId(self.last_handle);
                let dots =
                    [b".".to_vec(), b"..".to_vec()].map(|dot| (dot, ino, FileKind::Directory));
                let entries = dots.into_iter().chain(self.tree.list(ino)).zip(1..);
                let entries = entries.map(|((name, ino, kind), next_offset)| DirEntry {
                    ino,
                    kind,
                    next_offset,
                    name,
                    attr: None,
                });
                self.listings.insert(handle, entries.collect());
                Ok(Reply::Opened(handle, OpenReply::CachedAnew))
            }
            Request::ReadDir { fh, offset, plus, .. } => {
                let listing = self.listings.get(&fh).ok_or(Errno::EBADF)?;
                let after = listing.iter().filter(|entry| offset < entry.next_offset);
                let mut entries: Vec<DirEntry> = after.take(100).cloned().collect();
                if plus {
                    entries = entries.into_iter().map(|entry| self.dressed(entry)).collect();
                }
                Ok(Reply::Entries(entries, TTL))
            }
            Request::ReleaseDir { fh, .. } => {
                self.listings.remove(&fh);
                Ok(Reply::Done)
            }
            Request::FsyncDir { ino, .. } => self.tree.sync(ino).map(|()| Reply::Done),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// An entry of which the kernel is told, if it is still there.
    fn dressed(&mut self, entry: DirEntry) -> DirEntry {
        let is_dot = entry.name == b"." || entry.name == b"..";
        let attr = if is_dot { None } else { self.tree.refer(entry.ino) };
        DirEntry { attr, ..entry }
    }
}

fn bits(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).expect("twelve bits")
}
