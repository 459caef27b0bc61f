//! Kernel request to `vfs` call to reply: one arm an operation.

use std::sync::Arc;
use std::time::Duration;

use base::{ByteRange, Clock, Errno, FileKind, HandleId, Ino, Name, NameError, Timestamp};
use fuse::{Access, Answer, Caller, DirEntry, OpenReply, Reply, Request, Service, SetTime, Statfs};
use namespace::{NewNode, Owner, RenameMode, SetAttr, SetId, Special, XattrMode};
use tokio::runtime::Handle;
use vfs::{Fallocate, Growth, Opened, Pages, Place, Plus, Privilege, Seek, Space, Vfs, WriteMode};

use crate::answer::{answer, told};
use crate::process::{Processes, is_killed};

/// The file system as the kernel's requests see it.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runtime: Handle,
    /// For how long the kernel may believe names and attributes.
    pub(crate) ttl: Duration,
    /// Whose close waits.
    pub(crate) processes: Processes,
}

/// The bits of a mode that say what a node is, and their value for a file.
const KIND_BITS: u32 = 0o170_000;
const KIND_FILE: u32 = 0o100_000;

/// Who keeps the set-uid bit of what it writes to.
const ROOT: u32 = 0;

/// How often it is looked whether a waiting program was killed.
const KILLED_LOOK_DELAY: Duration = Duration::from_secs(1);

const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

const O_EXCL: i32 = 0o200;
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

const FALLOC_KEEP_SIZE: i32 = 1;
const FALLOC_PUNCH_HOLE: i32 = 2;
const FALLOC_ZERO_RANGE: i32 = 16;

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl Service for Dispatch {
    fn serve(&self, caller: Caller, request: Request<'_>) -> Answer {
        self.dispatch(caller, request).unwrap_or_else(|errno| Answer::Now(Err(errno)))
    }
}

