//! What the kernel asks, as a typed request and the shape of its reply.

use base::{Errno, HandleId, Ino, Timestamp};

use crate::reply::Shape;
use crate::service::{Access, Caller, Request, SetTime};
use crate::wire::{Fields, Header, Opcode};

/// What a message of the kernel is.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// For the service.
    Ask(&'static str, Request<'a>, Shape),
    /// References that are given back; no reply is waited for.
    Forget(Vec<(Ino, u64)>),
    /// Answered without the service.
    Refused(Errno),
}

/// Reads the fields of a request: first those of its `struct fuse_*_in`, then names and data.
/// Newer kernels' structures may be longer, and what they ask that is not known here is refused
/// with ENOSYS, after which they do without.
pub(crate) fn decode<'a>(header: &Header, fixed: &'a [u8], rest: &'a [u8]) -> Message<'a> {
    let Some(opcode) = Opcode::of(header.opcode) else { return Message::Refused(Errno::ENOSYS) };
    let parts = Parts { node: Ino(header.node), fixed: Fields(fixed), rest: Fields(rest) };
    if matches!(opcode, Opcode::Forget | Opcode::BatchForget) {
        return Message::Forget(parts.forgets(opcode).unwrap_or_default());
    }
    // A program may ask every file that it opens whether it is a terminal.
    if opcode == Opcode::Ioctl {
        return Message::Refused(Errno::ENOTTY);
    }
    if let Some((request, shape)) = parts.request(opcode) {
        return Message::Ask(opcode.name(), request, shape);
    }
    tracing::error!(?opcode, "a request is shorter than its fields, or out of place");
    Message::Refused(Errno::EIO)
}

/// Who sent it.
pub(crate) fn caller(header: &Header) -> Caller {
    Caller { uid: header.uid, gid: header.gid, pid: header.pid }
}

struct Parts<'a> {
    node: Ino,
    fixed: Fields<'a>,
    rest: Fields<'a>,
}

