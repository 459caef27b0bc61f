//! Inode numbers, and what the ledger remembers of them.

use std::collections::HashMap;
use std::sync::Arc;

use base::Ino;
use parking_lot::Mutex;
use remote::fake::Fake;

use super::{Bench, name};
use crate::{BucketOptions, Ledger, LedgerFailed, Namespace, RecordId, RenameMode};

/// Remembers numbers, as long as the test goes.
#[derive(Debug, Default)]
struct Numbers {
    rows: Mutex<HashMap<Vec<u8>, Ino>>,
    writes: Mutex<usize>,
}

impl Ledger for Numbers {
    fn append(&self, _record: &[u8]) -> Result<RecordId, LedgerFailed> {
        Ok(RecordId(0))
    }

    fn strike(&self, _records: &[RecordId]) {}

    fn number(&self, path: &[u8]) -> Option<Ino> {
        self.rows.lock().get(path).copied()
    }

    fn is_kept(&self, number: Ino) -> bool {
        self.rows.lock().values().any(|&kept| kept == number)
    }

    fn set_number(&self, path: &[u8], number: Option<Ino>) {
        *self.writes.lock() += 1;
        match number {
            Some(ino) => self.rows.lock().insert(path.to_vec(), ino),
            None => self.rows.lock().remove(path),
        };
    }
}

/// One bucket that is mounted again and again.
struct Host {
    fake: Fake,
    ledger: Arc<Numbers>,
}

impl Host {
    fn new() -> Host {
        Host { fake: Fake::new(), ledger: Arc::default() }
    }

    fn mount(&self) -> Bench {
        Bench::with(self.fake.clone(), BucketOptions::default(), Arc::clone(&self.ledger) as _)
    }
}

async fn rename(bench: &Bench, from: &str, to: &str) {
    let (from, to) = (name(from), name(to));
    let (from, to) = ((Ino::ROOT, &from), (Ino::ROOT, &to));
    bench.bucket.rename(from, to, RenameMode::Replace).await.unwrap();
}

#[tokio::test]
async fn a_renamed_file_keeps_its_number_over_a_remount_and_nobody_else_gets_it() {
    let host = Host::new();
    let bench = host.mount();
    let y = bench.write(Ino::ROOT, "x", "1").await;
    rename(&bench, "x", "y").await;
    let x = bench.write(Ino::ROOT, "x", "2").await;
    assert_ne!(x, y);

    let again = host.mount();
    assert_eq!(again.ino(Ino::ROOT, "x").await, x, "before y is known");
    assert_eq!(again.ino(Ino::ROOT, "y").await, y);
    again.bucket.unlink(Ino::ROOT, &name("x")).await.unwrap();
    again.bucket.unlink(Ino::ROOT, &name("y")).await.unwrap();
    assert!(host.ledger.rows.lock().is_empty(), "of what is gone nothing is kept");
    assert_eq!(host.mount().write(Ino::ROOT, "x", "3").await, y, "the number of the path");
}

#[tokio::test]
async fn a_number_that_is_kept_is_not_given_to_the_file_whose_path_says_so() {
    let host = Host::new();
    let bench = host.mount();
    let y = bench.write(Ino::ROOT, "x", "1").await;
    rename(&bench, "x", "y").await;
    let again = host.mount();
    let x = again.write(Ino::ROOT, "x", "2").await;
    assert_ne!(x, y);
    assert_eq!(host.mount().ino(Ino::ROOT, "x").await, x);
}

#[tokio::test]
async fn a_file_that_is_renamed_back_has_the_number_of_its_path() {
    let host = Host::new();
    let bench = host.mount();
    let x = bench.write(Ino::ROOT, "x", "1").await;
    rename(&bench, "x", "y").await;
    rename(&bench, "y", "x").await;
    assert!(host.ledger.rows.lock().is_empty());
    assert_eq!(host.mount().ino(Ino::ROOT, "x").await, x);
}

#[tokio::test]
async fn what_is_below_a_renamed_folder_keeps_its_numbers() {
    let host = Host::new();
    let bench = host.mount();
    let d = bench.mkdir(Ino::ROOT, "d").await;
    let e = bench.mkdir(d, "e").await;
    let f = bench.create(e, "f").await;
    {
        // Whatever moves the objects: this is what it does to the tree.
        let mut state = bench.bucket.shared.state();
        state.tree.rename(d, (Ino::ROOT, &name("new")));
    }
    let numbers = |path: &[u8]| host.ledger.number(path);
    assert_eq!(numbers(b"new"), Some(d));
    assert_eq!(numbers(b"new/e"), Some(e));
    assert_eq!(numbers(b"new/e/f"), Some(f));
}

#[tokio::test]
async fn a_file_replaced_by_others_gets_another_number_and_keeps_that() {
    let host = Host::new();
    let bench = host.mount();
    bench.put("x", "old");
    let old = bench.ino(Ino::ROOT, "x").await;
    bench.put("x", "newer");
    bench.expire();
    let new = bench.ino(Ino::ROOT, "x").await;
    assert_ne!(old, new);
    assert_eq!(host.mount().ino(Ino::ROOT, "x").await, new);
}

#[tokio::test]
async fn ordinary_files_are_no_exceptions() {
    let host = Host::new();
    let bench = host.mount();
    for n in 0..100 {
        bench.put(&format!("d/{n}"), "x");
    }
    let d = bench.ino(Ino::ROOT, "d").await;
    bench.names(d).await;
    bench.write(d, "made", "x").await;
    bench.bucket.unlink(d, &name("made")).await.unwrap();
    assert_eq!(*host.ledger.writes.lock(), 0);
}