impl Dispatch {
    #[expect(clippy::too_many_lines, reason = "a table, an arm an operation")]
    #[expect(clippy::needless_pass_by_value, reason = "a request is spent by answering it")]
    fn dispatch(&self, caller: Caller, request: Request<'_>) -> Result<Answer, Errno> {
        let vfs = Arc::clone(&self.vfs);
        let (ttl, runtime) = (self.ttl, &self.runtime);
        Ok(match request {
            Request::Lookup { parent, name } => self.lookup(parent, checked(name)?),
            Request::Forget { ino, count } => {
                vfs.forget(ino, count);
                Answer::Now(Ok(Reply::Done))
            }
            Request::GetAttr { ino, .. } => {
                answer(runtime, async move { Ok(Reply::Attr(vfs.attr(ino).await?, ttl)) })
            }
            Request::SetAttr { ino, fh, mode, uid, gid, size, atime, mtime } => {
                let (atime, mtime) = (self.time(atime), self.time(mtime));
                let mode = mode.map(permissions);
                let owned_anew = uid.is_some() || gid.is_some();
                let lent = owned_anew || size.is_some() && caller.uid != ROOT;
                let set_id = if lent { SetId::Dropped } else { SetId::Kept };
                let change = SetAttr { mode, uid, gid, size, atime, mtime, ctime: None, set_id };
                answer(runtime, async move {
                    let changed = match fh {
                        Some(fh) => vfs.set_attr_by(fh, ino, change).await?,
                        None => vfs.set_attr(ino, change).await?,
                    };
                    Ok(Reply::Attr(changed, ttl))
                })
            }
            Request::MkNod { parent, name, mode, rdev, .. } => {
                let (name, node) = (checked(name)?, new_node(caller, mode));
                if let Some(kind) = special(mode)? {
                    let special = Special { kind, rdev };
                    return Ok(answer(runtime, async move {
                        let made = vfs.mknod_special(parent, name, special, node).await?;
                        Ok(Reply::Entry(made, ttl))
                    }));
                }
                answer(runtime, async move {
                    Ok(Reply::Entry(vfs.mknod(parent, name, node).await?, ttl))
                })
            }
            Request::MkDir { parent, name, mode, .. } => {
                let (name, node) = (checked(name)?, new_node(caller, mode));
                answer(runtime, async move {
                    Ok(Reply::Entry(vfs.mkdir(parent, name, node).await?, ttl))
                })
            }
            Request::Unlink { parent, name } => {
                let name = checked(name)?;
                answer(runtime, async move { done(vfs.unlink(parent, name).await) })
            }
            Request::RmDir { parent, name } => {
                let name = checked(name)?;
                answer(runtime, async move { done(vfs.rmdir(parent, name).await) })
            }
            Request::Rename { parent, name, new_parent, new_name, flags } => {
                let mode = rename_mode(flags)?;
                let (from, to) = ((parent, checked(name)?), (new_parent, checked(new_name)?));
                answer(runtime, async move { done(vfs.rename(from, to, mode).await) })
            }
            Request::Open { ino, access, .. } => self.open(caller, ino, access),
            Request::Create { parent, name, mode, access, flags, .. } => {
                let node = new_node(caller, mode);
                self.create(caller, (parent, checked(name)?), node, access, flags)
            }
            Request::Read { fh, offset, size, .. } => {
                answer(runtime, async move { Ok(Reply::Data(vfs.read(fh, offset, size).await?)) })
            }
            Request::Write { fh, offset, data, direct, .. } => {
                let mode = if direct { WriteMode::Direct } else { WriteMode::Buffered };
                self.write(caller, (fh, offset), data, mode)
            }
            Request::Flush { fh, .. } => {
                let closer = self.processes.of(caller.pid);
                answer(runtime, async move { done(vfs.flush(fh, closer).await) })
            }
            Request::Release { fh, .. } => answer(runtime, async move { done(vfs.release(fh)) }),
            Request::Fsync { fh, .. } => answer(runtime, async move { done(vfs.fsync(fh).await) }),
            Request::OpenDir { ino } => {
                Answer::Now(Ok(Reply::Opened(vfs.open_dir(ino), OpenReply::CachedAnew)))
            }
            Request::ReadDir { fh, offset, size, plus, .. } => {
                let plus = if plus { Plus::Yes } else { Plus::No };
                answer(runtime, async move {
                    let page = vfs.read_dir(fh, offset, size, plus).await?;
                    Ok(Reply::Entries(page.entries.into_iter().map(entry).collect(), ttl))
                })
            }
            Request::ReleaseDir { fh, .. } => {
                answer(runtime, async move { done(vfs.release_dir(fh)) })
            }
            Request::FsyncDir { ino, .. } => {
                answer(runtime, async move { done(vfs.fsync_dir(ino).await) })
            }
            Request::StatFs { .. } => Answer::Now(Ok(Reply::Statfs(statfs(vfs.space())))),
            Request::SymLink { parent, name, target } => {
                let (name, target) = (checked(name)?, target.to_vec());
                let owner = Owner { uid: caller.uid, gid: caller.gid };
                answer(runtime, async move {
                    Ok(Reply::Entry(vfs.symlink(parent, name, target, owner).await?, ttl))
                })
            }
            Request::ReadLink { ino } => {
                answer(runtime, async move { Ok(Reply::Data(vfs.readlink(ino).await?)) })
            }
            // Two names of one object are nothing that a bucket has.
            Request::Link { .. } => return Err(Errno::EPERM),
            Request::SetXattr { ino, name, value, flags } => {
                let (name, value, mode) = (name.to_vec(), value.to_vec(), xattr_mode(flags)?);
                answer(runtime, async move { done(vfs.set_xattr(ino, name, value, mode).await) })
            }
            Request::GetXattr { ino, name, .. } => {
                let name = name.to_vec();
                answer(runtime, async move { Ok(Reply::Data(vfs.xattr(ino, name).await?)) })
            }
            Request::ListXattr { ino, .. } => {
                let root = caller.uid == ROOT;
                let privilege = if root { Privilege::Root } else { Privilege::Ordinary };
                answer(runtime, async move { Ok(Reply::Data(vfs.xattrs(ino, privilege).await?)) })
            }
            Request::RemoveXattr { ino, name } => {
                let name = name.to_vec();
                answer(runtime, async move { done(vfs.remove_xattr(ino, name).await) })
            }
            Request::Fallocate { fh, offset, length, mode, .. } => {
                let range = ByteRange::at(offset, length).ok_or(Errno::EINVAL)?;
                let what = fallocate(mode)?;
                let lent = caller.uid != ROOT && vfs.has_set_id(fh);
                answer(runtime, async move {
                    if lent {
                        Arc::clone(&vfs).clear_set_id_of(fh).await?;
                    }
                    done(vfs.fallocate(fh, range, what).await)
                })
            }
            Request::Lseek { fh, offset, whence, .. } => {
                let seek = seek(whence)?;
                let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
                answer(runtime, async move {
                    let found = vfs.seek(fh, from, seek).await?;
                    Ok(Reply::Offset(i64::try_from(found).expect("it is in a file")))
                })
            }
            Request::CopyFileRange { fh, offset, to_fh, to_offset, length, .. } => {
                let lent = caller.uid != ROOT && vfs.has_set_id(to_fh);
                answer(runtime, async move {
                    if lent {
                        Arc::clone(&vfs).clear_set_id_of(to_fh).await?;
                    }
                    let copied = vfs.copy((fh, offset), (to_fh, to_offset), length).await?;
                    Ok(Reply::Written(u32::try_from(copied).expect("one call copies little")))
                })
            }
        })
    }

