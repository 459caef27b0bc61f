//! One folder's attribute object: what is known of it, and what is to be written to it. Pure.
//!
//! ```text
//!              created             too large
//!   Absent ──────────────▶ Whole ─────────────▶ Split
//!      ▲                     │
//!      └─────────────────────┘
//!          no entry is left
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use remote::Version;

use super::item::{Item, Label, text_bytes};
use super::line::Usual;
use super::sheet::Items;
use crate::{Error, RecordId};

/// How many objects the entries of a large folder are spread over.
pub(in crate::bucket) const SHARDS: usize = 64;

/// Earlier records of one name that are kept until the bucket has the last one.
const RECORDS_MAX: usize = 32;

/// When that is due of which the store refused all that is in the same folder.
const NOT_BY_ITSELF: Duration = Duration::MAX;

/// What there is of a folder's attribute object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) enum Form {
    /// Nobody asked yet.
    Unknown,
    /// Nothing.
    Absent,
    /// One object with all entries.
    Whole(Version),
    /// One object that says that the entries are in others, whose names have `id` in them.
    Split { version: Version, id: String },
    /// Something that is not ours to understand, and so not to write.
    Foreign,
}

/// What is known of the entries in one object.
#[derive(Debug, Default)]
pub(in crate::bucket) struct Sheet {
    /// The object; `None` if there is none.
    pub(in crate::bucket) version: Option<Version>,
    /// When it was last known to be so, on the monotonic clock; `None` if it never was.
    pub(in crate::bucket) as_of: Option<Duration>,
    pub(in crate::bucket) text: Readable,
    pub(in crate::bucket) items: Items,
}

impl Sheet {
    /// There was this at `as_of`.
    pub(in crate::bucket) fn new(version: Option<Version>, items: Items, as_of: Duration) -> Sheet {
        Sheet { version, as_of: Some(as_of), text: Readable::Yes, items }
    }

    /// There was something at `as_of` that is not ours to understand.
    pub(in crate::bucket) fn foreign(version: Version, as_of: Duration) -> Sheet {
        let text = Readable::No;
        Sheet { version: Some(version), as_of: Some(as_of), text, items: Items::new() }
    }
}

/// Whether an object is ours to understand, and so to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bucket) enum Readable {
    #[default]
    Yes,
    /// Its entries are not known, and nothing is put in their place.
    No,
}

/// A change that the bucket does not have yet.
#[derive(Clone, Debug)]
pub(in crate::bucket) struct Pending {
    /// What is to be said of the name; `None` for nothing.
    pub(in crate::bucket) item: Option<Item>,
    /// Tells this change from later ones.
    pub(in crate::bucket) number: u64,
    /// [`NOT_BY_ITSELF`] if it waits for who changes something there, or for everything to be written.
    pub(in crate::bucket) due: Duration,
    /// Its records in the ledger, oldest first.
    pub(in crate::bucket) records: Vec<RecordId>,
    pub(in crate::bucket) origin: Origin,
}

impl Pending {
    /// The ledger has it, as `id`; returns the records that are of no use any more.
    pub(in crate::bucket) fn record(&mut self, id: RecordId) -> Vec<RecordId> {
        self.records.push(id);
        useless_of(&mut self.records)
    }
}

/// The oldest of `records`, if they are too many.
fn useless_of(records: &mut Vec<RecordId>) -> Vec<RecordId> {
    let useless = records.len().saturating_sub(RECORDS_MAX);
    records.drain(..useless).collect()
}

/// Where a change comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bucket) enum Origin {
    /// Somebody on this mount made it just now: it wins over what others did.
    Now,
    /// An earlier process noted it: others may have been there since.
    Replay,
    /// Somebody on this mount made it of what an earlier process noted.
    NowOfReplay,
}

impl Origin {
    /// Where a change comes from that is made of one from `before`.
    fn after(self, before: Option<Origin>) -> Origin {
        match (self, before) {
            (Origin::Now, Some(Origin::Replay | Origin::NowOfReplay)) => Origin::NowOfReplay,
            (origin, Some(Origin::Now | Origin::Replay | Origin::NowOfReplay) | None) => origin,
        }
    }
}

