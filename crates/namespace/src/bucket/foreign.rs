//! What an object's own metadata says of mode, owner, times and kind, in the words of the programs
//! that write such metadata.
//!
//! - s3fs: `mode` (decimal, with the bits of the kind), `uid`, `gid`, `mtime`, `atime`, `ctime`; the
//!   body of a symlink is its target. It is what quayfs writes too, with `rdev` for devices.
//! - geesefs: the same, and `--symlink-target` for the target of a symlink.
//! - rclone: `mtime`.
//! - gcsfuse: `gcsfuse_mtime` (RFC 3339), `gcsfuse_symlink_target`. gsutil:
//!   `goog-reserved-file-mtime`.
//! - blobfuse2: `is_symlink` for a symlink, whose body is its target. It and other tools of Azure's:
//!   `hdi_isfolder` for an empty object that stands for a folder.

use std::sync::Arc;

use base::{FileKind, Timestamp};
use remote::Metadata;

use super::form::Form;
use super::time::{time_of, time_of_rfc3339};
use crate::Special;

/// The bits of a mode that say what a node is.
const KIND_BITS: u32 = 0o170_000;
const MODE_BITS: u32 = 0o7777;
const TARGET_BYTES_MAX: usize = 4095;

/// What metadata says; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) mtime: Option<Timestamp>,
    pub(super) atime: Option<Timestamp>,
    pub(super) ctime: Option<Timestamp>,
}

/// Reads mode, owner and times.
pub(super) fn looks(metadata: &Metadata) -> Foreign {
    let number = |key| metadata.get(key)?.trim().parse::<u32>().ok();
    let time = |key| metadata.get(key).and_then(|text| time_of(text));
    let calendar = || metadata.get("gcsfuse_mtime").and_then(|text| time_of_rfc3339(text));
    Foreign {
        mode: number("mode").map(|mode| u16::try_from(mode & MODE_BITS).expect("12 bits")),
        uid: number("uid"),
        gid: number("gid"),
        mtime: time("mtime").or_else(calendar).or_else(|| time("goog-reserved-file-mtime")),
        atime: time("atime"),
        ctime: time("ctime"),
    }
}

/// What an object with this metadata stands for.
pub(super) fn form(metadata: &Metadata) -> Form {
    let target = |key| metadata.get(key).filter(|target| is_target(target));
    if let Some(target) = target("gcsfuse_symlink_target") {
        return Form::Link(Some(Arc::new(target.as_bytes().to_vec())));
    }
    if let Some(target) = target("--symlink-target") {
        return Form::Link(Some(Arc::new(unescaped(target))));
    }
    if says(metadata, "is_symlink") {
        return Form::Link(None);
    }
    let mode = metadata.get("mode").and_then(|mode| mode.trim().parse::<u32>().ok());
    match mode.map(|mode| kind_of(mode & KIND_BITS)) {
        Some(Some(FileKind::Symlink)) => Form::Link(None),
        Some(Some(
            kind @ (FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice),
        )) => {
            let rdev = metadata.get("rdev").and_then(|rdev| rdev.trim().parse().ok());
            Form::Special(Special { kind, rdev: rdev.unwrap_or(0) })
        }
        // An object is never a folder, whatever it says.
        Some(Some(FileKind::File | FileKind::Directory) | None) | None => Form::Plain,
    }
}

/// Whether an object with this metadata, and nothing in it, stands for a folder.
pub(super) fn is_stub(metadata: &Metadata) -> bool {
    says(metadata, "hdi_isfolder")
}

fn says(metadata: &Metadata, name: &str) -> bool {
    metadata.get(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

fn is_target(target: &str) -> bool {
    (1..=TARGET_BYTES_MAX).contains(&target.len()) && !target.contains('\0')
}

/// Percent escapes, as in an URL, undone; what is no escape stays.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        let digits = more.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) if byte == b'%' && escaped != 0 => {
                bytes.push(escaped);
                rest = &more[2..];
            }
            Some(_) | None => bytes.push(byte),
        }
    }
    bytes
}

/// The kind that the bits of a mode name.
fn kind_of(bits: u32) -> Option<FileKind> {
    let kinds = [
        FileKind::File,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ];
    kinds.into_iter().find(|&kind| kind_bits(kind) == bits)
}

/// The bits of a mode that say that a node is of this kind.
pub(super) fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{FileKind, Timestamp};
    use remote::Metadata;

    use super::{Foreign, form, is_stub, looks};
    use crate::Special;
    use crate::bucket::form::Form;

    fn metadata(pairs: &[(&str, &str)]) -> Metadata {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn times_of_other_tools_are_read_and_nonsense_is_not() {
        let at = |secs, nanos| Some(Timestamp { secs, nanos });
        for (pairs, mtime, atime) in [
            (
                &[("mtime", "1700000000.25"), ("atime", "5")][..],
                at(1_700_000_000, 250_000_000),
                at(5, 0),
            ),
            (&[("gcsfuse_mtime", "2023-11-14T22:13:20.1Z")], at(1_700_000_000, 100_000_000), None),
            (&[("goog-reserved-file-mtime", "7")], at(7, 0), None),
            (&[("mtime", "yesterday")], None, None),
        ] {
            let want = Foreign { mtime, atime, ..Foreign::default() };
            assert_eq!(looks(&metadata(pairs)), want, "{pairs:?}");
        }
    }

    #[test]
    fn links_and_special_files_of_other_tools_are_known() {
        let link = |target: &[u8]| Form::Link(Some(Arc::new(target.to_vec())));
        let special = |kind, rdev| Form::Special(Special { kind, rdev });
        for (pairs, want) in [
            (&[("mode", "41471")][..], Form::Link(None)),
            (&[("mode", "33188")], Form::Plain),
            (&[("mode", "16877")], Form::Plain),
            (&[("mode", "4516")], special(FileKind::Fifo, 0)),
            (&[("mode", "8630"), ("rdev", "259")], special(FileKind::CharDevice, 259)),
            (&[("gcsfuse_symlink_target", "../a b")], link(b"../a b")),
            (&[("--symlink-target", "a%2Fb%25")], link(b"a/b%")),
            (&[("--symlink-target", "")], Form::Plain),
            (&[("is_symlink", "true")], Form::Link(None)),
            (&[("is_symlink", "True"), ("mode", "33188")], Form::Link(None)),
            (&[("is_symlink", "false")], Form::Plain),
            (&[("hdi_isfolder", "true")], Form::Plain),
        ] {
            assert_eq!(form(&metadata(pairs)), want, "{pairs:?}");
        }
        for (pairs, want) in [
            (&[("hdi_isfolder", "true")][..], true),
            (&[("hdi_isfolder", "false")], false),
            (&[("mode", "16877")], false),
        ] {
            assert_eq!(is_stub(&metadata(pairs)), want, "{pairs:?}");
        }
    }
}
