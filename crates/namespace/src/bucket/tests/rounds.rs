//! Round trips that an operation waits for, one after the other.

use std::pin::pin;
use std::task::Poll;

use base::Ino;
use futures::poll;
use remote::fake::Fake;

use super::{Bench, name};
use crate::{BucketOptions, Namespace as _, RenameMode};

/// Polls after which nothing moves that does not wait for the store.
const QUIET_POLLS: usize = 300;

/// The result of `work`, and in how many rounds the store was asked: all requests that are under way are answered at
/// a time, when no other comes.
async fn rounds_of<T>(fake: &Fake, work: impl Future<Output = T>) -> (T, usize) {
    let (gate, mut work) = (fake.hold_all(), pin!(work));
    let (mut rounds, mut answered) = (0, 0);
    loop {
        for _ in 0..QUIET_POLLS {
            if let Poll::Ready(done) = poll!(work.as_mut()) {
                return (done, rounds);
            }
            tokio::task::yield_now().await;
        }
        let asked = gate.count();
        assert!(answered < asked, "it waits for something else than the store");
        gate.let_through(asked - answered);
        (answered, rounds) = (asked, rounds + 1);
    }
}

/// A directory of a hundred files with attributes of their own, in the root and below another directory.
async fn bench_of_a_hundred(fake: Fake) -> Bench {
    let bench = Bench::over(fake, BucketOptions::default());
    for file in 0..100 {
        bench.put(&format!("dir/{file:03}"), "x");
    }
    bench.put("other/f", "x");
    bench.put("empty/", "");
    let dir = bench.ino(Ino::ROOT, "dir").await;
    let file = bench.ino(dir, "007").await;
    bench.chmod(file, 0o600).await;
    bench.chmod(dir, 0o700).await;
    bench.sync().await;
    bench.expire();
    bench
}

/// Rounds of a rename as the kernel asks for it: both names are looked up, then one gets the other.
async fn rename_rounds(bench: &Bench, (dir, to): (Ino, &str), mode: RenameMode) -> usize {
    let (from, to) = (name("dir"), name(to));
    let renaming = async {
        bench.bucket.lookup(Ino::ROOT, &from).await.unwrap();
        let _ = bench.bucket.lookup(dir, &to).await;
        bench.bucket.rename((Ino::ROOT, &from), (dir, &to), mode).await.unwrap();
    };
    let ((), rounds) = rounds_of(&bench.fake, renaming).await;
    assert!(!bench.keys().iter().any(|key| key.starts_with("dir/")));
    assert!(100 <= bench.keys().iter().filter(|key| key.ends_with(char::is_numeric)).count());
    rounds
}

fn store_of_sums() -> Fake {
    let fake = Fake::new();
    fake.versions_are_checksums();
    fake
}

/// The lookups, a listing, copies, a listing of what is left, and removals. Copies with other versions than their
/// originals, as of encrypted objects, have the attributes read and written once more.
#[tokio::test]
async fn rename_of_a_hundred_files_takes_ten_rounds_at_most() {
    for (store, want) in [(store_of_sums as fn() -> Fake, 8), (Fake::new, 10)] {
        for (to, mode) in [
            ("new", RenameMode::NoReplace),
            ("much longer", RenameMode::NoReplace),
            ("empty", RenameMode::Replace),
        ] {
            let bench = bench_of_a_hundred(store()).await;
            let rounds = rename_rounds(&bench, (Ino::ROOT, to), mode).await;
            assert!(rounds <= want, "{rounds} rounds to {to}");
        }
        let bench = bench_of_a_hundred(store()).await;
        let other = bench.ino(Ino::ROOT, "other").await;
        bench.expire();
        let rounds = rename_rounds(&bench, (other, "new"), RenameMode::NoReplace).await;
        assert!(rounds <= want, "{rounds} rounds to another directory");
    }
}