/// What is known of one folder's attributes.
#[derive(Debug)]
pub(in crate::bucket) struct Book {
    pub(in crate::bucket) usual: Usual,
    pub(in crate::bucket) form: Form,
    /// When the form was last known to be so, on the monotonic clock.
    pub(in crate::bucket) as_of: Option<Duration>,
    // Invariant: one, or `SHARDS` if the form is `Split`.
    pub(in crate::bucket) sheets: Vec<Sheet>,
    pub(in crate::bucket) pending: BTreeMap<Label, Pending>,
    /// Who reads or writes the object does it alone.
    pub(in crate::bucket) turn: Arc<tokio::sync::Mutex<()>>,
    /// Not before this time after a write that failed, and how long the next wait is.
    pub(in crate::bucket) resting: Option<(Duration, Duration)>,
    /// How often a write that was due has passed over it since the last one.
    pub(in crate::bucket) passes: u32,
    /// When it was asked for in vain, if that was the last time, and what came of it.
    pub(in crate::bucket) failed: Option<(Duration, Error)>,
    pub(in crate::bucket) used: u64,
}

impl Book {
    pub(in crate::bucket) fn new(usual: Usual) -> Book {
        Book {
            usual,
            form: Form::Unknown,
            as_of: None,
            sheets: vec![Sheet::default()],
            pending: BTreeMap::new(),
            turn: Arc::default(),
            resting: None,
            passes: 0,
            failed: None,
            used: 0,
        }
    }

    /// What is said of `label`, here or in the bucket.
    pub(in crate::bucket) fn item(&self, label: &[u8]) -> Option<&Item> {
        match self.pending.get(label) {
            Some(pending) => pending.item.as_ref(),
            None => self.written(label),
        }
    }

    /// What the bucket says of `label`.
    pub(in crate::bucket) fn written(&self, label: &[u8]) -> Option<&Item> {
        self.sheets[self.place(label)].items.get(label)
    }

    /// Whether the bucket says nothing of `label` if nothing of it is remembered.
    pub(in crate::bucket) fn knows(&self, label: &[u8]) -> bool {
        match self.form {
            Form::Unknown => false,
            Form::Absent | Form::Whole(_) | Form::Foreign => true,
            Form::Split { .. } => self.sheets[self.place(label)].as_of.is_some(),
        }
    }

    /// What the extended attributes of all names take that are in an object with `label`, but for
    /// its own; or would be, if the object were split.
    pub(in crate::bucket) fn xattrs_beside(&self, label: &[u8]) -> usize {
        let beside = |other: &[u8]| other != label && shard(other) == shard(label);
        let bytes = |item: &Item| item.xattrs.as_deref().map_or(0, text_bytes);
        let pending = self.pending.iter().filter(|(other, _)| beside(other));
        let pending = pending.filter_map(|(_, pending)| Some(bytes(pending.item.as_ref()?)));
        let written = self.sheets[self.place(label)].items.iter();
        let written = written.filter(|(_, item)| item.xattrs.is_some());
        let written = written.filter(|(other, _)| !self.pending.contains_key(*other));
        let written = written.filter(|(other, _)| beside(other)).map(|(_, item)| bytes(item));
        pending.sum::<usize>() + written.sum::<usize>()
    }

    /// Whether what is said of `label` is in an object that is not ours to write.
    pub(in crate::bucket) fn is_foreign(&self, label: &[u8]) -> bool {
        match self.form {
            Form::Foreign => true,
            Form::Unknown | Form::Absent | Form::Whole(_) => false,
            Form::Split { .. } => self.sheets[self.place(label)].text == Readable::No,
        }
    }

    /// The number of the sheet in which `label` is.
    pub(in crate::bucket) fn place(&self, label: &[u8]) -> usize {
        if self.sheets.len() == 1 { 0 } else { shard(label) }
    }

    /// How many entries are remembered.
    pub(in crate::bucket) fn len(&self) -> usize {
        self.sheets.iter().map(|sheet| sheet.items.len()).sum()
    }

    /// Whether what is known of `label` was so at most `ttl` before `now`.
    pub(in crate::bucket) fn is_fresh(&self, label: &[u8], now: Duration, ttl: Duration) -> bool {
        let fresh = |as_of: Option<Duration>| as_of.is_some_and(|as_of| now < as_of + ttl);
        fresh(self.as_of)
            && match self.form {
                Form::Unknown => false,
                Form::Absent | Form::Foreign | Form::Whole(_) => true,
                Form::Split { .. } => fresh(self.sheets[self.place(label)].as_of),
            }
    }