    /// A name that is not there is an answer too, which the kernel may believe.
    fn lookup(&self, parent: Ino, name: Name) -> Answer {
        let (vfs, ttl) = (Arc::clone(&self.vfs), self.ttl);
        answer(&self.runtime, async move {
            match vfs.lookup(parent, name).await {
                Ok(attr) => Ok(Reply::Entry(attr, ttl)),
                Err(error) if vfs::errno(&error) == Errno::ENOENT => Ok(Reply::NoEntry(ttl)),
                Err(error) => Err(error),
            }
        })
    }

    fn open(&self, caller: Caller, ino: Ino, access: Access) -> Answer {
        let vfs = Arc::clone(&self.vfs);
        let access = vfs_access(access);
        // Only a writer's close waits, so only a writer's process matters.
        let opener = if access.writes() { self.processes.of(caller.pid) } else { 0 };
        answer(&self.runtime, async move {
            let Opened { handle, pages } = vfs.open(ino, access, opener).await?;
            Ok(Reply::Opened(handle, open_reply(pages)))
        })
    }

    fn create(
        &self,
        caller: Caller,
        (parent, name): (Ino, Name),
        node: NewNode,
        access: Access,
        flags: i32,
    ) -> Answer {
        let (vfs, ttl) = (Arc::clone(&self.vfs), self.ttl);
        let opener = (self.processes.of(caller.pid), flags & O_EXCL != 0);
        answer(&self.runtime, async move {
            let (attr, Opened { handle, pages }) =
                vfs.create(parent, name, node, vfs_access(access), opener).await?;
            Ok(Reply::Created(attr, ttl, handle, open_reply(pages)))
        })
    }

    /// The data is the request's: only what has to wait takes a copy.
    fn write(&self, caller: Caller, to: Place, data: &[u8], mode: WriteMode) -> Answer {
        let (fh, _) = to;
        if caller.uid != ROOT && self.vfs.has_set_id(fh) {
            let (vfs, data) = (Arc::clone(&self.vfs), data.to_vec());
            return answer(&self.runtime, async move {
                Arc::clone(&vfs).clear_set_id_of(fh).await?;
                Ok(Reply::Written(vfs.write(to, data, mode).await?))
            });
        }
        if let Some(written) = self.vfs.try_write(to, data, mode) {
            if let (Ok(written), false) = (&written, self.vfs.has_room()) {
                return self.when_there_is_room(caller, (fh, mode), *written);
            }
            return Answer::Now(written.map(Reply::Written).map_err(|error| told(&error)));
        }
        let (vfs, data) = (Arc::clone(&self.vfs), data.to_vec());
        answer(&self.runtime, async move { Ok(Reply::Written(vfs.write(to, data, mode).await?)) })
    }

    /// The answer to a write that is done, when there is room for more. Who is killed meanwhile does not
    /// wait: the bytes are written, and no request says that their writer ends.
    fn when_there_is_room(
        &self,
        caller: Caller,
        (fh, mode): (HandleId, WriteMode),
        written: u32,
    ) -> Answer {
        let (vfs, clock) = (Arc::clone(&self.vfs), Arc::clone(&self.clock));
        answer(&self.runtime, async move {
            tokio::select! {
                () = vfs.wait_for_room_after(fh, mode) => {}
                () = killed(clock.as_ref(), caller.pid) => {}
            }
            Ok(Reply::Written(written))
        })
    }

