//! Attributes outlive the mount, are seen by others, and cost few requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Attr, Clock as _, FileKind, Ino, ManualClock, Timestamp};
use parking_lot::Mutex;
use remote::fake::{Fake, Op};
use remote::{Key, Metadata, Remote};

use super::{Bench, NODE, TTL, name};
use crate::bucket::attributes::line::Usual;
use crate::bucket::attributes::sheet::{self, Text};
use crate::{
    Attributes, Bucket, BucketOptions, ErrorKind, Ledger, LedgerFailed, Namespace, NewNode, Owner,
    RecordId, RenameMode, SetAttr, Special, XattrMode,
};

pub(super) const OBJECT: &str = ".quayfs-attributes";
pub(super) const OTHER: Owner = Owner { uid: 7, gid: 8 };

fn mode(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

impl Bench {
    /// A second mount of the same bucket.
    pub(super) fn again(&self) -> Bench {
        Bench::over(self.fake.clone(), BucketOptions::default())
    }

    pub(super) async fn chmod(&self, ino: Ino, bits: u16) {
        self.bucket.set_attr(ino, mode(bits)).await.unwrap();
    }

    pub(super) async fn sync(&self) {
        self.bucket.sync(None).await.unwrap();
    }

    pub(super) async fn stat(&self, text: &str) -> Attr {
        self.lookup(Ino::ROOT, text).await.unwrap().attr
    }

    async fn listed(&self, text: &str) -> Attr {
        let entries = self.bucket.list(Ino::ROOT).await.unwrap();
        entries.into_iter().find(|entry| entry.name == name(text)).unwrap().attr
    }
}

/// What `stat` says but for the number.
fn seen(attr: &Attr) -> (FileKind, u64, u16, u32, u32, Timestamp, Timestamp) {
    (attr.kind, attr.size, attr.mode, attr.uid, attr.gid, attr.mtime, attr.atime)
}

#[tokio::test]
async fn mode_owner_and_times_are_seen_by_another_mount_listed_and_looked_up() {
    let bench = Bench::new();
    bench.put("theirs", "1234");
    bench.write(Ino::ROOT, "ours", "12").await;
    bench.mkdir(Ino::ROOT, "folder").await;
    let at = Timestamp { secs: 1_000_000_000, nanos: 123_456_789 };
    for file in ["theirs", "ours", "folder"] {
        let ino = bench.ino(Ino::ROOT, file).await;
        let change = SetAttr {
            mode: Some(0o2710),
            uid: Some(OTHER.uid),
            gid: Some(OTHER.gid),
            atime: Some(Timestamp { secs: 5, nanos: 6 }),
            mtime: Some(at),
            ..SetAttr::default()
        };
        bench.bucket.set_attr(ino, change).await.unwrap();
    }
    bench.chmod(Ino::ROOT, 0o1777).await;
    bench.sync().await;
    for file in ["theirs", "ours", "folder"] {
        let want = seen(&bench.stat(file).await);
        assert_eq!((want.2, want.3, want.5), (0o2710, OTHER.uid, at));
        assert_eq!(seen(&bench.again().stat(file).await), want, "{file} looked up");
        assert_eq!(seen(&bench.again().listed(file).await), want, "{file} listed");
    }
    assert_eq!(bench.again().bucket.attr(Ino::ROOT).await.unwrap().mode, 0o1777);
}

#[tokio::test]
async fn links_and_special_files_are_what_they_were_in_another_mount() {
    let bench = Bench::new();
    let target = b"../elsewhere/\xff";
    let link = bench.bucket.symlink(Ino::ROOT, &name("link"), target, OTHER).await.unwrap().attr;
    assert_eq!((link.kind, link.mode, link.size), (FileKind::Symlink, 0o777, 14));
    let device = Special { kind: FileKind::CharDevice, rdev: 259 };
    bench.bucket.mknod(Ino::ROOT, &name("device"), device, NODE).await.unwrap();
    let fifo = Special { kind: FileKind::Fifo, rdev: 0 };
    bench.bucket.mknod(Ino::ROOT, &name("fifo"), fifo, NODE).await.unwrap();
    assert_eq!(bench.fake.bytes(&Key::from("link")).as_deref(), Some(&target[..]));
    let metadata = bench.fake.meta(&Key::from("device")).unwrap().metadata;
    assert_eq!((metadata["mode"].as_str(), metadata["rdev"].as_str()), ("8612", "259"));
    let taken = bench.bucket.symlink(Ino::ROOT, &name("fifo"), b"x", OTHER).await;
    assert_eq!(taken.unwrap_err().kind, ErrorKind::Exists);

    // With the entries not yet written only a HEAD can tell.
    assert_eq!(bench.again().stat("fifo").await.kind, FileKind::Fifo);
    let early = bench.again();
    let found = early.stat("link").await;
    assert_eq!((found.kind, found.uid), (FileKind::Symlink, OTHER.uid));
    assert_eq!(early.bucket.readlink(found.ino).await.unwrap(), target);

    bench.sync().await;
    let late = bench.again();
    let (gets, heads) = (bench.fake.calls(Op::GetWhole), bench.fake.calls(Op::Head));
    let found = late.listed("link").await;
    assert_eq!((found.kind, found.size), (FileKind::Symlink, 14));
    assert_eq!(late.bucket.readlink(found.ino).await.unwrap(), target);
    let device = late.listed("device").await;
    assert_eq!((device.kind, device.rdev), (FileKind::CharDevice, 259));
    assert_eq!(bench.fake.calls(Op::GetWhole) - gets, 1, "all is in one object");
    assert_eq!(bench.fake.calls(Op::Head), heads);
    let ino = bench.ino(Ino::ROOT, "fifo").await;
    assert_eq!(bench.bucket.readlink(ino).await.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn extended_attributes_are_kept_and_bounded() {
    let bench = Bench::new();
    let file = bench.write(Ino::ROOT, "f", "1").await;
    let set = |ino, name: &'static [u8], value: Vec<u8>, mode| {
        let bucket = bench.bucket.clone();
        async move { bucket.set_xattr(ino, name, &value, mode).await.map_err(|error| error.kind) }
    };
    let replace = set(file, b"user.a", b"1".to_vec(), XattrMode::Replace).await;
    assert_eq!(replace, Err(ErrorKind::NoAttribute));
    assert_eq!(set(file, b"user.a", b"\x00\xff".to_vec(), XattrMode::Create).await, Ok(()));
    assert_eq!(set(file, b"user.a", vec![], XattrMode::Create).await, Err(ErrorKind::Exists));
    assert_eq!(set(file, b"trusted.b", b"2".to_vec(), XattrMode::Set).await, Ok(()));
    let large = vec![1; (64 << 10) + 1];
    assert_eq!(
        set(file, b"user.c", large, XattrMode::Set).await,
        Err(ErrorKind::AttributesTooLarge)
    );
    let folder = bench.mkdir(Ino::ROOT, "d").await;
    assert_eq!(set(folder, b"user.d", b"3".to_vec(), XattrMode::Set).await, Ok(()));
    assert_eq!(set(Ino::ROOT, b"user.r", b"4".to_vec(), XattrMode::Set).await, Ok(()));
    bench.sync().await;

    let again = bench.again();
    let ino = again.ino(Ino::ROOT, "f").await;
    assert_eq!(again.bucket.xattrs(ino).await.unwrap(), [&b"trusted.b"[..], b"user.a"]);
    assert_eq!(again.bucket.xattr(ino, b"user.a").await.unwrap(), b"\x00\xff");
    let folder = again.ino(Ino::ROOT, "d").await;
    assert_eq!(again.bucket.xattr(folder, b"user.d").await.unwrap(), b"3");
    assert_eq!(again.bucket.xattr(Ino::ROOT, b"user.r").await.unwrap(), b"4");
    again.bucket.remove_xattr(ino, b"user.a").await.unwrap();
    let gone = again.bucket.remove_xattr(ino, b"user.a").await;
    assert_eq!(gone.unwrap_err().kind, ErrorKind::NoAttribute);
    again.sync().await;
    let third = bench.again();
    let ino = third.ino(Ino::ROOT, "f").await;
    assert_eq!(third.bucket.xattrs(ino).await.unwrap(), [b"trusted.b"]);
}

#[tokio::test]
async fn a_listing_of_many_names_with_attributes_costs_its_pages_and_one_get() {
    let bench = Bench::new();
    for file in 0..8_000 {
        bench.put(&format!("file{file:04}"), "x");
    }
    for file in 0..1_000 {
        let (file, link) = (format!("file{file:04}"), name(&format!("link{file:04}")));
        let ino = bench.ino(Ino::ROOT, &file).await;
        bench.chmod(ino, 0o600).await;
        bench.bucket.symlink(Ino::ROOT, &link, file.as_bytes(), OTHER).await.unwrap();
    }
    bench.sync().await;
    let again = bench.again();
    let before = bench.fake.calls_total();
    let (gets, lists) = (bench.fake.calls(Op::GetWhole), bench.fake.calls(Op::List));
    let entries = again.bucket.list(Ino::ROOT).await.unwrap();
    assert_eq!(entries.len(), 9_000);
    let links = entries.iter().filter(|entry| entry.attr.kind == FileKind::Symlink).count();
    let private = entries.iter().filter(|entry| entry.attr.mode == 0o600).count();
    assert_eq!((links, private), (1_000, 1_000));
    assert_eq!(bench.fake.calls(Op::GetWhole) - gets, 1);
    let lists = bench.fake.calls(Op::List) - lists;
    assert_eq!(bench.fake.calls_total() - before, lists + 1, "nothing but pages and the one");

    again.expire();
    let gets = bench.fake.calls(Op::GetWhole);
    again.bucket.list(Ino::ROOT).await.unwrap();
    assert_eq!(bench.fake.calls(Op::GetWhole), gets, "the listing shows that it is the same");
}

#[tokio::test]
async fn a_folder_without_attributes_costs_its_listing_nothing_and_a_lookup_one_get_in_its_time() {
    let bench = Bench::new();
    for file in ["d/a", "d/b", "e/a"] {
        bench.put(file, "x");
    }
    let dir = bench.ino(Ino::ROOT, "d").await;
    let gets = bench.fake.calls(Op::GetWhole);
    bench.bucket.list(dir).await.unwrap();
    assert_eq!(bench.fake.calls(Op::GetWhole), gets);
    let other = bench.ino(Ino::ROOT, "e").await;
    let gets = bench.fake.calls(Op::GetWhole);
    assert!(bench.lookup(other, "a").await.is_ok());
    assert!(bench.lookup(other, "x").await.is_err());
    assert!(bench.lookup(other, "y").await.is_err());
    assert_eq!(bench.fake.calls(Op::GetWhole), gets + 1);
}

#[tokio::test]
async fn a_thousand_changes_in_a_row_are_few_writes() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "f", "1").await;
    let puts = bench.fake.calls(Op::Put);
    for bits in 0..1_000 {
        bench.chmod(ino, bits % 0o777).await;
    }
    bench.sync().await;
    bench.sync().await;
    assert_eq!(bench.fake.calls(Op::Put) - puts, 1);
    assert_eq!(bench.bucket.shared.attributes_pending(), 0);
}

