//! What the cache promises: right bytes or none, and room.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::io::{Seek, SeekFrom, Write};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Counter, ManualClock};
use common::{Folder, GRANULE, bytes, complete, fill, kind, range, read, write};
use quayfs_store::{Base, CacheLimit, Cached, Dropped, ErrorKind, GRANULE_BYTES, Store};

const MIB: usize = 1 << 20;

#[test]
fn bytes_come_back_after_a_restart() {
    let folder = Folder::new();
    let content = bytes(1, 0, 5 * GRANULE + 7);
    {
        let store = folder.open();
        let cached = store.cached(b"v", content.len() as u64).unwrap();
        cached.fill(GRANULE_BYTES, &content[GRANULE..3 * GRANULE]).unwrap();
        cached.fill(5 * GRANULE_BYTES, &content[5 * GRANULE..]).unwrap();
        assert!(!cached.is_complete());
    }
    let store = folder.open();
    let cached = store.cached(b"v", content.len() as u64).unwrap();
    assert_eq!(cached.missing(range(0, content.len())), Some(range(0, GRANULE)));
    assert_eq!(
        cached.missing(range(GRANULE, content.len())),
        Some(range(3 * GRANULE, 5 * GRANULE))
    );
    assert_eq!(read(&cached, GRANULE + 5, 3 * GRANULE), content[GRANULE + 5..3 * GRANULE]);
    assert!(!cached.read(0, &mut [0; 10]).unwrap());
    fill(&cached, &content, range(0, content.len()));
    assert!(cached.is_complete());
    assert_eq!(read(&cached, 0, content.len()), content);
    assert!(cached.passthrough().is_some());
}

#[test]
fn a_state_folder_that_was_removed_is_not_begun_anew() {
    let folder = Folder::new();
    let dir = folder.path().join("state");
    let store = common::open_at(
        dir.clone(),
        CacheLimit::default(),
        "boot 1",
        &folder.faults,
        &folder.metrics,
    );
    std::fs::remove_dir_all(&dir).unwrap();
    let cached = store.cached(b"v", 10);
    assert!(cached.and_then(|cached| cached.fill(0, &[1; 10])).is_err());
    drop(store);
    assert!(!dir.exists());
}

#[test]
fn there_is_one_value_for_each_version() {
    let folder = Folder::new();
    let store = folder.open();
    let (a, b) = (store.cached(b"v", 10).unwrap(), store.cached(b"v", 10).unwrap());
    assert!(Arc::ptr_eq(&a, &b));
    assert!(!Arc::ptr_eq(&a, &store.cached(b"w", 10).unwrap()));
    assert!(!Arc::ptr_eq(&a, &store.cached(b"v", 11).unwrap()));
}

#[test]
fn an_empty_version_is_complete() {
    let folder = Folder::new();
    let cached = folder.open().cached(b"v", 0).unwrap();
    assert!(cached.is_complete());
    assert!(cached.passthrough().is_some());
    assert!(cached.read(0, &mut []).unwrap());
}

#[test]
fn everything_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let dir = folder.path().join("state");
    let store = common::open_at(
        dir.clone(),
        CacheLimit::default(),
        "boot",
        &folder.faults,
        &folder.metrics,
    );
    complete(&store, b"v", b"secret");
    let mut todo = vec![dir];
    while let Some(path) = todo.pop() {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let want = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, want, "{}", path.display());
        if path.is_dir() {
            todo.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

#[test]
fn a_file_larger_than_the_cache_is_read_right() {
    let folder = Folder::new();
    let store = folder.open_with(CacheLimit::Bytes(32 * MIB as u64), "boot");
    let size = 200 * MIB;
    let cached = store.cached(b"v", size as u64).unwrap();
    for start in (0..size).step_by(MIB) {
        let part = range(start, start + MIB);
        if cached.missing(part).is_some() {
            fill_part(&cached, part);
        }
        assert_eq!(read(&cached, start, start + MIB), bytes(3, start, MIB));
        assert!(store.usage().unwrap().cached_bytes <= 32 * MIB as u64);
    }
    // What was dropped is known to be missing, not read as zeros.
    assert!(cached.missing(range(0, MIB)).is_some());
    assert!(!cached.read(0, &mut [0; 4096]).unwrap());
    assert_eq!(read(&cached, size - MIB, size), bytes(3, size - MIB, MIB));
    assert!(150 * MIB as u64 <= folder.metrics.value(Counter::EvictedBytes));
    // The books agree with the disk.
    let used = disk_bytes(&folder);
    assert!(used <= 33 * MIB as u64, "{used}");
}

fn fill_part(cached: &quayfs_store::Cached, part: base::ByteRange) {
    while let Some(missing) = cached.missing(part) {
        let content = bytes(3, missing.start() as usize, missing.len() as usize);
        cached.fill(missing.start(), &content).unwrap();
    }
}

fn disk_bytes(folder: &Folder) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for shard in std::fs::read_dir(folder.path().join("objects")).unwrap() {
        for file in std::fs::read_dir(shard.unwrap().path()).unwrap() {
            sum += file.unwrap().metadata().unwrap().blocks() * 512;
        }
    }
    sum
}

