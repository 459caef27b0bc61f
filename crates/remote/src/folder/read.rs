//! Reads an object's bytes from one open file, so that they are all of one version.

use std::fs::File;
use std::sync::Arc;

use base::ByteRange;
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::Stat;

use super::disk::Disk;
use super::fault::{Fault, Outcome};
use super::stamp;
use crate::{ErrorKind, Fresh, Key, Version};

/// How much one file call reads: enough that the calls do not count.
const PIECE_BYTES: u64 = 512 << 10;

/// A part of an object that is still to be read.
#[derive(Debug)]
pub(super) struct Reading {
    file: Arc<File>,
    /// As the file was when it was opened.
    stat: Stat,
    rest: Option<ByteRange>,
}

impl Disk {
    pub(super) fn open_range(
        &self,
        key: &Key,
        range: ByteRange,
        version: Option<&Version>,
    ) -> Outcome<Reading> {
        let opened = self.open_object(key)?;
        let (found, size) = match &opened {
            Some((_, stat)) => (stamp::version(stat), stamp::size(stat)),
            None => (self.head(key)?.version, 0),
        };
        if version.is_some_and(|version| *version != found) {
            return Err(Fault::changed());
        }
        match opened {
            Some((file, stat)) if range.end() <= size => {
                Ok(Reading { file: Arc::new(file), stat, rest: Some(range) })
            }
            Some(_) | None => {
                Err(Fault::new(ErrorKind::Unsupported, "the range goes past the object's end"))
            }
        }
    }
}

impl Disk {
    /// All bytes of a small object, read as one version.
    pub(super) fn read_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Outcome<Fresh> {
        let meta = self.head(key)?;
        if unless == Some(&meta.version) {
            return Ok(Fresh::Same);
        }
        if bytes_max < meta.size {
            return Err(Fault::new(ErrorKind::Unsupported, "the object is larger than wanted"));
        }
        let mut bytes = Vec::new();
        if let Some(range) = ByteRange::new(0, meta.size) {
            let mut reading = self.open_range(key, range, Some(&meta.version))?;
            while let Some((piece, rest)) = reading.next()? {
                bytes.extend_from_slice(&piece);
                reading = rest;
            }
        }
        Ok(Fresh::New(meta, bytes.into()))
    }
}

impl Reading {
    /// The next piece, and what is left after it; `None` at the end.
    pub(super) fn next(mut self) -> Outcome<Option<(Bytes, Reading)>> {
        let Some(range) = self.rest else { return Ok(None) };
        let piece = range.pieces(PIECE_BYTES).next().expect("a range has a piece");
        self.rest = ByteRange::new(piece.end(), range.end());

        let len = usize::try_from(piece.len()).expect("a piece is small");
        // Filled by the kernel, without being zeroed first.
        let mut bytes = Vec::with_capacity(len);
        let mut at = piece.start();
        while at < piece.end() {
            let mut rest = Vec::with_capacity(len - bytes.len());
            let read = rustix::io::pread(&*self.file, spare_capacity(&mut rest), at)?;
            if read == 0 {
                return Err(Fault::new(ErrorKind::Changed, "the file was cut short"));
            }
            at += read as u64;
            // Nearly always all of it at once.
            if bytes.is_empty() {
                bytes = rest;
            } else {
                bytes.append(&mut rest);
            }
        }
        self.check_unchanged()?;
        assert!(bytes.len() == len, "read as far as asked and no further");
        Ok(Some((Bytes::from(bytes), self)))
    }

    /// Another program may write into the file itself. The inode's times also move when a new
    /// version replaces it, so only what follows from its bytes is compared.
    fn check_unchanged(&self) -> Outcome<()> {
        let now = rustix::fs::fstat(&*self.file)?;
        let same = (now.st_size, now.st_mtime, now.st_mtime_nsec)
            == (self.stat.st_size, self.stat.st_mtime, self.stat.st_mtime_nsec);
        if same { Ok(()) } else { Err(Fault::changed()) }
    }
}