    fn time(&self, time: Option<SetTime>) -> Option<Timestamp> {
        time.map(|time| match time {
            SetTime::Now => self.clock.wall(),
            SetTime::At(time) => time,
        })
    }
}

/// What `statfs` says of this room.
pub(crate) fn statfs(space: Space) -> Statfs {
    const BLOCK_BYTES: u32 = 4096;
    Statfs {
        block_bytes: BLOCK_BYTES,
        blocks: space.bytes / u64::from(BLOCK_BYTES),
        blocks_free: space.bytes_free / u64::from(BLOCK_BYTES),
        files: space.files_free,
        files_free: space.files_free,
        name_bytes_max: 255,
    }
}

/// Until the thread `thread` is told to end at once.
async fn killed(clock: &dyn Clock, thread: u32) {
    while !is_killed(thread) {
        clock.sleep(KILLED_LOOK_DELAY).await;
    }
}

fn checked(name: &[u8]) -> Result<Name, Errno> {
    Name::new(name).map_err(|error| match error {
        NameError::TooLong => Errno::ENAMETOOLONG,
        NameError::Invalid => Errno::EINVAL,
    })
}

fn done(result: vfs::Result<()>) -> vfs::Result<Reply> {
    result.map(|()| Reply::Done)
}

fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).expect("12 bits fit in 16")
}

fn new_node(caller: Caller, mode: u32) -> NewNode {
    NewNode { mode: permissions(mode), owner: Owner { uid: caller.uid, gid: caller.gid } }
}

/// The kind of a node without bytes; `None` for a file.
fn special(mode: u32) -> Result<Option<FileKind>, Errno> {
    match mode & KIND_BITS {
        0 | KIND_FILE => Ok(None),
        0o010_000 => Ok(Some(FileKind::Fifo)),
        0o140_000 => Ok(Some(FileKind::Socket)),
        0o020_000 => Ok(Some(FileKind::CharDevice)),
        0o060_000 => Ok(Some(FileKind::BlockDevice)),
        _ => Err(Errno::EINVAL),
    }
}

fn xattr_mode(flags: i32) -> Result<XattrMode, Errno> {
    match flags {
        0 => Ok(XattrMode::Set),
        XATTR_CREATE => Ok(XattrMode::Create),
        XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Errno::EINVAL),
    }
}

fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match flags {
        0 => Ok(RenameMode::Replace),
        RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        _ => Err(Errno::EINVAL),
    }
}

fn fallocate(mode: i32) -> Result<Fallocate, Errno> {
    let growth = if mode & FALLOC_KEEP_SIZE == 0 { Growth::Grows } else { Growth::Stays };
    match mode & !FALLOC_KEEP_SIZE {
        0 => Ok(Fallocate::Allocate(growth)),
        FALLOC_PUNCH_HOLE if growth == Growth::Stays => Ok(Fallocate::Punch),
        FALLOC_ZERO_RANGE => Ok(Fallocate::Zero(growth)),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn seek(whence: i32) -> Result<Seek, Errno> {
    match whence {
        SEEK_DATA => Ok(Seek::Data),
        SEEK_HOLE => Ok(Seek::Hole),
        _ => Err(Errno::EINVAL),
    }
}

fn vfs_access(access: Access) -> vfs::Access {
    match access {
        Access::Read => vfs::Access::Read,
        Access::Write => vfs::Access::Write,
        Access::ReadWrite => vfs::Access::ReadWrite,
    }
}

fn open_reply(pages: Pages) -> OpenReply {
    match pages {
        Pages::Anew => OpenReply::CachedAnew,
        Pages::Keep => OpenReply::CachedKeep,
        Pages::Backing(id) => OpenReply::Passthrough(id),
        Pages::BackingSeen(id) => OpenReply::PassthroughDirect(id),
        Pages::Seen | Pages::PastStale => OpenReply::Direct,
    }
}

fn entry(entry: vfs::DirEntry) -> DirEntry {
    let vfs::DirEntry { name, ino, kind, attr, next_offset } = entry;
    DirEntry { ino, kind, next_offset, name, attr }
}