#[test]
fn files_in_use_are_never_dropped() {
    let folder = Folder::new();
    let store = folder.open_with(CacheLimit::Bytes(4 * MIB as u64), "boot");
    let content = bytes(1, 0, MIB);
    let held = complete(&store, b"held", &content);
    let lent = complete(&store, b"lent", &content).passthrough().unwrap();
    for n in 0..20_u8 {
        let identity = [b'f', n];
        complete(&store, &identity, &content);
        assert!(store.usage().unwrap().cached_bytes <= 4 * MIB as u64);
    }
    assert!(held.is_complete());
    assert_eq!(read(&held, 0, MIB), content);
    assert!(store.cached(b"lent", MIB as u64).unwrap().is_complete());
    drop(lent);
    // The first of the others are gone, the last one is still here.
    assert!(store.cached(&[b'f', 0], MIB as u64).unwrap().missing(range(0, MIB)).is_some());
    assert!(store.cached(&[b'f', 19], MIB as u64).unwrap().is_complete());
    assert!(disk_bytes(&folder) <= 4 * MIB as u64 + 65536);
}

#[test]
fn younger_files_that_nobody_uses_go_where_many_older_ones_are_open() {
    const BLOCK: usize = 4096;
    let folder = Folder::new();
    let clock = Arc::new(ManualClock::default());
    let store = folder.open_by(&clock, CacheLimit::Bytes(360 * BLOCK as u64));
    let open = |kind: u8, number: u32| {
        let identity = [&[kind][..], &number.to_le_bytes()].concat();
        complete(&store, &identity, &bytes(kind, 0, BLOCK))
    };
    let mut held: Vec<_> = (0..260).map(|number| open(b'h', number)).collect();
    (0..100).for_each(|number| drop(open(b'c', number)));
    clock.advance(Duration::from_mins(1));
    store.checkpoint().unwrap();
    assert_eq!(store.usage().unwrap().cached_bytes, 360 * BLOCK as u64);
    held.extend((0..100).map(|number| open(b'n', number)));
    assert!(held.iter().all(|cached| cached.is_complete()));
    assert_eq!(disk_bytes(&folder), 360 * BLOCK as u64);
}

#[test]
fn younger_files_go_where_many_older_ones_are_open_in_another_process() {
    const BLOCK: usize = 4096;
    let folder = Folder::new();
    let open = || folder.open_with(CacheLimit::Bytes(360 * BLOCK as u64), "boot 1");
    let (here, there) = (open(), open());
    let open = |store: &Store, kind: u8, number: u32| {
        let identity = [&[kind][..], &number.to_le_bytes()].concat();
        complete(store, &identity, &bytes(kind, 0, BLOCK))
    };
    let _held: Vec<_> = (0..260).map(|number| open(&there, b'h', number)).collect();
    there.checkpoint().unwrap();
    (0..50).for_each(|number| drop(open(&here, b'c', number)));
    let held: Vec<_> = (0..95).map(|number| open(&here, b'n', number)).collect();
    assert!(held.iter().all(|cached| cached.is_complete()));
    assert!(disk_bytes(&folder) <= 360 * BLOCK as u64);
}

#[test]
fn younger_files_go_where_another_process_has_an_older_incomplete_one_open_too() {
    const STRIPE: u64 = 64 * GRANULE_BYTES;
    let folder = Folder::new();
    let open = || folder.open_with(CacheLimit::Bytes(8 * GRANULE_BYTES), "boot 1");
    let (here, there) = (open(), open());
    let content = bytes(1, 0, GRANULE);
    let theirs = there.cached(b"large", 8 * STRIPE).unwrap();
    (0..4).for_each(|stripe| theirs.fill(stripe * STRIPE, &content).unwrap());
    there.checkpoint().unwrap();
    let ours = here.cached(b"large", 8 * STRIPE).unwrap();
    for number in 0..12_u8 {
        assert!(complete(&here, &[number], &content).is_complete());
    }
    for stripe in 0..4 {
        let start = usize::try_from(stripe * STRIPE).unwrap();
        assert!(
            [&ours, &theirs].iter().all(|large| read(large, start, start + GRANULE) == content)
        );
    }
    assert!(disk_bytes(&folder) <= 8 * GRANULE_BYTES);
}

#[test]
fn a_full_cache_of_files_in_use_says_so_and_recovers() {
    let folder = Folder::new();
    let store = folder.open_with(CacheLimit::Bytes(2 * MIB as u64), "boot");
    let content = bytes(1, 0, MIB);
    let a = complete(&store, b"a", &content);
    let _b = complete(&store, b"b", &content);
    let c = store.cached(b"c", MIB as u64).unwrap();
    assert_eq!(kind(c.fill(0, &content)), ErrorKind::Full);
    assert!(!c.read(0, &mut [0; 10]).unwrap());
    drop(a);
    c.fill(0, &content).unwrap();
    assert_eq!(read(&c, 0, MIB), content);
    assert!(store.cached(b"a", MIB as u64).unwrap().missing(range(0, MIB)).is_some());
}

