//! What staging promises: the bytes that were written, the bytes that were sealed, nothing lost.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use base::ByteRange;
use common::{
    Folder, GRANULE, bytes, complete, content, content_of, kind, range, read, runs, sealed_content,
    write,
};
use quayfs_store::{
    Adopted, Base, Cached, Earlier, ErrorKind, GRANULE_BYTES, Outcome, Sealed, Staged, Store,
};

#[test]
fn an_upload_turns_the_staged_file_into_the_cached_one() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    assert!(staged.is_dirty());
    write(&staged, &[], 0, b"hello");
    let sealed = staged.seal().unwrap();
    assert_eq!((sealed.size(), sealed.epoch()), (5, 1));
    assert_eq!(sealed_content(&sealed), b"hello");
    let cached = adopted_clean(&store, &staged, sealed, b"v");
    assert!(cached.is_complete());
    assert_eq!(read(&cached, 0, 5), b"hello");
    store.journal().settle().unwrap();
    assert_eq!(folder.files("staged"), Vec::<String>::new());
    assert_eq!(kind(staged.write(0, b"x")), ErrorKind::Gone);
    assert!(Arc::ptr_eq(&cached, &store.cached(b"v", 5).unwrap()));
    drop((cached, staged, store));
    let store = folder.open();
    assert_eq!(read(&store.cached(b"v", 5).unwrap(), 0, 5), b"hello");
}

#[test]
fn what_is_open_is_counted_until_it_is_closed() {
    let folder = Folder::new();
    let store = folder.open();
    assert_eq!(store.open_files(), 0);
    let staged = store.stage(b"note", Base::Empty).unwrap();
    assert_eq!(store.open_files(), 1);
    write(&staged, &[], 0, b"hello");
    let sealed = staged.seal().unwrap();
    // What is overwritten is kept beside it until it is uploaded.
    write(&staged, &[], 0, b"HELLO");
    assert_eq!(store.open_files(), 2);
    drop(sealed);
    drop(staged);
    assert_eq!(store.open_files(), 0);
}

#[test]
fn an_empty_file_can_be_published() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed.size(), 0);
    adopted_clean(&store, &staged, sealed, b"v");
}

#[test]
fn a_write_during_upload_stays_dirty_and_is_not_uploaded() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    let before = bytes(1, 0, 3 * GRANULE + 9);
    write(&staged, &[], 0, &before);
    let sealed = staged.seal().unwrap();
    write(&staged, &[], GRANULE + 3, b"changed");
    write(&staged, &[], before.len(), b"appended");
    assert_eq!(sealed_content(&sealed), before);
    assert!(matches!(store.adopt(&staged, sealed, b"v").unwrap(), Adopted::StillDirty));
    let mut after = before;
    after[GRANULE + 3..GRANULE + 10].copy_from_slice(b"changed");
    after.extend_from_slice(b"appended");
    assert!(staged.is_dirty());
    assert_eq!(content(&staged, &[]), after);
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed.epoch(), 2);
    let cached = adopted_clean(&store, &staged, sealed, b"w");
    assert_eq!(read(&cached, 0, after.len()), after);
}

#[test]
fn truncating_during_upload_does_not_tear_the_sealed_version() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    let before = bytes(1, 0, 3 * GRANULE);
    write(&staged, &[], 0, &before);
    let sealed = staged.seal().unwrap();
    staged.truncate(10).unwrap();
    staged.truncate(2 * GRANULE_BYTES).unwrap();
    assert_eq!(sealed_content(&sealed), before);
    store.reject(&staged, sealed);
    let mut want = before[..10].to_vec();
    want.resize(2 * GRANULE, 0);
    assert_eq!(content(&staged, &[]), want);
}

#[test]
fn a_rejected_upload_keeps_the_bytes() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"hello");
    let sealed = staged.seal().unwrap();
    store.reject(&staged, sealed);
    assert!(staged.is_dirty());
    // One that is only dropped counts as rejected too.
    drop(staged.seal().unwrap());
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed_content(&sealed), b"hello");
    adopted_clean(&store, &staged, sealed, b"v");
}

