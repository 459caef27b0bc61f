//! Mode, owner and times of a node, and how objects carry them.

use base::{FileKind, Timestamp};
use remote::Metadata;

use super::attributes::item::Item;
use super::foreign;
use super::time::text_of;
use crate::{Owner, SetAttr};

/// Who says how a node looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nobody: these are the mount's defaults and the listing's time.
    Assumed,
    /// Nobody yet, but the folder's attribute object had something to say of the object that was
    /// there before: the object itself is to be asked.
    Doubtful,
    /// The object's own metadata.
    Object,
    /// The folder's attribute object.
    Kept,
    /// Somebody on this mount; counts as long as the object is the one we know.
    Here,
}

/// Whether somebody gave mode and owner, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nobody: they are the mount's defaults, but for what was changed.
    Nobody,
    /// Somebody: they are the same in every mount.
    Somebody,
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
    pub(super) said: Said,
    /// Whether somebody gave it its time since its bytes were first noted as changed here.
    pub(super) is_timed: bool,
}

impl Looks {
    /// All times are `time`.
    pub(super) fn new(mode: u16, owner: Owner, time: Timestamp, source: Source) -> Looks {
        let said = match source {
            Source::Here => Said::Somebody,
            Source::Assumed | Source::Doubtful | Source::Object | Source::Kept => Said::Nobody,
        };
        Looks { mode, owner, atime: time, mtime: time, ctime: time, source, said, is_timed: false }
    }

    /// What `metadata` says, and for the rest what was assumed.
    pub(super) fn with_metadata(mut self, metadata: &Metadata) -> Looks {
        let foreign = foreign::looks(metadata);
        self.source = Source::Object;
        self.said = said(foreign.mode, foreign.uid, foreign.gid);
        self.mode = foreign.mode.unwrap_or(self.mode);
        self.owner.uid = foreign.uid.unwrap_or(self.owner.uid);
        self.owner.gid = foreign.gid.unwrap_or(self.owner.gid);
        let ctime = match (self.said, foreign.atime) {
            // Of this program, which keeps a change time of its own elsewhere, and only if it differs.
            (Said::Somebody, None) => foreign.ctime.or(foreign.mtime),
            (Said::Somebody, Some(_)) | (Said::Nobody, _) => foreign.ctime,
        };
        self.with_times(foreign.mtime, foreign.atime, ctime)
    }

    /// What the attribute object says, and for the rest what was assumed.
    pub(super) fn with_item(mut self, item: &Item) -> Looks {
        self.source = Source::Kept;
        self.said = said(item.mode, item.uid, item.gid);
        self.mode = item.mode.unwrap_or(self.mode);
        self.owner.uid = item.uid.unwrap_or(self.owner.uid);
        self.owner.gid = item.gid.unwrap_or(self.owner.gid);
        // A change time is kept only if it differs.
        self.with_times(item.mtime, item.atime, item.ctime.or(item.mtime))
    }

    fn with_times(
        mut self,
        mtime: Option<Timestamp>,
        atime: Option<Timestamp>,
        ctime: Option<Timestamp>,
    ) -> Looks {
        if let Some(mtime) = mtime {
            (self.mtime, self.atime) = (mtime, mtime);
        }
        self.atime = atime.unwrap_or(self.atime);
        self.ctime = ctime.unwrap_or(self.ctime);
        self
    }

    /// What an object is to carry.
    pub(super) fn metadata(&self, kind: FileKind) -> Metadata {
        let mode = foreign::kind_bits(kind) | u32::from(self.mode);
        Metadata::from([
            ("mode".to_owned(), mode.to_string()),
            ("uid".to_owned(), self.owner.uid.to_string()),
            ("gid".to_owned(), self.owner.gid.to_string()),
            ("mtime".to_owned(), text_of(self.mtime)),
        ])
    }