#[tokio::test]
async fn what_was_changed_is_written_by_itself_within_two_seconds() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "f", "1").await;
    bench.chmod(ino, 0o600).await;
    let before = bench.clock.monotonic();
    let written = async {
        while bench.fake.bytes(&Key::from(OBJECT)).is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = bench.bucket.keep_attributes() => panic!("it goes on for ever"),
        () = written => {}
    }
    assert!(bench.clock.monotonic() <= before + Duration::from_secs(2));
    assert_eq!(bench.again().stat("f").await.mode, 0o600);
}

#[tokio::test]
async fn two_mounts_that_change_different_names_lose_nothing() {
    let one = Bench::new();
    for file in ["a", "b", "c"] {
        one.put(file, "x");
    }
    let two = one.again();
    let (a, b) = (one.ino(Ino::ROOT, "a").await, two.ino(Ino::ROOT, "b").await);
    one.chmod(a, 0o600).await;
    two.chmod(b, 0o640).await;
    let c = (one.ino(Ino::ROOT, "c").await, two.ino(Ino::ROOT, "c").await);
    one.chmod(c.0, 0o700).await;
    one.sync().await;
    two.chmod(c.1, 0o500).await;
    two.sync().await;
    let third = one.again();
    for (file, bits) in [("a", 0o600), ("b", 0o640), ("c", 0o500)] {
        assert_eq!(third.stat(file).await.mode, bits, "{file}");
    }
    one.expire();
    assert_eq!(one.stat("b").await.mode, 0o640, "the first sees what the second did");
    assert_eq!(one.stat("c").await.mode, 0o500, "and that the later change won");
}