#[test]
#[should_panic(expected = "Seal(2) in state Sealed")]
fn two_seals_at_a_time_are_a_bug() {
    let folder = Folder::new();
    let staged = folder.open().stage(b"note", Base::Empty).unwrap();
    let _one = staged.seal().unwrap();
    let _two = staged.seal();
}

#[test]
fn below_what_is_done_nothing_is_saved_any_more() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, &bytes(1, 0, 4 * GRANULE));
    let sealed = staged.seal().unwrap();
    sealed.done_to(2 * GRANULE_BYTES);
    write(&staged, &[], 0, &[7; 100]);
    assert_eq!(folder.files("staged").len(), 1, "there is no side file");
    assert_eq!(kind(sealed.read(0, &mut [0; 10])), ErrorKind::Missing);
    write(&staged, &[], 3 * GRANULE, &[7; 100]);
    let mut buf = vec![0; 2 * GRANULE];
    sealed.read(2 * GRANULE_BYTES, &mut buf).unwrap();
    assert_eq!(buf, bytes(1, 2 * GRANULE, 2 * GRANULE));
    store.reject(&staged, sealed);
    assert_eq!(folder.files("staged").len(), 1, "there is no side file");
}

#[test]
fn the_base_shows_through_where_nothing_was_written() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, 3 * GRANULE + 50);
    let cached = store.cached(b"v", old.len() as u64).unwrap();
    let staged = store
        .stage(b"note", Base::Over { cached: Arc::clone(&cached), bytes: old.len() as u64 })
        .unwrap();
    assert!(!staged.is_dirty());
    assert_eq!(staged.size(), old.len() as u64);
    // Nothing of the base is here yet.
    assert_eq!(staged.missing(range(0, old.len())), Some(range(0, old.len())));
    assert_eq!(
        staged.write(GRANULE_BYTES + 5, b"new").unwrap(),
        Outcome::Needs(range(GRANULE, 2 * GRANULE))
    );
    assert!(!staged.is_dirty());
    // A whole granule needs nothing of it.
    assert_eq!(staged.write(0, &vec![1; GRANULE]).unwrap(), Outcome::Done);
    assert!(staged.is_dirty());
    // What the base has is used without asking.
    cached.fill(GRANULE_BYTES, &old[GRANULE..2 * GRANULE]).unwrap();
    assert_eq!(staged.write(GRANULE_BYTES + 5, b"new").unwrap(), Outcome::Done);
    assert_eq!(staged.missing(range(0, old.len())), Some(range(2 * GRANULE, old.len())));
    assert_eq!(
        staged.draw_from_base(range(0, old.len())).unwrap(),
        Some(range(2 * GRANULE, old.len()))
    );
    cached.fill(2 * GRANULE_BYTES, &old[2 * GRANULE..]).unwrap();
    let mut want = old.clone();
    want[..GRANULE].fill(1);
    want[GRANULE + 5..GRANULE + 8].copy_from_slice(b"new");
    assert_eq!(content(&staged, &[]), want);
    assert_eq!(staged.draw_from_base(range(0, old.len())).unwrap(), None);
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed_content(&sealed), want);
    assert!(staged.base().is_none());
    adopted_clean(&store, &staged, sealed, b"w");
    assert_eq!(read(&cached, GRANULE, old.len()), old[GRANULE..]);
}

#[test]
fn what_is_here_is_read_without_the_base_and_nothing_else() {
    let folder = Folder::new();
    let store = folder.open();
    let cached = store.cached(b"v", 2 * GRANULE_BYTES).unwrap();
    let staged = store.stage(b"note", Base::Over { cached, bytes: 2 * GRANULE_BYTES }).unwrap();
    let new = bytes(1, 0, GRANULE);
    write(&staged, &[], GRANULE, &new);
    let mut here = vec![0; GRANULE];
    assert!(staged.read_here(GRANULE_BYTES, &mut here).unwrap());
    assert_eq!(here, new);
    assert!(staged.read_here(GRANULE_BYTES, &mut []).unwrap());
    // A byte of the base, and one beyond the size.
    for offset in [GRANULE_BYTES - 1, GRANULE_BYTES + 1] {
        assert!(!staged.read_here(offset, &mut here).unwrap());
    }
    assert_eq!(here, new);
}