impl<'a> Parts<'a> {
    fn forgets(mut self, opcode: Opcode) -> Option<Vec<(Ino, u64)>> {
        if opcode == Opcode::Forget {
            return Some(vec![(self.node, self.fixed.u64()?)]);
        }
        let count = self.fixed.u32()?;
        (0..count).map(|_| Some((Ino(self.rest.u64()?), self.rest.u64()?))).collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of the other half")]
    fn request(self, opcode: Opcode) -> Option<(Request<'a>, Shape)> {
        match opcode {
            Opcode::Open
            | Opcode::Read
            | Opcode::Write
            | Opcode::Release
            | Opcode::Fsync
            | Opcode::Flush
            | Opcode::OpenDir
            | Opcode::ReadDir
            | Opcode::ReadDirPlus
            | Opcode::ReleaseDir
            | Opcode::FsyncDir
            | Opcode::Fallocate
            | Opcode::Lseek
            | Opcode::CopyFileRange => self.of_handle(opcode),
            _ => self.of_name(opcode),
        }
    }

    /// What is asked of names and nodes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of the other half")]
    fn of_name(mut self, opcode: Opcode) -> Option<(Request<'a>, Shape)> {
        let (ino, parent) = (self.node, self.node);
        let (fixed, rest) = (&mut self.fixed, &mut self.rest);
        Some(match opcode {
            Opcode::Lookup => (Request::Lookup { parent, name: rest.name()? }, Shape::Entry),
            Opcode::GetAttr => {
                let with_handle = fixed.u32()? & GETATTR_FH != 0;
                fixed.u32()?;
                let fh = fixed.u64().map(HandleId)?;
                (Request::GetAttr { ino, fh: with_handle.then_some(fh) }, Shape::Attr)
            }
            Opcode::SetAttr => (set_attr(ino, fixed)?, Shape::Attr),
            Opcode::ReadLink => (Request::ReadLink { ino }, Shape::Link),
            Opcode::SymLink => {
                let (name, target) = (rest.name()?, rest.name()?);
                (Request::SymLink { parent, name, target }, Shape::Entry)
            }
            Opcode::MkNod => {
                let (mode, rdev, umask) = (fixed.u32()?, fixed.u32()?, fixed.u32()?);
                (Request::MkNod { parent, name: rest.name()?, mode, umask, rdev }, Shape::Entry)
            }
            Opcode::MkDir => {
                let (mode, umask) = (fixed.u32()?, fixed.u32()?);
                (Request::MkDir { parent, name: rest.name()?, mode, umask }, Shape::Entry)
            }
            Opcode::Unlink => (Request::Unlink { parent, name: rest.name()? }, Shape::Done),
            Opcode::RmDir => (Request::RmDir { parent, name: rest.name()? }, Shape::Done),
            Opcode::Rename | Opcode::Rename2 => {
                let new_parent = fixed.u64().map(Ino)?;
                let flags = if opcode == Opcode::Rename2 { fixed.u32()? } else { 0 };
                let (name, new_name) = (rest.name()?, rest.name()?);
                (Request::Rename { parent, name, new_parent, new_name, flags }, Shape::Done)
            }
            Opcode::Link => {
                let ino = fixed.u64().map(Ino)?;
                let request = Request::Link { ino, new_parent: parent, new_name: rest.name()? };
                (request, Shape::Entry)
            }
            Opcode::StatFs => (Request::StatFs { ino }, Shape::Statfs),
            Opcode::SetXattr => {
                let (size, flags) = (fixed.u32()?, fixed.i32()?);
                let (name, value) = (rest.name()?, rest.bytes(usize::try_from(size).ok()?)?);
                (Request::SetXattr { ino, name, value, flags }, Shape::Done)
            }
            Opcode::GetXattr => {
                let size = fixed.u32()?;
                (Request::GetXattr { ino, name: rest.name()?, size }, Shape::Xattr { size })
            }
            Opcode::ListXattr => {
                let size = fixed.u32()?;
                (Request::ListXattr { ino, size }, Shape::Xattr { size })
            }
            Opcode::RemoveXattr => (Request::RemoveXattr { ino, name: rest.name()? }, Shape::Done),
            Opcode::Create => {
                let (flags, mode, umask) = (fixed.i32()?, fixed.u32()?, fixed.u32()?);
                let (name, access) = (rest.name()?, access(flags));
                let request = Request::Create { parent, name, mode, umask, access, flags };
                (request, Shape::Create { access })
            }
            _ => return None,
        })
    }

    /// What is asked of open files and folders, and how they are opened.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of the other half")]
    fn of_handle(mut self, opcode: Opcode) -> Option<(Request<'a>, Shape)> {
        let ino = self.node;
        let (fixed, rest) = (&mut self.fixed, &mut self.rest);
        if opcode == Opcode::OpenDir {
            return Some((Request::OpenDir { ino }, Shape::OpenDir));
        }
        if opcode == Opcode::Open {
            let flags = fixed.i32()?;
            let access = access(flags);
            return Some((Request::Open { ino, access, flags }, Shape::Open { access }));
        }
        let fh = fixed.u64().map(HandleId)?;
        Some(match opcode {
            Opcode::Read => {
                let (offset, size) = (fixed.u64()?, fixed.u32()?);
                (Request::Read { ino, fh, offset, size }, Shape::Read { size })
            }
            Opcode::Write => {
                let (offset, size) = (fixed.u64()?, fixed.u32()?);
                let data = rest.bytes(usize::try_from(size).ok()?)?;
                // The kernel names the owner of locks only in a write that passes its page cache.
                let direct = fixed.u32()? & WRITE_LOCKOWNER != 0;
                (Request::Write { ino, fh, offset, data, direct }, Shape::Written)
            }
            Opcode::Release => (Request::Release { ino, fh }, Shape::Done),
            Opcode::Fsync => {
                (Request::Fsync { ino, fh, datasync: fixed.u32()? & DATASYNC != 0 }, Shape::Done)
            }
            Opcode::Flush => {
                fixed.u64()?;
                (Request::Flush { ino, fh, lock_owner: fixed.u64()? }, Shape::Done)
            }
            Opcode::ReadDir | Opcode::ReadDirPlus => {
                let plus = opcode == Opcode::ReadDirPlus;
                let (offset, size) = (fixed.u64()?, fixed.u32()?);
                (Request::ReadDir { ino, fh, offset, size, plus }, Shape::Entries { size, plus })
            }
            Opcode::ReleaseDir => (Request::ReleaseDir { ino, fh }, Shape::Done),
            Opcode::FsyncDir => {
                let datasync = fixed.u32()? & DATASYNC != 0;
                (Request::FsyncDir { ino, fh, datasync }, Shape::Done)
            }
            Opcode::Fallocate => {
                let (offset, length, mode) = (fixed.u64()?, fixed.u64()?, fixed.i32()?);
                (Request::Fallocate { ino, fh, offset, length, mode }, Shape::Done)
            }
            Opcode::Lseek => {
                let (offset, whence) = (fixed.i64()?, fixed.i32()?);
                (Request::Lseek { ino, fh, offset, whence }, Shape::Offset)
            }
            Opcode::CopyFileRange => {
                let (offset, to) = (fixed.u64()?, fixed.u64().map(Ino)?);
                let to_fh = fixed.u64().map(HandleId)?;
                let (to_offset, length) = (fixed.u64()?, fixed.u64()?);
                let request =
                    Request::CopyFileRange { ino, fh, offset, to, to_fh, to_offset, length };
                (request, Shape::Written)
            }
            _ => return None,
        })
    }
}

/// `FUSE_WRITE_LOCKOWNER`.
const WRITE_LOCKOWNER: u32 = 1 << 1;

/// `FUSE_GETATTR_FH`.
const GETATTR_FH: u32 = 1;

/// `FUSE_FSYNC_FDATASYNC`.
const DATASYNC: u32 = 1;

/// Which fields of `struct fuse_setattr_in` hold: `FATTR_*`.
mod valid {
    pub(super) const MODE: u32 = 1 << 0;
    pub(super) const UID: u32 = 1 << 1;
    pub(super) const GID: u32 = 1 << 2;
    pub(super) const SIZE: u32 = 1 << 3;
    pub(super) const ATIME: u32 = 1 << 4;
    pub(super) const MTIME: u32 = 1 << 5;
    pub(super) const FH: u32 = 1 << 6;
    pub(super) const ATIME_NOW: u32 = 1 << 7;
    pub(super) const MTIME_NOW: u32 = 1 << 8;
}

/// The kernel sends a ctime only with the writeback cache, which is never agreed on.
fn set_attr<'a>(ino: Ino, fixed: &mut Fields<'_>) -> Option<Request<'a>> {
    let valid = fixed.u32()?;
    fixed.u32()?;
    let (fh, size) = (fixed.u64().map(HandleId)?, fixed.u64()?);
    let _lock_owner = fixed.u64()?;
    let (atime, mtime, _ctime) = (fixed.i64()?, fixed.i64()?, fixed.i64()?);
    let (atime_nanos, mtime_nanos, _ctime_nanos) = (fixed.u32()?, fixed.u32()?, fixed.u32()?);
    let mode = fixed.u32()?;
    fixed.u32()?;
    let (uid, gid) = (fixed.u32()?, fixed.u32()?);

    let has = |bit: u32| valid & bit != 0;
    let time = |sent: u32, now: u32, secs: i64, nanos: u32| {
        let at = if has(now) { SetTime::Now } else { SetTime::At(Timestamp { secs, nanos }) };
        has(sent).then_some(at)
    };
    Some(Request::SetAttr {
        ino,
        fh: has(valid::FH).then_some(fh),
        mode: has(valid::MODE).then_some(mode),
        uid: has(valid::UID).then_some(uid),
        gid: has(valid::GID).then_some(gid),
        size: has(valid::SIZE).then_some(size),
        atime: time(valid::ATIME, valid::ATIME_NOW, atime, atime_nanos),
        mtime: time(valid::MTIME, valid::MTIME_NOW, mtime, mtime_nanos),
    })
}

