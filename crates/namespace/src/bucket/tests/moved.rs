//! Files that get another name here, and in the bucket later.

use std::sync::{Arc, Weak};

use base::{Ino, ManualClock};
use futures::FutureExt;
use parking_lot::Mutex;
use remote::fake::{Fake, Op};
use remote::{Condition, ErrorKind as RemoteErrorKind, Key, Metadata, Remote};

use super::crash::{End, Kind, Memory, Mortal, objects, owned, until_death};
use super::{Bench, NODE, TTL, name, size};
use crate::bucket::Returns;
use crate::bucket::journal::{FileMove, Record};
use crate::bucket::marks::{Side, mark};
use crate::{
    Attributes, Bucket, BucketOptions, Content, Error, ErrorKind, Ledger, Namespace, RecordId,
    RenameMode, SetAttr, Unsent, Use, Users,
};

pub(super) fn options() -> BucketOptions {
    BucketOptions {
        returns: Returns::Journaled,
        attributes: Attributes::Off,
        ..BucketOptions::default()
    }
}

fn bench() -> Bench {
    Bench::over(Fake::new(), options())
}

impl Bench {
    async fn mv(&self, from: (Ino, &str), to: (Ino, &str)) -> Result<Option<Ino>, Error> {
        mv(&self.bucket, from, to, RenameMode::Replace).await
    }

    async fn move_top(&self, from: &str, to: &str) -> Option<Ino> {
        self.mv((Ino::ROOT, from), (Ino::ROOT, to)).await.unwrap()
    }

    async fn all_sent(&self) {
        self.bucket.sync(None).await.unwrap();
        assert_eq!(self.bucket.unsent(), Unsent::default());
    }
}

async fn mv(
    bucket: &Bucket,
    from: (Ino, &str),
    to: (Ino, &str),
    mode: RenameMode,
) -> Result<Option<Ino>, Error> {
    let (old, new) = (name(from.1), name(to.1));
    bucket.rename((from.0, &old), (to.0, &new), mode).await
}

#[tokio::test]
async fn a_renamed_file_has_its_new_name_and_its_bytes_before_the_bucket_moves_it() {
    let bench = bench();
    bench.put("d/a", "1");
    bench.put("other/x", "x");
    let (d, other) = (bench.ino(Ino::ROOT, "d").await, bench.ino(Ino::ROOT, "other").await);
    let a = bench.ino(d, "a").await;
    let gate = bench.fake.hold(Op::Copy);
    bench.mv((d, "a"), (other, "b")).await.unwrap();
    gate.arrived(1).await;
    for _ in 0..2 {
        assert_eq!(bench.ino(other, "b").await, a);
        assert_eq!(bench.lookup(d, "a").await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(bench.names(d).await, Vec::<String>::new());
        assert_eq!(bench.names(other).await, ["b", "x"]);
        let content = bench.bucket.content(a).await.unwrap();
        assert_eq!(content.extents[0].key, Key::from("d/a"), "where the bytes are");
        assert!(bench.bucket.is_moving(a));
        bench.expire();
    }
    assert_eq!(bench.bucket.unsent().changes, 1);
    drop(gate);
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("d/", ""), ("other/b", "1"), ("other/x", "x")]));
    let content = bench.bucket.content(a).await.unwrap();
    assert_eq!(content.extents[0].key, Key::from("other/b"));
    assert_eq!(bench.ino(other, "b").await, a);
    assert!(!bench.bucket.is_moving(a));
}

#[tokio::test]
async fn what_changes_places_is_moving_until_both_are_in_the_bucket() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "2");
    let (a, b) = (bench.ino(Ino::ROOT, "a").await, bench.ino(Ino::ROOT, "b").await);
    let gate = bench.fake.hold(Op::Copy);
    let moving = mv(&bench.bucket, (Ino::ROOT, "a"), (Ino::ROOT, "b"), RenameMode::Exchange);
    let looking = async {
        gate.arrived(1).await;
        let are_moving = [a, b].map(|ino| bench.bucket.is_moving(ino));
        drop(gate);
        are_moving
    };
    let (moved, are_moving) = futures::join!(moving, looking);
    assert_eq!((moved.unwrap(), are_moving), (None, [true, true]));
    assert_eq!([a, b].map(|ino| bench.bucket.is_moving(ino)), [false, false]);
    assert_eq!(objects(&bench.fake), owned(&[("a", "2"), ("b", "1")]));
}