#[test]
fn dirty_bytes_are_never_dropped() {
    let folder = Folder::new();
    let store = folder.open_with(CacheLimit::Bytes(2 * MIB as u64), "boot");
    let staged = store.stage(b"note", quayfs_store::Base::Empty).unwrap();
    let content = bytes(9, 0, 3 * MIB);
    staged.write(0, &content).unwrap();
    for n in 0..10_u8 {
        complete(&store, &[n], &bytes(n, 0, MIB));
    }
    assert_eq!(common::content(&staged, &[]), content);
}

#[test]
fn a_scan_leaves_what_is_read_again_and_again() {
    let folder = Folder::new();
    let clock = Arc::new(ManualClock::default());
    let store = folder.open_by(&clock, CacheLimit::Bytes(8 * MIB as u64));
    let content = bytes(1, 0, MIB);
    let read_once = |identity: &[u8]| {
        read(&complete(&store, identity, &content), 0, 10);
        clock.advance(Duration::from_millis(1));
    };
    for _ in 0..3 {
        read_once(b"hot");
    }
    for n in 0..30_u8 {
        read_once(&[n]);
    }
    assert!(store.cached(b"hot", MIB as u64).unwrap().is_complete());
}

#[test]
fn a_full_disk_is_told_and_leaves_the_cache_right() {
    let folder = Folder::new();
    let store = folder.open();
    let content = bytes(1, 0, 4 * GRANULE);
    let cached = store.cached(b"v", content.len() as u64).unwrap();
    cached.fill(0, &content[..GRANULE]).unwrap();
    folder.faults.full_after(GRANULE_BYTES + 100);
    assert_eq!(kind(cached.fill(GRANULE_BYTES, &content[GRANULE..])), ErrorKind::Full);
    folder.faults.heal();
    assert_eq!(read(&cached, 0, GRANULE), content[..GRANULE]);
    assert_eq!(cached.missing(range(0, 4 * GRANULE)), Some(range(GRANULE, 4 * GRANULE)));
    assert_eq!(store.usage().unwrap().cached_bytes, GRANULE_BYTES);
    fill(&cached, &content, range(0, content.len()));
    assert_eq!(read(&cached, 0, content.len()), content);
}

#[test]
fn after_a_reboot_bytes_are_verified_before_use() {
    let folder = Folder::new();
    let content = bytes(1, 0, 4 * GRANULE + 100);
    drop(complete(&folder.open(), b"v", &content));
    // The disk lost the second granule when the power failed.
    damage(&folder, GRANULE_BYTES + 17);

    let store = folder.open_with(CacheLimit::default(), "boot 2");
    let cached = store.cached(b"v", content.len() as u64).unwrap();
    assert!(!cached.is_complete());
    assert_eq!(read(&cached, 10, GRANULE), content[10..GRANULE]);
    assert!(!cached.read(GRANULE_BYTES, &mut [0; 100]).unwrap());
    assert!(cached.passthrough().is_none());
    assert_eq!(cached.missing(range(0, content.len())), Some(range(GRANULE, 2 * GRANULE)));
    cached.fill(GRANULE_BYTES, &content[GRANULE..2 * GRANULE]).unwrap();
    assert!(cached.passthrough().is_some());
    assert_eq!(read(&cached, 0, content.len()), content);
    drop((cached, store));

    // Verified once, it is believed for the rest of this boot.
    let store = folder.open_with(CacheLimit::default(), "boot 2");
    assert!(store.cached(b"v", content.len() as u64).unwrap().is_complete());
}

#[test]
fn torn_bytes_are_fetched_again_in_place_while_another_process_has_the_file() {
    let folder = Folder::new();
    let content = bytes(1, 0, 3 * GRANULE);
    drop(complete(&folder.open(), b"v", &content));
    damage(&folder, GRANULE_BYTES + 17);

    let open = || folder.open_with(CacheLimit::default(), "boot 2");
    let (here, there) = (open(), open());
    let one = here.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    let other = there.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    let all = range(0, 3 * GRANULE);
    other.verify(all).unwrap();
    assert_eq!(other.missing(all), Some(range(GRANULE, 2 * GRANULE)));
    // The other may be about to find the same, or have the right bytes in their place already.
    assert_eq!(on_disk(&folder), 3 * GRANULE_BYTES, "no hole in what others use");
    fill(&other, &content, all);
    there.record(&other).unwrap();
    one.verify(all).unwrap();
    assert_eq!(read(&one, 0, 3 * GRANULE), content);
    assert_eq!(read(&other, 0, 3 * GRANULE), content);
}

#[test]
fn in_the_same_boot_bytes_are_believed() {
    let folder = Folder::new();
    let content = bytes(1, 0, GRANULE);
    drop(complete(&folder.open(), b"v", &content));
    damage(&folder, 3);
    assert!(folder.open().cached(b"v", GRANULE_BYTES).unwrap().is_complete());
}

