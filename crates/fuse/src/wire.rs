//! The kernel's words: what requests are called, how they begin, how their fields are read.
//!
//! Layouts and numbers are those of version 7 of the protocol, in `linux/fuse.h`. All is in the
//! machine's own order of bytes.

/// The newest minor version whose messages are laid out as here.
pub(crate) const MINOR: u32 = 42;

/// The largest read and write: what the kernel's own limit of 256 pages holds.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// The same through rings, where each of many requests under way has a buffer of its own, and
/// where more but smaller ones cost little.
pub(crate) const RING_REQUEST_BYTES_MAX: u32 = 1 << 18;

/// `struct fuse_in_header`.
pub(crate) const IN_HEADER_BYTES: usize = 40;

/// `struct fuse_out_header`.
pub(crate) const OUT_HEADER_BYTES: usize = 16;

/// What each request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: u32,
    /// The kernel's number of the request, which its reply repeats.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
}

impl Header {
    /// None if that is not all of a header.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let mut fields = Fields(bytes);
        let _of_the_whole_request = fields.u32()?;
        Some(Header {
            opcode: fields.u32()?,
            unique: fields.u64()?,
            node: fields.u64()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
            pid: fields.u32()?,
        })
    }
}

/// What a message to the kernel begins with, whose body has so many bytes. Where a reply has 0 or a
/// negative error, a notice, which is no reply to anything, has its kind.
pub(crate) fn out_header(unique: u64, code: i32, body_bytes: usize) -> [u8; OUT_HEADER_BYTES] {
    let bytes = u32::try_from(OUT_HEADER_BYTES + body_bytes).unwrap_or(u32::MAX);
    let mut header = [0; OUT_HEADER_BYTES];
    header[..4].copy_from_slice(&bytes.to_ne_bytes());
    header[4..8].copy_from_slice(&code.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// The requests that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Lookup,
    Forget,
    GetAttr,
    SetAttr,
    ReadLink,
    SymLink,
    MkNod,
    MkDir,
    Unlink,
    RmDir,
    Rename,
    Link,
    Open,
    Read,
    Write,
    StatFs,
    Release,
    Fsync,
    SetXattr,
    GetXattr,
    ListXattr,
    RemoveXattr,
    Flush,
    Init,
    OpenDir,
    ReadDir,
    ReleaseDir,
    FsyncDir,
    Create,
    Ioctl,
    BatchForget,
    Fallocate,
    ReadDirPlus,
    Rename2,
    Lseek,
    CopyFileRange,
}

impl Opcode {
    pub(crate) fn of(number: u32) -> Option<Opcode> {
        Some(match number {
            1 => Opcode::Lookup,
            2 => Opcode::Forget,
            3 => Opcode::GetAttr,
            4 => Opcode::SetAttr,
            5 => Opcode::ReadLink,
            6 => Opcode::SymLink,
            8 => Opcode::MkNod,
            9 => Opcode::MkDir,
            10 => Opcode::Unlink,
            11 => Opcode::RmDir,
            12 => Opcode::Rename,
            13 => Opcode::Link,
            14 => Opcode::Open,
            15 => Opcode::Read,
            16 => Opcode::Write,
            17 => Opcode::StatFs,
            18 => Opcode::Release,
            20 => Opcode::Fsync,
            21 => Opcode::SetXattr,
            22 => Opcode::GetXattr,
            23 => Opcode::ListXattr,
            24 => Opcode::RemoveXattr,
            25 => Opcode::Flush,
            26 => Opcode::Init,
            27 => Opcode::OpenDir,
            28 => Opcode::ReadDir,
            29 => Opcode::ReleaseDir,
            30 => Opcode::FsyncDir,
            35 => Opcode::Create,
            39 => Opcode::Ioctl,
            42 => Opcode::BatchForget,
            43 => Opcode::Fallocate,
            44 => Opcode::ReadDirPlus,
            45 => Opcode::Rename2,
            46 => Opcode::Lseek,
            47 => Opcode::CopyFileRange,
            _ => return None,
        })
    }

    /// What comes before names and data: the `struct fuse_*_in` of the request.
    pub(crate) fn fixed_bytes(self) -> usize {
        match self {
            Opcode::Lookup
            | Opcode::ReadLink
            | Opcode::SymLink
            | Opcode::Unlink
            | Opcode::RmDir
            | Opcode::StatFs
            | Opcode::RemoveXattr => 0,
            Opcode::Forget
            | Opcode::MkDir
            | Opcode::Rename
            | Opcode::Link
            | Opcode::Open
            | Opcode::OpenDir
            | Opcode::SetXattr
            | Opcode::GetXattr
            | Opcode::ListXattr
            | Opcode::BatchForget => 8,
            Opcode::GetAttr
            | Opcode::MkNod
            | Opcode::Fsync
            | Opcode::FsyncDir
            | Opcode::Create
            | Opcode::Rename2 => 16,
            Opcode::Release | Opcode::ReleaseDir | Opcode::Flush | Opcode::Lseek => 24,
            Opcode::Ioctl | Opcode::Fallocate => 32,
            Opcode::Read | Opcode::Write | Opcode::ReadDir | Opcode::ReadDirPlus => 40,
            Opcode::CopyFileRange => 56,
            Opcode::Init => 64,
            Opcode::SetAttr => 88,
        }
    }

    /// For logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Opcode::Lookup => "lookup",
            Opcode::Forget | Opcode::BatchForget => "forget",
            Opcode::GetAttr => "getattr",
            Opcode::SetAttr => "setattr",
            Opcode::ReadLink => "readlink",
            Opcode::SymLink => "symlink",
            Opcode::MkNod => "mknod",
            Opcode::MkDir => "mkdir",
            Opcode::Unlink => "unlink",
            Opcode::RmDir => "rmdir",
            Opcode::Rename | Opcode::Rename2 => "rename",
            Opcode::Link => "link",
            Opcode::Open => "open",
            Opcode::Read => "read",
            Opcode::Write => "write",
            Opcode::StatFs => "statfs",
            Opcode::Release => "release",
            Opcode::Fsync => "fsync",
            Opcode::SetXattr => "setxattr",
            Opcode::GetXattr => "getxattr",
            Opcode::ListXattr => "listxattr",
            Opcode::RemoveXattr => "removexattr",
            Opcode::Flush => "flush",
            Opcode::Init => "init",
            Opcode::OpenDir => "opendir",
            Opcode::ReadDir => "readdir",
            Opcode::ReleaseDir => "releasedir",
            Opcode::FsyncDir => "fsyncdir",
            Opcode::Create => "create",
            Opcode::Ioctl => "ioctl",
            Opcode::Fallocate => "fallocate",
            Opcode::ReadDirPlus => "readdirplus",
            Opcode::Lseek => "lseek",
            Opcode::CopyFileRange => "copy_file_range",
        }
    }
}