#[tokio::test]
async fn a_file_renamed_over_another_replaces_it() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "2");
    let (a, b) = (bench.ino(Ino::ROOT, "a").await, bench.ino(Ino::ROOT, "b").await);
    let gate = bench.fake.hold(Op::Copy);
    assert_eq!(bench.move_top("a", "b").await, Some(b));
    assert_eq!(bench.ino(Ino::ROOT, "b").await, a);
    bench.put("x", "3");
    bench.expire();
    let taken = mv(&bench.bucket, (Ino::ROOT, "x"), (Ino::ROOT, "b"), RenameMode::NoReplace).await;
    assert_eq!(taken.unwrap_err().kind, ErrorKind::Exists);
    drop(gate);
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("b", "1"), ("x", "3")]));
}

#[tokio::test]
async fn what_is_made_under_the_old_name_comes_after_the_move() {
    let bench = bench();
    bench.put("a", "1");
    let gate = bench.fake.hold(Op::Copy);
    bench.move_top("a", "b").await;
    let anew = bench.create(Ino::ROOT, "a").await;
    let mut publishing = Box::pin(bench.bucket.settle(anew));
    assert!(publishing.as_mut().now_or_never().is_none(), "the old object is not gone yet");
    gate.arrived(1).await;
    drop(gate);
    drop(publishing.await.unwrap());
    bench.upload(anew, "new").await;
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("a", "new"), ("b", "1")]));
}

#[tokio::test]
async fn what_is_written_to_a_file_on_its_way_goes_where_it_went() {
    let bench = bench();
    bench.put("a", "1");
    let a = bench.ino(Ino::ROOT, "a").await;
    let gate = bench.fake.hold(Op::Copy);
    bench.move_top("a", "b").await;
    bench.bucket.set_attr(a, size(3)).await.unwrap();
    let settling = bench.bucket.settle(a);
    let others = async {
        gate.arrived(1).await;
        drop(gate);
    };
    let (settled, ()) = tokio::join!(settling, others);
    let _settled = settled.unwrap();
    let version = bench.fake.meta(&Key::from("b")).unwrap().version;
    let target = bench.bucket.target(a).unwrap();
    assert_eq!((target.key, target.condition), (Key::from("b"), Condition::Is(version)));
}

#[tokio::test]
async fn many_files_are_on_their_way_at_a_time_and_others_do_not_wait() {
    let bench = bench();
    for number in 0..40 {
        bench.put(&format!("file{number}"), "x");
    }
    let gate = bench.fake.hold(Op::Copy);
    for number in 0..40 {
        bench.move_top(&format!("file{number}"), &format!("moved{number}")).await;
    }
    gate.arrived(40).await;
    bench.mkdir(Ino::ROOT, "d").await;
    drop(gate);
    bench.all_sent().await;
    assert!(bench.keys().iter().all(|key| key.starts_with("moved") || key == "d/"));
}

#[tokio::test]
async fn a_file_on_its_way_is_moved_on_or_removed_when_it_is_there() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("x", "2");
    bench.move_top("a", "b").await;
    bench.move_top("b", "c").await;
    bench.move_top("x", "y").await;
    bench.bucket.unlink(Ino::ROOT, &name("y")).await.unwrap();
    assert_eq!(bench.names(Ino::ROOT).await, ["c"]);
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("c", "1")]));
}

#[tokio::test]
async fn what_others_put_under_either_name_stays() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("x", "2");
    assert_eq!(bench.names(Ino::ROOT).await, ["a", "x"]);
    let gate = bench.fake.hold(Op::Copy);
    bench.move_top("a", "b").await;
    bench.move_top("x", "y").await;
    gate.arrived(2).await;
    let deletes = bench.fake.hold(Op::Head);
    gate.let_through(2);
    deletes.arrived(2).await;
    // `a` is copied, and not removed yet.
    bench.put("a", "theirs");
    drop((gate, deletes));
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("a", "theirs"), ("b", "1"), ("y", "2")]));
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["a", "b", "y"]);
}

#[tokio::test]
async fn a_move_that_comes_late_does_not_replace_what_is_newer_and_is_told() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "2");
    assert_eq!(bench.names(Ino::ROOT).await, ["a", "b"]);
    let a = bench.ino(Ino::ROOT, "a").await;
    bench.fake.fail_next(Op::Copy, RemoteErrorKind::Unavailable);
    let gate = bench.fake.hold(Op::Copy);
    bench.move_top("a", "b").await;
    gate.arrived(1).await;
    bench.put("b", "theirs");
    bench.clock.advance(TTL);
    drop(gate);
    while 0 < bench.bucket.unsent().changes {
        let _ = bench.bucket.sync(None).await;
    }
    assert_eq!(bench.bucket.unsent().failures.len(), 1);
    assert_eq!(objects(&bench.fake), owned(&[("a", "1"), ("b", "theirs")]));
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["a", "b"]);
    assert_eq!(bench.ino(Ino::ROOT, "a").await, a, "it has its old name again");
}