#[tokio::test]
async fn attributes_of_an_object_that_others_replaced_are_void_and_one_head_decides() {
    let bench = Bench::new();
    bench.put("f", "old");
    bench.put("g", "old");
    for file in ["f", "g"] {
        let ino = bench.ino(Ino::ROOT, file).await;
        bench.chmod(ino, 0o600).await;
    }
    bench.sync().await;
    let metadata = Metadata::from([("mode".to_owned(), "33261".to_owned())]);
    bench.fake.insert(&Key::from("f"), "new", metadata);
    let again = bench.again();
    let heads = bench.fake.calls(Op::Head);
    assert_eq!(again.listed("f").await.mode, 0o755, "as the new object says");
    assert_eq!(again.listed("g").await.mode, 0o600);
    assert_eq!(bench.fake.calls(Op::Head) - heads, 1, "only for the one concerned");
    again.expire();
    assert_eq!(again.listed("f").await.mode, 0o755);
    assert_eq!(bench.fake.calls(Op::Head) - heads, 1, "and only once");
    assert_eq!(bench.again().stat("f").await.mode, 0o755);
}

#[tokio::test]
async fn an_upload_here_keeps_the_attributes_and_its_time() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "f", "1").await;
    bench.chmod(ino, 0o600).await;
    bench.bucket.set_xattr(ino, b"user.a", b"1", XattrMode::Set).await.unwrap();
    bench.sync().await;
    bench.clock.advance(Duration::from_millis(1500));
    bench.bucket.set_attr(ino, super::size(2)).await.unwrap();
    bench.upload(ino, "22").await;
    let want = bench.bucket.attr(ino).await.unwrap();
    bench.sync().await;
    let again = bench.again();
    assert_eq!(seen(&again.listed("f").await), seen(&want));
    let ino = again.ino(Ino::ROOT, "f").await;
    assert_eq!(again.bucket.xattr(ino, b"user.a").await.unwrap(), b"1");
}

