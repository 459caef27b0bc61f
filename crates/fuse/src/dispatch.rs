//! The table of operations: what the kernel sends as a typed request, and the slot for its reply.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use base::Counter;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, TimeOrNow, WriteFlags,
};

use crate::answer::Core;
use crate::convert::{access, caller, handle, ino, set_time};
use crate::init::{self, Wishes};
use crate::listing::{ListPlusSlot, ListSlot};
use crate::service::Request;
use crate::slot::{CreateSlot, OpenDirSlot, OpenSlot, ReadSlot, Slot, XattrSlot};

/// What `fuser` calls.
#[derive(Debug)]
pub(crate) struct Dispatch {
    core: Arc<Core>,
    wishes: Wishes,
}

impl Dispatch {
    pub(crate) fn new(core: Arc<Core>, wishes: Wishes) -> Dispatch {
        Dispatch { core, wishes }
    }

    fn ask(&self, from: &fuser::Request, op: &'static str, request: Request, slot: impl Slot) {
        self.core.answer(caller(from), op, request, slot);
    }
}

impl Filesystem for Dispatch {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        init::agree(config, self.wishes);
        Ok(())
    }

    fn lookup(&self, from: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let request = Request::Lookup { parent: ino(parent), name: name.as_bytes() };
        self.ask(from, "lookup", request, reply);
    }

    fn forget(&self, from: &fuser::Request, node: INodeNo, count: u64) {
        self.core.forget(caller(from), ino(node), count);
    }

    fn getattr(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let request = Request::GetAttr { ino: ino(node), fh: fh.map(handle) };
        self.ask(from, "getattr", request, reply);
    }

    /// The kernel sets ctime itself only with the writeback cache; the last four are of macOS.
    fn setattr(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let request = Request::SetAttr {
            ino: ino(node),
            fh: fh.map(handle),
            mode,
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
        };
        self.ask(from, "setattr", request, reply);
    }

    fn readlink(&self, from: &fuser::Request, node: INodeNo, reply: ReplyData) {
        self.ask(from, "readlink", Request::ReadLink { ino: ino(node) }, reply);
    }

    fn mknod(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (parent, name) = (ino(parent), name.as_bytes());
        self.ask(from, "mknod", Request::MkNod { parent, name, mode, umask, rdev }, reply);
    }

    fn mkdir(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (parent, name) = (ino(parent), name.as_bytes());
        self.ask(from, "mkdir", Request::MkDir { parent, name, mode, umask }, reply);
    }

    fn unlink(&self, from: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = Request::Unlink { parent: ino(parent), name: name.as_bytes() };
        self.ask(from, "unlink", request, reply);
    }

    fn rmdir(&self, from: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = Request::RmDir { parent: ino(parent), name: name.as_bytes() };
        self.ask(from, "rmdir", request, reply);
    }

    fn symlink(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        let request = Request::SymLink { parent: ino(parent), name: name.as_bytes(), target };
        self.ask(from, "symlink", request, reply);
    }

    fn rename(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let request = Request::Rename {
            parent: ino(parent),
            name: name.as_bytes(),
            new_parent: ino(new_parent),
            new_name: new_name.as_bytes(),
            flags: flags.bits(),
        };
        self.ask(from, "rename", request, reply);
    }

    fn link(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (new_parent, new_name) = (ino(new_parent), new_name.as_bytes());
        self.ask(from, "link", Request::Link { ino: ino(node), new_parent, new_name }, reply);
    }

    fn open(&self, from: &fuser::Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let access = access(flags);
        let request = Request::Open { ino: ino(node), access, flags: flags.0 };
        self.ask(from, "open", request, OpenSlot { reply, access });
    }

    fn create(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (parent, name) = (ino(parent), name.as_bytes());
        let access = access(OpenFlags(flags));
        let request = Request::Create { parent, name, mode, umask, access, flags };
        self.ask(from, "create", request, CreateSlot { reply, access });
    }

    fn read(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let metrics = Arc::clone(self.core.metrics());
        metrics.add(Counter::FuseReads, 1);
        let request = Request::Read { ino: ino(node), fh: handle(fh), offset, size };
        self.ask(from, "read", request, ReadSlot { reply, size, metrics });
    }

    fn write(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.core.metrics().add(Counter::FuseWrites, 1);
        self.core.metrics().add(Counter::FuseWriteBytes, data.len() as u64);
        let request = Request::Write { ino: ino(node), fh: handle(fh), offset, data };
        self.ask(from, "write", request, reply);
    }

    fn flush(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let lock_owner = lock_owner.0;
        self.ask(
            from,
            "flush",
            Request::Flush { ino: ino(node), fh: handle(fh), lock_owner },
            reply,
        );
    }

    fn release(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.ask(from, "release", Request::Release { ino: ino(node), fh: handle(fh) }, reply);
    }

    fn fsync(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.ask(from, "fsync", Request::Fsync { ino: ino(node), fh: handle(fh), datasync }, reply);
    }

    fn opendir(&self, from: &fuser::Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.ask(from, "opendir", Request::OpenDir { ino: ino(node) }, OpenDirSlot(reply));
    }

    fn readdir(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let core = Arc::clone(&self.core);
        let (ino, fh, size) = (ino(node), handle(fh), core.list_bytes());
        let request = Request::ReadDir { ino, fh, offset, size, plus: false };
        self.ask(from, "readdir", request, ListSlot { reply, core });
    }

    fn readdirplus(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let core = Arc::clone(&self.core);
        let (ino, fh, size) = (ino(node), handle(fh), core.list_bytes());
        let request = Request::ReadDir { ino, fh, offset, size, plus: true };
        self.ask(from, "readdirplus", request, ListPlusSlot { reply, core, caller: caller(from) });
    }

    fn releasedir(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.ask(from, "releasedir", Request::ReleaseDir { ino: ino(node), fh: handle(fh) }, reply);
    }

    fn fsyncdir(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let request = Request::FsyncDir { ino: ino(node), fh: handle(fh), datasync };
        self.ask(from, "fsyncdir", request, reply);
    }

    fn statfs(&self, from: &fuser::Request, node: INodeNo, reply: ReplyStatfs) {
        self.ask(from, "statfs", Request::StatFs { ino: ino(node) }, reply);
    }

    fn setxattr(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let request = Request::SetXattr { ino: ino(node), name: name.as_bytes(), value, flags };
        self.ask(from, "setxattr", request, reply);
    }

    fn getxattr(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let request = Request::GetXattr { ino: ino(node), name: name.as_bytes(), size };
        self.ask(from, "getxattr", request, XattrSlot { reply, size });
    }

    fn listxattr(&self, from: &fuser::Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let request = Request::ListXattr { ino: ino(node), size };
        self.ask(from, "listxattr", request, XattrSlot { reply, size });
    }

    fn removexattr(&self, from: &fuser::Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = Request::RemoveXattr { ino: ino(node), name: name.as_bytes() };
        self.ask(from, "removexattr", request, reply);
    }

    fn fallocate(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (ino, fh) = (ino(node), handle(fh));
        self.ask(from, "fallocate", Request::Fallocate { ino, fh, offset, length, mode }, reply);
    }

    fn lseek(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let request = Request::Lseek { ino: ino(node), fh: handle(fh), offset, whence };
        self.ask(from, "lseek", request, reply);
    }

    fn copy_file_range(
        &self,
        from: &fuser::Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        to: INodeNo,
        to_fh: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let request = Request::CopyFileRange {
            ino: ino(node),
            fh: handle(fh),
            offset,
            to: ino(to),
            to_fh: handle(to_fh),
            to_offset,
            length,
        };
        self.ask(from, "copy_file_range", request, reply);
    }

    // What is left the kernel never sends, as the handshake and the mount options are; or once, as
    // poll. But a program may ask every file that it opens whether it is a terminal, and `fuser`
    // would log a warning each time.
    fn ioctl(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(fuser::Errno::ENOTTY);
    }
}
