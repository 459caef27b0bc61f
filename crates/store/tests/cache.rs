//! What the cache promises: right bytes or none, and room.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Counter, ManualClock};
use common::{
    Folder, GRANULE, MIB, bytes, complete, damage, fill, kind, on_disk, range, read, write,
};
use quayfs_store::{Base, CacheLimit, Cached, ErrorKind, GRANULE_BYTES};

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
    let used = on_disk(&folder);
    assert!(used <= 33 * MIB as u64, "{used}");
}

fn fill_part(cached: &Cached, part: base::ByteRange) {
    while let Some(missing) = cached.missing(part) {
        let content = bytes(3, missing.start() as usize, missing.len() as usize);
        cached.fill(missing.start(), &content).unwrap();
    }
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
    assert!(on_disk(&folder) <= 4 * MIB as u64 + 65536);
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
    assert_eq!(on_disk(&folder), 360 * BLOCK as u64);
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
fn wrong_bytes_whose_version_gets_no_other_file_leave_nothing_in_staging() {
    let folder = Folder::new();
    let store = folder.open();
    let all = range(0, 2 * GRANULE);
    let cached = store.cached(b"v", 2 * GRANULE_BYTES).unwrap();
    cached.fill(0, &bytes(2, 0, 2 * GRANULE)).unwrap();
    folder.faults.fail_renames();
    store.forget(&cached).unwrap_err();
    assert_eq!(folder.files("staged"), Vec::<String>::new());
    assert_eq!(cached.missing(all), Some(all));
    folder.faults.heal();
    store.forget(&cached).unwrap();
    assert_eq!(folder.files("staged"), Vec::<String>::new());
    let content = bytes(1, 0, 2 * GRANULE);
    fill(&cached, &content, all);
    assert_eq!(read(&cached, 0, 2 * GRANULE), content);
}

#[test]
fn in_the_same_boot_bytes_are_believed() {
    let folder = Folder::new();
    let content = bytes(1, 0, GRANULE);
    drop(complete(&folder.open(), b"v", &content));
    damage(&folder, 3);
    assert!(folder.open().cached(b"v", GRANULE_BYTES).unwrap().is_complete());
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
fn what_was_opened_and_not_read_is_no_flaw() {
    let folder = Folder::new();
    let store = folder.open();
    drop(store.cached(b"v", MIB as u64).unwrap());
    drop(store);
    assert!(the_object(&folder).is_file());
    assert_eq!(quayfs_store::check(&folder.path()).unwrap(), Vec::new());
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