#[tokio::test]
async fn what_is_as_everybody_assumes_has_no_entry_and_no_object() {
    let bench = Bench::new();
    bench.put("f", "1");
    let ino = bench.ino(Ino::ROOT, "f").await;
    bench.chmod(ino, 0o600).await;
    bench.sync().await;
    assert_eq!(bench.keys(), [OBJECT, "f"]);
    bench.chmod(ino, 0o644).await;
    bench.sync().await;
    assert_eq!(bench.keys(), ["f"]);
}

#[tokio::test]
async fn what_goes_or_moves_takes_its_attributes_along() {
    let bench = Bench::new();
    let (from, to) = (bench.mkdir(Ino::ROOT, "from").await, bench.mkdir(Ino::ROOT, "to").await);
    let ino = bench.write(from, "f", "1").await;
    bench.chmod(ino, 0o600).await;
    let want = bench.bucket.attr(ino).await.unwrap();
    bench.sync().await;
    let (old, new) = (name("f"), name("g"));
    bench.bucket.rename((from, &old), (to, &new), RenameMode::Replace).await.unwrap();
    bench.sync().await;
    assert_eq!(bench.fake.bytes(&Key::from("from/.quayfs-attributes")), None);
    let again = bench.again();
    let dir = again.ino(Ino::ROOT, "to").await;
    let entries = again.bucket.list(dir).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(seen(&entries[0].attr), seen(&want));
    bench.bucket.unlink(to, &new).await.unwrap();
    bench.sync().await;
    assert_eq!(bench.fake.bytes(&Key::from("to/.quayfs-attributes")), None);
}