/// Changes a byte of the only backing file.
fn damage(folder: &Folder, offset: u64) {
    let shard = std::fs::read_dir(folder.path().join("objects")).unwrap().next().unwrap();
    let path = std::fs::read_dir(shard.unwrap().path()).unwrap().next().unwrap().unwrap().path();
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(b"\x5a").unwrap();
}

#[test]
fn one_process_fetches_a_granule_at_a_time_and_the_next_learns_what_came() {
    let folder = Folder::new();
    let content = bytes(3, 0, 4 * GRANULE);
    let (here, there) = (folder.open(), folder.open());
    let (one, other) =
        (here.cached(b"v", 4 * GRANULE_BYTES), there.cached(b"v", 4 * GRANULE_BYTES));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(here.has_company() && there.has_company());
    let two = range(0, 2 * GRANULE);
    let turn = here.fetch_turn(&one, two).unwrap().unwrap();
    assert!(there.fetch_turn(&other, range(GRANULE, 3 * GRANULE)).unwrap().is_none());
    let behind = there.fetch_turn(&other, range(2 * GRANULE, 3 * GRANULE)).unwrap();
    assert!(behind.is_some(), "nobody is at these");
    fill(&one, &content, two);
    here.record(&one).unwrap();
    drop((turn, behind));

    let _turn = there.fetch_turn(&other, range(GRANULE, 3 * GRANULE)).unwrap().unwrap();
    assert_eq!(other.missing(two), Some(two));
    there.learn(&other, range(0, 3 * GRANULE)).unwrap();
    assert_eq!(other.missing(range(0, 4 * GRANULE)), Some(range(2 * GRANULE, 4 * GRANULE)));
    assert_eq!(read(&other, 0, 2 * GRANULE), content[..2 * GRANULE]);
    assert_eq!(there.usage().unwrap().cached_bytes, 2 * GRANULE_BYTES, "it is counted");
    // What it was told is nothing that it has to tell.
    fill(&other, &content, range(2 * GRANULE, 3 * GRANULE));
    there.record(&other).unwrap();
    here.learn(&one, range(0, 4 * GRANULE)).unwrap();
    assert_eq!(one.missing(range(0, 4 * GRANULE)), Some(range(3 * GRANULE, 4 * GRANULE)));
    drop(there);
    drop(other);
}

#[test]
fn the_turn_of_a_process_that_is_gone_is_free() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), folder.open());
    let one = here.cached(b"v", GRANULE_BYTES).unwrap();
    let other = there.cached(b"v", GRANULE_BYTES).unwrap();
    let turn = there.fetch_turn(&other, range(0, GRANULE)).unwrap().unwrap();
    assert!(here.fetch_turn(&one, range(0, GRANULE)).unwrap().is_none());
    drop((turn, other, there));
    assert!(here.fetch_turn(&one, range(0, GRANULE)).unwrap().is_some());
    assert!(!here.has_company());
}

#[test]
fn wrong_bytes_are_forgotten_while_another_process_has_the_file() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), folder.open());
    let content = bytes(1, 0, 3 * GRANULE);
    let one = here.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    let other = there.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    one.fill(0, &bytes(2, 0, 2 * GRANULE)).unwrap();
    here.checkpoint().unwrap();
    assert_eq!(here.forget(&one).unwrap(), 2 * GRANULE_BYTES);

    let all = range(0, 3 * GRANULE);
    assert_eq!(one.missing(all), Some(all));
    assert!(!one.read(0, &mut [0; 10]).unwrap());
    here.checkpoint().unwrap();
    let third = folder.open();
    let late = third.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    third.learn(&late, all).unwrap();
    there.learn(&other, all).unwrap();
    for cached in [&late, &other] {
        assert_eq!(cached.missing(all), Some(all));
    }
    fill(&one, &content, all);
    here.record(&one).unwrap();
    third.learn(&late, all).unwrap();
    assert_eq!(read(&late, 0, 3 * GRANULE), content);
    there.learn(&other, all).unwrap();
    assert_eq!(other.missing(all), Some(all), "it has the old file");
    fill(&other, &content, all);
    assert_eq!(read(&other, 0, 3 * GRANULE), content);
}

#[test]
fn wrong_bytes_that_another_process_has_learned_of_are_not_recorded_again() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), folder.open());
    let content = bytes(1, 0, 3 * GRANULE);
    let (all, end) = (range(0, 3 * GRANULE), range(2 * GRANULE, 3 * GRANULE));
    let one = here.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    one.fill(0, &bytes(2, 0, 2 * GRANULE)).unwrap();
    here.record(&one).unwrap();
    let other = there.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    assert_eq!(other.missing(all), Some(end));
    here.forget(&one).unwrap();
    fill(&other, &content, end);
    there.record(&other).unwrap();

    let third = folder.open();
    let late = third.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    here.learn(&one, all).unwrap();
    for cached in [&one, &late] {
        assert_eq!(cached.missing(all), Some(all));
    }
    fill(&one, &content, all);
    here.record(&one).unwrap();
    drop((other, there));
    third.learn(&late, all).unwrap();
    for cached in [&one, &late] {
        assert_eq!(read(cached, 0, 3 * GRANULE), content);
    }
    assert_eq!(disk_bytes(&folder), 3 * GRANULE_BYTES);
}

