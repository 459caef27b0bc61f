//! Where a reply goes: one type for each kind of answer the kernel waits for, each taking the one
//! or two [`Reply`]s that fit it.

use std::sync::Arc;

use base::{Counter, FileKind, Ino, Metrics};
use fuser::{
    FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};

use crate::convert;
use crate::service::{Access, OpenReply, Reply};

/// Nodes are numbered for good, so there is only ever one generation of a number.
pub(crate) const GENERATION: Generation = Generation(0);

/// Waits for one reply. Dropped without one it answers EIO, as `fuser`'s replies do.
pub(crate) trait Slot: Sized + Send + 'static {
    /// Sends `reply`, or gives both back if the request cannot be answered like that.
    fn fill(self, reply: Reply) -> Result<(), (Self, Reply)>;

    /// Sends an error number.
    fn refuse(self, errno: fuser::Errno);
}

/// For requests without an answer.
pub(crate) struct Silence;

impl Slot for Silence {
    fn fill(self, _: Reply) -> Result<(), (Silence, Reply)> {
        Ok(())
    }

    fn refuse(self, _: fuser::Errno) {}
}

impl Slot for ReplyEmpty {
    fn fill(self, reply: Reply) -> Result<(), (ReplyEmpty, Reply)> {
        let Reply::Done = reply else { return Err((self, reply)) };
        self.ok();
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

impl Slot for ReplyEntry {
    fn fill(self, reply: Reply) -> Result<(), (ReplyEntry, Reply)> {
        if let Reply::Entry(attr, ttl) = reply {
            self.entry(&convert::ttl(ttl), &convert::attr(&attr), GENERATION);
            return Ok(());
        }
        let Reply::NoEntry(ttl) = reply else { return Err((self, reply)) };
        // The number 0 says that there is no node, and that the kernel may remember it.
        let nothing = convert::bare_attr(Ino(0), FileKind::File);
        self.entry(&convert::ttl(ttl), &nothing, GENERATION);
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

impl Slot for ReplyAttr {
    fn fill(self, reply: Reply) -> Result<(), (ReplyAttr, Reply)> {
        let Reply::Attr(attr, ttl) = reply else { return Err((self, reply)) };
        self.attr(&convert::ttl(ttl), &convert::attr(&attr));
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

/// For readlink.
impl Slot for ReplyData {
    fn fill(self, reply: Reply) -> Result<(), (ReplyData, Reply)> {
        let Reply::Data(bytes) = reply else { return Err((self, reply)) };
        self.data(&bytes);
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

/// For read: never more than was asked for.
pub(crate) struct ReadSlot {
    pub(crate) reply: ReplyData,
    pub(crate) size: u32,
    pub(crate) metrics: Arc<Metrics>,
}

impl Slot for ReadSlot {
    fn fill(self, reply: Reply) -> Result<(), (ReadSlot, Reply)> {
        let Reply::Data(bytes) = reply else { return Err((self, reply)) };
        if bytes.len() > self.size as usize {
            return Err((self, Reply::Data(bytes)));
        }
        self.metrics.add(Counter::FuseReadBytes, bytes.len() as u64);
        self.reply.data(&bytes);
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }
}

impl Slot for ReplyWrite {
    fn fill(self, reply: Reply) -> Result<(), (ReplyWrite, Reply)> {
        let Reply::Written(bytes) = reply else { return Err((self, reply)) };
        self.written(bytes);
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

/// For open.
pub(crate) struct OpenSlot {
    pub(crate) reply: ReplyOpen,
    pub(crate) access: Access,
}

impl Slot for OpenSlot {
    fn fill(self, reply: Reply) -> Result<(), (OpenSlot, Reply)> {
        let Reply::Opened(handle, how) = reply else { return Err((self, reply)) };
        let flags = convert::fopen_flags(how, self.access);
        let handle = FileHandle(handle.0);
        let Some(id) = backing_id(how) else {
            self.reply.opened(handle, flags);
            return Ok(());
        };
        // SAFETY: the number is only lent: `into_raw` below takes it back before anything could
        // close it. A number that the kernel does not know makes the open fail, no more.
        let backing = unsafe { self.reply.wrap_backing(id) };
        self.reply.opened_passthrough(handle, flags, &backing);
        backing.into_raw();
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }
}

/// For opendir: folders are not cached as such, only their entries' names and attributes.
pub(crate) struct OpenDirSlot(pub(crate) ReplyOpen);

impl Slot for OpenDirSlot {
    fn fill(self, reply: Reply) -> Result<(), (OpenDirSlot, Reply)> {
        let Reply::Opened(handle, _) = reply else { return Err((self, reply)) };
        self.0.opened(FileHandle(handle.0), FopenFlags::empty());
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.0.error(errno);
    }
}

/// For create.
pub(crate) struct CreateSlot {
    pub(crate) reply: ReplyCreate,
    pub(crate) access: Access,
}

impl Slot for CreateSlot {
    fn fill(self, reply: Reply) -> Result<(), (CreateSlot, Reply)> {
        let Reply::Created(attr, ttl, handle, how) = reply else { return Err((self, reply)) };
        let flags = convert::fopen_flags(how, self.access);
        let (attr, ttl) = (convert::attr(&attr), convert::ttl(ttl));
        let handle = FileHandle(handle.0);
        let Some(id) = backing_id(how) else {
            self.reply.created(&ttl, &attr, GENERATION, handle, flags);
            return Ok(());
        };
        // SAFETY: as for open: lent, and taken back by `into_raw`.
        let backing = unsafe { self.reply.wrap_backing(id) };
        self.reply.created_passthrough(&ttl, &attr, GENERATION, handle, flags, &backing);
        backing.into_raw();
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }
}

fn backing_id(how: OpenReply) -> Option<u32> {
    match how {
        OpenReply::Passthrough(id) | OpenReply::PassthroughDirect(id) => Some(id),
        OpenReply::CachedAnew | OpenReply::CachedKeep | OpenReply::Direct => None,
    }
}

impl Slot for ReplyStatfs {
    fn fill(self, reply: Reply) -> Result<(), (ReplyStatfs, Reply)> {
        let Reply::Statfs(space) = reply else { return Err((self, reply)) };
        self.statfs(
            space.blocks,
            space.blocks_free,
            space.blocks_free,
            space.files,
            space.files_free,
            space.block_bytes,
            space.name_bytes_max,
            space.block_bytes,
        );
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}

/// For getxattr and listxattr: a value where its length was asked for, or where it does not fit,
/// is answered as the system call has it.
pub(crate) struct XattrSlot {
    pub(crate) reply: ReplyXattr,
    pub(crate) size: u32,
}

impl Slot for XattrSlot {
    fn fill(self, reply: Reply) -> Result<(), (XattrSlot, Reply)> {
        if let Reply::Length(length) = reply {
            self.reply.size(length);
            return Ok(());
        }
        let Reply::Data(value) = reply else { return Err((self, reply)) };
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        if self.size == 0 {
            self.reply.size(length);
        } else if length > self.size {
            self.reply.error(fuser::Errno::ERANGE);
        } else {
            self.reply.data(&value);
        }
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }
}

impl Slot for ReplyLseek {
    fn fill(self, reply: Reply) -> Result<(), (ReplyLseek, Reply)> {
        let Reply::Offset(offset) = reply else { return Err((self, reply)) };
        self.offset(offset);
        Ok(())
    }

    fn refuse(self, errno: fuser::Errno) {
        self.error(errno);
    }
}
