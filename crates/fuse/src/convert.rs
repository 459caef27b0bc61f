//! Our words into `fuser`'s and back: attributes, times, kinds, numbers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{Attr, Errno, FileKind, HandleId, Ino, Timestamp};
use fuser::{FileAttr, FileHandle, FileType, FopenFlags, INodeNo, OpenAccMode, OpenFlags};

use crate::service::{Access, Caller, OpenReply, SetTime};

/// Longer lives are no different, and the kernel takes seconds beyond 63 bits for negative.
const TTL_MAX: Duration = Duration::from_hours(24 * 365 * 10);

pub(crate) fn caller(request: &fuser::Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

pub(crate) fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

pub(crate) fn handle(number: FileHandle) -> HandleId {
    HandleId(number.0)
}

pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.code())
}

pub(crate) fn access(flags: OpenFlags) -> Access {
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => Access::Read,
        OpenAccMode::O_WRONLY => Access::Write,
        OpenAccMode::O_RDWR => Access::ReadWrite,
    }
}

pub(crate) fn ttl(ttl: Duration) -> Duration {
    ttl.min(TTL_MAX)
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks(),
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.mode & 0o7777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: 4096,
        flags: 0,
    }
}

/// Attributes of a node of which nothing but number and kind are known, or looked at.
pub(crate) fn bare_attr(ino: Ino, kind: FileKind) -> FileAttr {
    let time = Timestamp::default();
    attr(&Attr {
        ino,
        kind,
        size: 0,
        mode: 0,
        uid: 0,
        gid: 0,
        nlink: 1,
        rdev: 0,
        atime: time,
        mtime: time,
        ctime: time,
    })
}

/// How the kernel is told to treat an open. [`FopenFlags::FOPEN_PASSTHROUGH`] is not among them:
/// it goes with the backing file's number.
pub(crate) fn fopen_flags(how: OpenReply, access: Access) -> FopenFlags {
    let caching = match how {
        OpenReply::CachedAnew | OpenReply::Passthrough(_) => FopenFlags::empty(),
        OpenReply::CachedKeep => FopenFlags::FOPEN_KEEP_CACHE,
        OpenReply::Direct | OpenReply::PassthroughDirect(_) => FopenFlags::FOPEN_DIRECT_IO,
    };
    match access {
        // Nothing was written through this descriptor, so its close has nothing to say.
        Access::Read => caching | FopenFlags::FOPEN_NOFLUSH,
        Access::Write | Access::ReadWrite => caching,
    }
}

/// A moment as the kernel sent it, before `fuser` made a [`SystemTime`] of it.
///
/// The kernel sends whole seconds rounded down and nanoseconds that count upwards from them.
/// `fuser` 0.18 takes both as distances from 1970, so that half a second before 1970, sent as
/// `(-1, 500_000_000)`, arrives as 1.5 seconds before. Distance by distance is the way back, and
/// it is exact: times from 1970 on are never negative, earlier ones always are.
pub(crate) fn timestamp_sent(arrived: SystemTime) -> Timestamp {
    match arrived.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp {
            secs: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanos: after.subsec_nanos(),
        },
        Err(before) => {
            let before = before.duration();
            let secs = 0i64.checked_sub_unsigned(before.as_secs()).unwrap_or(i64::MIN);
            Timestamp { secs, nanos: before.subsec_nanos() }
        }
    }
}

pub(crate) fn set_time(time: fuser::TimeOrNow) -> SetTime {
    match time {
        fuser::TimeOrNow::Now => SetTime::Now,
        fuser::TimeOrNow::SpecificTime(arrived) => SetTime::At(timestamp_sent(arrived)),
    }
}

/// Total: a time that cannot be said is said as 1970, for a wrong time is better than no answer.
fn system_time(time: Timestamp) -> SystemTime {
    let distance = Duration::from_secs(time.secs.unsigned_abs());
    let whole = if time.secs < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    let nanos = Duration::from_nanos(u64::from(time.nanos.min(999_999_999)));
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use base::Timestamp;
    use fuser::FopenFlags;

    use super::{fopen_flags, system_time, timestamp_sent};
    use crate::service::{Access, OpenReply};

    /// What `fuser` 0.18 makes of a time in a setattr request.
    fn as_fuser_decodes(secs: i64, nanos: u32) -> SystemTime {
        let distance = Duration::new(secs.unsigned_abs(), nanos);
        if secs < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }

    #[test]
    fn every_time_the_kernel_sends_is_recovered() {
        for (secs, nanos) in
            [(0, 0), (0, 1), (1, 999_999_999), (-1, 0), (-1, 500_000_000), (-7, 1), (i64::MIN, 0)]
        {
            let arrived = as_fuser_decodes(secs, nanos);
            assert_eq!(timestamp_sent(arrived), Timestamp { secs, nanos });
        }
    }

    #[test]
    fn no_time_of_a_node_panics() {
        for secs in [i64::MIN, -1, 0, i64::MAX] {
            for nanos in [0, 999_999_999, u32::MAX] {
                system_time(Timestamp { secs, nanos });
            }
        }
        let before = system_time(Timestamp { secs: -2, nanos: 500_000_000 });
        assert_eq!(UNIX_EPOCH.duration_since(before).unwrap(), Duration::from_millis(1500));
    }

    #[test]
    fn only_a_descriptor_that_can_write_is_flushed() {
        let noflush = FopenFlags::FOPEN_NOFLUSH;
        assert_eq!(fopen_flags(OpenReply::CachedAnew, Access::Read), noflush);
        assert_eq!(fopen_flags(OpenReply::CachedAnew, Access::Write), FopenFlags::empty());
        assert_eq!(
            fopen_flags(OpenReply::PassthroughDirect(1), Access::ReadWrite),
            FopenFlags::FOPEN_DIRECT_IO
        );
        assert_eq!(
            fopen_flags(OpenReply::CachedKeep, Access::Read),
            FopenFlags::FOPEN_KEEP_CACHE | noflush
        );
    }
}
