//! Attributes on their way: lost answers, others at work, journals that fail, mounts that only read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Ino, ManualClock, Metrics, Rng};
use remote::fake::{Fake, Op};
use remote::{Key, Metadata, Remote, Retry, RetryOptions};

use super::attributes::{Kept, OBJECT, OTHER};
use super::{Bench, NODE, TTL, name};
use crate::bucket::attributes::line::Usual;
use crate::bucket::attributes::sheet;
use crate::bucket::journal::Record;
use crate::{
    Attributes, Bucket, BucketOptions, ErrorKind, Ledger, LedgerFailed, Namespace, NoLedger,
    RecordId, SetAttr, SetId, Special,
};

#[tokio::test]
async fn what_was_made_although_the_answer_was_lost_is_ours() {
    let fake = Fake::new();
    let clock = Arc::new(ManualClock::default());
    let retry: Arc<dyn Remote> = Arc::new(Retry::new(
        Arc::new(fake.clone()),
        RetryOptions::default(),
        Arc::clone(&clock) as _,
        Rng::seeded(1),
        Arc::new(Metrics::new()),
    ));
    let bucket = Bucket::new(retry, clock, Arc::new(NoLedger), BucketOptions::default());
    let fifo = Special { kind: base::FileKind::Fifo, rdev: 0 };
    fake.lose_next_answer(Op::Put);
    bucket.mkdir(Ino::ROOT, &name("folder"), NODE).await.unwrap();
    fake.lose_next_answer(Op::Put);
    bucket.symlink(Ino::ROOT, &name("link"), b"folder", OTHER).await.unwrap();
    fake.lose_next_answer(Op::Put);
    bucket.mknod(Ino::ROOT, &name("fifo"), fifo, NODE).await.unwrap();
    let taken = bucket.mkdir(Ino::ROOT, &name("folder"), NODE).await.unwrap_err();
    assert_eq!(taken.kind, ErrorKind::Exists);
}

#[tokio::test]
async fn who_syncs_a_folder_does_not_wait_for_what_others_change_meanwhile() {
    let bench = Bench::new();
    let (f, g) = (bench.write(Ino::ROOT, "f", "1").await, bench.write(Ino::ROOT, "g", "1").await);
    bench.chmod(f, 0o600).await;
    let puts = bench.fake.hold(Op::Put);
    let others = async {
        for round in 1..100 {
            puts.arrived(round).await;
            bench.chmod(g, 0o400 + u16::try_from(round).unwrap()).await;
            puts.let_through(1);
        }
    };
    tokio::select! {
        biased;
        () = others => panic!("it never ends"),
        synced = bench.bucket.sync(Some(Ino::ROOT)) => synced.unwrap(),
    }
    assert_eq!(bench.again().stat("f").await.mode, 0o600);
}

#[tokio::test]
async fn who_never_gets_to_write_is_not_told_that_the_file_is_stale() {
    let bench = Bench::new();
    let f = bench.write(Ino::ROOT, "f", "1").await;
    bench.chmod(f, 0o600).await;
    let puts = bench.fake.hold(Op::Put);
    let others = async {
        for round in 1..1000 {
            puts.arrived(round).await;
            let usual = Usual { uid: 0, gid: 0, file_mode: 0o644, folder_mode: 0o755 };
            let theirs = sheet::write(&sheet::Items::new(), usual);
            bench.fake.insert(&Key::from(OBJECT), theirs, Metadata::new());
            puts.let_through(1);
        }
    };
    let failed = tokio::select! {
        biased;
        () = others => panic!("it never ends"),
        synced = bench.bucket.sync(None) => synced.unwrap_err(),
    };
    assert_eq!(failed.kind, ErrorKind::Remote(remote::ErrorKind::Unavailable));
}

/// A journal that takes nothing for a while.
#[derive(Debug, Default)]
struct Failing {
    kept: Kept,
    fails: AtomicBool,
}

