//! What processes that share a state folder do to each other: nothing but good.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::sync::Arc;

use common::{Folder, GRANULE, MIB, bytes, complete, damage, fill, on_disk, range, read};
use quayfs_store::{CacheLimit, Dropped, ErrorKind, GRANULE_BYTES, Store};

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
    assert!(on_disk(&folder) <= 360 * BLOCK as u64);
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
    assert!(on_disk(&folder) <= 8 * GRANULE_BYTES);
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
    assert_eq!(on_disk(&folder), 3 * GRANULE_BYTES);
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
    assert_eq!(on_disk(&folder), 0);
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
    let one = Store::open_in(&world, options, clock.clone(), metrics).unwrap();
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
fn one_use(store: &Store, round: usize, which: u8, content: &[u8]) {
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
