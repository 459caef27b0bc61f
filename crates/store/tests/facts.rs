//! What was found out about a store, and which folders were used last, is remembered.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use base::ManualClock;
use common::Folder;

const DAY: Duration = Duration::from_hours(24);

#[test]
fn facts_are_believed_for_a_week_and_become_no_younger_by_being_told_again() {
    let folder = Folder::new();
    let clock = Arc::new(ManualClock::default());
    let fact = |name: &str, is_so| (name.to_owned(), is_so);
    {
        let store = folder.open();
        let facts = store.facts("s3://b/@aws");
        facts.note(&[("copies", true), ("sorts", false)], clock.as_ref()).unwrap();
        assert_eq!(store.facts("s3://other/@aws").believed(clock.as_ref()).unwrap(), []);
    }
    // By the next process, some days later.
    clock.advance(DAY * 5);
    let store = folder.open();
    let facts = store.facts("s3://b/@aws");
    let known = [fact("copies", true), fact("sorts", false)];
    assert_eq!(facts.believed(clock.as_ref()).unwrap(), known);
    // One is another now, the other is what it was.
    facts.note(&[("copies", true), ("sorts", true)], clock.as_ref()).unwrap();
    clock.advance(DAY * 3);
    assert_eq!(facts.believed(clock.as_ref()).unwrap(), [fact("sorts", true)]);
    facts.note(&[("copies", true)], clock.as_ref()).unwrap();
    let known = [fact("copies", true), fact("sorts", true)];
    assert_eq!(facts.believed(clock.as_ref()).unwrap(), known);
}

#[test]
fn the_folders_of_a_volume_are_those_that_were_noted_last_in_their_order() {
    let folder = Folder::new();
    {
        let store = folder.open();
        store.note_folders("s3://b/@aws", &[b"a/", b"old/"]).unwrap();
        store.note_folders("s3://other/@aws", &[b"z/"]).unwrap();
        store.note_folders("s3://b/@aws", &[b"b/\xff/", b"a/"]).unwrap();
    }
    let store = folder.open();
    assert_eq!(store.folders("s3://b/@aws").unwrap(), [&b"b/\xff/"[..], b"a/"]);
    assert_eq!(store.folders("s3://other/@aws").unwrap(), [b"z/"]);
    assert!(store.folders("s3://none/@aws").unwrap().is_empty());
}
