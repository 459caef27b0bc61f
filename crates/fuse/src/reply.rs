//! What a request takes for an answer, and the answer in the kernel's words.

use std::time::Duration;

use base::{Attr, FileKind, Ino, Timestamp};

use crate::service::{Access, DirEntry, OpenReply, Reply, Statfs};

/// The kind of reply that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Done,
    Entry,
    Attr,
    /// Of readlink.
    Link,
    Read {
        size: u32,
    },
    Written,
    Open {
        access: Access,
    },
    OpenDir,
    Create {
        access: Access,
    },
    Statfs,
    Xattr {
        size: u32,
    },
    Offset,
    Entries {
        size: u32,
        plus: bool,
    },
}

/// A reply as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Encoded {
    Body(Vec<u8>),
    /// Entries, and the nodes of those that did not fit: the service counted a reference to each,
    /// and the kernel never hears of them.
    Entries(Vec<u8>, Vec<Ino>),
    /// The value is longer than what was asked for.
    TooLong,
}

/// Puts `reply` into the kernel's words, or gives it back if the request cannot be answered so.
pub(crate) fn encode(shape: Shape, reply: Reply) -> Result<Encoded, Reply> {
    let body = match (shape, reply) {
        (Shape::Done, Reply::Done) => Vec::new(),
        (Shape::Entry, Reply::Entry(attr, ttl)) => entry_out(&attr, ttl).0,
        (Shape::Entry, Reply::NoEntry(ttl)) => no_entry_out(ttl).0,
        (Shape::Attr, Reply::Attr(attr, ttl)) => attr_out(&attr, ttl).0,
        (Shape::Link, Reply::Data(bytes)) => bytes,
        (Shape::Read { size }, Reply::Data(bytes)) if bytes.len() <= size as usize => bytes,
        (Shape::Written, Reply::Written(bytes)) => Words::default().u32(bytes).u32(0).0,
        (Shape::Open { access }, Reply::Opened(handle, how)) => {
            open_out(Words::default(), handle.0, fopen_flags(how, access), backing_id(how)).0
        }
        // Folders are not cached as such, only their entries' names and attributes.
        (Shape::OpenDir, Reply::Opened(handle, _)) => open_out(Words::default(), handle.0, 0, 0).0,
        (Shape::Create { access }, Reply::Created(attr, ttl, handle, how)) => {
            let flags = fopen_flags(how, access);
            open_out(entry_out(&attr, ttl), handle.0, flags, backing_id(how)).0
        }
        (Shape::Statfs, Reply::Statfs(space)) => statfs_out(&space).0,
        (Shape::Xattr { .. }, Reply::Length(length)) => Words::default().u32(length).u32(0).0,
        (Shape::Xattr { size }, Reply::Data(value)) => return Ok(xattr(size, value)),
        (Shape::Offset, Reply::Offset(offset)) => Words::default().i64(offset).0,
        (Shape::Entries { size, plus: false }, Reply::Entries(entries, _)) => {
            listing(&entries, size as usize)
        }
        (Shape::Entries { size, plus: true }, Reply::Entries(entries, ttl)) => {
            if !entries.iter().all(|entry| is_dot(entry) || entry.attr.is_some()) {
                return Err(Reply::Entries(entries, ttl));
            }
            return Ok(listing_plus(&entries, ttl, size as usize));
        }
        (_, reply) => return Err(reply),
    };
    Ok(Encoded::Body(body))
}

/// A value where its length was asked for, or where it does not fit, is answered as the system
/// call has it.
fn xattr(size: u32, value: Vec<u8>) -> Encoded {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    if size == 0 {
        Encoded::Body(Words::default().u32(length).u32(0).0)
    } else if length > size {
        Encoded::TooLong
    } else {
        Encoded::Body(value)
    }
}

/// Fields, one after the other.
#[derive(Debug, Default)]
struct Words(Vec<u8>);

impl Words {
    fn u32(mut self, field: u32) -> Words {
        self.0.extend(field.to_ne_bytes());
        self
    }

    fn u64(mut self, field: u64) -> Words {
        self.0.extend(field.to_ne_bytes());
        self
    }

    fn i64(self, field: i64) -> Words {
        self.u64(field.cast_unsigned())
    }

