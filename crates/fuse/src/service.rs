//! `Service`: what answers the kernel's requests, and the typed requests and replies.

use std::fmt::Debug;
use std::time::Duration;

use base::{Attr, Errno, FileKind, HandleId, Ino, Timestamp};
use futures::future::BoxFuture;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// The calling thread, as seen from the mount's process namespace; 0 if it is not in it.
    pub pid: u32,
}

/// What an open file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `O_RDONLY`.
    Read,
    /// `O_WRONLY`.
    Write,
    /// `O_RDWR`.
    ReadWrite,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time at which the request is carried out.
    Now,
    /// This time.
    At(Timestamp),
}

/// A request of the kernel. Names and data are borrowed from the request's buffer.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the system calls")]
pub enum Request<'a> {
    /// Finds a name; counts as one reference to the node until [`Request::Forget`].
    Lookup { parent: Ino, name: &'a [u8] },
    /// Gives back `count` references. Has no reply.
    Forget { ino: Ino, count: u64 },
    /// `stat`.
    GetAttr { ino: Ino, fh: Option<HandleId> },
    /// `chmod`, `chown`, `truncate`, `utimens`.
    SetAttr {
        ino: Ino,
        fh: Option<HandleId>,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
    },
    /// `readlink`.
    ReadLink { ino: Ino },
    /// `mknod`; `mode` has the kind in it.
    MkNod { parent: Ino, name: &'a [u8], mode: u32, umask: u32, rdev: u32 },
    /// `mkdir`.
    MkDir { parent: Ino, name: &'a [u8], mode: u32, umask: u32 },
    /// `unlink`.
    Unlink { parent: Ino, name: &'a [u8] },
    /// `rmdir`.
    RmDir { parent: Ino, name: &'a [u8] },
    /// `symlink`.
    SymLink { parent: Ino, name: &'a [u8], target: &'a [u8] },
    /// `renameat2`; `flags` are those of the system call.
    Rename { parent: Ino, name: &'a [u8], new_parent: Ino, new_name: &'a [u8], flags: u32 },
    /// `link`.
    Link { ino: Ino, new_parent: Ino, new_name: &'a [u8] },
    /// `open`; `flags` are those of the system call without `O_CREAT`, `O_EXCL` and `O_TRUNC`.
    Open { ino: Ino, access: Access, flags: i32 },
    /// `open` with `O_CREAT` of a name that is not there.
    Create { parent: Ino, name: &'a [u8], mode: u32, umask: u32, access: Access, flags: i32 },
    /// `read`.
    Read { ino: Ino, fh: HandleId, offset: u64, size: u32 },
    /// `write`; `direct` if it passes the page cache, and no page is locked until its answer.
    Write { ino: Ino, fh: HandleId, offset: u64, data: &'a [u8], direct: bool },
    /// One `close` of one descriptor; there may be many for one open, and none that matter.
    Flush { ino: Ino, fh: HandleId, lock_owner: u64 },
    /// The last descriptor and mapping of an open are gone.
    Release { ino: Ino, fh: HandleId },
    /// `fsync`, `fdatasync`.
    Fsync { ino: Ino, fh: HandleId, datasync: bool },
    /// `opendir`.
    OpenDir { ino: Ino },
    /// Entries from `offset` on, as many as fit in `size` bytes; with attributes if `plus`.
    ReadDir { ino: Ino, fh: HandleId, offset: u64, size: u32, plus: bool },
    /// `closedir`.
    ReleaseDir { ino: Ino, fh: HandleId },
    /// `fsync` of a folder.
    FsyncDir { ino: Ino, fh: HandleId, datasync: bool },
    /// `statfs`.
    StatFs { ino: Ino },
    /// `setxattr`.
    SetXattr { ino: Ino, name: &'a [u8], value: &'a [u8], flags: i32 },
    /// `getxattr`; `size` 0 asks for the length.
    GetXattr { ino: Ino, name: &'a [u8], size: u32 },
    /// `listxattr`; `size` 0 asks for the length.
    ListXattr { ino: Ino, size: u32 },
    /// `removexattr`.
    RemoveXattr { ino: Ino, name: &'a [u8] },
    /// `fallocate`; `mode` is that of the system call.
    Fallocate { ino: Ino, fh: HandleId, offset: u64, length: u64, mode: i32 },
    /// `lseek` with `SEEK_DATA` or `SEEK_HOLE`.
    Lseek { ino: Ino, fh: HandleId, offset: i64, whence: i32 },
    /// `copy_file_range`.
    CopyFileRange {
        ino: Ino,
        fh: HandleId,
        offset: u64,
        to: Ino,
        to_fh: HandleId,
        to_offset: u64,
        length: u64,
    },
}

impl Request<'_> {
    /// The node that it is about, and the other one where there are two.
    pub fn nodes_mut(&mut self) -> (&mut Ino, Option<&mut Ino>) {
        match self {
            Request::Lookup { parent, .. }
            | Request::MkNod { parent, .. }
            | Request::MkDir { parent, .. }
            | Request::Unlink { parent, .. }
            | Request::RmDir { parent, .. }
            | Request::SymLink { parent, .. }
            | Request::Create { parent, .. } => (parent, None),
            Request::Rename { parent, new_parent, .. } => (parent, Some(new_parent)),
            Request::Link { ino, new_parent, .. } => (ino, Some(new_parent)),
            Request::CopyFileRange { ino, to, .. } => (ino, Some(to)),
            Request::Forget { ino, .. }
            | Request::GetAttr { ino, .. }
            | Request::SetAttr { ino, .. }
            | Request::ReadLink { ino }
            | Request::Open { ino, .. }
            | Request::Read { ino, .. }
            | Request::Write { ino, .. }
            | Request::Flush { ino, .. }
            | Request::Release { ino, .. }
            | Request::Fsync { ino, .. }
            | Request::OpenDir { ino }
            | Request::ReadDir { ino, .. }
            | Request::ReleaseDir { ino, .. }
            | Request::FsyncDir { ino, .. }
            | Request::StatFs { ino }
            | Request::SetXattr { ino, .. }
            | Request::GetXattr { ino, .. }
            | Request::ListXattr { ino, .. }
            | Request::RemoveXattr { ino, .. }
            | Request::Fallocate { ino, .. }
            | Request::Lseek { ino, .. } => (ino, None),
        }
    }

    /// Whether a file system that is only read refuses it.
    pub fn is_change(&self) -> bool {
        match self {
            Request::SetAttr { .. }
            | Request::MkNod { .. }
            | Request::MkDir { .. }
            | Request::Unlink { .. }
            | Request::RmDir { .. }
            | Request::SymLink { .. }
            | Request::Rename { .. }
            | Request::Link { .. }
            | Request::Create { .. }
            | Request::Write { .. }
            | Request::SetXattr { .. }
            | Request::RemoveXattr { .. }
            | Request::Fallocate { .. }
            | Request::CopyFileRange { .. } => true,
            Request::Open { access, .. } => *access != Access::Read,
            Request::Lookup { .. }
            | Request::Forget { .. }
            | Request::GetAttr { .. }
            | Request::ReadLink { .. }
            | Request::Read { .. }
            | Request::Flush { .. }
            | Request::Release { .. }
            | Request::Fsync { .. }
            | Request::OpenDir { .. }
            | Request::ReadDir { .. }
            | Request::ReleaseDir { .. }
            | Request::FsyncDir { .. }
            | Request::StatFs { .. }
            | Request::GetXattr { .. }
            | Request::ListXattr { .. }
            | Request::Lseek { .. } => false,
        }
    }
}

/// How the kernel is to treat the reads and writes of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenReply {
    /// Through the page cache, dropping what it holds of the file.
    CachedAnew,
    /// Through the page cache, keeping what it holds of the file.
    CachedKeep,
    /// Every read and write is a request.
    Direct,
    /// The kernel reads this registered backing file itself.
    Passthrough(u32),
    /// Like [`OpenReply::Passthrough`], but every read and write of this open is a request.
    PassthroughDirect(u32),
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The node; with attributes wanted, one reference to it unless the name is `.` or `..`.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// The `offset` that asks for what follows this entry.
    pub next_offset: u64,
    /// The name.
    pub name: Vec<u8>,
    /// All attributes, where they were asked for.
    pub attr: Option<Attr>,
}

/// What `statfs` says. Sizes are in units of `block_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the system call")]
pub struct Statfs {
    pub block_bytes: u32,
    pub blocks: u64,
    pub blocks_free: u64,
    pub files: u64,
    pub files_free: u64,
    pub name_bytes_max: u32,
}

/// The answer to a request that went well.
#[derive(Debug)]
pub enum Reply {
    /// Nothing to say: unlink, rename, flush, forget and the like.
    Done,
    /// To lookup, mkdir, mknod, symlink, link: a node, and for how long the kernel may believe it.
    Entry(Attr, Duration),
    /// To lookup: there is no such name, and for how long the kernel may believe it.
    NoEntry(Duration),
    /// To getattr and setattr.
    Attr(Attr, Duration),
    /// To open and opendir.
    Opened(HandleId, OpenReply),
    /// To create.
    Created(Attr, Duration, HandleId, OpenReply),
    /// To read, readlink, getxattr and listxattr.
    Data(Vec<u8>),
    /// To getxattr and listxattr of size 0.
    Length(u32),
    /// To write and `copy_file_range`: how many bytes.
    Written(u32),
    /// To readdir, and how long the kernel may believe names and attributes; the dispatcher sends
    /// as many as fit, the rest is asked for again.
    Entries(Vec<DirEntry>, Duration),
    /// To statfs.
    Statfs(Statfs),
    /// To lseek.
    Offset(i64),
}

impl Reply {
    /// Calls `change` with each inode number in it.
    pub fn each_node_mut(&mut self, change: impl Fn(&mut Ino)) {
        match self {
            Reply::Entry(attr, _) | Reply::Attr(attr, _) | Reply::Created(attr, ..) => {
                change(&mut attr.ino);
            }
            Reply::Entries(entries, _) => {
                for entry in entries {
                    change(&mut entry.ino);
                    if let Some(attr) = &mut entry.attr {
                        change(&mut attr.ino);
                    }
                }
            }
            Reply::Done
            | Reply::NoEntry(_)
            | Reply::Opened(..)
            | Reply::Data(_)
            | Reply::Length(_)
            | Reply::Written(_)
            | Reply::Statfs(_)
            | Reply::Offset(_) => {}
        }
    }
}

/// A reply now, or the work that will end in one. Work that waits for the disk's or the network's
/// pleasure is [`Answer::Later`], so that no session thread is held up by it.
pub enum Answer {
    /// Known at once.
    Now(Result<Reply, Errno>),
    /// To be run on the runtime; owns what it needs.
    Later(BoxFuture<'static, Result<Reply, Errno>>),
}

/// What answers the kernel's requests. Called from several threads at once.
pub trait Service: Debug + Send + Sync + 'static {
    /// Answers one request. Must not wait.
    fn serve(&self, caller: Caller, request: Request<'_>) -> Answer;
}