    /// Somebody on this mount changed attributes. A new size alone leaves the times: who tells of bytes knows when
    /// they were written, and may tell of the same ones again.
    pub(super) fn change(&mut self, change: &SetAttr, now: Timestamp) {
        let only_size = SetAttr { size: change.size, ..SetAttr::default() };
        let changed = if *change == only_size { self.ctime } else { now };
        self.mode = change.mode.map_or(self.mode, |mode| mode & 0o7777);
        self.owner.uid = change.uid.unwrap_or(self.owner.uid);
        self.owner.gid = change.gid.unwrap_or(self.owner.gid);
        self.atime = change.atime.unwrap_or(self.atime);
        self.mtime = change.mtime.unwrap_or(self.mtime);
        self.is_timed |= change.size.is_none() && change.mtime.is_some();
        self.ctime = match (change.size, change.ctime) {
            // A time that comes with bytes may be older than a change of names or attributes since.
            (Some(_), Some(written)) => self.ctime.max(written),
            (None, Some(given)) => given,
            (_, None) => changed,
        };
        self.source = Source::Here;
    }

    /// The names in this folder were changed here.
    pub(super) fn names_changed(&mut self, now: Timestamp) {
        self.mtime = now;
        self.ctime = now;
    }
}

fn said(mode: Option<u16>, uid: Option<u32>, gid: Option<u32>) -> Said {
    if mode.is_some() && uid.is_some() && gid.is_some() { Said::Somebody } else { Said::Nobody }
}

#[cfg(test)]
mod tests {
    use base::{FileKind, Timestamp};
    use remote::Metadata;

    use super::{Looks, Said, Source};
    use crate::{Owner, SetAttr};

    const ASSUMED: Looks = Looks {
        mode: 0o644,
        owner: Owner { uid: 1, gid: 2 },
        atime: Timestamp { secs: 5, nanos: 0 },
        mtime: Timestamp { secs: 5, nanos: 0 },
        ctime: Timestamp { secs: 5, nanos: 0 },
        source: Source::Assumed,
        said: Said::Nobody,
        is_timed: false,
    };

    fn metadata(pairs: &[(&str, &str)]) -> Metadata {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
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
    fn change_time_follows_the_modification_time_where_this_program_wrote_both() {
        let ours = [("mode", "33188"), ("uid", "1"), ("gid", "2"), ("mtime", "7")];
        let seven = Timestamp { secs: 7, nanos: 0 };
        for (more, want) in [
            (vec![], seven),
            (vec![("ctime", "9")], Timestamp { secs: 9, nanos: 0 }),
            (vec![("atime", "8")], ASSUMED.ctime),
        ] {
            let pairs: Vec<_> = ours.into_iter().chain(more).collect();
            assert_eq!(ASSUMED.with_metadata(&metadata(&pairs)).ctime, want, "{pairs:?}");
        }
        assert_eq!(ASSUMED.with_metadata(&metadata(&[("mtime", "7")])).ctime, ASSUMED.ctime);
    }

    #[test]
    fn time_that_comes_with_bytes_takes_no_change_time_back() {
        let later = Timestamp { secs: 9, nanos: 0 };
        let mut looks = Looks { ctime: later, ..ASSUMED };
        let earlier = Some(Timestamp { secs: 7, nanos: 0 });
        let with_bytes = SetAttr { size: Some(1), ctime: earlier, ..SetAttr::default() };
        looks.change(&with_bytes, ASSUMED.ctime);
        assert_eq!(looks.ctime, later);
        looks.change(&SetAttr { size: None, ..with_bytes }, ASSUMED.ctime);
        assert_eq!(Some(looks.ctime), earlier, "a program or a change of attributes gives it");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = ASSUMED.metadata(FileKind::File);
        assert_eq!(written["mode"], "33188");
        let read = ASSUMED.with_metadata(&written);
        assert_eq!((read.source, read.said), (Source::Object, Said::Somebody));
        assert_eq!(Looks { source: Source::Assumed, said: Said::Nobody, ..read }, ASSUMED);
    }
}