#[test]
fn what_was_not_changed_stays_where_it_is() {
    let folder = Folder::new();
    let store = folder.open();
    let mut want = bytes(1, 0, 5 * GRANULE + 50);
    let cached = store.cached(b"v", want.len() as u64).unwrap();
    let base = Base::Over { cached, bytes: want.len() as u64 };
    let staged = store.stage(b"note", base).unwrap();
    let old = want.clone();
    write(&staged, &old, 2 * GRANULE + 7, b"new");
    write(&staged, &old, old.len(), b"more");
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed.origin(), Some(&b"v"[..]));
    let all = range(0, want.len() + 4);
    assert_eq!(
        runs(sealed.unchanged(), all),
        [range(0, 2 * GRANULE), range(3 * GRANULE, want.len())]
    );
    assert_eq!(
        runs(sealed.missing(), all),
        [range(0, 2 * GRANULE), range(3 * GRANULE, 5 * GRANULE)]
    );
    assert_eq!(kind(sealed.read(GRANULE_BYTES, &mut [0; 5])), ErrorKind::Missing);

    // From the next version on, only what was written since the seal is changed.
    write(&staged, &old, 4 * GRANULE, b"later");
    assert!(matches!(store.adopt(&staged, sealed, b"w").unwrap(), Adopted::StillDirty));
    want.extend(b"more");
    want[2 * GRANULE + 7..2 * GRANULE + 10].copy_from_slice(b"new");
    want[4 * GRANULE..4 * GRANULE + 5].copy_from_slice(b"later");
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed.origin(), Some(&b"w"[..]));
    assert_eq!(
        runs(sealed.unchanged(), all),
        [range(0, 4 * GRANULE), range(5 * GRANULE, want.len())]
    );
    let cached = adopted_clean(&store, &staged, sealed, b"x");
    assert!(!cached.is_complete() && cached.passthrough().is_none());
    assert_eq!(cached.missing(all), Some(range(0, 2 * GRANULE)));
    assert_eq!(read(&cached, 4 * GRANULE, want.len()), want[4 * GRANULE..]);
}

#[test]
fn a_rejected_version_leaves_what_was_changed_changed() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, 3 * GRANULE);
    let staged = store.stage(b"note", Base::Take(complete(&store, b"v", &old))).unwrap();
    write(&staged, &[], GRANULE, b"new");
    store.reject(&staged, staged.seal().unwrap());
    staged.truncate(2 * GRANULE_BYTES + 5).unwrap();
    staged.truncate(3 * GRANULE_BYTES).unwrap();
    let want = [range(0, GRANULE), range(2 * GRANULE, 2 * GRANULE + 5)];
    assert_eq!(runs(&staged.unchanged(), range(0, 3 * GRANULE)), want);
}

#[test]
fn the_base_never_shows_beyond_the_smallest_size() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, 2 * GRANULE);
    let cached = complete(&store, b"v", &old);
    let base = Base::Over { cached, bytes: 2 * GRANULE_BYTES };
    let staged = store.stage(b"note", base).unwrap();
    staged.truncate(100).unwrap();
    staged.truncate(2 * GRANULE_BYTES).unwrap();
    let mut want = old[..100].to_vec();
    want.resize(2 * GRANULE, 0);
    assert_eq!(content(&staged, &old), want);
    assert!(staged.is_dirty());
}

#[test]
fn a_version_over_which_nothing_was_written_goes_as_it_came() {
    let old = bytes(1, 0, 2 * GRANULE + 5);
    let absent: fn(&Store, &[u8]) -> Arc<Cached> =
        |store, old| store.cached(b"v", old.len() as u64).unwrap();
    // Where the disk can, what lies over a complete version is a clone of it.
    for version in [absent, |store, old| complete(store, b"v", old)] {
        let folder = Folder::new();
        let store = folder.open();
        let cached = version(&store, &old);
        let base = Base::Over { cached: Arc::clone(&cached), bytes: old.len() as u64 };
        let staged = store.stage(b"note", base).unwrap();
        assert!(!staged.is_dirty());
        let back = store.restore(&staged).unwrap().unwrap();
        assert!(Arc::ptr_eq(&back, &cached));
        assert_eq!(folder.files("staged"), Vec::<String>::new());
    }
}

