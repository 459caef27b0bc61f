//! Staged files that are made ahead.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use common::{Folder, write};
use quayfs_store::Base;

#[test]
fn files_of_a_burst_are_made_ahead_and_what_nobody_took_goes_in_the_end() {
    const FILES: usize = 200;
    let folder = Folder::new();
    let store = folder.open();
    let staged: Vec<_> = (0..FILES).map(|_| store.stage(b"note", Base::Empty).unwrap()).collect();
    while folder.files("staged").len() <= FILES {
        std::thread::yield_now();
    }
    for (number, staged) in staged.iter().enumerate() {
        write(staged, &[], 0, number.to_string().as_bytes());
        drop(staged.seal().unwrap());
    }
    drop((staged, store));
    // Who makes some may be at it still.
    while folder.files("staged").len() != FILES {
        std::thread::yield_now();
    }
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    for orphan in folder.open().orphans().unwrap() {
        let mut text = vec![0; usize::try_from(orphan.staged.size()).unwrap()];
        orphan.staged.read(0, &mut text).unwrap();
        bytes.push(text);
    }
    bytes.sort();
    let mut want: Vec<_> = (0..FILES).map(|number| number.to_string().into_bytes()).collect();
    want.sort();
    assert_eq!(bytes, want);
}

#[test]
fn for_who_wants_a_few_none_is_made_ahead() {
    let folder = Folder::new();
    let store = folder.open();
    let staged: Vec<_> = (0..10).map(|_| store.stage(b"note", Base::Empty).unwrap()).collect();
    assert_eq!(folder.files("staged").len(), staged.len());
}
