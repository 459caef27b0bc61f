//! What a file says of the object in it: its version, and its metadata in extended attributes.

use std::fmt::Write as _;
use std::os::fd::AsFd;

use base::Timestamp;
use rustix::fs::{Stat, XattrFlags};
use rustix::io::Errno;

use super::fault::{Fault, Outcome};
use crate::{ErrorKind, Meta, Metadata, Version};

/// On a file: its metadata.
const METADATA: &str = "user.quayfs.metadata";

/// On a folder that is the object `folder/`: when it was put, and its metadata.
const MARKER: &str = "user.quayfs.marker";

/// The kernel's own limit on the value of an attribute.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Whether the disk keeps extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    No,
}

/// A folder that is an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) written: Timestamp,
    pub(super) metadata: Metadata,
}

impl Marker {
    /// What is known of the object, given the folder it is on.
    pub(super) fn meta(self, folder: &Stat) -> Meta {
        let Timestamp { secs, nanos } = self.written;
        let version = Version::new(&format!("m{:x}-{secs:x}.{nanos:x}", folder.st_ino));
        Meta { size: 0, version, modified: self.written, metadata: self.metadata }
    }
}

/// The version of the object in a file: every write makes a new inode with its own mtime, every
/// change by other programs moves the ctime.
pub(super) fn version(stat: &Stat) -> Version {
    Version::new(&format!(
        "{:x}-{:x}.{:x}-{:x}.{:x}-{:x}",
        stat.st_ino,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec,
        stat.st_size
    ))
}

/// What is known of the object in a file, without its metadata.
pub(super) fn meta(stat: &Stat) -> Meta {
    Meta {
        size: size(stat),
        version: version(stat),
        modified: Timestamp {
            secs: stat.st_mtime,
            nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        },
        metadata: Metadata::new(),
    }
}

/// What is known of a folder that other programs made and left empty: the object `folder/`.
pub(super) fn bare_folder_meta(stat: &Stat) -> Meta {
    Meta { size: 0, ..meta(stat) }
}

pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).expect("a file's size is not negative")
}

/// Writes `metadata` to the file, if the disk can.
pub(super) fn set_metadata(file: impl AsFd, metadata: &Metadata) -> Outcome<Kept> {
    if metadata.is_empty() { Ok(Kept::Yes) } else { set(file, METADATA, &encode(metadata)) }
}

pub(super) fn metadata(file: impl AsFd) -> Outcome<Metadata> {
    Ok(get(file, METADATA)?.map(|text| decode(&text)).unwrap_or_default())
}

/// Makes the folder an object, if the disk can.
pub(super) fn set_marker(folder: impl AsFd, marker: &Marker) -> Outcome<Kept> {
    let Timestamp { secs, nanos } = marker.written;
    let text = format!("{secs}.{nanos:09}\n{}", encode(&marker.metadata));
    set(folder, MARKER, &text)
}

/// The object that the folder is, if it is one.
pub(super) fn marker(folder: impl AsFd) -> Outcome<Option<Marker>> {
    let Some(text) = get(folder, MARKER)? else { return Ok(None) };
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let (secs, nanos) = first.split_once('.').unwrap_or((first, "0"));
    let written = Timestamp { secs: secs.parse().unwrap_or(0), nanos: nanos.parse().unwrap_or(0) };
    Ok(Some(Marker { written, metadata: decode(rest) }))
}

pub(super) fn remove_marker(folder: impl AsFd) -> Outcome<()> {
    match rustix::fs::fremovexattr(folder, MARKER) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn set(file: impl AsFd, name: &str, text: &str) -> Outcome<Kept> {
    match rustix::fs::fsetxattr(file, name, text.as_bytes(), XattrFlags::empty()) {
        Ok(()) => Ok(Kept::Yes),
        Err(Errno::OPNOTSUPP) => Ok(Kept::No),
        // Some disks have a few KiB per file for this; the disk itself is not full.
        Err(Errno::NOSPC | Errno::RANGE | Errno::TOOBIG) => {
            Err(Fault::new(ErrorKind::Unsupported, "the disk has no room for this much metadata"))
        }
        Err(errno) => Err(errno.into()),
    }
}

fn get(file: impl AsFd, name: &str) -> Outcome<Option<String>> {
    let mut value = vec![0; 4096];
    let mut read = rustix::fs::fgetxattr(&file, name, &mut value[..]);
    if read == Err(Errno::RANGE) {
        value.resize(XATTR_BYTES_MAX, 0);
        read = rustix::fs::fgetxattr(&file, name, &mut value[..]);
    }
    match read {
        Ok(len) => Ok(Some(String::from_utf8_lossy(&value[..len]).into_owned())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// One `name=value` a line; what would end a line is escaped.
pub(super) fn encode(metadata: &Metadata) -> String {
    let mut text = String::new();
    for (name, value) in metadata {
        let value = value.replace('%', "%25").replace('\n', "%0A");
        writeln!(text, "{name}={value}").expect("a string takes all text");
    }
    text
}

pub(super) fn decode(text: &str) -> Metadata {
    let pairs = text.split_terminator('\n').filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.replace("%0A", "\n").replace("%25", "%")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::Metadata;

    #[test]
    fn metadata_survives_its_text_form() {
        let pairs = [("mode", "33188"), ("a", ""), ("odd", "x=%0A%25\n\r y\r"), ("grün", "ü")];
        let metadata: Metadata =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(decode(&encode(&metadata)), metadata);
    }
}
