//! What of a kernel's request is worth telling: which operation, on what, of how many bytes.

use base::{Errno, Ino, Timing};
use fuse::{Reply, Request};

/// The subject of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) timing: Timing,
    /// The node, or the folder of `name`.
    pub(crate) ino: Ino,
    pub(crate) name: Option<&'a [u8]>,
    /// Bytes that came with it.
    pub(crate) bytes: u64,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(request: &Request<'a>) -> Subject<'a> {
        let node = |timing, ino| Subject { timing, ino, name: None, bytes: 0 };
        let entry = |timing, ino, name| Subject { timing, ino, name: Some(name), bytes: 0 };
        match *request {
            Request::Lookup { parent, name } => entry(Timing::Lookup, parent, name),
            Request::Forget { ino, .. } => node(Timing::Forget, ino),
            Request::GetAttr { ino, .. } => node(Timing::GetAttr, ino),
            Request::SetAttr { ino, .. } => node(Timing::SetAttr, ino),
            Request::ReadLink { ino } => node(Timing::ReadLink, ino),
            Request::MkNod { parent, name, .. } => entry(Timing::MkNod, parent, name),
            Request::MkDir { parent, name, .. } => entry(Timing::MkDir, parent, name),
            Request::Unlink { parent, name } => entry(Timing::Unlink, parent, name),
            Request::RmDir { parent, name } => entry(Timing::RmDir, parent, name),
            Request::SymLink { parent, name, .. } => entry(Timing::SymLink, parent, name),
            Request::Rename { parent, name, .. } => entry(Timing::Rename, parent, name),
            Request::Link { new_parent, new_name, .. } => entry(Timing::Link, new_parent, new_name),
            Request::Open { ino, .. } => node(Timing::Open, ino),
            Request::Create { parent, name, .. } => entry(Timing::Create, parent, name),
            Request::Read { ino, .. } => node(Timing::Read, ino),
            Request::Write { ino, data, .. } => {
                Subject { bytes: data.len() as u64, ..node(Timing::Write, ino) }
            }
            Request::Flush { ino, .. } => node(Timing::Flush, ino),
            Request::Release { ino, .. } => node(Timing::Release, ino),
            Request::Fsync { ino, .. } => node(Timing::Fsync, ino),
            Request::OpenDir { ino } => node(Timing::OpenDir, ino),
            Request::ReadDir { ino, .. } => node(Timing::ReadDir, ino),
            Request::ReleaseDir { ino, .. } => node(Timing::ReleaseDir, ino),
            Request::FsyncDir { ino, .. } => node(Timing::FsyncDir, ino),
            Request::StatFs { ino } => node(Timing::StatFs, ino),
            Request::SetXattr { ino, .. } => node(Timing::SetXattr, ino),
            Request::GetXattr { ino, .. } => node(Timing::GetXattr, ino),
            Request::ListXattr { ino, .. } => node(Timing::ListXattr, ino),
            Request::RemoveXattr { ino, .. } => node(Timing::RemoveXattr, ino),
            Request::Fallocate { ino, .. } => node(Timing::Fallocate, ino),
            Request::Lseek { ino, .. } => node(Timing::Lseek, ino),
            Request::CopyFileRange { to, .. } => node(Timing::CopyRange, to),
        }
    }
}

/// Bytes that go back with an answer, or that it says were taken.
pub(crate) fn bytes_of(answer: &Result<Reply, Errno>) -> u64 {
    match answer {
        Ok(Reply::Data(data)) => data.len() as u64,
        Ok(Reply::Written(bytes)) => u64::from(*bytes),
        Ok(
            Reply::Done
            | Reply::Entry(..)
            | Reply::NoEntry(_)
            | Reply::Attr(..)
            | Reply::Opened(..)
            | Reply::Created(..)
            | Reply::Length(_)
            | Reply::Entries(..)
            | Reply::Statfs(_)
            | Reply::Offset(_),
        )
        | Err(_) => 0,
    }
}
