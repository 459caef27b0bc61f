//! The disk of the state folder: what it is, how much is free, how fast it is.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Clock, SystemClock};
use rustix::fs::{Advice, fadvise, statfs, statvfs};

use super::finding::Finding;

/// The disk of the state folder.
#[derive(Debug)]
pub(super) struct Place {
    /// The folder, or the nearest one above it that is there.
    folder: PathBuf,
}

/// How much is written and read, and for how long at most.
const TRIAL_BYTES: u64 = 64 << 20;
const TRIAL_TIME_MAX: Duration = Duration::from_secs(3);
const BLOCK_BYTES: usize = 1 << 20;

/// Slower than a good network: then the cache is what one waits for.
const BYTES_PER_SECOND_GOOD: u64 = 100 << 20;

const FREE_BYTES_GOOD: u64 = 10 << 30;
const FREE_BYTES_MIN: u64 = 1 << 30;

impl Place {
    pub(super) fn of(state_dir: &Path) -> Place {
        let folder = state_dir.ancestors().find(|folder| folder.is_dir());
        Place { folder: folder.unwrap_or(Path::new("/")).to_owned() }
    }

    /// A folder on that disk.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn look(&self, tell: &mut impl FnMut(Finding)) {
        tell(self.kind());
        tell(self.free());
        tell(self.speed());
    }

    fn kind(&self) -> Finding {
        let subject = "cache file system";
        let place = self.folder.display();
        let kind = match statfs(&self.folder) {
            Ok(found) => found.f_type,
            Err(error) => {
                let advice = "choose another folder with --cache-dir";
                return Finding::fail(subject, format!("{place}: {error}"), advice);
            }
        };
        let local = "choose a folder on a local disk with --cache-dir";
        match kind {
            0xEF53 => Finding::ok(subject, format!("ext4 at {place}")),
            0x5846_5342 => Finding::ok(subject, format!("XFS at {place}")),
            0x9123_683E => Finding::ok(subject, format!("Btrfs at {place}")),
            0x794C_7630 => Finding::warn(
                subject,
                format!("overlayfs at {place}"),
                "there is no passthrough from it: choose a volume of the container with --cache-dir",
            ),
            0x0102_1994 => Finding::warn(
                subject,
                format!("tmpfs at {place}"),
                format!("what waits for upload is lost with the machine: {local}"),
            ),
            0x6969 | 0xFF53_4D42 => {
                Finding::fail(subject, format!("a network file system at {place}"), local)
            }
            0x6573_5546 => Finding::fail(subject, format!("FUSE at {place}"), local),
            kind => Finding::ok(subject, format!("type {kind:#x} at {place}")),
        }
    }

    fn free(&self) -> Finding {
        let subject = "cache space";
        let Ok(room) = statvfs(&self.folder) else {
            return Finding::fail(subject, "the disk does not tell", "look at the disk");
        };
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        let seen = format!("{} MiB free", free_bytes >> 20);
        let advice = "make room, or choose another disk with --cache-dir";
        match free_bytes {
            FREE_BYTES_GOOD.. => Finding::ok(subject, seen),
            FREE_BYTES_MIN.. => Finding::warn(subject, seen, advice),
            _ => Finding::fail(subject, seen, advice),
        }
    }

    fn speed(&self) -> Finding {
        let subject = "cache speed";
        let path = self.folder.join(format!(".quayfs-doctor-{}", std::process::id()));
        let measured = measure(&path);
        // What could not be made cannot be removed either.
        let _ = fs::remove_file(&path);
        match measured {
            Ok((write, read)) => {
                let seen = format!("writes {} MiB/s, reads {} MiB/s", write >> 20, read >> 20);
                if write.min(read) < BYTES_PER_SECOND_GOOD {
                    let advice = "the cache is slower than a good network: choose a faster disk with --cache-dir";
                    return Finding::warn(subject, seen, advice);
                }
                Finding::ok(subject, seen)
            }
            Err(error) => Finding::fail(
                subject,
                format!("{}: {error}", self.folder.display()),
                writable(&error),
            ),
        }
    }
}

/// What to do where nothing can be written.
fn writable(error: &io::Error) -> &'static str {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    if full.contains(&error.kind()) {
        "make room, or choose another disk with --cache-dir"
    } else {
        "choose a folder that you may write to with --cache-dir"
    }
}

/// Bytes that are written and read each second.
fn measure(path: &Path) -> io::Result<(u64, u64)> {
    let clock = SystemClock::new();
    let mut block: Vec<u8> =
        (0..BLOCK_BYTES).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    let mut file = File::options().create_new(true).read(true).write(true).open(path)?;
    let mut bytes = 0;
    while bytes < TRIAL_BYTES && clock.monotonic() < TRIAL_TIME_MAX {
        file.write_all(&block)?;
        bytes += block.len() as u64;
    }
    file.sync_all()?;
    let write = per_second(bytes, clock.monotonic());
    // Else it is memory that is read.
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let begun = clock.monotonic();
    let mut reader = File::open(path)?;
    let mut read = 0;
    while read < bytes && clock.monotonic() < begun + TRIAL_TIME_MAX {
        reader.read_exact(&mut block)?;
        read += block.len() as u64;
    }
    Ok((write, per_second(read, clock.monotonic().saturating_sub(begun))))
}

pub(super) fn per_second(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000 / took.as_micros().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::writable;

    #[test]
    fn a_full_disk_wants_room_and_a_closed_one_another_folder() {
        for (kind, want) in [
            (io::ErrorKind::StorageFull, "make room"),
            (io::ErrorKind::PermissionDenied, "may write to"),
            (io::ErrorKind::ReadOnlyFilesystem, "may write to"),
        ] {
            assert!(writable(&kind.into()).contains(want), "{kind}");
        }
    }
}
