//! The dozen file calls we make, and the one place where a test can make them fail.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::ByteRange;
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

/// The local disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Backing files that this process has open.
    open: AtomicUsize,
    #[cfg(feature = "testing")]
    faults: Option<std::sync::Arc<crate::faulty_disk::Faults>>,
}

/// The room on the file system of the state folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// What ordinary users may still write.
    pub free_bytes: u64,
    /// How large it is.
    pub total_bytes: u64,
}

impl Disk {
    /// The disk with faults that a test sets.
    #[cfg(feature = "testing")]
    pub(crate) fn faulty(faults: std::sync::Arc<crate::faulty_disk::Faults>) -> Disk {
        Disk { faults: Some(faults), ..Disk::default() }
    }

    /// How many backing files are open.
    pub(crate) fn open_files(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A backing file is open.
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A backing file that was open is not any more.
    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Makes `path` and what is above it, for nobody else to see.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    /// Makes `path`, for nobody else to see, if it is not there; fails if what it is in has gone: a state folder that
    /// somebody removed is not begun anew below those who had it.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn make_folder_in(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// A new file for reading and writing; fails if there is one.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        unfollowed().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    /// The file `path`, made if it is not there.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn open_or_create(&self, path: &Path) -> io::Result<File> {
        unfollowed().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    }

    /// The file `path`, or `None`.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn open(&self, path: &Path) -> io::Result<Option<File>> {
        match unfollowed().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The inode that `path` leads to now, if any.
    pub(crate) fn inode(&self, path: &Path) -> io::Result<Option<u64>> {
        Ok(self.inode_and_len(path)?.map(|(inode, _)| inode))
    }

    /// The inode that `path` leads to now, and its length, if there is any.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn inode_and_len(&self, path: &Path) -> io::Result<Option<(u64, u64)>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some((metadata.ino(), metadata.len()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How long the file `path` is; 0 if there is none.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn len(&self, path: &Path) -> io::Result<u64> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Gives the file `from` the path `to`, replacing what is there.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all calls go through the disk")
    )]
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        #[cfg(feature = "testing")]
        if let Some(faults) = &self.faults {
            faults.rename()?;
        }
        fs::rename(from, to)
    }

    /// Removes the file `path`; it is fine if there is none.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn unlink(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Calls `each` with the name and metadata of all that is in the folder `path`.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn list(
        &self,
        path: &Path,
        each: &mut dyn FnMut(&OsStr, &fs::Metadata),
    ) -> io::Result<()> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // A file that went between the listing and the question is as good as not listed.
            let Ok(metadata) = entry.metadata() else { continue };
            each(&entry.file_name(), &metadata);
        }
        Ok(())
    }

    /// Fills `buf` from `offset` on.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all calls go through the disk")
    )]
    pub(crate) fn read(&self, file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(feature = "testing")]
        if let Some(faults) = &self.faults {
            faults.count_read(buf.len());
        }
        file.read_exact_at(buf, offset)
    }

    /// Adds the bytes of `range` to `out`, without making room of zeros for them first.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all calls go through the disk")
    )]
    pub(crate) fn append(
        &self,
        file: &File,
        range: ByteRange,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let len = usize::try_from(range.len()).expect("memory is 64 bits wide");
        #[cfg(feature = "testing")]
        if let Some(faults) = &self.faults {
            faults.count_read(len);
        }
        let start = out.len();
        out.reserve_exact(len);
        while out.len() < start + len {
            let at = range.start() + (out.len() - start) as u64;
            match rustix::io::pread(file, spare_capacity(out), at) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been more room than was asked for.
        out.truncate(start + len);
        Ok(())
    }

    /// The first run of bytes of `range` that may be something else than zeros.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn data(&self, file: &File, range: ByteRange) -> io::Result<Option<ByteRange>> {
        let start = match rustix::fs::seek(file, SeekFrom::Data(range.start())) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // A disk that knows of no holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(range)),
            Err(error) => return Err(error.into()),
        };
        let Some(rest) = ByteRange::new(start, range.end()) else { return Ok(None) };
        let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end.max(start + 1),
            // It was cut meanwhile.
            Err(Errno::NXIO) => range.end(),
            Err(error) => return Err(error.into()),
        };
        Ok(rest.below(end))
    }

    /// Takes the space of `range`, changing neither bytes nor length. A disk that cannot is asked
    /// for room with each write only.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all calls go through the disk")
    )]
    pub(crate) fn allocate(&self, file: &File, range: ByteRange) -> io::Result<()> {
        #[cfg(feature = "testing")]
        if let Some(faults) = &self.faults {
            faults.has_room(range.len())?;
        }
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, range.start(), range.len()) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            allocated => Ok(allocated?),
        }
    }

    /// Writes all of `bytes` at `offset`.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all calls go through the disk")
    )]
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(feature = "testing")]
        if let Some(faults) = &self.faults {
            let room = faults.take_room(bytes.len());
            if room < bytes.len() {
                file.write_all_at(&bytes[..room], offset)?;
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
        }
        file.write_all_at(bytes, offset)
    }

    /// Waits until the disk has all of the file.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Gives back the space of `range`, which reads as zeros then.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "as above"))]
    pub(crate) fn punch(&self, file: &File, range: ByteRange) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, flags, range.start(), range.len())?;
        #[cfg(feature = "testing")]
        if let Some(faults) = &self.faults {
            faults.give_room(range.len());
        }
        Ok(())
    }

    /// Makes `to` the same bytes as `from` without copying them, where the file system can.
    #[expect(clippy::unused_self, reason = "all calls go through the disk")]
    pub(crate) fn clone_whole(&self, from: &File, to: &File) -> io::Result<()> {
        Ok(rustix::fs::ioctl_ficlone(to, from)?)
    }

    /// How much room the file system of `path` has.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "all calls go through the disk")
    )]
    pub(crate) fn room(&self, path: &Path) -> io::Result<Room> {
        let stat = rustix::fs::statvfs(path)?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        #[cfg(feature = "testing")]
        let free_bytes =
            self.faults.as_ref().map_or(free_bytes, |faults| faults.told_room().min(free_bytes));
        Ok(Room { free_bytes, total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize) })
    }
}
/// Options of an open that fails at a symbolic link: none of our files is one, and another user's could lead anywhere.
pub(crate) fn unfollowed() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW);
    options
}