    /// There is this in the bucket now. Returns the names of which something else is said than
    /// before.
    pub(in crate::bucket) fn learn(
        &mut self,
        form: Form,
        items: Items,
        as_of: Duration,
    ) -> Vec<Label> {
        let stays_split = match (&self.form, &form) {
            (Form::Split { id: old, .. }, Form::Split { id: new, .. }) => old == new,
            _ => false,
        };
        let version = match &form {
            Form::Whole(version) => Some(version.clone()),
            Form::Unknown | Form::Absent | Form::Split { .. } | Form::Foreign => None,
        };
        let is_split = matches!(form, Form::Split { .. });
        self.form = form;
        self.as_of = self.as_of.max(Some(as_of));
        if stays_split {
            return Vec::new();
        }
        let new: Vec<Sheet> = if is_split {
            // What was known of the entries goes on until the shards are read.
            let mut shards: Vec<Sheet> = (0..SHARDS).map(|_| Sheet::default()).collect();
            for (label, item) in self.sheets.iter_mut().flat_map(|s| std::mem::take(&mut s.items)) {
                shards[shard(&label)].items.insert(label, item);
            }
            self.sheets = shards;
            return Vec::new();
        } else {
            vec![Sheet::new(version, items, as_of)]
        };
        let old: Items =
            self.sheets.iter_mut().flat_map(|sheet| std::mem::take(&mut sheet.items)).collect();
        self.sheets = new;
        changed(&old, &self.sheets[0].items)
    }

    /// There is this in the shard `at` now, of which the last is known.
    pub(in crate::bucket) fn learn_shard(&mut self, at: usize, new: Sheet) -> Vec<Label> {
        // The object may have been made one again meanwhile.
        let Some(sheet) = self.sheets.get_mut(at) else { return Vec::new() };
        let old = std::mem::replace(sheet, new);
        changed(&old.items, &self.sheets[at].items)
    }

    /// Notes a change; the last one of a name counts. Returns records that are of no use any more.
    pub(in crate::bucket) fn note(&mut self, label: Label, pending: Pending) -> Vec<RecordId> {
        let before = self.pending.remove(&label);
        let due = before.as_ref().map_or(pending.due, |before| before.due.min(pending.due));
        let origin = pending.origin.after(before.as_ref().map(|before| before.origin));
        let mut records = before.map(|before| before.records).unwrap_or_default();
        records.extend(&pending.records);
        let struck = useless_of(&mut records);
        self.pending.insert(label, Pending { due, records, origin, ..pending });
        struck
    }

    /// Removes what the bucket had; attributes that wait to be written stay.
    pub(in crate::bucket) fn forget_written(&mut self) {
        (self.form, self.as_of, self.sheets) = (Form::Unknown, None, vec![Sheet::default()]);
    }

    /// Forgets what was noted before `record`, and returns the records of that.
    pub(in crate::bucket) fn forget_before(&mut self, record: RecordId) -> Vec<RecordId> {
        let old = self
            .pending
            .extract_if(.., |_, pending| pending.records.last().is_some_and(|last| *last < record));
        old.flat_map(|(_, pending)| pending.records).collect()
    }

    /// Nothing that waits is due by itself any more. Whether something was.
    pub(in crate::bucket) fn hold(&mut self) -> bool {
        let mut was_due = false;
        for pending in self.pending.values_mut() {
            was_due |= pending.due != NOT_BY_ITSELF;
            pending.due = NOT_BY_ITSELF;
        }
        was_due
    }

    /// The bucket has the change `number` of `label`, or need not have it. Returns its records.
    pub(in crate::bucket) fn settle(&mut self, label: &[u8], number: u64) -> Vec<RecordId> {
        if self.pending.get(label).is_some_and(|pending| pending.number == number) {
            self.pending.remove(label).map(|pending| pending.records).unwrap_or_default()
        } else {
            Vec::new()
        }
    }

    /// When something is to be written, if anything is.
    pub(in crate::bucket) fn due(&self) -> Option<Duration> {
        let due = self.pending.values().map(|pending| pending.due).min()?;
        if due == NOT_BY_ITSELF {
            return None;
        }
        Some(self.resting.map_or(due, |(until, _)| due.max(until)))
    }
}

