//! Mode, owner and times of a node, and how objects carry them.
//!
//! Objects carry them as s3fs and others do, in user metadata: `mode` (decimal, with the bits of
//! the file's kind), `uid`, `gid`, `mtime` (seconds, perhaps with a fraction).

use base::{FileKind, Timestamp};
use remote::Metadata;

use crate::{Owner, SetAttr};

const KIND_FILE: u32 = 0o100_000;
const KIND_FOLDER: u32 = 0o040_000;
const MODE_BITS: u32 = 0o7777;

/// Who says how a node looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nobody: these are the mount's defaults and the listing's time.
    Assumed,
    /// The object's own metadata.
    Object,
    /// Somebody on this mount; counts as long as the object is the one we know.
    Here,
}

/// Mode, owner and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    pub(super) mode: u16,
    pub(super) owner: Owner,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) source: Source,
}

impl Looks {
    /// All times are `time`.
    pub(super) fn new(mode: u16, owner: Owner, time: Timestamp, source: Source) -> Looks {
        Looks { mode, owner, atime: time, mtime: time, ctime: time, source }
    }

    /// What `metadata` says, and for the rest what was assumed.
    pub(super) fn with_metadata(mut self, metadata: &Metadata) -> Looks {
        self.source = Source::Object;
        let number = |key| metadata.get(key)?.trim().parse::<u32>().ok();
        if let Some(mode) = number("mode") {
            self.mode = u16::try_from(mode & MODE_BITS).expect("12 bits");
        }
        if let Some(uid) = number("uid") {
            self.owner.uid = uid;
        }
        if let Some(gid) = number("gid") {
            self.owner.gid = gid;
        }
        if let Some(mtime) = metadata.get("mtime").and_then(|text| time_of(text)) {
            self.mtime = mtime;
            self.atime = mtime;
        }
        self
    }

    /// What an object is to carry.
    pub(super) fn metadata(&self, kind: FileKind) -> Metadata {
        let kind = if kind == FileKind::Directory { KIND_FOLDER } else { KIND_FILE };
        Metadata::from([
            ("mode".to_owned(), (kind | u32::from(self.mode)).to_string()),
            ("uid".to_owned(), self.owner.uid.to_string()),
            ("gid".to_owned(), self.owner.gid.to_string()),
            ("mtime".to_owned(), text_of(self.mtime)),
        ])
    }

    /// Somebody on this mount changed attributes, or with the size the bytes.
    pub(super) fn change(&mut self, change: &SetAttr, now: Timestamp) {
        if change.size.is_some() {
            self.mtime = now;
        }
        self.mode = change.mode.map_or(self.mode, |mode| mode & 0o7777);
        self.owner.uid = change.uid.unwrap_or(self.owner.uid);
        self.owner.gid = change.gid.unwrap_or(self.owner.gid);
        self.atime = change.atime.unwrap_or(self.atime);
        self.mtime = change.mtime.unwrap_or(self.mtime);
        self.ctime = change.ctime.unwrap_or(now);
        self.source = Source::Here;
    }

    /// The names in this folder were changed here.
    pub(super) fn names_changed(&mut self, now: Timestamp) {
        self.mtime = now;
        self.ctime = now;
    }
}

/// Seconds since 1970, with nine digits behind the point.
fn text_of(time: Timestamp) -> String {
    if time.secs < 0 && time.nanos > 0 {
        // Seconds are rounded down: half a second before 1970 is -1 and 500,000,000.
        return format!("-{}.{:09}", -(time.secs + 1), 1_000_000_000 - time.nanos);
    }
    format!("{}.{:09}", time.secs, time.nanos)
}

fn time_of(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || fraction.contains('.') {
        return None;
    }
    let secs: i64 = whole.parse().ok()?;
    let padded: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u32 = padded.parse().ok()?;
    Some(match (negative, nanos) {
        (false, _) => Timestamp { secs, nanos },
        (true, 0) => Timestamp { secs: -secs, nanos },
        (true, _) => Timestamp { secs: -secs - 1, nanos: 1_000_000_000 - nanos },
    })
}

#[cfg(test)]
mod tests {
    use base::{FileKind, Timestamp};
    use remote::Metadata;

    use super::{Looks, Source, text_of, time_of};
    use crate::Owner;

    const ASSUMED: Looks = Looks {
        mode: 0o644,
        owner: Owner { uid: 1, gid: 2 },
        atime: Timestamp { secs: 5, nanos: 0 },
        mtime: Timestamp { secs: 5, nanos: 0 },
        ctime: Timestamp { secs: 5, nanos: 0 },
        source: Source::Assumed,
    };

    fn metadata(pairs: &[(&str, &str)]) -> Metadata {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn times_are_written_and_read_to_the_nanosecond() {
        for (text, secs, nanos) in [
            ("0.000000000", 0, 0),
            ("1700000000.000000001", 1_700_000_000, 1),
            ("-1.000000000", -1, 0),
            ("-0.500000000", -1, 500_000_000),
            ("-1.250000000", -2, 750_000_000),
        ] {
            let time = Timestamp { secs, nanos };
            assert_eq!(text_of(time), text);
            assert_eq!(time_of(text), Some(time), "{text}");
        }
        assert_eq!(time_of("17"), Some(Timestamp { secs: 17, nanos: 0 }));
        assert_eq!(time_of("17.5"), Some(Timestamp { secs: 17, nanos: 500_000_000 }));
        for wrong in ["", "x", "1.2.3", "+5", "1e9", "2024-01-01", "1.-5"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn metadata_of_other_tools_is_understood_and_nonsense_is_not_believed() {
        let pairs = [("mode", "33261"), ("uid", "1000"), ("gid", "x"), ("mtime", "1600000000")];
        let looks = ASSUMED.with_metadata(&metadata(&pairs));
        assert_eq!((looks.mode, looks.owner), (0o755, Owner { uid: 1000, gid: 2 }));
        assert_eq!(looks.mtime, Timestamp { secs: 1_600_000_000, nanos: 0 });
        assert_eq!(looks.ctime, ASSUMED.ctime);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = ASSUMED.metadata(FileKind::File);
        assert_eq!(written["mode"], "33188");
        let read = ASSUMED.with_metadata(&written);
        assert_eq!(Looks { source: Source::Assumed, ..read }, ASSUMED);
    }
}