#[test]
fn a_taken_version_is_the_same_file_and_can_go_back() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, 2 * GRANULE + 5);
    let cached = complete(&store, b"v", &old);
    let kernel = cached.passthrough().unwrap();
    let staged = store.stage(b"note", Base::Take(Arc::clone(&cached))).unwrap();
    assert!(!staged.is_dirty());
    assert_eq!(kind(cached.read(0, &mut [0; 1])), ErrorKind::Gone);
    assert!(!cached.is_complete());
    assert!(cached.passthrough().is_none());
    assert_eq!(store.usage().unwrap().cached_bytes, 0);
    let ours = staged.passthrough().unwrap();
    assert!(Arc::ptr_eq(&kernel, &ours));
    assert_eq!(content(&staged, &[]), old);
    assert!(store.restore(&staged).unwrap().is_none(), "the kernel has it");
    drop((kernel, ours));
    let back = store.restore(&staged).unwrap().unwrap();
    assert!(back.is_complete());
    assert_eq!(content_of(&back), old);
}

#[test]
fn a_version_that_another_process_uses_cannot_be_taken() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let old = bytes(1, 0, GRANULE);
    let cached = complete(&one, b"v", &old);
    let other = two.cached(b"v", GRANULE_BYTES).unwrap();
    assert_eq!(kind(one.stage(b"n", Base::Take(Arc::clone(&cached)))), ErrorKind::Held);
    assert_eq!(content_of(&cached), old);
    drop((other, two));
    let staged = one.stage(b"n", Base::Take(cached)).unwrap();
    assert_eq!(content(&staged, &[]), old);
}

#[test]
fn a_version_whose_file_another_process_has_replaced_cannot_be_taken() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), folder.open());
    let content = bytes(1, 0, GRANULE);
    let old = complete(&there, b"v", &content);
    let staged = here.stage(b"n", Base::Empty).unwrap();
    write(&staged, &[], 0, &content);
    let new = adopted_clean(&here, &staged, staged.seal().unwrap(), b"v");
    here.settle().unwrap();
    assert_eq!(kind(there.stage(b"n", Base::Take(Arc::clone(&old)))), ErrorKind::Held);
    assert_eq!(content_of(&old), content);
    let staged = here.stage(b"n", Base::Take(new)).unwrap();
    write(&staged, &[], 0, b"edit");
    assert_eq!(content_of(&old), content);
}

#[test]
fn a_version_whose_file_another_process_replaces_just_then_cannot_be_taken() {
    let folder = Folder::new();
    let (here, there) = (Arc::new(folder.open()), folder.open());
    let content = bytes(1, 0, GRANULE);
    let old = complete(&there, b"v", &content);
    let staged = here.stage(b"n", Base::Empty).unwrap();
    write(&staged, &[], 0, &content);
    let new = adopted_clean(&here, &staged, staged.seal().unwrap(), b"v");
    let theirs = Arc::clone(&here);
    folder.faults.before_the_next_rename(move || theirs.settle().unwrap());
    assert_eq!(kind(there.stage(b"n", Base::Take(Arc::clone(&old)))), ErrorKind::Held);
    assert_eq!(content_of(&old), content);
    assert_eq!(content_of(&new), content);
    let staged = here.stage(b"n", Base::Take(new)).unwrap();
    assert_eq!(common::content(&staged, &[]), content);
}

#[test]
fn a_version_that_another_process_is_just_putting_in_its_place_cannot_be_taken() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), Arc::new(folder.open()));
    let content = bytes(1, 0, GRANULE);
    let old = complete(&there, b"v", &content);
    let staged = here.stage(b"n", Base::Empty).unwrap();
    write(&staged, &[], 0, &content);
    let new = adopted_clean(&here, &staged, staged.seal().unwrap(), b"v");
    // Its record is there, and its file is not yet.
    let (taken, theirs) = (Arc::new(Mutex::new(None)), Arc::clone(&there));
    let (took, wanted) = (Arc::clone(&taken), Arc::clone(&old));
    folder.faults.before_the_next_rename(move || {
        *took.lock().unwrap() = Some(theirs.stage(b"n", Base::Take(wanted)).map(drop));
    });
    here.settle().unwrap();
    assert_eq!(kind(taken.lock().unwrap().take().unwrap()), ErrorKind::Held);
    assert_eq!((content_of(&old), content_of(&new)), (content.clone(), content.clone()));
    drop((old, new, here, there));
    let store = folder.open();
    assert_eq!(content_of(&store.cached(b"v", GRANULE_BYTES).unwrap()), content);
}