#[tokio::test]
async fn a_move_whose_old_object_must_not_be_removed_is_made_and_nobody_is_to_make_it_again() {
    let bench = bench();
    bench.put("a", "1");
    let a = bench.ino(Ino::ROOT, "a").await;
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
    bench.move_top("a", "b").await;
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(objects(&bench.fake), owned(&[("a", "1"), ("b", "1")]));
    let Unsent { changes, failures, .. } = bench.bucket.unsent();
    assert_eq!((changes, failures.len()), (0, 1));
    assert!(failures[0].starts_with("moved, but"), "{failures:?}");
    assert!(!bench.bucket.has_given_up(Ino::ROOT));
    assert_eq!(bench.bucket.given_up(Ino::ROOT), []);
    bench.expire();
    assert_eq!(bench.names(Ino::ROOT).await, ["a", "b"]);
    assert_eq!(bench.ino(Ino::ROOT, "b").await, a);
    assert_ne!(bench.ino(Ino::ROOT, "a").await, a, "it is another file now");
}

#[tokio::test]
async fn a_move_that_the_store_breaks_off_is_made_later() {
    for op in [Op::Copy, Op::Head, Op::Delete] {
        for lose in [false, true] {
            let bench = bench();
            bench.put("d/a", "1");
            bench.put("b", "2");
            let d = bench.ino(Ino::ROOT, "d").await;
            assert_eq!(bench.names(d).await, ["a"]);
            let b = bench.ino(Ino::ROOT, "b").await;
            if lose {
                bench.fake.lose_next_answer(op);
            } else {
                bench.fake.fail_next(op, RemoteErrorKind::Unavailable);
            }
            assert_eq!(bench.mv((d, "a"), (Ino::ROOT, "b")).await.unwrap(), Some(b));
            while 0 < bench.bucket.unsent().changes {
                let _ = bench.bucket.sync(None).await;
            }
            bench.all_sent().await;
            assert_eq!(objects(&bench.fake), owned(&[("b", "1"), ("d/", "")]), "{op:?} {lose}");
        }
    }
}

/// Somebody who has one file open, and not all of it here.
#[derive(Debug)]
struct Reader {
    ino: Ino,
    told: Mutex<Vec<Content>>,
}

impl Users for Reader {
    fn in_use(&self, ino: Ino) -> Use {
        if ino == self.ino { Use::Partly } else { Use::No }
    }

    fn moved(&self, ino: Ino, content: Content) {
        if ino == self.ino {
            self.told.lock().push(content);
        }
    }
}

#[tokio::test]
async fn who_reads_a_replaced_file_is_told_of_its_copy_before_it_is_replaced() {
    let bench = bench();
    bench.put("a", "1");
    bench.put("b", "2");
    let b = bench.ino(Ino::ROOT, "b").await;
    let reader = Arc::new(Reader { ino: b, told: Mutex::default() });
    bench.bucket.attach(Arc::downgrade(&reader) as Weak<dyn Users>);
    bench.move_top("a", "b").await;
    bench.all_sent().await;
    let kept = reader.told.lock().last().unwrap().extents[0].key.clone();
    assert_eq!(bench.fake.bytes(&kept).unwrap(), "2");
    assert_eq!(bench.fake.bytes(&Key::from("b")).unwrap(), "1");
    bench.bucket.release(Some(b)).await;
    assert_eq!(bench.keys(), ["b"]);
}

#[tokio::test]
async fn who_reads_a_moved_file_is_told_where_it_is_before_its_old_object_goes() {
    let bench = bench();
    bench.put("a", "1");
    let a = bench.ino(Ino::ROOT, "a").await;
    let reader = Arc::new(Reader { ino: a, told: Mutex::default() });
    bench.bucket.attach(Arc::downgrade(&reader) as Weak<dyn Users>);
    let gate = bench.fake.hold(Op::Delete);
    bench.move_top("a", "b").await;
    gate.arrived(1).await;
    assert_eq!(reader.told.lock().last().unwrap().extents[0].key, Key::from("b"));
    assert_eq!(bench.keys(), ["a", "b"]);
    drop(gate);
    bench.all_sent().await;
}