#[tokio::test]
async fn a_folder_with_nothing_but_its_attribute_object_is_none_and_rmdir_takes_that_along() {
    let bench = Bench::new();
    let dir = bench.mkdir(Ino::ROOT, "d").await;
    let ino = bench.write(dir, "f", "1").await;
    bench.chmod(ino, 0o600).await;
    bench.sync().await;
    assert_eq!(bench.keys(), [OBJECT, "d/", "d/.quayfs-attributes", "d/f"]);
    assert_eq!(bench.names(dir).await, ["f"]);
    let full = bench.bucket.rmdir(Ino::ROOT, &name("d")).await;
    assert_eq!(full.unwrap_err().kind, ErrorKind::NotEmpty);
    bench.remove("d/f");
    bench.expire();
    bench.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    assert_eq!(bench.keys(), [OBJECT]);
    bench.sync().await;
    assert!(bench.keys().is_empty());

    bench.put("e/.quayfs-attributes", "{}");
    bench.expire();
    assert_eq!(bench.lookup(Ino::ROOT, "e").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_folder_that_others_emptied_and_filled_again_looks_as_before() {
    let bench = Bench::new();
    let folder = bench.mkdir(Ino::ROOT, "d").await;
    bench.chmod(folder, 0o700).await;
    bench.sync().await;
    bench.remove("d/");
    bench.expire();
    assert!(bench.lookup(Ino::ROOT, "d").await.is_err());
    bench.put("d/new", "1");
    assert_eq!(bench.again().stat("d").await.mode, 0o700);
    // Removed through a mount, it is another one.
    let again = bench.again();
    let dir = again.ino(Ino::ROOT, "d").await;
    again.bucket.unlink(dir, &name("new")).await.unwrap();
    again.bucket.rmdir(Ino::ROOT, &name("d")).await.unwrap();
    again.sync().await;
    bench.put("d/newer", "1");
    assert_eq!(bench.again().stat("d").await.mode, 0o755);
}

#[tokio::test]
async fn a_failing_store_costs_no_change() {
    let bench = Bench::new();
    let ino = bench.write(Ino::ROOT, "f", "1").await;
    bench.chmod(ino, 0o600).await;
    bench.fake.fail_next(Op::Put, remote::ErrorKind::Unavailable);
    assert!(bench.bucket.sync(None).await.is_err());
    bench.fake.lose_next_answer(Op::Put);
    assert!(bench.bucket.sync(None).await.is_err());
    bench.sync().await;
    assert_eq!(bench.again().stat("f").await.mode, 0o600);
}

#[tokio::test]
async fn one_change_among_a_hundred_thousand_entries_writes_less_than_a_mebibyte() {
    const ENTRIES: usize = 100_000;
    let bench = Bench::new();
    let usual = Usual { uid: 0, gid: 0, file_mode: 0o644, folder_mode: 0o755 };
    let mut items = sheet::Items::new();
    for number in 0..ENTRIES {
        let label = format!("file{number:06}");
        let version = bench.fake.insert(&Key::from(label.as_str()), "x", Metadata::new());
        let line = crate::bucket::attributes::item::Item {
            mode: Some(0o600),
            uid: Some(0),
            gid: Some(0),
            mtime: Some(Timestamp { secs: 1_700_000_000, nanos: 5 }),
            ..crate::bucket::attributes::item::Item::plain(FileKind::File, Some(version))
        };
        items.insert(label.into_bytes(), line);
    }
    bench.fake.insert(&Key::from(OBJECT), sheet::write(&items, usual), Metadata::new());

    let size = |bench: &Bench| -> BTreeMap<Key, (remote::Version, u64)> {
        let hidden = bench.fake.keys().into_iter().filter(|key| key.as_bytes().starts_with(b".q"));
        hidden
            .map(|key| {
                let meta = bench.fake.meta(&key).unwrap();
                (key, (meta.version, meta.size))
            })
            .collect()
    };
    let ino = bench.ino(Ino::ROOT, "file000007").await;
    bench.chmod(ino, 0o640).await;
    bench.sync().await;
    let split = size(&bench);
    assert_eq!(split.len(), 65, "too large for one object");
    let main = bench.fake.bytes(&Key::from(OBJECT)).unwrap();
    assert!(matches!(sheet::read(&main), Text::Split { .. }));

    let other = bench.again();
    let ino = other.ino(Ino::ROOT, "file077777").await;
    assert_eq!(other.bucket.attr(ino).await.unwrap().mode, 0o600);
    other.chmod(ino, 0o666).await;
    other.sync().await;
    let after = size(&other);
    let written: u64 =
        after.iter().filter(|(key, now)| split.get(*key) != Some(now)).map(|(_, now)| now.1).sum();
    assert!(0 < written && written < 1 << 20, "{written} bytes");

    let third = bench.again();
    assert_eq!(third.stat("file077777").await.mode, 0o666);
    assert_eq!(third.stat("file000007").await.mode, 0o640);
    let entries = third.bucket.list(Ino::ROOT).await.unwrap();
    assert_eq!(entries.len(), ENTRIES);
    assert!(entries.iter().all(|entry| entry.attr.mode != 0o644));
}

/// A ledger that outlives who writes to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Mutex<Records>>);

#[derive(Debug, Default)]
pub(super) struct Records {
    last: u64,
    left: BTreeMap<RecordId, Vec<u8>>,
}

impl Kept {
    pub(super) fn left(&self) -> Vec<(RecordId, Vec<u8>)> {
        self.0.lock().left.clone().into_iter().collect()
    }
}

impl Ledger for Kept {
    fn append(&self, record: &[u8]) -> Result<RecordId, LedgerFailed> {
        let mut kept = self.0.lock();
        kept.last += 1;
        let id = RecordId(kept.last);
        kept.left.insert(id, record.to_vec());
        Ok(id)
    }

    fn strike(&self, records: &[RecordId]) {
        self.0.lock().left.retain(|id, _| !records.contains(id));
    }

    fn number(&self, _path: &[u8]) -> Option<Ino> {
        None
    }

    fn is_kept(&self, _number: Ino) -> bool {
        false
    }

    fn set_number(&self, _path: &[u8], _number: Option<Ino>) {}
}

impl Bench {
    pub(super) fn with_ledger(fake: &Fake, ledger: &Kept) -> Bench {
        let clock = Arc::new(ManualClock::default());
        let remote: Arc<dyn Remote> = Arc::new(fake.clone());
        let ledger = Arc::new(ledger.clone());
        let options = BucketOptions::default();
        let bucket = Bucket::new(remote, Arc::clone(&clock) as _, ledger, options);
        Bench { fake: fake.clone(), clock, bucket }
    }
}

#[tokio::test]
async fn of_a_name_that_is_changed_many_times_no_record_stays() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let bench = Bench::with_ledger(&fake, &ledger);
    let file = bench.write(Ino::ROOT, "file", "1").await;
    for mode in 0..100 {
        bench.chmod(file, mode).await;
    }
    bench.sync().await;
    assert!(ledger.left().is_empty(), "{}", ledger.left().len());
}

#[tokio::test]
async fn what_was_changed_before_a_crash_is_in_the_bucket_after_the_next_mount() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let bench = Bench::with_ledger(&fake, &ledger);
    let (kept, lost) =
        (bench.write(Ino::ROOT, "kept", "1").await, bench.write(Ino::ROOT, "lost", "1").await);
    bench.sync().await;
    assert!(ledger.left().is_empty(), "what is in the bucket is struck out");
    bench.chmod(kept, 0o600).await;
    bench.chmod(lost, 0o600).await;
    bench.bucket.symlink(Ino::ROOT, &name("link"), b"kept", OTHER).await.unwrap();
    drop(bench);

    // Others are there before the next mount is.
    let other = Bench::over(fake.clone(), BucketOptions::default());
    other.put("lost", "2");
    let ino = other.ino(Ino::ROOT, "lost").await;
    other.chmod(ino, 0o444).await;
    other.sync().await;

    let next = Bench::with_ledger(&fake, &ledger);
    assert!(next.bucket.replay_attributes(ledger.left()).is_empty());
    assert_eq!(next.listed("kept").await.mode, 0o600, "at once");
    next.sync().await;
    assert!(ledger.left().is_empty());
    let third = Bench::over(fake.clone(), BucketOptions::default());
    assert_eq!(third.stat("kept").await.mode, 0o600);
    assert_eq!(third.stat("lost").await.mode, 0o444, "it was said of an object that is gone");
    assert_eq!(third.listed("link").await.kind, FileKind::Symlink);
}