#[test]
fn a_version_in_which_another_file_has_its_bytes_cannot_be_taken() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, GRANULE);
    let cached = complete(&store, b"v", &old);
    let (ours, other) = (cached.in_use(), store.cached(b"v", GRANULE_BYTES).unwrap().in_use());
    assert!(cached.is_shared());
    assert_eq!(kind(store.stage(b"n", Base::Take(Arc::clone(&cached)))), ErrorKind::Held);
    assert_eq!(content_of(&cached), old);
    drop(other);
    let staged = store.stage(b"n", Base::Take(Arc::clone(&cached))).unwrap();
    assert_eq!(content(&staged, &[]), old);
    drop(ours);
    assert_eq!(kind(cached.read(0, &mut [0; 1])), ErrorKind::Gone);
}

#[test]
fn an_incomplete_version_cannot_be_taken() {
    let folder = Folder::new();
    let store = folder.open();
    let cached = store.cached(b"v", 10).unwrap();
    assert_eq!(kind(store.stage(b"n", Base::Take(cached))), ErrorKind::Missing);
}

#[test]
fn what_is_written_past_us_is_found() {
    let folder = Folder::new();
    let store = folder.open();
    let mut want = bytes(1, 0, 3 * GRANULE);
    let cached = complete(&store, b"v", &want);
    let staged = store.stage(b"note", Base::Take(cached)).unwrap();
    assert!(!staged.rescan().unwrap());
    let kernel = staged.passthrough().unwrap();
    assert!(!staged.rescan().unwrap());
    poke(&kernel, 2 * GRANULE_BYTES + 1, b"mapped");
    want[2 * GRANULE + 1..2 * GRANULE + 7].copy_from_slice(b"mapped");
    assert!(staged.rescan().unwrap());
    assert!(staged.is_dirty());
    assert!(!staged.rescan().unwrap());

    // A sealed version stands still although nobody asks before writing past us.
    let sealed = staged.seal().unwrap();
    poke(&kernel, 0, b"later");
    assert_eq!(sealed_content(&sealed), want);
    // Adoption does not look through what may change the moment after; the next look finds it.
    assert!(matches!(store.adopt(&staged, sealed, b"w").unwrap(), Adopted::Kept));
    assert!(staged.rescan().unwrap());
    assert!(staged.is_dirty());
    want[..5].copy_from_slice(b"later");
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed_content(&sealed), want);
    // Clean, but the kernel could still write to it.
    assert!(matches!(store.adopt(&staged, sealed, b"x").unwrap(), Adopted::Kept));
    assert!(!staged.is_dirty());
    drop(kernel);
    let cached = store.restore(&staged).unwrap().unwrap();
    assert_eq!(content_of(&cached), want);
}

fn poke(file: &quayfs_store::BackingFile, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn readers_of_a_version_notice_nothing_when_it_is_completed_by_an_upload() {
    let folder = Folder::new();
    let store = folder.open();
    let want = bytes(1, 0, 2 * GRANULE);
    let reader = store.cached(b"v", 2 * GRANULE_BYTES).unwrap();
    reader.fill(0, &want[..GRANULE]).unwrap();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, &want);
    let sealed = staged.seal().unwrap();
    let cached = adopted_clean(&store, &staged, sealed, b"v");
    assert!(Arc::ptr_eq(&reader, &cached));
    assert_eq!(content_of(&reader), want);
    assert_eq!(store.usage().unwrap().cached_bytes, 2 * GRANULE_BYTES);
}

