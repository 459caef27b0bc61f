//! Buckets of which the store takes changes in some folders only.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use base::Ino;
use remote::fake::{Fake, Op};
use remote::{Error, ErrorKind, Key, Trouble};

use super::attributes::{Kept, OBJECT};
use super::{Bench, name};
use crate::{Content, Namespace, Refusal, RenameMode, Use, Users};

/// The only folder that takes changes, but for what tests let through.
const TEAM: &str = "team/";

/// More than any of these tests asks for.
const MANY: usize = 200;

impl Bench {
    /// A mount with what an earlier one left, whose credentials are for [`TEAM`].
    fn of_team(fake: &Fake, ledger: &Kept) -> Bench {
        let bench = Bench::with_ledger(fake, ledger);
        assert!(bench.bucket.replay_attributes(ledger.left()).is_empty());
        let try_write = |prefix: Key| {
            let takes = prefix.as_bytes().starts_with(TEAM.as_bytes());
            let refused = || Error::new(ErrorKind::Denied, "try", &prefix);
            let said = if takes { Ok(()) } else { Err(refused()) };
            let answer: futures::future::BoxFuture<'_, _> = Box::pin(async move { said });
            answer
        };
        bench.bucket.ask_before_changes(Box::new(try_write), Refusal::Known);
        bench
    }

    fn refuse_puts(&self, count: usize) {
        for _ in 0..count {
            self.fake.refuse_next(Op::Put, ErrorKind::Denied, Trouble::Denied);
        }
    }

    /// Lets the writer of attributes do what it does by itself, for a good while.
    async fn write_for_a_while(&self) {
        let while_ = async {
            for _ in 0..MANY {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = self.bucket.keep_attributes() => panic!("it goes on for ever"),
            () = while_ => {}
        }
    }
}

#[tokio::test]
async fn what_an_earlier_mount_noted_where_nothing_is_taken_is_tried_once_and_kept() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let before = Bench::with_ledger(&fake, &ledger);
    before.put("f", "1");
    before.chmod(before.ino(Ino::ROOT, "f").await, 0o600).await;
    drop(before);

    let bench = Bench::of_team(&fake, &ledger);
    bench.refuse_puts(MANY);
    bench.write_for_a_while().await;
    assert_eq!(fake.calls(Op::Put), 1, "tried by itself");
    assert_eq!(bench.stat("f").await.mode, 0o600, "it is shown all the same");
    bench.sync().await;
    assert_eq!(fake.calls(Op::Put), 2, "all is to be written");
    drop(bench);
    fake.forget_faults();
    assert!(fake.bytes(&Key::from(OBJECT)).is_none());

    let next = Bench::with_ledger(&fake, &ledger);
    assert!(next.bucket.replay_attributes(ledger.left()).is_empty());
    next.sync().await;
    assert!(ledger.left().is_empty());
    assert_eq!(next.again().stat("f").await.mode, 0o600, "nothing was lost by the refusals");
}

#[tokio::test]
async fn the_time_of_a_folder_is_forgotten_where_the_folder_above_takes_nothing() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let before = Bench::with_ledger(&fake, &ledger);
    before.mkdir(Ino::ROOT, "team").await;
    before.sync().await;
    assert!(ledger.left().is_empty());
    let puts = fake.calls(Op::Put);
    before.put("team/f", "1");

    let bench = Bench::of_team(&fake, &ledger);
    let team = bench.ino(Ino::ROOT, "team").await;
    bench.expire();
    bench.bucket.unlink(team, &name("f")).await.unwrap();
    assert!(!ledger.left().is_empty());
    bench.refuse_puts(MANY);
    bench.write_for_a_while().await;
    assert_eq!(fake.calls(Op::Put) - puts, 1);
    assert!(ledger.left().is_empty(), "{:?}", ledger.left());
}

#[tokio::test]
async fn a_refusal_where_changes_are_taken_is_an_error_that_may_pass() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let bench = Bench::of_team(&fake, &ledger);
    bench.put("team/f", "1");
    let team = bench.ino(Ino::ROOT, "team").await;
    let file = bench.ino(team, "f").await;
    bench.chmod(file, 0o600).await;
    bench.refuse_puts(1);
    assert!(bench.bucket.sync(None).await.is_err(), "who waits for it is told");
    bench.refuse_puts(1);
    bench.write_for_a_while().await;
    assert!(ledger.left().is_empty());
    let again = bench.again();
    let team = again.ino(Ino::ROOT, "team").await;
    assert_eq!(again.lookup(team, "f").await.unwrap().attr.mode, 0o600);
}

#[tokio::test]
async fn where_to_hide_what_is_removed_is_asked_once_while_the_store_does_not_answer() {
    let bench = Bench::with_ledger(&Fake::new(), &Kept::default());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let try_write = move |prefix: Key| {
        counted.fetch_add(1, Ordering::Relaxed);
        let said = Err(Error::new(ErrorKind::Unavailable, "try", &prefix));
        let answer: futures::future::BoxFuture<'_, _> = Box::pin(async move { said });
        answer
    };
    bench.bucket.ask_before_changes(Box::new(try_write), Refusal::Known);
    let hidden = bench.bucket.shared.hidden_beside(&Key::from("team/a/b/f"), "hidden").await;
    assert_eq!((hidden, asked.load(Ordering::Relaxed)), (Key::from("hidden"), 1));
}

/// Who has one file open, and not all of it here.
#[derive(Debug)]
struct Reader(Ino);

impl Users for Reader {
    fn in_use(&self, ino: Ino) -> Use {
        if ino == self.0 { Use::Partly } else { Use::No }
    }

    fn moved(&self, _: Ino, _: Content) {}
}

#[tokio::test]
async fn who_reads_a_removed_file_reads_on_while_its_folder_is_moved_and_nothing_stays_of_it() {
    let (fake, ledger) = (Fake::new(), Kept::default());
    let bench = Bench::of_team(&fake, &ledger);
    bench.put("team/task/large", "bytes");
    bench.put("team/task/out", "1");
    let team = bench.ino(Ino::ROOT, "team").await;
    let task = bench.ino(team, "task").await;
    let large = bench.ino(task, "large").await;
    let reader: Arc<dyn Users> = Arc::new(Reader(large));
    bench.bucket.attach(Arc::downgrade(&reader) as Weak<dyn Users>);
    // Changes are tried in the task first, and the copy is not to be there.
    bench.bucket.unlink(task, &name("large")).await.unwrap();
    let is_copy = |key: &&Key| key.to_string().starts_with("team/.quayfs-unlinked/");
    let kept = fake.keys().iter().find(is_copy).cloned().unwrap();
    // One of another host's readers, by an earlier version.
    let theirs = "team/task/.quayfs-unlinked/1";
    bench.put(theirs, "theirs");
    let (from, to) = (name("task"), name("done"));
    let moved = bench.bucket.rename((team, &from), (team, &to), RenameMode::Replace).await;
    moved.unwrap();
    assert_eq!(fake.bytes(&kept).unwrap(), "bytes");
    bench.bucket.release(Some(large)).await;
    bench.sync().await;
    assert_eq!(fake.bytes(&Key::from(theirs)).unwrap(), "theirs", "who put it there removes it");
    bench.remove(theirs);
    let is_ours = |key: &String| !key.contains(".quayfs-attributes");
    let left: Vec<_> = bench.keys().into_iter().filter(is_ours).collect();
    assert_eq!(left, ["team/done/out"]);
    assert!(ledger.left().is_empty());
}