/// The shard of an entry: the CRC32C of its name, which everybody can compute.
pub(in crate::bucket) fn shard(label: &[u8]) -> usize {
    usize::try_from(base::crc32c(label)).expect("32 bits fit") % SHARDS
}

/// What is said in `new` otherwise than in `old`.
fn changed(old: &Items, new: &Items) -> Vec<Label> {
    let gone = old.keys().filter(|label| !new.contains_key(*label));
    let other = new.iter().filter(|(label, item)| old.get(*label) != Some(item));
    gone.chain(other.map(|(label, _)| label)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::FileKind;
    use remote::Version;

    use super::{Book, Form, Origin, Pending, RECORDS_MAX, Sheet, shard};
    use crate::RecordId;
    use crate::bucket::attributes::item::Item;
    use crate::bucket::attributes::line::Usual;
    use crate::bucket::attributes::sheet::Items;

    const NOW: Duration = Duration::from_secs(100);

    fn book() -> Book {
        Book::new(Usual { uid: 0, gid: 0, file_mode: 0o644, folder_mode: 0o755 })
    }

    fn item(mode: u16) -> Item {
        Item { mode: Some(mode), ..Item::plain(FileKind::File, Some(Version::new("e"))) }
    }

    fn items(entries: &[(&str, u16)]) -> Items {
        entries.iter().map(|&(label, mode)| (label.into(), item(mode))).collect()
    }

    fn pending(mode: u16, number: u64, due: u64) -> Pending {
        let records = vec![RecordId(number)];
        let due = Duration::from_secs(due);
        Pending { item: Some(item(mode)), number, due, records, origin: Origin::Now }
    }

    #[test]
    fn what_is_pending_counts_until_the_bucket_has_just_that() {
        let mut book = book();
        book.learn(Form::Whole(Version::new("1")), items(&[("a", 0o600)]), NOW);
        book.note(b"a".to_vec(), pending(0o400, 1, 7));
        book.note(b"a".to_vec(), pending(0o444, 2, 9));
        assert_eq!(book.item(b"a"), Some(&item(0o444)));
        assert_eq!(book.due(), Some(Duration::from_secs(7)), "a later change does not delay it");
        assert!(book.settle(b"a", 1).is_empty());
        assert_eq!(book.settle(b"a", 2), [RecordId(1), RecordId(2)]);
        assert_eq!(book.item(b"a"), Some(&item(0o600)));
        assert_eq!(book.due(), None);
    }

    #[test]
    fn of_many_changes_of_one_name_few_records_are_kept() {
        let mut book = book();
        let struck: usize =
            (0..100).map(|n| book.note(b"a".to_vec(), pending(1, n, 0)).len()).sum();
        assert_eq!(struck, 100 - RECORDS_MAX);
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut book = book();
        let first = items(&[("a", 1), ("b", 2)]);
        assert_eq!(book.learn(Form::Whole(Version::new("1")), first, NOW).len(), 2);
        let second = items(&[("b", 2), ("c", 3)]);
        let told = book.learn(Form::Whole(Version::new("2")), second, NOW);
        assert_eq!(told, [b"a".to_vec(), b"c".to_vec()]);
        assert_eq!(book.learn(Form::Absent, Items::new(), NOW).len(), 2);
        assert_eq!(book.len(), 0);
    }

    #[test]
    fn a_split_object_is_known_shard_by_shard() {
        let mut book = book();
        let (ttl, form) = (
            Duration::from_secs(1),
            Form::Split { version: Version::new("s"), id: "1f".to_owned() },
        );
        book.learn(form.clone(), Items::new(), NOW);
        assert!(!book.is_fresh(b"a", NOW, ttl));
        book.learn_shard(shard(b"a"), Sheet::new(None, items(&[("a", 1)]), NOW));
        assert!(book.is_fresh(b"a", NOW, ttl));
        assert!(!book.is_fresh(b"b", NOW, ttl));
        book.learn(form, Items::new(), NOW);
        assert_eq!(book.item(b"a"), Some(&item(1)), "the same form changes no shard");
    }

    #[test]
    fn shards_are_the_same_in_every_release() {
        assert_eq!([shard(b"a"), shard(b"b"), shard(b".")], [48, 4, 40]);
    }
}