const BEFORE: [(&str, &str); 4] = [("d/a", "1"), ("b", "2"), ("x", "3"), ("y", "4")];

async fn change(bucket: &Bucket, made: &mut Vec<&'static str>) {
    let d = bucket.lookup(Ino::ROOT, &name("d")).await.unwrap().attr.ino;
    mv(bucket, (d, "a"), (Ino::ROOT, "b"), RenameMode::Replace).await.unwrap();
    made.push("a");
    mv(bucket, (Ino::ROOT, "x"), (d, "x"), RenameMode::NoReplace).await.unwrap();
    made.push("x");
    bucket.create(Ino::ROOT, &name("x"), NODE).await.unwrap();
    mv(bucket, (Ino::ROOT, "x"), (Ino::ROOT, "y"), RenameMode::Replace).await.unwrap();
    bucket.sync(None).await.unwrap();
    mv(bucket, (Ino::ROOT, "b"), (d, "b"), RenameMode::Replace).await.unwrap();
    made.push("b");
    bucket.sync(None).await.unwrap();
}

pub(super) fn late_bucket(
    remote: Arc<dyn Remote>,
    ledger: &Arc<Memory>,
    options: BucketOptions,
) -> Bucket {
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    Bucket::new(remote, Arc::new(ManualClock::default()), ledger, options)
}

#[tokio::test]
async fn what_was_renamed_has_its_new_name_although_the_process_dies_at_any_request() {
    for kind in Kind::ALL {
        for end in [End::Death, End::LastWords] {
            what_was_renamed_has_its_new_name_whenever(kind, end).await;
        }
    }
}

async fn what_was_renamed_has_its_new_name_whenever(kind: Kind, end: End) {
    for requests in 0.. {
        let mut second = 0;
        loop {
            let (fake, ledger) = (kind.store(), Arc::new(Memory::default()));
            for (key, bytes) in BEFORE {
                fake.insert(&Key::from(key), bytes, Metadata::new());
            }
            let mortal = Mortal::new(&fake, requests, end);
            let dying = late_bucket(Arc::clone(&mortal) as _, &ledger, options());
            let mut made = Vec::new();
            let lived = until_death(&mortal, change(&dying, &mut made)).await.is_some();
            drop(dying);
            let mortal = Mortal::new(&fake, second, end);
            let dying = late_bucket(Arc::clone(&mortal) as _, &ledger, options());
            let replayed = until_death(&mortal, dying.replay(ledger.left())).await.is_some();
            let next = late_bucket(Arc::new(fake.clone()), &ledger, options());
            assert_eq!(next.replay(ledger.left()).await.waiting, 0);
            assert_eq!(ledger.left(), []);
            let now = objects(&fake);
            let count = |bytes: &str| now.iter().filter(|(_, found)| found == bytes).count();
            let is = |key: &str, bytes: &str| now.contains(&(key.to_owned(), bytes.to_owned()));
            let what = format!(
                "{kind:?} {end:?}: killed at {requests}, then at {second}, {made:?}: {now:?}"
            );
            assert_eq!((count("1"), count("3"), count("4")), (1, 1, 1), "{what}");
            assert!(is("d/a", "1") || is("b", "1") || is("d/b", "1"), "{what}");
            assert!(!made.contains(&"a") || !is("d/a", "1"), "{what}");
            assert!(!made.contains(&"a") || !is("b", "2"), "{what}");
            assert!(!made.contains(&"x") || is("d/x", "3"), "{what}");
            assert!(!made.contains(&"b") || is("d/b", "1"), "{what}");
            assert!(now.iter().any(|(key, _)| key.starts_with("d/")), "{what}");
            if lived {
                assert!(kind == Kind::Folders || 8 < requests, "it took too few requests");
                return;
            }
            if replayed {
                break;
            }
            second += 1;
        }
    }
}