#[test]
fn a_file_that_another_process_has_put_in_the_place_of_ours_does_not_go_with_ours() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), folder.open());
    let content = bytes(1, 0, 3 * GRANULE);
    let (all, start) = (range(0, 3 * GRANULE), range(0, GRANULE));
    let ours = here.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    fill(&ours, &content, start);
    let theirs = there.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    there.forget(&theirs).unwrap();
    fill(&theirs, &content, all);
    there.record(&theirs).unwrap();
    // Granules of our file are not theirs.
    here.let_go(&ours, GRANULE_BYTES).unwrap();
    fill(&ours, &content, start);
    drop(ours);

    assert_eq!(here.drop_version(b"v", 3 * GRANULE_BYTES).unwrap(), Dropped::InUse);
    let third = folder.open();
    let late = third.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    assert_eq!(read(&late, 0, 3 * GRANULE), content);
    drop((late, third, theirs, there));
    let found = here.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    assert_eq!(read(&found, 0, 3 * GRANULE), content);
}

#[test]
fn a_file_that_another_process_has_put_in_the_place_of_ours_goes_if_nobody_has_it() {
    let folder = Folder::new();
    let (here, there) = (folder.open(), folder.open());
    let content = bytes(1, 0, 3 * GRANULE);
    let ours = here.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    fill(&ours, &content, range(0, GRANULE));
    let theirs = there.cached(b"v", 3 * GRANULE_BYTES).unwrap();
    there.forget(&theirs).unwrap();
    fill(&theirs, &content, range(0, 3 * GRANULE));
    there.record(&theirs).unwrap();
    drop((ours, theirs, there));
    let freed = here.drop_version(b"v", 3 * GRANULE_BYTES).unwrap();
    assert_eq!(freed, Dropped::Freed(3 * GRANULE_BYTES));
    assert_eq!(disk_bytes(&folder), 0);
}

#[test]
fn two_processes_share_what_they_fetched() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let content = bytes(1, 0, 4 * GRANULE);
    let a = one.cached(b"v", content.len() as u64).unwrap();
    let b = two.cached(b"v", content.len() as u64).unwrap();
    a.fill(0, &content[..2 * GRANULE]).unwrap();
    b.fill(2 * GRANULE_BYTES, &content[2 * GRANULE..]).unwrap();
    one.checkpoint().unwrap();
    two.checkpoint().unwrap();
    assert_eq!(two.usage().unwrap().cached_bytes, 4 * GRANULE_BYTES);
    let three = folder.open();
    let c = three.cached(b"v", content.len() as u64).unwrap();
    assert!(c.is_complete());
    assert_eq!(read(&c, 0, content.len()), content);
}

#[test]
fn nobody_drops_what_another_process_uses() {
    let folder = Folder::new();
    let small = CacheLimit::Bytes(2 * MIB as u64);
    let (one, two) = (folder.open(), folder.open_with(small, "boot 1"));
    let content = bytes(1, 0, MIB);
    let held = complete(&one, b"held", &content);
    one.checkpoint().unwrap();
    two.checkpoint().unwrap();
    for n in 0..8_u8 {
        complete(&two, &[n], &content);
    }
    assert_eq!(read(&held, 0, MIB), content);
    assert!(folder.open().cached(b"held", MIB as u64).unwrap().is_complete());
}

#[test]
fn what_a_process_does_not_use_any_more_can_be_dropped_by_another() {
    let folder = Folder::new();
    let clock = Arc::new(base::ManualClock::default());
    let world =
        quayfs_store::World { faults: Arc::clone(&folder.faults), boot_id: "boot 1".to_owned() };
    let options = quayfs_store::Options { dir: folder.path(), cache: CacheLimit::default() };
    let metrics = Arc::clone(&folder.metrics);
    let one = quayfs_store::Store::open_in(&world, options, clock.clone(), metrics).unwrap();
    let content = bytes(1, 0, MIB);
    drop(complete(&one, b"old", &content));
    clock.advance(std::time::Duration::from_mins(1));
    one.checkpoint().unwrap();

    let two = folder.open_with(CacheLimit::Bytes(2 * MIB as u64), "boot 1");
    for n in 0..4_u8 {
        complete(&two, &[n], &content);
    }
    assert!(one.cached(b"old", MIB as u64).unwrap().missing(range(0, MIB)).is_some());
}

