//! Buckets of which the store takes changes in some folders only.

use base::Ino;
use remote::fake::{Fake, Op};
use remote::{Error, ErrorKind, Key, Trouble};

use super::attributes::{Kept, OBJECT};
use super::{Bench, name};
use crate::{Namespace, Refusal};

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