#[tokio::test]
async fn what_is_said_of_a_file_on_its_way_is_not_lost_whenever_the_process_dies() {
    let options = || BucketOptions { attributes: Attributes::Kept, ..options() };
    for requests in 0.. {
        let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
        fake.insert(&Key::from("a"), "1", Metadata::new());
        let mortal = Mortal::new(&fake, requests, End::Death);
        let dying = late_bucket(Arc::clone(&mortal) as _, &ledger, options());
        let mut is_told = false;
        let living = async {
            let a = dying.lookup(Ino::ROOT, &name("a")).await.unwrap().attr.ino;
            let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
            dying.set_attr(a, mode(0o600)).await.unwrap();
            mv(&dying, (Ino::ROOT, "a"), (Ino::ROOT, "b"), RenameMode::Replace).await.unwrap();
            dying.set_attr(a, mode(0o640)).await.unwrap();
            is_told = true;
            // What has the old name for a moment takes nothing along.
            dying.create(Ino::ROOT, &name("a"), NODE).await.unwrap();
            dying.unlink(Ino::ROOT, &name("a")).await.unwrap();
            dying.create(Ino::ROOT, &name("a"), NODE).await.unwrap();
            mv(&dying, (Ino::ROOT, "a"), (Ino::ROOT, "c"), RenameMode::Replace).await.unwrap();
            dying.sync(None).await.unwrap();
        };
        let lived = until_death(&mortal, living).await.is_some();
        drop(dying);
        let next = late_bucket(Arc::new(fake.clone()), &ledger, options());
        next.replay_attributes(ledger.all());
        assert_eq!(next.replay(ledger.left()).await.waiting, 0);
        next.sync(None).await.unwrap();
        assert_eq!(ledger.all(), []);
        if is_told {
            let other = Bench::over(fake, BucketOptions::default());
            let attr = other.lookup(Ino::ROOT, "b").await.unwrap().attr;
            assert_eq!(attr.mode, 0o640, "killed at {requests}");
            assert_eq!(other.names(Ino::ROOT).await, ["b"]);
        }
        if lived {
            return;
        }
    }
}

#[tokio::test]
async fn a_renamed_folder_has_its_new_name_and_all_in_it_before_the_bucket_moves_it() {
    let bench = bench();
    bench.put("d/a", "1");
    bench.put("d/e/b", "2");
    bench.put("x/y", "3");
    let d = bench.ino(Ino::ROOT, "d").await;
    let x = bench.ino(Ino::ROOT, "x").await;
    let a = bench.ino(d, "a").await;
    let gate = bench.fake.hold(Op::Copy);
    assert_eq!(bench.mv((Ino::ROOT, "d"), (x, "n")).await.unwrap(), None);
    gate.arrived(2).await;
    for _ in 0..2 {
        assert_eq!(bench.ino(x, "n").await, d);
        assert_eq!(bench.lookup(Ino::ROOT, "d").await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(bench.names(Ino::ROOT).await, ["x"]);
        assert_eq!(bench.names(x).await, ["n", "y"]);
        assert_eq!(bench.names(d).await, ["a", "e"]);
        assert_eq!(bench.ino(d, "a").await, a);
        let e = bench.ino(d, "e").await;
        assert_eq!(bench.names(e).await, ["b"]);
        let content = bench.bucket.content(a).await.unwrap();
        assert_eq!(content.extents[0].key, Key::from("d/a"), "where the bytes are");
        assert!(bench.bucket.is_moving(a));
        bench.expire();
    }
    assert_eq!(bench.bucket.unsent().changes, 1);
    drop(gate);
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("x/n/a", "1"), ("x/n/e/b", "2"), ("x/y", "3")]));
    let content = bench.bucket.content(a).await.unwrap();
    assert_eq!(content.extents[0].key, Key::from("x/n/a"));
    assert!(!bench.bucket.is_moving(a));
    bench.expire();
    assert_eq!(bench.names(d).await, ["a", "e"]);
    assert_eq!(bench.ino(d, "a").await, a);
}

#[tokio::test]
async fn who_looks_below_a_folder_while_it_arrives_finds_what_is_there() {
    let bench = bench();
    bench.put("d/a", "1");
    let d = bench.ino(Ino::ROOT, "d").await;
    let gate = bench.fake.hold(Op::Head);
    let a = name("a");
    let mut looking = std::pin::pin!(bench.bucket.lookup(d, &a));
    assert!(looking.as_mut().now_or_never().is_none());
    gate.arrived(1).await;
    bench.move_top("d", "e").await;
    bench.all_sent().await;
    drop(gate);
    assert_eq!(looking.await.unwrap().name, a, "asked for where it no longer was");
}