    fn attr(self, attr: &Attr) -> Words {
        let nanos = |time: Timestamp| time.nanos.min(999_999_999);
        self.u64(attr.ino.0)
            .u64(attr.size)
            .u64(attr.blocks())
            .i64(attr.atime.secs)
            .i64(attr.mtime.secs)
            .i64(attr.ctime.secs)
            .u32(nanos(attr.atime))
            .u32(nanos(attr.mtime))
            .u32(nanos(attr.ctime))
            .u32(format_bits(attr.kind) | u32::from(attr.mode & 0o7777))
            .u32(attr.nlink)
            .u32(attr.uid)
            .u32(attr.gid)
            .u32(attr.rdev)
            .u32(BLOCK_BYTES)
            .u32(0)
    }

    /// `struct fuse_dirent` and what fills its name up to eight bytes.
    fn dirent(mut self, entry: &DirEntry) -> Words {
        let name_bytes = u32::try_from(entry.name.len()).unwrap_or(u32::MAX);
        // As `d_type` has it: the format without the bits of permissions.
        let kind = format_bits(entry.kind) >> 12;
        self = self.u64(entry.ino.0).u64(entry.next_offset).u32(name_bytes).u32(kind);
        self.0.extend(&entry.name);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }
}

/// What programs are told to read and write at a time.
const BLOCK_BYTES: u32 = 4096;

/// Nodes are numbered for good, so there is only ever one generation of a number.
const GENERATION: u64 = 0;

/// Longer lives are no different, and the kernel takes seconds beyond 63 bits for negative.
const TTL_MAX: Duration = Duration::from_hours(24 * 365 * 10);

/// `struct fuse_entry_out`; names and attributes live equally long.
fn entry_out(attr: &Attr, ttl: Duration) -> Words {
    entry_head(attr.ino, ttl).attr(attr)
}

/// The number 0 says that there is no node, and that the kernel may remember it.
fn no_entry_out(ttl: Duration) -> Words {
    bare_entry_out(Ino(0), FileKind::File, ttl)
}

/// For a node of which nothing but number and kind are known, or looked at.
fn bare_entry_out(ino: Ino, kind: FileKind, ttl: Duration) -> Words {
    let time = Timestamp::default();
    let (size, mode, nlink, uid, gid, rdev) = (0, 0, 1, 0, 0, 0);
    let (atime, mtime, ctime) = (time, time, time);
    let attr = Attr { ino, kind, size, mode, uid, gid, nlink, rdev, atime, mtime, ctime };
    entry_out(&attr, ttl)
}

fn entry_head(ino: Ino, ttl: Duration) -> Words {
    let ttl = ttl.min(TTL_MAX);
    let (secs, nanos) = (ttl.as_secs(), ttl.subsec_nanos());
    Words(Vec::with_capacity(ENTRY_AND_OPEN_BYTES))
        .u64(ino.0)
        .u64(GENERATION)
        .u64(secs)
        .u64(secs)
        .u32(nanos)
        .u32(nanos)
}

/// Of the longest reply that is no listing and no data: that to a create.
const ENTRY_AND_OPEN_BYTES: usize = 144;

/// `struct fuse_attr_out`.
fn attr_out(attr: &Attr, ttl: Duration) -> Words {
    let ttl = ttl.min(TTL_MAX);
    Words(Vec::with_capacity(ENTRY_AND_OPEN_BYTES))
        .u64(ttl.as_secs())
        .u32(ttl.subsec_nanos())
        .u32(0)
        .attr(attr)
}

/// `struct fuse_open_out`.
fn open_out(before: Words, handle: u64, flags: u32, backing: u32) -> Words {
    before.u64(handle).u32(flags).u32(backing)
}

/// `struct fuse_statfs_out`.
fn statfs_out(space: &Statfs) -> Words {
    let words = Words::default()
        .u64(space.blocks)
        .u64(space.blocks_free)
        .u64(space.blocks_free)
        .u64(space.files)
        .u64(space.files_free)
        .u32(space.block_bytes)
        .u32(space.name_bytes_max)
        .u32(space.block_bytes);
    // Padding and six spare fields.
    (0..7).fold(words, |words, _| words.u32(0))
}