/// `O_ACCMODE`; 3, which Linux has for `ioctl` alone, may do what both may.
fn access(flags: i32) -> Access {
    match flags & 0o3 {
        0 => Access::Read,
        1 => Access::Write,
        _ => Access::ReadWrite,
    }
}

#[cfg(test)]
mod tests {
    use base::{Errno, Ino, Timestamp};

    use super::{Message, WRITE_LOCKOWNER, decode};
    use crate::service::{Request, SetTime};
    use crate::wire::{Header, Opcode};

    fn header(opcode: u32) -> Header {
        Header { opcode, unique: 1, node: 5, uid: 0, gid: 0, pid: 0 }
    }

    #[test]
    fn a_request_without_its_fields_is_not_asked() {
        let bare = [Opcode::ReadLink, Opcode::StatFs, Opcode::OpenDir];
        for number in 0..100 {
            let Some(opcode) = Opcode::of(number) else { continue };
            let message = decode(&header(number), b"", b"");
            let is_asked = matches!(message, Message::Ask(..));
            assert_eq!(is_asked, bare.contains(&opcode), "{opcode:?}: {message:?}");
        }
    }

    #[test]
    fn data_shorter_than_announced_is_an_error() {
        let mut fixed = [0u8; 40];
        fixed[16..20].copy_from_slice(&100u32.to_ne_bytes());
        let message = decode(&header(16), &fixed, &[0; 99]);
        assert!(matches!(message, Message::Refused(Errno::EIO)));
        let message = decode(&header(16), &fixed, &[0; 100]);
        assert!(
            matches!(message, Message::Ask("write", Request::Write { data, .. }, _) if data.len() == 100)
        );
    }