#[test]
fn a_full_disk_fails_the_write_and_nothing_else() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    let want = bytes(1, 0, GRANULE + 10);
    write(&staged, &[], 0, &want);
    folder.faults.full_after(1000);
    assert_eq!(kind(staged.write(want.len() as u64, &[9; 5000])), ErrorKind::Full);
    folder.faults.heal();
    assert_eq!(content(&staged, &[]), want);
    // What the failed write left does not come back when the file grows.
    staged.truncate(want.len() as u64 + 50).unwrap();
    let mut grown = want;
    grown.resize(grown.len() + 50, 0);
    assert_eq!(content(&staged, &[]), grown);
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed_content(&sealed), grown);
    adopted_clean(&store, &staged, sealed, b"v");
}

#[test]
fn what_a_full_disk_did_not_take_beyond_the_end_is_not_sealed() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"hello");
    folder.faults.full_after(100);
    assert_eq!(kind(staged.write(3 * GRANULE_BYTES, &[9; 5000])), ErrorKind::Full);
    folder.faults.heal();
    let sealed = staged.seal().unwrap();
    assert_eq!(sealed_content(&sealed), b"hello");
    adopted_clean(&store, &staged, sealed, b"v");
}

#[test]
fn what_the_bucket_does_not_have_is_counted_until_it_has_it() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, &bytes(1, 0, 3 * GRANULE));
    assert_eq!(store.dirty_bytes(), 3 * GRANULE_BYTES);
    let sealed = staged.seal().unwrap();
    assert_eq!(store.dirty_bytes(), 3 * GRANULE_BYTES);
    staged.write(GRANULE_BYTES, b"since").unwrap();
    assert!(matches!(store.adopt(&staged, sealed, b"v").unwrap(), Adopted::StillDirty));
    assert_eq!((store.dirty_bytes(), staged.dirty_bytes()), (GRANULE_BYTES, GRANULE_BYTES));
    staged.truncate(10).unwrap();
    assert_eq!(store.dirty_bytes(), 0);
    let small = store.stage(b"note", Base::Empty).unwrap();
    write(&small, &[], 0, b"small");
    assert_eq!(store.dirty_bytes(), 4096);
    let sealed = small.seal().unwrap();
    adopted_clean(&store, &small, sealed, b"w");
    assert_eq!(store.dirty_bytes(), 0);
    let given_up = store.stage(b"note", Base::Empty).unwrap();
    write(&given_up, &[], 0, b"given up");
    store.discard(&given_up).unwrap();
    assert_eq!(store.dirty_bytes(), 0);
}

#[test]
fn a_version_that_is_open_is_let_go_of_unless_the_kernel_reads_it_or_it_is_pinned() {
    let folder = Folder::new();
    let store = folder.open();
    let want = bytes(1, 0, 130 * GRANULE);
    let cached = complete(&store, b"v", &want);
    let lent = cached.passthrough();
    assert_eq!(store.let_go(&cached, u64::MAX).unwrap(), 0);
    drop(lent);
    let pins = store.pins("volume");
    pins.hold(b"path", &[(b"v".to_vec(), cached.size())]).unwrap();
    assert_eq!(store.let_go(&cached, u64::MAX).unwrap(), 0, "it is pinned");
    pins.release(b"path").unwrap();
    // Who fetches some of it may have to make room in it.
    let first = ByteRange::new(0, GRANULE_BYTES).unwrap();
    let _turn = store.fetch_turn(&cached, first).unwrap().unwrap();
    // Two stripes of 64 granules end below this, and a third begins.
    assert_eq!(store.let_go(&cached, 129 * GRANULE_BYTES).unwrap(), 128 * GRANULE_BYTES);
    assert!(!cached.is_complete());
    let rest = ByteRange::new(128 * GRANULE_BYTES, 130 * GRANULE_BYTES).unwrap();
    assert_eq!(cached.bytes(rest).unwrap().unwrap(), want[128 * GRANULE..]);
    assert_eq!(store.let_go(&cached, 130 * GRANULE_BYTES).unwrap(), 2 * GRANULE_BYTES);
    assert_eq!(store.usage().unwrap().cached_bytes, 0);
}