/// What cached versions take of the disk.
fn on_disk(folder: &Folder) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let objects = folder.path().join("objects");
    let of = |folder: std::fs::DirEntry| std::fs::read_dir(folder.path()).unwrap();
    let files = std::fs::read_dir(objects).unwrap().flat_map(|folder| of(folder.unwrap()));
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn processes_that_share_a_folder_keep_one_limit_together() {
    let folder = Folder::new();
    let limit = 8 * MIB as u64;
    let open = || folder.open_with(CacheLimit::Bytes(limit), "boot 1");
    let stores = [open(), open(), open()];
    let content = bytes(1, 0, MIB);
    for n in 0..18_u8 {
        let store = &stores[usize::from(n) % stores.len()];
        let cached = store.cached(&[n], MIB as u64).unwrap();
        match cached.fill(0, &content) {
            Ok(()) => {}
            // The others have not let go of what they do not use yet.
            Err(error) => assert_eq!(error.kind, ErrorKind::Full),
        }
        drop(cached);
        assert!(on_disk(&folder) <= limit, "after {n}");
    }
    // Asked for room, they do.
    for store in &stores {
        store.settle().unwrap();
    }
    let [one, ..] = &stores;
    for n in 100..106_u8 {
        assert!(complete(one, &[n], &content).is_complete());
        assert!(on_disk(&folder) <= limit, "after {n}");
    }
}

#[test]
fn what_is_not_recorded_counts_while_more_of_another_file_is_recorded_again_and_again() {
    let folder = Folder::new();
    let limit = 32 * GRANULE_BYTES;
    let store = folder.open_with(CacheLimit::Bytes(limit), "boot 1");
    let content = bytes(1, 0, 64 * GRANULE);
    let [one, other] = [b"one", b"two"].map(|name| store.cached(name, 64 * GRANULE_BYTES).unwrap());
    fill(&one, &content, range(0, 16 * GRANULE));
    let mut granules = 0;
    let full = loop {
        let at = granules * GRANULE;
        if let Err(error) = other.fill(at as u64, &content[at..at + GRANULE]) {
            break error;
        }
        granules += 1;
        store.record(&other).unwrap();
        assert!(on_disk(&folder) <= limit, "after {granules}");
    };
    assert_eq!(full.kind, ErrorKind::Full);
    assert_eq!(granules, 16);
}

#[test]
fn a_folder_that_is_over_its_limit_is_brought_below_it() {
    let folder = Folder::new();
    let content = bytes(1, 0, MIB);
    let store = folder.open();
    for n in 0..8_u8 {
        drop(complete(&store, &[n], &content));
    }
    drop(store);
    let store = folder.open_with(CacheLimit::Bytes(3 * MIB as u64), "boot 1");
    store.checkpoint().unwrap();
    assert_eq!(store.usage().unwrap().cached_bytes, 3 * MIB as u64);
    assert_eq!(on_disk(&folder), 3 * MIB as u64);
}

#[test]
fn a_share_of_the_disk_that_is_to_stay_free_stays_free() {
    let folder = Folder::new();
    let content = bytes(1, 0, MIB);
    drop(complete(&folder.open(), b"old", &content));
    // Nothing is left for what can be had again.
    let store = folder.open_with(CacheLimit::KeepFree { percent: 100 }, "boot 1");
    let cached = store.cached(b"v", MIB as u64).unwrap();
    assert_eq!(kind(cached.fill(0, &content)), ErrorKind::Full);
    assert!(store.cached(b"old", MIB as u64).unwrap().missing(range(0, MIB)).is_some());
    // What cannot be had again is taken all the same.
    let staged = store.stage(b"note", quayfs_store::Base::Empty).unwrap();
    staged.write(0, &content).unwrap();
    drop((cached, staged, store));
    let store = folder.open_with(CacheLimit::KeepFree { percent: 0 }, "boot 1");
    assert!(complete(&store, b"v", &content).is_complete());
}

#[test]
fn files_without_a_record_are_swept_and_records_without_a_file_too() {
    let folder = Folder::new();
    let content = bytes(1, 0, MIB);
    drop(complete(&folder.open(), b"v", &content));
    let objects = folder.path().join("objects");
    std::fs::create_dir_all(objects.join("ab")).unwrap();
    std::fs::write(objects.join("ab").join("cd"), b"unknown").unwrap();
    drop(folder.open());
    assert_eq!(folder.files("objects").len(), 1);

    std::fs::remove_dir_all(&objects).unwrap();
    let store = folder.open();
    assert_eq!(store.usage().unwrap().cached_bytes, 0);
    let cached = store.cached(b"v", MIB as u64).unwrap();
    assert_eq!(cached.missing(range(0, MIB)), Some(range(0, MIB)));
}

/// The backing file of the only version.
fn the_object(folder: &Folder) -> std::path::PathBuf {
    let folders = std::fs::read_dir(folder.path().join("objects")).unwrap().flatten();
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
    files.next().unwrap().path()
}

/// Puts something that is no file at `place`, each `which` another thing.
fn put_stranger(which: usize, place: &std::path::Path, file: &std::path::Path) {
    match which {
        0 => {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("inside"), b"theirs").unwrap();
        }
        1 => {
            let made = std::process::Command::new("mkfifo").arg(place).status();
            assert!(made.unwrap().success());
        }
        2 => std::os::unix::fs::symlink(file, place).unwrap(),
        _ => std::os::unix::fs::symlink("/nowhere/at/all", place).unwrap(),
    }
}