/// How the kernel treats an open file: `FOPEN_*`.
mod fopen {
    pub(super) const DIRECT_IO: u32 = 1 << 0;
    pub(super) const KEEP_CACHE: u32 = 1 << 1;
    pub(super) const NOFLUSH: u32 = 1 << 5;
    pub(super) const PASSTHROUGH: u32 = 1 << 7;
}

fn fopen_flags(how: OpenReply, access: Access) -> u32 {
    let caching = match how {
        OpenReply::CachedAnew => 0,
        OpenReply::CachedKeep => fopen::KEEP_CACHE,
        OpenReply::Direct => fopen::DIRECT_IO,
        OpenReply::Passthrough(_) => fopen::PASSTHROUGH,
        OpenReply::PassthroughDirect(_) => fopen::PASSTHROUGH | fopen::DIRECT_IO,
    };
    match access {
        // The close of a reader has nothing to say.
        Access::Read => caching | fopen::NOFLUSH,
        Access::Write | Access::ReadWrite => caching,
    }
}

fn backing_id(how: OpenReply) -> u32 {
    match how {
        OpenReply::Passthrough(id) | OpenReply::PassthroughDirect(id) => id,
        OpenReply::CachedAnew | OpenReply::CachedKeep | OpenReply::Direct => 0,
    }
}

/// The bits of `S_IFMT`.
fn format_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::File => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
    }
}

/// As many entries as fit into `room` bytes; who lists asks for the rest.
fn listing(entries: &[DirEntry], room: usize) -> Vec<u8> {
    let mut words = Words::default();
    for entry in entries {
        let whole = words.0.len();
        words = words.dirent(entry);
        if words.0.len() > room {
            words.0.truncate(whole);
            break;
        }
    }
    words.0
}

/// As [`listing`], with attributes.
fn listing_plus(entries: &[DirEntry], ttl: Duration, room: usize) -> Encoded {
    let mut words = Words::default();
    let mut sent = entries.len();
    for (index, entry) in entries.iter().enumerate() {
        let whole = words.0.len();
        let head = match &entry.attr {
            Some(attr) => entry_out(attr, ttl),
            None => bare_entry_out(entry.ino, entry.kind, ttl),
        };
        words.0.extend(head.0);
        words = words.dirent(entry);
        if words.0.len() > room {
            words.0.truncate(whole);
            sent = index;
            break;
        }
    }
    let unsent = entries[sent..].iter().filter(|entry| !is_dot(entry)).map(|entry| entry.ino);
    Encoded::Entries(words.0, unsent.collect())
}