#[test]
fn a_full_disk_makes_the_cache_give_way_to_writers() {
    let folder = Folder::new();
    let store = folder.open();
    drop(complete(&store, b"v", &bytes(1, 0, 8 * GRANULE)));
    let staged = store.stage(b"note", Base::Empty).unwrap();
    folder.faults.full_after(100);
    assert_eq!(kind(staged.write(0, &[1; 5000])), ErrorKind::Full);
    assert_eq!(folder.files("objects"), Vec::<String>::new());
}

#[test]
fn published_bytes_that_cannot_be_moved_stay_readable() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"hello");
    let sealed = staged.seal().unwrap();
    folder.faults.fail_renames();
    let cached = adopted_clean(&store, &staged, sealed, b"v");
    store.journal().settle().unwrap();
    assert_eq!(content_of(&cached), b"hello");
    folder.faults.heal();
    drop((cached, staged, store));
    // The next process puts it where it belongs.
    let store = folder.open();
    assert_eq!(content_of(&store.cached(b"v", 5).unwrap()), b"hello");
    assert_eq!(folder.files("staged"), Vec::<String>::new());
}

#[test]
fn a_version_that_cannot_be_taken_stays_cached() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, GRANULE);
    let cached = complete(&store, b"v", &old);
    store.checkpoint().unwrap();
    folder.faults.fail_renames();
    assert_eq!(kind(store.stage(b"n", Base::Take(Arc::clone(&cached)))), ErrorKind::Io);
    folder.faults.heal();
    assert_eq!(content_of(&cached), old);
    drop((cached, store));
    assert!(folder.open().cached(b"v", GRANULE_BYTES).unwrap().is_complete());
}

#[test]
fn a_discarded_file_leaves_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"temporary");
    let sealed = staged.seal().unwrap();
    store.discard(&staged).unwrap();
    assert_eq!(folder.files("staged"), Vec::<String>::new());
    assert_eq!(kind(sealed.read(0, &mut [0; 1])), ErrorKind::Gone);
    assert_eq!(kind(staged.seal()), ErrorKind::Gone);
    drop(sealed);
    drop((staged, store));
    assert!(folder.open().orphans().unwrap().is_empty());
}

#[test]
fn whoever_writes_many_files_has_few_of_them_open() {
    let folder = Folder::new();
    let store = folder.open();
    for number in 0..2000_u32 {
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, b"hello");
        let sealed = staged.seal().unwrap();
        adopted_clean(&store, &staged, sealed, &number.to_le_bytes());
    }
    let open = folder.descriptors();
    assert!(open < 1000, "{open} descriptors");
    for number in 0..2000_u32 {
        assert_eq!(read(&store.cached(&number.to_le_bytes(), 5).unwrap(), 0, 5), b"hello");
    }
}

fn adopted_clean(
    store: &Store,
    staged: &Arc<Staged>,
    sealed: Sealed,
    identity: &[u8],
) -> Arc<Cached> {
    match store.adopt(staged, sealed, identity).unwrap() {
        Adopted::Clean(cached) => cached,
        other @ (Adopted::StillDirty | Adopted::Kept) => panic!("{other:?}"),
    }
}

#[test]
fn the_answer_to_a_version_that_gave_way_changes_nothing_of_the_newer_one() {
    for is_acknowledged in [false, true] {
        let folder = Folder::new();
        let store = folder.open();
        let staged = store.stage(b"first", Base::Empty).unwrap();
        write(&staged, &[], 0, b"hello");
        let first = staged.seal().unwrap();
        write(&staged, &[], 0, b"again");
        let second = staged.seal_noted(Some(b"second"), Earlier::GivesWay).unwrap();
        assert_eq!(kind(first.read(0, &mut [0; 5])), ErrorKind::Gone);
        if is_acknowledged {
            assert!(matches!(store.adopt(&staged, first, b"v").unwrap(), Adopted::StillDirty));
        } else {
            store.reject(&staged, first);
        }
        assert!(staged.is_dirty() && !staged.is_written());
        assert_eq!(sealed_content(&second), b"again");
        let cached = adopted_clean(&store, &staged, second, b"w");
        assert_eq!(read(&cached, 0, 5), b"again");
    }
}