#[test]
fn what_others_put_at_the_place_of_a_version_makes_room_for_it_and_is_kept() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), b"theirs").unwrap();
    for which in 0..4 {
        let folder = Folder::new();
        let content = bytes(1, 0, 3 * GRANULE);
        drop(complete(&folder.open(), b"v", &content));
        let place = the_object(&folder);
        std::fs::remove_file(&place).unwrap();
        put_stranger(which, &place, outside.path());

        let store = folder.open();
        let cached = store.cached(b"v", content.len() as u64).unwrap();
        assert_eq!(cached.missing(range(0, content.len())), Some(range(0, content.len())));
        fill(&cached, &content, range(0, content.len()));
        assert_eq!(read(&cached, 0, content.len()), content);
        drop((cached, store));
        assert!(folder.open().cached(b"v", content.len() as u64).unwrap().is_complete());
        let kept = quayfs_store::kept(&folder.path()).unwrap();
        assert_eq!(kept.len(), 1, "{which}: {kept:?}");
        if which == 0 {
            assert_eq!(std::fs::read(kept[0].path.join("inside")).unwrap(), b"theirs");
        }
        assert_eq!(std::fs::read(outside.path()).unwrap(), b"theirs");
    }
}

#[test]
fn what_others_put_at_the_place_of_a_version_stays_when_that_is_dropped() {
    let folder = Folder::new();
    let content = bytes(1, 0, MIB);
    drop(complete(&folder.open(), b"v", &content));
    let store = folder.open();
    let place = the_object(&folder);
    std::fs::remove_file(&place).unwrap();
    put_stranger(0, &place, &place);
    store.drop_version(b"v", MIB as u64).unwrap();
    assert_eq!(std::fs::read(place.join("inside")).unwrap(), b"theirs");
    let cached = complete(&store, b"v", &content);
    assert_eq!(read(&cached, 0, MIB), content);
}

#[test]
fn what_another_process_fetched_a_moment_ago_is_in_use() {
    let folder = Folder::new();
    let content = bytes(1, 0, MIB);
    let (here, there) = (folder.open(), folder.open());
    let drop_it = || here.drop_version(b"v", MIB as u64).unwrap();
    assert_eq!(drop_it(), Dropped::Freed(0));
    // Nothing of it is recorded yet.
    drop(complete(&there, b"v", &content));
    assert_eq!(drop_it(), Dropped::InUse);
    there.settle().unwrap();
    assert_eq!(drop_it(), Dropped::Freed(MIB as u64));
    assert_eq!(on_disk(&folder), 0);
}

#[test]
fn what_was_opened_and_not_read_is_no_flaw() {
    let folder = Folder::new();
    let store = folder.open();
    drop(store.cached(b"v", MIB as u64).unwrap());
    drop(store);
    assert!(the_object(&folder).is_file());
    assert_eq!(quayfs_store::check(&folder.path()).unwrap(), Vec::new());
}

#[test]
fn a_file_lost_while_others_are_at_work_is_fetched_again() {
    let folder = Folder::new();
    let _other = folder.open();
    let content = bytes(1, 0, MIB);
    drop(complete(&folder.open(), b"v", &content));
    std::fs::remove_dir_all(folder.path().join("objects")).unwrap();
    let cached = complete(&folder.open(), b"v", &content);
    assert_eq!(read(&cached, 0, MIB), content);
}

#[test]
fn readers_never_see_holes_while_others_fill_and_drop() {
    let folder = Folder::new();
    let store = folder.open_with(CacheLimit::Bytes(40 * MIB as u64), "boot");
    let size = 96 * MIB;
    let content = bytes(5, 0, size);
    std::thread::scope(|scope| {
        for seed in 0..4_usize {
            let (store, content) = (&store, &content);
            scope.spawn(move || {
                let cached = store.cached(b"v", size as u64).unwrap();
                let mut at = seed * 17;
                let mut buf = vec![0; 3 * GRANULE];
                for _ in 0..150 {
                    at = (at * 1_103_515_245 + 12345) % (size - buf.len());
                    if cached.read(at as u64, &mut buf).unwrap() {
                        assert_eq!(buf, content[at..at + buf.len()]);
                    } else if let Some(missing) = cached.missing(range(at, at + buf.len())) {
                        let part = missing.start() as usize..missing.end() as usize;
                        match cached.fill(missing.start(), &content[part]) {
                            Ok(()) => {}
                            Err(error) => assert_eq!(error.kind, ErrorKind::Full),
                        }
                    }
                }
            });
        }
    });
    assert!(store.usage().unwrap().cached_bytes <= 40 * MIB as u64);
}