#[tokio::test]
async fn records_of_others_are_given_back() {
    let bench = Bench::new();
    let alien = vec![(RecordId(1), b"\x01nwords".to_vec()), (RecordId(2), b"\x09?".to_vec())];
    assert_eq!(bench.bucket.replay_attributes(alien.clone()), alien);
}

#[tokio::test]
async fn without_attribute_objects_none_is_read_or_written_and_uploads_say_what_they_can() {
    let options = BucketOptions { attributes: Attributes::Off, ..BucketOptions::default() };
    let bench = Bench::over(Fake::new(), options.clone());
    let ino = bench.write(Ino::ROOT, "f", "1").await;
    bench.chmod(ino, 0o600).await;
    bench.bucket.set_attr(ino, super::size(1)).await.unwrap();
    bench.upload(ino, "2").await;
    bench.bucket.symlink(Ino::ROOT, &name("link"), b"f", OTHER).await.unwrap();
    let xattr = bench.bucket.set_xattr(ino, b"user.a", b"1", XattrMode::Set).await;
    assert_eq!(xattr.unwrap_err().kind, ErrorKind::Unsupported);
    bench.sync().await;
    let again = || Bench::over(bench.fake.clone(), options.clone());
    assert_eq!(again().stat("f").await.mode, 0o600);
    assert_eq!(again().stat("link").await.kind, FileKind::Symlink);
    assert_eq!(bench.keys(), ["f", "link"]);
    assert_eq!(bench.fake.calls(Op::GetWhole), 0);
}