impl Ledger for Failing {
    fn append(&self, record: &[u8]) -> Result<RecordId, LedgerFailed> {
        if self.fails.load(Ordering::Relaxed) {
            Err(LedgerFailed::Io)
        } else {
            self.kept.append(record)
        }
    }

    fn strike(&self, records: &[RecordId]) {
        self.kept.strike(records);
    }

    fn number(&self, _path: &[u8]) -> Option<Ino> {
        None
    }

    fn is_kept(&self, _number: Ino) -> bool {
        false
    }

    fn set_number(&self, _path: &[u8], _number: Option<Ino>) {}
}

#[tokio::test]
async fn what_the_journal_did_not_take_is_told_before_the_next_change_counts() {
    let ledger = Arc::new(Failing::default());
    let bench = Bench::with(Fake::new(), BucketOptions::default(), Arc::clone(&ledger) as _);
    let (f, g) = (bench.write(Ino::ROOT, "f", "1").await, bench.write(Ino::ROOT, "g", "1").await);
    bench.sync().await;
    let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    ledger.fails.store(true, Ordering::Relaxed);
    for file in [f, g] {
        let failed = bench.bucket.set_attr(file, mode(0o600)).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Journal(LedgerFailed::Io));
    }
    ledger.fails.store(false, Ordering::Relaxed);
    bench.bucket.set_attr(f, mode(0o640)).await.unwrap();
    assert_eq!(ledger.kept.left().len(), 2, "of each file its last");
    let next = Bench::with_ledger(&bench.fake, &ledger.kept);
    next.bucket.replay_attributes(ledger.kept.left());
    assert_eq!((next.stat("f").await.mode, next.stat("g").await.mode), (0o640, 0o600));
}

#[tokio::test]
async fn a_new_owner_and_the_loss_of_set_uid_are_one_change() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let bench = Bench::with_ledger(&fake, &ledger);
    let tool = bench.write(Ino::ROOT, "tool", "1").await;
    let folder = bench.mkdir(Ino::ROOT, "folder").await;
    for ino in [tool, folder] {
        bench.chmod(ino, 0o6755).await;
    }
    bench.sync().await;
    let owner = SetAttr { uid: Some(7), set_id: SetId::Dropped, ..SetAttr::default() };
    let attr = bench.bucket.set_attr(tool, owner).await.unwrap();
    assert_eq!((attr.uid, attr.mode), (7, 0o755));
    assert_eq!(ledger.left().len(), 1);
    let attr = bench.bucket.set_attr(folder, owner).await.unwrap();
    assert_eq!((attr.uid, attr.mode), (7, 0o6755), "a folder lends nobody's rights");
}

#[tokio::test]
async fn a_mount_that_only_reads_shows_what_an_earlier_one_noted_and_writes_nothing() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let bench = Bench::with_ledger(&fake, &ledger);
    let file = bench.write(Ino::ROOT, "f", "1").await;
    bench.sync().await;
    bench.chmod(file, 0o600).await;
    let (from, to) = (Key::from("d/"), Key::from("e/"));
    ledger.append(&Record::MoveFolder { from, to }.to_bytes()).unwrap();
    let (left, puts) = (ledger.left(), fake.calls(Op::Put));
    drop(bench);

    let options = BucketOptions { attributes: Attributes::Shown, ..BucketOptions::default() };
    let reader = Bench::with(fake.clone(), options, Arc::new(ledger.clone()));
    let names = reader.bucket.replay_attributes(left.clone());
    assert_eq!(Bucket::moves_begun(names), 1);
    assert_eq!(reader.stat("f").await.mode, 0o600);
    reader.clock.advance(TTL);
    reader.sync().await;
    tokio::select! {
        biased;
        () = reader.bucket.keep_attributes() => panic!("it goes on for ever"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(fake.calls(Op::Put), puts);
    assert_eq!(ledger.left(), left, "it waits for a mount that may write");
}