/// The kernel takes no node from `.` and `..`, whose attributes it does not look at either.
fn is_dot(entry: &DirEntry) -> bool {
    entry.name == b"." || entry.name == b".."
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{Attr, FileKind, HandleId, Ino, Timestamp};

    use super::{Encoded, Shape, encode};
    use crate::service::{Access, DirEntry, OpenReply, Reply, Statfs};

    const TTL: Duration = Duration::from_secs(1);

    fn attr(ino: u64) -> Attr {
        let time = Timestamp { secs: -2, nanos: 500_000_000 };
        Attr {
            ino: Ino(ino),
            kind: FileKind::File,
            size: 1000,
            mode: 0o4755,
            uid: 1,
            gid: 2,
            nlink: 1,
            rdev: 0,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn body(shape: Shape, reply: Reply) -> Vec<u8> {
        match encode(shape, reply) {
            Ok(Encoded::Body(body) | Encoded::Entries(body, _)) => body,
            other => panic!("{other:?}"),
        }
    }

    fn entry(name: &[u8], ino: u64) -> DirEntry {
        let attr = Some(attr(ino));
        DirEntry { ino: Ino(ino), kind: FileKind::File, next_offset: ino, name: name.into(), attr }
    }

    /// Sizes as in `linux/fuse.h`: the kernel refuses a reply of any other.
    #[test]
    fn replies_have_the_sizes_that_the_kernel_expects() {
        let open = Shape::Open { access: Access::Read };
        let create = Shape::Create { access: Access::Write };
        let handle = HandleId(7);
        let space = Statfs {
            block_bytes: 4096,
            blocks: 1,
            blocks_free: 1,
            files: 1,
            files_free: 1,
            name_bytes_max: 255,
        };
        for (shape, reply, bytes) in [
            (Shape::Done, Reply::Done, 0),
            (Shape::Entry, Reply::Entry(attr(2), TTL), 128),
            (Shape::Entry, Reply::NoEntry(TTL), 128),
            (Shape::Attr, Reply::Attr(attr(2), Duration::MAX), 104),
            (open, Reply::Opened(handle, OpenReply::CachedKeep), 16),
            (Shape::OpenDir, Reply::Opened(handle, OpenReply::CachedKeep), 16),
            (create, Reply::Created(attr(2), TTL, handle, OpenReply::Direct), 144),
            (Shape::Written, Reply::Written(1), 8),
            (Shape::Statfs, Reply::Statfs(space), 80),
            (Shape::Xattr { size: 0 }, Reply::Length(3), 8),
            (Shape::Xattr { size: 0 }, Reply::Data(vec![0; 3]), 8),
            (Shape::Xattr { size: 4 }, Reply::Data(vec![0; 3]), 3),
            (Shape::Offset, Reply::Offset(3), 8),
        ] {
            assert_eq!(body(shape, reply).len(), bytes, "{shape:?}");
        }
    }

    #[test]
    fn what_does_not_fit_the_request_is_given_back() {
        assert!(encode(Shape::Done, Reply::Written(1)).is_err());
        assert!(encode(Shape::Read { size: 3 }, Reply::Data(vec![0; 4])).is_err());
        assert!(encode(Shape::Link, Reply::Done).is_err());
        let bare = DirEntry { attr: None, ..entry(b"file", 3) };
        let plus = Shape::Entries { size: 4096, plus: true };
        assert!(encode(plus, Reply::Entries(vec![bare], TTL)).is_err());
        let too_long = encode(Shape::Xattr { size: 2 }, Reply::Data(vec![0; 3]));
        assert_eq!(too_long.unwrap(), Encoded::TooLong);
    }

    #[test]
    fn only_a_descriptor_that_can_write_is_flushed() {
        let flags = |how, access| {
            let body = body(Shape::Open { access }, Reply::Opened(HandleId(7), how));
            (body[8], body[12])
        };
        assert_eq!(flags(OpenReply::CachedAnew, Access::Read), (0x20, 0));
        assert_eq!(flags(OpenReply::CachedAnew, Access::Write), (0, 0));
        assert_eq!(flags(OpenReply::CachedKeep, Access::Read), (0x22, 0));
        assert_eq!(flags(OpenReply::Direct, Access::Write), (1, 0));
        assert_eq!(flags(OpenReply::Passthrough(9), Access::Read), (0xa0, 9));
        assert_eq!(flags(OpenReply::PassthroughDirect(9), Access::ReadWrite), (0x81, 9));
    }

    #[test]
    fn entries_that_do_not_fit_are_left_out_whole_and_their_nodes_named() {
        let entries = vec![entry(b".", 1), entry(b"nine-byte", 2), entry(b"x", 3), entry(b"..", 4)];
        let list = |size, plus| {
            encode(Shape::Entries { size, plus }, Reply::Entries(entries.clone(), TTL)).unwrap()
        };
        let Encoded::Body(all) = list(4096, false) else { panic!("it has no attributes") };
        assert_eq!(all.len(), 32 + 40 + 32 + 32);
        assert_eq!(list(103, false), Encoded::Body(all[..72].to_vec()));
        let Encoded::Entries(all, unsent) = list(4096, true) else { panic!("it has attributes") };
        assert_eq!((all.len(), unsent.len()), (4 * 128 + 32 + 40 + 32 + 32, 0));
        assert_eq!(list(328, true), Encoded::Entries(all[..328].to_vec(), vec![Ino(3)]));
        assert_eq!(list(327, true), Encoded::Entries(all[..160].to_vec(), vec![Ino(2), Ino(3)]));
    }

    #[test]
    fn no_time_of_a_node_is_out_of_range() {
        let time = Timestamp { secs: i64::MIN, nanos: u32::MAX };
        let body = body(Shape::Attr, Reply::Attr(Attr { mtime: time, ..attr(2) }, TTL));
        assert_eq!(body[16 + 32..16 + 40], i64::MIN.to_ne_bytes());
        assert_eq!(body[16 + 52..16 + 56], 999_999_999u32.to_ne_bytes());
    }
}