#[tokio::test]
async fn what_is_made_below_a_folder_on_its_way_belongs_under_the_new_name_and_goes_there() {
    let bench = bench();
    bench.put("d/a", "1");
    let d = bench.ino(Ino::ROOT, "d").await;
    let a = bench.ino(d, "a").await;
    let gate = bench.fake.hold(Op::Copy);
    bench.move_top("d", "n").await;
    gate.arrived(1).await;
    let new = bench.create(d, "new").await;
    assert!(!bench.bucket.is_moving(new));
    assert_eq!(bench.bucket.destination(new).unwrap().key, Key::from("n/new"));
    let mut publishing = Box::pin(bench.bucket.settle(new));
    assert!(publishing.as_mut().now_or_never().is_none(), "it comes after the move");
    let mut editing = Box::pin(bench.bucket.settle(a));
    assert!(editing.as_mut().now_or_never().is_none());
    let mut removing = Box::pin(bench.mv((d, "a"), (d, "b")));
    assert!(removing.as_mut().now_or_never().is_none());
    let mut anew = Box::pin(bench.mkdir(Ino::ROOT, "d"));
    assert!(anew.as_mut().now_or_never().is_none(), "the old objects are still there");
    drop(gate);
    drop(publishing.await.unwrap());
    bench.upload(new, "2").await;
    drop(editing.await.unwrap());
    removing.await.unwrap();
    anew.await;
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("d/", ""), ("n/b", "1"), ("n/new", "2")]));
}

#[tokio::test]
async fn a_folder_that_was_just_made_and_filled_is_renamed_at_once() {
    let bench = bench();
    let gate = bench.fake.hold(Op::Put);
    let d = bench.mkdir(Ino::ROOT, "d").await;
    let file = bench.create(d, "f").await;
    bench.move_top("d", "n").await;
    assert_eq!(bench.names(Ino::ROOT).await, ["n"]);
    assert_eq!(bench.names(d).await, ["f"]);
    drop(gate);
    let settled = bench.bucket.settle(file).await.unwrap();
    bench.upload(file, "1").await;
    drop(settled);
    bench.all_sent().await;
    assert_eq!(objects(&bench.fake), owned(&[("n/", ""), ("n/f", "1")]));
}

#[tokio::test]
async fn a_move_of_a_folder_that_the_store_breaks_off_is_made_later() {
    for op in [Op::Copy, Op::List, Op::Delete] {
        let bench = bench();
        bench.put("d/a", "1");
        bench.put("d/e/b", "2");
        let d = bench.ino(Ino::ROOT, "d").await;
        assert_eq!(bench.names(d).await, ["a", "e"]);
        let gate = bench.fake.hold(Op::Copy);
        bench.move_top("d", "n").await;
        bench.fake.fail_next(op, RemoteErrorKind::Unavailable);
        drop(gate);
        while 0 < bench.bucket.unsent().changes {
            let _ = bench.bucket.sync(None).await;
        }
        bench.all_sent().await;
        assert_eq!(objects(&bench.fake), owned(&[("n/a", "1"), ("n/e/b", "2")]), "{op:?}");
        assert_eq!(bench.names(d).await, ["a", "e"]);
    }
}

#[tokio::test]
async fn a_folder_whose_move_is_refused_has_its_old_name_again_and_it_is_told() {
    let bench = bench();
    bench.put("d/a", "1");
    bench.put("d/b", "2");
    let d = bench.ino(Ino::ROOT, "d").await;
    bench.fake.fail_next(Op::Copy, RemoteErrorKind::Denied);
    bench.move_top("d", "n").await;
    bench.bucket.sync(None).await.unwrap();
    let Unsent { changes, failures, .. } = bench.bucket.unsent();
    assert_eq!((changes, failures.len()), (0, 1));
    bench.expire();
    assert_eq!(bench.ino(Ino::ROOT, "d").await, d);
    assert_eq!(bench.names(d).await, ["a", "b"]);
    assert!(bench.keys().contains(&"d/a".to_owned()) && bench.keys().contains(&"d/b".to_owned()));
}

#[tokio::test]
async fn what_must_not_be_removed_of_a_moved_folder_is_a_folder_of_its_own_for_good() {
    let ledger = Arc::new(Memory::default());
    let bench = Bench::with(Fake::new(), options(), Arc::clone(&ledger) as Arc<dyn Ledger>);
    bench.put("d/a", "1");
    bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
    bench.move_top("d", "n").await;
    bench.bucket.sync(None).await.unwrap();
    assert_eq!(objects(&bench.fake), owned(&[("d/a", "1"), ("n/a", "1")]));
    let Unsent { changes, failures, .. } = bench.bucket.unsent();
    assert_eq!((changes, failures.len()), (0, 1));
    assert!(failures[0].starts_with("moved, but"), "{failures:?}");
    assert!(!bench.bucket.has_given_up(Ino::ROOT));
    assert_eq!(bench.names(Ino::ROOT).await, ["d", "n"]);
    // Who saw both may have removed the other one.
    bench.remove("n/a");
    let next = late_bucket(Arc::new(bench.fake.clone()), &ledger, options());
    assert_eq!(next.replay(ledger.left()).await.waiting, 0);
    assert_eq!(objects(&bench.fake), owned(&[("d/a", "1")]));
    assert_eq!(ledger.left(), []);
}