    #[test]
    fn write_is_direct_if_it_passes_the_page_cache() {
        const FROM_PAGES: u32 = 1;
        for (flags, want) in [(0, false), (FROM_PAGES, false), (WRITE_LOCKOWNER, true)] {
            let mut fixed = [0u8; 40];
            fixed[20..24].copy_from_slice(&flags.to_ne_bytes());
            let Message::Ask(_, Request::Write { direct, .. }, _) =
                decode(&header(16), &fixed, &[])
            else {
                panic!("it is a write");
            };
            assert_eq!(direct, want, "{flags:#b}");
        }
    }

    #[test]
    fn what_newer_kernels_ask_is_refused_so_that_they_do_without() {
        for number in [31, 50, 52, 53, 4096] {
            let message = decode(&header(number), &[0; 64], b"");
            assert!(matches!(message, Message::Refused(Errno::ENOSYS)));
        }
    }

    #[test]
    fn a_time_before_1970_arrives_as_it_was_sent() {
        let mut fixed = [0u8; 88];
        fixed[..4].copy_from_slice(&(1u32 << 5 | 1 << 4 | 1 << 7).to_ne_bytes());
        fixed[40..48].copy_from_slice(&(-1i64).to_ne_bytes());
        fixed[60..64].copy_from_slice(&500_000_000u32.to_ne_bytes());
        let Message::Ask(_, Request::SetAttr { ino, atime, mtime, size, .. }, _) =
            decode(&header(4), &fixed, b"")
        else {
            panic!("it is a setattr");
        };
        let at = Timestamp { secs: -1, nanos: 500_000_000 };
        assert_eq!((ino, mtime, atime), (Ino(5), Some(SetTime::At(at)), Some(SetTime::Now)));
        assert_eq!(size, None);
    }

    #[test]
    fn many_nodes_are_forgotten_at_once() {
        let mut fixed = [0u8; 8];
        fixed[0] = 2;
        let rest: Vec<u8> = [7u64, 1, 8, 3].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let Message::Forget(forgotten) = decode(&header(42), &fixed, &rest) else {
            panic!("it is a forget");
        };
        assert_eq!(forgotten, [(Ino(7), 1), (Ino(8), 3)]);
    }
}