#[tokio::test]
async fn links_of_blobfuse_are_links_in_listings_that_tell_metadata() {
    let bench = Bench::new();
    bench.fake.tell_metadata();
    let metadata: Metadata = [("is_symlink".to_owned(), "true".to_owned())].into();
    bench.fake.insert(&Key::from("d/link"), "../target", metadata);
    let d = bench.ino(Ino::ROOT, "d").await;
    let listed = bench.bucket.list(d).await.unwrap();
    assert_eq!(listed[0].attr.kind, FileKind::Symlink);
    let target = bench.bucket.readlink(listed[0].attr.ino).await.unwrap();
    assert_eq!(&target[..], b"../target");
}

#[tokio::test]
async fn links_and_folders_of_other_tools_are_understood_where_they_are_looked_up() {
    let bench = Bench::new();
    let said = |pairs: &[(&str, &str)]| -> Metadata {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let put = |key: &str, bytes: &'static str, pairs| {
        bench.fake.insert(&Key::from(key), bytes, said(pairs));
    };
    put("s3fs", "target", &[("mode", "41471"), ("mtime", "17.5")]);
    put(
        "gcsfuse",
        "",
        &[("gcsfuse_symlink_target", "target"), ("gcsfuse_mtime", "1970-01-01T00:00:17.5Z")],
    );
    put("geesefs", "", &[("--symlink-target", "target"), ("mtime", "17.5")]);
    put("folder/", "", &[("mode", "16832"), ("uid", "7"), ("mtime", "17.5")]);
    let at = Timestamp { secs: 17, nanos: 500_000_000 };
    for link in ["s3fs", "gcsfuse", "geesefs"] {
        let again = bench.again();
        let attr = again.stat(link).await;
        assert_eq!((attr.kind, attr.size, attr.mtime), (FileKind::Symlink, 6, at), "{link}");
        assert_eq!(again.bucket.readlink(attr.ino).await.unwrap(), b"target");
    }
    let folder = bench.again().stat("folder").await;
    assert_eq!(
        (folder.kind, folder.mode, folder.uid, folder.mtime),
        (FileKind::Directory, 0o700, 7, at)
    );
    // Only listed, it looks like a file, until somebody looks closer.
    let again = bench.again();
    let listed = again.listed("s3fs").await;
    assert_eq!(listed.kind, FileKind::File);
    assert!(again.bucket.hold(listed.ino));
    again.clock.advance(TTL);
    let found = again.stat("s3fs").await;
    assert_eq!(found.kind, FileKind::Symlink);
    assert_ne!(found.ino, listed.ino, "what the kernel took for a file stays one");
}

#[tokio::test]
async fn what_is_made_belongs_to_its_maker_in_every_mount() {
    let bench = Bench::new();
    let new = NewNode { mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
    bench.bucket.mkdir(Ino::ROOT, &name("d"), NewNode { mode: 0o755, ..new }).await.unwrap();
    bench.sync().await;
    let options = BucketOptions {
        owner: Owner { uid: 1000, gid: 1000 },
        folder_mode: 0o700,
        ..BucketOptions::default()
    };
    let other = Bench::over(bench.fake.clone(), options);
    let folder = other.listed("d").await;
    assert_eq!((folder.mode, folder.uid, folder.gid), (0o755, 0, 0));
}