#[tokio::test]
async fn what_must_not_be_removed_when_a_dead_daemons_move_is_finished_is_a_thing_of_its_own_for_good()
 {
    for (kind, old, new) in [("folder", "d/a", "n/a"), ("file", "a", "b")] {
        for was_copied in [false, true] {
            let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
            let version = fake.insert(&Key::from(old), "1", Metadata::new());
            let begun = if kind == "folder" {
                let (from, to) = (Key::from("d/"), Key::from("n/"));
                Record::RenamedFolder { from, to, folder: Key::from("") }
            } else {
                let (from, to) = (Key::from(old), Key::from(new));
                let planned = FileMove { from, to, version, over: None };
                Record::Renamed { planned, folder: Key::from("") }
            };
            ledger.append(&begun.to_bytes()).unwrap();
            if was_copied {
                fake.fail_next(Op::Delete, RemoteErrorKind::Unavailable);
                let dying = late_bucket(Arc::new(fake.clone()), &ledger, options());
                assert_eq!(dying.replay(ledger.left()).await.waiting, 1);
            }
            fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
            let next = late_bucket(Arc::new(fake.clone()), &ledger, options());
            let finished = next.replay(ledger.left()).await;
            assert_eq!((finished.moves, finished.waiting), (1, 0), "{kind} {was_copied}");
            assert_eq!(objects(&fake), owned(&[(old, "1"), (new, "1")]));
            let Unsent { changes, failures, .. } = next.unsent();
            assert_eq!((changes, failures.len()), (0, 1));
            assert!(failures[0].starts_with("moved, but"), "{failures:?}");
            assert_eq!(next.given_up(Ino::ROOT), []);
            // Who saw both may have removed the other one.
            fake.remove(&Key::from(new));
            let last = late_bucket(Arc::new(fake.clone()), &ledger, options());
            last.replay(ledger.left()).await;
            assert_eq!(objects(&fake), owned(&[(old, "1")]), "{kind} {was_copied}");
            assert_eq!(ledger.left(), []);
        }
    }
}

#[tokio::test]
async fn what_must_not_be_removed_of_what_somebody_waited_for_to_be_moved_is_a_thing_of_its_own_too()
 {
    for (from, old, to, new) in [("d", "d/a", "n", "n/a"), ("a", "a", "b", "b")] {
        let ledger = Arc::new(Memory::default());
        let options = BucketOptions { returns: Returns::InBucket, ..options() };
        let noting = Arc::clone(&ledger) as Arc<dyn Ledger>;
        let bench = Bench::with(Fake::new(), options.clone(), noting);
        bench.put(old, "1");
        for _ in 0..2 {
            bench.fake.fail_next(Op::Delete, RemoteErrorKind::Denied);
        }
        let moved = bench.mv((Ino::ROOT, from), (Ino::ROOT, to)).await;
        assert_eq!(moved.unwrap_err().kind, ErrorKind::Remote(RemoteErrorKind::Denied));
        while 0 < bench.bucket.unsent().changes {
            let _ = bench.bucket.sync(None).await;
        }
        let failures = bench.bucket.unsent().failures;
        assert!(failures.len() == 1 && failures[0].starts_with("moved, but"), "{failures:?}");
        bench.remove(new);
        let next = late_bucket(Arc::new(bench.fake.clone()), &ledger, options);
        next.replay(ledger.left()).await;
        assert_eq!(objects(&bench.fake), owned(&[(old, "1")]));
        assert_eq!(ledger.left(), []);
    }
}

/// Notes the move of the folder `d` to `n`, and that it was copied, as it then is.
fn note_copied(fake: &Fake, ledger: &Memory) -> RecordId {
    let (from, to) = (Key::from("d/"), Key::from("n/"));
    let of = ledger.append(&Record::MoveFolder { from, to }.to_bytes()).unwrap();
    let mut marks = Vec::new();
    for rest in ["a", "b"] {
        for (prefix, side) in [("d/", Side::From), ("n/", Side::To)] {
            let key = Key::from(format!("{prefix}{rest}").as_str());
            let version = fake.insert(&key, rest, Metadata::new());
            marks.push(mark(side, rest.as_bytes(), &version));
        }
    }
    ledger.append(&Record::Copied { of, marks }.to_bytes()).unwrap();
    of
}