/// Reads one field after the other; none where the bytes end before the field does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*field))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*field))
    }

    /// A signed number, or a set of bits that system calls have signed.
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(field)
    }

    /// Up to the zero byte, which is none of it.
    pub(crate) fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let name = self.bytes(end)?;
        self.bytes(1)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, Header, Opcode, out_header};

    #[test]
    fn a_header_that_is_cut_off_is_none() {
        assert_eq!(Header::read(&[0; 35]), None);
        assert!(Header::read(&[0; 36]).is_some());
    }

    #[test]
    fn a_reply_says_its_length_its_error_and_what_it_is_for() {
        let header = out_header(7, -5, 100);
        let mut fields = Fields(&header);
        assert_eq!((fields.u32(), fields.i32(), fields.u64()), (Some(116), Some(-5), Some(7)));
    }

    #[test]
    fn names_end_at_their_zero_byte() {
        let mut fields = Fields(b"old\0new\0rest");
        assert_eq!((fields.name(), fields.name()), (Some(&b"old"[..]), Some(&b"new"[..])));
        assert_eq!(fields.name(), None);
        assert_eq!(fields.bytes(4), Some(&b"rest"[..]));
    }

    #[test]
    fn every_request_that_is_known_fits_where_the_ring_puts_its_fixed_part() {
        let known = (0..100).filter_map(Opcode::of);
        assert!(known.map(Opcode::fixed_bytes).all(|bytes| bytes <= 128));
    }
}