#[test]
fn several_processes_share_a_small_folder_and_never_read_wrong_bytes() {
    let folder = Folder::new();
    let size = 3 * GRANULE;
    let contents: Vec<Vec<u8>> = (0..12).map(|seed| bytes(seed, 0, size)).collect();
    std::thread::scope(|scope| {
        for seed in 0..4_usize {
            let (folder, contents) = (&folder, &contents);
            scope.spawn(move || {
                let limit = CacheLimit::Bytes(5 * size as u64);
                let store = folder.open_with(limit, "boot 1");
                let mut at = seed + 1;
                for round in 0..300 {
                    at = (at * 1_103_515_245 + 12345) % (1 << 31);
                    let which = (at >> 8) % contents.len();
                    one_use(&store, round, which as u8, &contents[which]);
                }
            });
        }
    });
    let store = folder.open();
    for (which, content) in contents.iter().enumerate() {
        let cached = complete(&store, &[which as u8], content);
        assert_eq!(read(&cached, 0, size), *content);
    }
}

/// Reads a version whole; now and then takes it into staging and gives it back.
fn one_use(store: &quayfs_store::Store, round: usize, which: u8, content: &[u8]) {
    let cached = match store.cached(&[which], content.len() as u64) {
        Ok(cached) => cached,
        // On a machine that is busy, others may be quicker each time: it is read past the cache then.
        Err(error) => {
            assert!(format!("{error:?}").contains("others keep removing it"), "{error:?}");
            return;
        }
    };
    let mut buf = vec![0; content.len()];
    for _ in 0..4 {
        if cached.read(0, &mut buf).unwrap() {
            assert_eq!(buf, content);
            break;
        }
        if let Some(missing) = cached.missing(range(0, content.len())) {
            let part = missing.start() as usize..missing.end() as usize;
            match cached.fill(missing.start(), &content[part]) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind, ErrorKind::Full),
            }
        }
    }
    if round.is_multiple_of(7) {
        match store.stage(b"", quayfs_store::Base::Take(cached)) {
            Ok(staged) => {
                assert_eq!(common::content(&staged, &[]), content);
                store.restore(&staged).unwrap().expect("nobody else has it");
            }
            Err(error) => {
                let is_expected = matches!(error.kind, ErrorKind::Held | ErrorKind::Missing);
                assert!(is_expected, "{error}");
            }
        }
    }
    if round.is_multiple_of(11) {
        store.checkpoint().unwrap();
    }
}

#[test]
fn what_is_to_be_at_hand_stays_open_longer_than_what_was_read_before() {
    let folder = Folder::new();
    let store = folder.open();
    let identity = |kind: u8, number: u32| [&[kind][..], &number.to_le_bytes()].concat();
    let new = |kind: u8, number: u32| {
        let cached = complete(&store, &identity(kind, number), b"hello");
        read(&cached, 0, 5);
        Arc::downgrade(&cached)
    };
    let open_of =
        |all: &[Weak<Cached>]| all.iter().filter(|cached| cached.strong_count() != 0).count();
    // Read long ago, and closed by now.
    let wanted: Vec<_> = (0..50).map(|number| new(b'b', number)).collect();
    let mut number = 0;
    while open_of(&wanted) != 0 {
        new(b'c', number);
        number += 1;
        assert!(number < 1000, "none is ever closed");
    }
    let read_before: Vec<_> = (0..50).map(|number| new(b'a', number)).collect();
    let at_hand: Vec<_> = (0..50)
        .map(|number| Arc::downgrade(&store.cached(&identity(b'b', number), 5).unwrap()))
        .collect();
    // As long as too many are open, those go that nobody has wanted for long.
    while open_of(&read_before) != 0 {
        assert_eq!(open_of(&at_hand), at_hand.len());
        new(b'c', number);
        number += 1;
        assert!(number < 2000, "none is ever closed");
    }
}

#[test]
fn whoever_opens_a_version_at_the_same_time_has_the_same_one() {
    let folder = Folder::new();
    let store = folder.open();
    for version in 0..200_u32 {
        let identity = version.to_le_bytes();
        let opened: Vec<Arc<Cached>> = std::thread::scope(|scope| {
            let open = || scope.spawn(|| store.cached(&identity, 5).unwrap());
            let threads = [open(), open(), open(), open()];
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(opened.iter().all(|one| Arc::ptr_eq(one, &opened[0])), "{version}");
    }
}

#[test]
fn a_version_is_opened_adopted_and_dropped_at_the_same_time() {
    let folder = Folder::new();
    let store = folder.open();
    let rounds = 300;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let cached = store.cached(b"v", 5).unwrap();
                    if cached.is_complete() {
                        assert_eq!(read(&cached, 0, 5), b"hello");
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                let staged = store.stage(b"note", Base::Empty).unwrap();
                write(&staged, &[], 0, b"hello");
                let sealed = staged.seal().unwrap();
                store.adopt(&staged, sealed, b"v").unwrap();
            }
        });
        scope.spawn(|| {
            for _ in 0..rounds {
                store.drop_version(b"v", 5).unwrap();
            }
        });
    });
}