#[tokio::test]
async fn of_a_folder_that_was_seen_twice_no_mount_removes_what_people_have_kept() {
    type Noted = fn(RecordId) -> Record;
    let landed: (Noted, _) = (|of| Record::Landed { of }, ["d/b", "n/b"]);
    let undone: (Noted, _) = (|of| Record::Undone { of }, ["n/a", "d/a"]);
    for (noted, [gone, other_gone]) in [landed, undone] {
        for removed in [vec![], vec![gone], vec![other_gone]] {
            let (fake, ledger) = (Fake::new(), Arc::new(Memory::default()));
            let record = noted(note_copied(&fake, &ledger));
            ledger.append(&record.to_bytes()).unwrap();
            for key in &removed {
                fake.remove(&Key::from(*key));
            }
            let next = late_bucket(Arc::new(fake.clone()), &ledger, options());
            assert_eq!(next.replay(ledger.left()).await.waiting, 0);
            assert_eq!(ledger.left(), []);
            let (now, what) = (objects(&fake), format!("{record:?}, {removed:?}"));
            let kept = |bytes: &str| now.iter().filter(|(_, found)| found == bytes).count();
            assert_eq!((kept("a"), kept("b")), (1, 1), "{what}: {now:?}");
        }
    }
}

const FOLDERS: [(&str, &str); 4] = [("p/d/a", "1"), ("p/d/e/b", "2"), ("q/x", "3"), ("r/", "")];

#[tokio::test]
async fn a_folder_that_was_renamed_has_its_new_name_although_the_process_dies_at_any_request() {
    for kind in Kind::ALL {
        for end in [End::Death, End::LastWords] {
            a_folder_that_was_renamed_has_its_new_name_whenever(kind, end).await;
        }
    }
}

async fn a_folder_that_was_renamed_has_its_new_name_whenever(kind: Kind, end: End) {
    for requests in 0.. {
        let mut second = 0;
        loop {
            let (fake, ledger) = (kind.store(), Arc::new(Memory::default()));
            for (key, bytes) in FOLDERS {
                fake.insert(&Key::from(key), bytes, Metadata::new());
            }
            let mortal = Mortal::new(&fake, requests, end);
            let dying = late_bucket(Arc::clone(&mortal) as _, &ledger, options());
            let mut made = Vec::new();
            let living = async {
                let p = dying.lookup(Ino::ROOT, &name("p")).await.unwrap().attr.ino;
                mv(&dying, (p, "d"), (Ino::ROOT, "n"), RenameMode::NoReplace).await.unwrap();
                made.push("n");
                mv(&dying, (Ino::ROOT, "r"), (p, "r"), RenameMode::Replace).await.unwrap();
                made.push("r");
                dying.sync(None).await.unwrap();
                mv(&dying, (Ino::ROOT, "n"), (p, "n"), RenameMode::Replace).await.unwrap();
                made.push("p/n");
                dying.sync(None).await.unwrap();
            };
            let lived = until_death(&mortal, living).await.is_some();
            drop(dying);
            let mortal = Mortal::new(&fake, second, end);
            let dying = late_bucket(Arc::clone(&mortal) as _, &ledger, options());
            let replayed = until_death(&mortal, dying.replay(ledger.left())).await.is_some();
            let next = late_bucket(Arc::new(fake.clone()), &ledger, options());
            assert_eq!(next.replay(ledger.left()).await.waiting, 0);
            next.carried_all();
            assert_eq!(ledger.left(), []);
            let now = objects(&fake);
            let is = |key: &str, bytes: &str| now.contains(&(key.to_owned(), bytes.to_owned()));
            let what = format!(
                "{kind:?} {end:?}: killed at {requests}, then at {second}, {made:?}: {now:?}"
            );
            let places = ["p/d/", "n/", "p/n/"];
            let whole = places
                .map(|place| is(&format!("{place}a"), "1") && is(&format!("{place}e/b"), "2"));
            assert_eq!(whole.iter().filter(|&&whole| whole).count(), 1, "{what}");
            assert_eq!(now.iter().filter(|(_, bytes)| bytes == "1" || bytes == "2").count(), 2);
            assert!(!made.contains(&"n") || !whole[0], "{what}");
            assert!(!made.contains(&"p/n") || whole[2], "{what}");
            assert!(!made.contains(&"r") || is("p/r/", "") && !is("r/", ""), "{what}");
            assert!(now.iter().any(|(key, _)| key.starts_with("p/")), "{what}");
            if lived {
                assert!(kind == Kind::Folders || 12 < requests, "it took too few requests");
                return;
            }
            if replayed {
                break;
            }
            second += 1;
        }
    }
}
