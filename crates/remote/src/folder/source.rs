//! An object whose bytes the kernel copies into another file, by reference where the disk can.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use base::ByteRange;
use rustix::fs::Stat;

use super::disk::Disk;
use super::fault::{Fault, Outcome};
use super::stamp;
use crate::{ErrorKind, Key, Version};

/// One version of an object, open.
pub(super) struct Source {
    file: File,
    /// As the file was when it was opened.
    stat: Stat,
}

impl Disk {
    /// The object `key`, which must still be `version`.
    pub(super) fn open_source(&self, key: &Key, version: &Version) -> Outcome<Source> {
        match self.open_object(key)? {
            Some((file, stat)) if stamp::version(&stat) == *version => Ok(Source { file, stat }),
            Some(_) => Err(Fault::changed()),
            None if self.head(key)?.version == *version => Err(out_of_range()),
            None => Err(Fault::changed()),
        }
    }
}

impl Source {
    /// Copies `range` to where `to` stands.
    pub(super) fn copy(&mut self, range: ByteRange, to: &mut File) -> Outcome<()> {
        if stamp::size(&self.stat) < range.end() {
            return Err(out_of_range());
        }
        self.file.seek(SeekFrom::Start(range.start()))?;
        let copied = std::io::copy(&mut (&self.file).take(range.len()), to)?;
        // Another program may have written into the file itself.
        let now = rustix::fs::fstat(&self.file)?;
        let same = (now.st_size, now.st_mtime, now.st_mtime_nsec)
            == (self.stat.st_size, self.stat.st_mtime, self.stat.st_mtime_nsec);
        if same && copied == range.len() { Ok(()) } else { Err(Fault::changed()) }
    }
}

fn out_of_range() -> Fault {
    Fault::new(ErrorKind::Unsupported, "the range goes past the object's end")
}
