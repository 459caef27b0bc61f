//! What survives the death of a process: it is killed at a known point, and the next one looks.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are small"
)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use base::Metrics;
use common::{Folder, GRANULE, bytes, complete, content, range, runs, sealed_content, write};
use quayfs_store::{
    Adopted, Base, CacheLimit, Faults, GRANULE_BYTES, Keeping, KeptOpened, OpId, OpKind,
    OrphanState, Outcome, Replayed, Rest, Staged, Store, WaitingKind, open_kept,
};

const BECAUSE: Keeping<'_> =
    Keeping { name: "name", reason: "because", rest: Rest::Base, origin: b"note" };

/// Where the child of a test finds its state folder.
const CHILD_FOLDER: &str = "QUAYFS_STORE_TEST_FOLDER";

/// Runs `life` in a child process, kills it at the end of it, and returns.
///
/// The child is the same test of the same program; it never returns from here.
fn killed(test: &str, folder: &Path, life: impl FnOnce(PathBuf)) {
    #[expect(clippy::disallowed_methods, reason = "the only way to tell a test that it is a child")]
    if let Some(dir) = std::env::var_os(CHILD_FOLDER) {
        life(dir.into());
        println!("\nready");
        std::io::stdout().flush().unwrap();
        // Until it is killed.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_ready = lines.map(Result::unwrap).any(|line| line == "ready");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_ready, "the child failed before it could be killed");
}

/// Whether this is the child: everything after its death is for the parent.
fn is_child() -> bool {
    #[expect(clippy::disallowed_methods, reason = "the only way to tell a test that it is a child")]
    std::env::var_os(CHILD_FOLDER).is_some()
}

fn open(dir: PathBuf) -> Store {
    let metrics = Arc::new(Metrics::new());
    common::open_at(dir, CacheLimit::Bytes(1 << 40), "boot 1", &Arc::new(Faults::new()), &metrics)
}

#[test]
fn what_was_recorded_and_what_was_sealed_survive() {
    let folder = Folder::new();
    killed("what_was_recorded_and_what_was_sealed_survive", &folder.path(), |dir| {
        let store = open(dir);
        let cached = complete(&store, b"v", &bytes(1, 0, 2 * GRANULE));
        store.checkpoint().unwrap();
        let sealed_file = store.stage(b"sealed", Base::Empty).unwrap();
        write(&sealed_file, &[], 0, &bytes(2, 0, GRANULE + 1));
        let sealed = sealed_file.seal().unwrap();
        let open_file = store.stage(b"open", Base::Empty).unwrap();
        write(&open_file, &[], 0, b"half written");
        let taken = complete(&store, b"w", b"taken, not written");
        let clean = store.stage(b"clean", Base::Take(taken)).unwrap();
        std::mem::forget((store, cached, sealed_file, sealed, open_file, clean));
    });
    if is_child() {
        return;
    }
    let store = folder.open();
    let cached = store.cached(b"v", 2 * GRANULE_BYTES).unwrap();
    assert!(cached.is_complete());
    let mut orphans = store.orphans().unwrap();
    orphans.sort_by(|a, b| a.note.cmp(&b.note));
    let [open_file, sealed_file] = orphans.as_slice() else { panic!("{orphans:?}") };
    assert_eq!((&open_file.note[..], open_file.state), (&b"open"[..], OrphanState::Open));
    assert_eq!(content(&open_file.staged, &[]), b"half written");
    assert_eq!((&sealed_file.note[..], sealed_file.state), (&b"sealed"[..], OrphanState::Sealed));
    assert!(sealed_file.staged.is_dirty());

    let keeping = Keeping { name: "dir/file", reason: "never closed", ..BECAUSE };
    let kept = store.to_recovery(&open_file.staged, keeping).unwrap();
    assert_eq!(std::fs::read(&kept).unwrap(), b"half written");
    assert!(folder.files("recovery").contains(&"dir_file.quayfs-note".to_owned()));
    let sealed = sealed_file.staged.seal().unwrap();
    assert_eq!(sealed.epoch(), 2);
    assert_eq!(sealed_content(&sealed), bytes(2, 0, GRANULE + 1));
    let adopted = store.adopt(&sealed_file.staged, sealed, b"x").unwrap();
    assert!(matches!(adopted, Adopted::Clean(_)));
    store.journal().settle().unwrap();
    assert_eq!(folder.files("staged"), Vec::<String>::new());
}

#[test]
fn what_was_adopted_and_not_recorded_yet_is_found_as_it_was_sealed() {
    let folder = Folder::new();
    killed(
        "what_was_adopted_and_not_recorded_yet_is_found_as_it_was_sealed",
        &folder.path(),
        |dir| {
            let store = open(dir);
            let staged = store.stage(b"note", Base::Empty).unwrap();
            write(&staged, &[], 0, b"bytes");
            let sealed = staged.seal().unwrap();
            let op = store.journal().append_later(OpKind::Names, b"said".to_vec()).unwrap();
            let adopted = store.adopt(&staged, sealed, b"v").unwrap();
            assert!(matches!(adopted, Adopted::Clean(_)));
            std::mem::forget((store, staged, adopted, op));
        },
    );
    if is_child() {
        return;
    }
    let store = folder.open();
    let orphans = store.orphans().unwrap();
    let [orphan] = orphans.as_slice() else { panic!("{orphans:?}") };
    assert_eq!(orphan.state, OrphanState::Sealed);
    assert_eq!(content(&orphan.staged, &[]), b"bytes");
    assert_eq!(store.journal().left(&|_, _| true).unwrap(), [], "neither without the other");
}

#[test]
fn what_was_adopted_stays_so_when_the_uploads_so_far_are_synced() {
    let folder = Folder::new();
    killed("what_was_adopted_stays_so_when_the_uploads_so_far_are_synced", &folder.path(), |dir| {
        let store = open(dir);
        for _ in 0..2 {
            let staged = store.stage(b"note", Base::Empty).unwrap();
            write(&staged, &[], 0, b"bytes");
            let sealed = staged.seal().unwrap();
            let adopted = store.adopt(&staged, sealed, b"v").unwrap();
            assert!(matches!(adopted, Adopted::Clean(_)));
            store.journal().sync_uploads().unwrap();
            std::mem::forget((staged, adopted));
        }
        std::mem::forget(store);
    });
    if is_child() {
        return;
    }
    let store = folder.open();
    assert!(store.orphans().unwrap().is_empty(), "it would be uploaded again");
}

#[test]
fn an_operation_is_left_with_what_goes_with_it() {
    let folder = Folder::new();
    killed("an_operation_is_left_with_what_goes_with_it", &folder.path(), |dir| {
        let store = open(dir);
        let beside = |first: OpId| {
            [1_u64, 2].map(|number| (number + first.number()).to_le_bytes().to_vec()).to_vec()
        };
        let ops = store.journal().append_with(OpKind::Names, b"first", beside).unwrap();
        assert_eq!(ops.len(), 3);
        std::mem::forget(store);
    });
    if is_child() {
        return;
    }
    let left = folder.open().journal().left(&|_, _| true).unwrap();
    let [first, beside @ ..] = &left[..] else { panic!("nothing is left") };
    let wanted: Vec<Vec<u8>> =
        (1..3).map(|number| (number + first.id.number()).to_le_bytes().to_vec()).collect();
    assert_eq!(first.payload, b"first");
    assert_eq!(beside.iter().map(|op| op.payload.clone()).collect::<Vec<_>>(), wanted);
}

#[test]
fn what_a_new_file_was_to_be_is_known_before_it_is_closed_unless_it_is_small() {
    let folder = Folder::new();
    killed(
        "what_a_new_file_was_to_be_is_known_before_it_is_closed_unless_it_is_small",
        &folder.path(),
        |dir| {
            let store = open(dir);
            let large = store.stage(b"large", Base::Empty).unwrap();
            write(&large, &[], 0, &bytes(1, 0, GRANULE));
            let small = store.stage(b"small", Base::Empty).unwrap();
            write(&small, &[], 0, b"small");
            std::mem::forget((store, large, small));
        },
    );
    if is_child() {
        return;
    }
    let orphans = folder.open().orphans().unwrap();
    let [orphan] = orphans.as_slice() else { panic!("{orphans:?}") };
    assert_eq!((&orphan.note[..], orphan.state), (&b"large"[..], OrphanState::Open));
    let kept = folder.files("recovery");
    assert!(kept.iter().any(|name| name.starts_with("unknown-")), "{kept:?}");
}

#[test]
fn a_sealed_version_survives_what_was_written_since() {
    let folder = Folder::new();
    let before = bytes(2, 0, 3 * GRANULE + 1);
    killed("a_sealed_version_survives_what_was_written_since", &folder.path(), |dir| {
        let store = open(dir);
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, &before);
        let sealed = staged.seal().unwrap();
        write(&staged, &[], GRANULE + 7, b"later");
        write(&staged, &[], 3 * GRANULE, b"much later, and longer");
        std::mem::forget((store, staged, sealed));
    });
    if is_child() {
        return;
    }
    let store = folder.open();
    let orphans = store.orphans().unwrap();
    assert_eq!(orphans.len(), 2);
    for orphan in orphans {
        let mut want = before.clone();
        match orphan.state {
            OrphanState::Sealed => {}
            OrphanState::Open => {
                want[GRANULE + 7..GRANULE + 12].copy_from_slice(b"later");
                want.truncate(3 * GRANULE);
                want.extend_from_slice(b"much later, and longer");
            }
        }
        assert_eq!(content(&orphan.staged, &[]), want, "{:?}", orphan.state);
    }
}

/// What becomes of a file after it was sealed: the sealed bytes, and those after all that came later.
/// The same for the same seed; carried out on `staged`, if there is one.
fn done_since(seed: u64, staged: Option<&Arc<Staged>>) -> (Vec<u8>, Vec<u8>) {
    let mut rng = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: usize| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) as usize % limit
    };
    // A hole in the middle: zeros that are overwritten must come back, too.
    let mut now = bytes(seed as u8, 0, 2 * GRANULE);
    now.resize(5 * GRANULE, 0);
    now.extend_from_slice(&bytes(seed as u8, 0, below(GRANULE)));
    if let Some(staged) = staged {
        write(staged, &[], 0, &now[..2 * GRANULE]);
        write(staged, &[], 5 * GRANULE, &now[5 * GRANULE..]);
        std::mem::forget(staged.seal().unwrap());
    }
    let sealed = now.clone();
    for step in 0..=below(6) {
        let at = below(now.len() + GRANULE);
        match below(4) {
            0 => {
                now.resize(at, 0);
                staged.inspect(|staged| staged.truncate(at as u64).unwrap());
            }
            1 => {
                let to = at + 1 + below(2 * GRANULE);
                staged.inspect(|staged| {
                    assert_eq!(staged.punch(range(at, to)).unwrap(), Outcome::Done);
                });
                let len = now.len();
                now[at.min(len)..to.min(len)].fill(0);
            }
            _ => {
                let new = bytes(100 + step as u8, 0, 1 + below(GRANULE + 99));
                staged.inspect(|staged| write(staged, &[], at, &new));
                now.resize(now.len().max(at + new.len()), 0);
                now[at..at + new.len()].copy_from_slice(&new);
            }
        }
    }
    (sealed, now)
}

#[test]
fn a_sealed_version_survives_whatever_was_done_since() {
    const SEEDS: u64 = 40;
    let folder = Folder::new();
    killed("a_sealed_version_survives_whatever_was_done_since", &folder.path(), |dir| {
        let store = open(dir);
        for seed in 0..SEEDS {
            let staged = store.stage(&seed.to_le_bytes(), Base::Empty).unwrap();
            done_since(seed, Some(&staged));
            std::mem::forget(staged);
        }
        std::mem::forget(store);
    });
    if is_child() {
        return;
    }
    // Who only looks is told what is found then.
    let mut told: BTreeMap<u64, Vec<(WaitingKind, u64)>> = BTreeMap::new();
    for waiting in quayfs_store::waiting(&folder.path()).unwrap().waiting {
        let seed = u64::from_le_bytes(waiting.note.try_into().unwrap());
        told.entry(seed).or_default().push((waiting.kind, waiting.bytes));
    }
    // Also over a reboot, if the disk kept the bytes.
    let store = folder.open_with(CacheLimit::Bytes(1 << 40), "boot 2");
    let mut found: BTreeMap<u64, Vec<(OrphanState, Vec<u8>)>> = BTreeMap::new();
    for orphan in store.orphans().unwrap() {
        let seed = u64::from_le_bytes(orphan.note.try_into().unwrap());
        found.entry(seed).or_default().push((orphan.state, content(&orphan.staged, &[])));
    }
    for seed in 0..SEEDS {
        let (sealed, now) = done_since(seed, None);
        let mut want_told = vec![(WaitingKind::Sealed, sealed.len() as u64)];
        let mut want = vec![(OrphanState::Sealed, sealed)];
        if want[0].1 != now {
            want_told.push((WaitingKind::Newer, now.len() as u64));
            want.insert(0, (OrphanState::Open, now));
        }
        assert!(found.remove(&seed).unwrap() == want, "seed {seed}");
        assert_eq!(told.remove(&seed).unwrap(), want_told, "seed {seed}");
    }
    assert!(!folder.files("staged").iter().any(|name| name.contains(".side")));
}

#[test]
fn what_the_kernel_wrote_past_a_sealed_version_is_not_taken_for_it() {
    let folder = Folder::new();
    let before = bytes(3, 0, 2 * GRANULE + 5);
    killed(
        "what_the_kernel_wrote_past_a_sealed_version_is_not_taken_for_it",
        &folder.path(),
        |dir| {
            let store = open(dir);
            let staged = store.stage(b"note", Base::Empty).unwrap();
            write(&staged, &[], 0, &before);
            let kernel = staged.passthrough().unwrap();
            let sealed = staged.seal().unwrap();
            let fd = std::os::fd::AsFd::as_fd(&*kernel).try_clone_to_owned().unwrap();
            std::fs::File::from(fd).write_all_at(b"mapped", 100).unwrap();
            std::mem::forget((store, staged, sealed));
        },
    );
    if is_child() {
        return;
    }
    let store = folder.open();
    let mut states = Vec::new();
    for orphan in store.orphans().unwrap() {
        let mut want = before.clone();
        if orphan.state == OrphanState::Open {
            want[100..106].copy_from_slice(b"mapped");
        }
        assert_eq!(content(&orphan.staged, &[]), want, "{:?}", orphan.state);
        states.push(orphan.state);
    }
    assert_eq!(states, [OrphanState::Open, OrphanState::Sealed]);
}

#[test]
fn a_sealed_version_whose_saved_bytes_are_damaged_is_not_uploaded() {
    let folder = Folder::new();
    killed(
        "a_sealed_version_whose_saved_bytes_are_damaged_is_not_uploaded",
        &folder.path(),
        |dir| {
            let store = open(dir);
            let staged = store.stage(b"note", Base::Empty).unwrap();
            write(&staged, &[], 0, &bytes(3, 0, 2 * GRANULE));
            let sealed = staged.seal().unwrap();
            write(&staged, &[], GRANULE, b"later");
            std::mem::forget((store, staged, sealed));
        },
    );
    if is_child() {
        return;
    }
    let side = folder.files("staged").into_iter().find(|name| name.contains(".side")).unwrap();
    let path = folder.path().join("staged").join(side);
    let side = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    side.write_all_at(&[0; 4096], GRANULE_BYTES + 9).unwrap();
    let store = folder.open_with(CacheLimit::default(), "boot 2");
    let orphans = store.orphans().unwrap();
    let [orphan] = orphans.as_slice() else { panic!("{orphans:?}") };
    assert_eq!(orphan.state, OrphanState::Open);
    assert_eq!(content(&orphan.staged, &[])[GRANULE..GRANULE + 5], *b"later");
}

#[test]
fn a_recovery_that_is_cut_short_is_begun_again() {
    let folder = Folder::new();
    let before = bytes(3, 0, 4 * GRANULE);
    killed("a_recovery_that_is_cut_short_is_begun_again", &folder.path(), |dir| {
        let store = open(dir);
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, &before);
        let sealed = staged.seal().unwrap();
        write(&staged, &[], 0, &bytes(4, 0, 3 * GRANULE));
        std::mem::forget((store, staged, sealed));
    });
    if is_child() {
        return;
    }
    // The first time during the copy, then between the first granule that is brought back and the
    // last.
    for room in [GRANULE, 5 * GRANULE + 9] {
        let store = folder.open();
        folder.faults.full_after(room as u64);
        assert!(store.orphans().is_err());
        folder.faults.heal();
    }
    let store = folder.open();
    let orphans = store.orphans().unwrap();
    let sealed = orphans.iter().filter(|orphan| orphan.state == OrphanState::Sealed);
    let sealed: Vec<_> = sealed.map(|orphan| content(&orphan.staged, &[])).collect();
    assert!(sealed == [before], "{orphans:?}");
    let mut later = bytes(4, 0, 3 * GRANULE);
    later.extend_from_slice(&bytes(3, 3 * GRANULE, GRANULE));
    assert!(orphans.iter().any(|orphan| content(&orphan.staged, &[]) == later));
}

#[test]
fn what_a_sealed_version_left_in_its_base_is_known_to_be_there_after_a_crash() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, 4 * GRANULE + 9);
    let cached = store.cached(b"v", old.len() as u64).unwrap();
    let base = Base::Over { cached, bytes: old.len() as u64 };
    let staged = store.stage(b"note", base).unwrap();
    write(&staged, &old, GRANULE + 5, b"sealed");
    let sealed = staged.seal().unwrap();
    // Where nothing of the version is here, what came later must not be taken for it.
    write(&staged, &old, 3 * GRANULE + 5, b"later");
    drop((sealed, staged, store));

    let store = folder.open();
    let orphans = store.orphans().unwrap();
    let newer = orphans.iter().find(|orphan| orphan.state == OrphanState::Open).unwrap();
    assert!(content(&newer.staged, &old)[3 * GRANULE + 5..].starts_with(b"later"));
    let orphan = orphans.iter().find(|orphan| orphan.state == OrphanState::Sealed).unwrap();
    let sealed = orphan.staged.seal().unwrap();
    let all = range(0, old.len());
    let missing = [range(0, GRANULE), range(2 * GRANULE, old.len())];
    assert_eq!(runs(sealed.missing(), all), missing);
    assert_eq!(runs(sealed.unchanged(), all), missing);
    let mut buf = vec![0; GRANULE];
    sealed.read(GRANULE_BYTES, &mut buf).unwrap();
    assert_eq!(buf[5..11], *b"sealed");
    assert_eq!(buf[11..], old[GRANULE + 11..2 * GRANULE]);
}

#[test]
fn a_sealed_file_is_damaged_if_it_is_shorter_and_not_if_something_was_written_since() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"sealed");
    let sealed = staged.seal().unwrap();
    write(&staged, &[], 6, b" and more");
    drop((sealed, staged, store));
    assert_eq!(quayfs_store::check(&folder.path()).unwrap(), Vec::new());

    let name = folder.files("staged").pop().unwrap();
    let path = folder.path().join("staged").join(name);
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(5).unwrap();
    let flaws = quayfs_store::check(&folder.path()).unwrap();
    assert!(flaws.len() == 1 && flaws[0].what.contains("sealed with 6 bytes"), "{flaws:?}");
}

#[test]
fn sealed_bytes_that_the_disk_lost_are_not_uploaded() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, &bytes(1, 0, 2 * GRANULE));
        drop(staged.seal().unwrap());
    }
    let name = folder.files("staged").pop().unwrap();
    let path = folder.path().join("staged").join(name);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; 4096], GRANULE_BYTES).unwrap();
    let store = folder.open_with(CacheLimit::default(), "boot 2");
    let orphans = store.orphans().unwrap();
    assert_eq!(orphans.iter().map(|o| o.state).collect::<Vec<_>>(), [OrphanState::Open]);
}

#[test]
fn sealed_bytes_that_the_disk_kept_are_uploaded_after_a_reboot() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, &bytes(1, 0, 2 * GRANULE));
        drop(staged.seal().unwrap());
    }
    let store = folder.open_with(CacheLimit::default(), "boot 2");
    let orphans = store.orphans().unwrap();
    assert_eq!(orphans.iter().map(|o| o.state).collect::<Vec<_>>(), [OrphanState::Sealed]);
}

#[test]
fn files_of_the_living_are_no_orphans() {
    let folder = Folder::new();
    let (one, two) = (folder.open(), folder.open());
    let staged = one.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"mine");
    assert!(two.orphans().unwrap().is_empty());
    assert!(one.orphans().unwrap().is_empty());
    drop((staged, one));
    assert_eq!(two.orphans().unwrap().len(), 1);
}

#[test]
fn writes_past_us_that_were_never_synced_are_kept() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let cached = complete(&store, b"v", &bytes(1, 0, GRANULE));
        let staged = store.stage(b"note", Base::Take(cached)).unwrap();
        let kernel = staged.passthrough().unwrap();
        let fd = std::os::fd::AsFd::as_fd(&*kernel).try_clone_to_owned().unwrap();
        std::fs::File::from(fd).write_all_at(b"mapped", 100).unwrap();
    }
    let orphans = folder.open().orphans().unwrap();
    let [orphan] = orphans.as_slice() else { panic!("{orphans:?}") };
    assert_eq!(orphan.state, OrphanState::Open);
    assert_eq!(content(&orphan.staged, &[])[100..106], *b"mapped");
}

#[test]
fn the_next_process_replays_the_journal_of_the_dead_once_and_in_order() {
    let folder = Folder::new();
    killed(
        "the_next_process_replays_the_journal_of_the_dead_once_and_in_order",
        &folder.path(),
        |dir| {
            let store = open(dir);
            for n in 0..600_u16 {
                store.journal().append(OpKind::Upload, &n.to_le_bytes()).unwrap();
            }
            let done = store.journal().append(OpKind::Upload, b"done").unwrap();
            store.journal().done(done).unwrap();
            store.journal().settle().unwrap();
            std::mem::forget(store);
        },
    );
    if is_child() {
        return;
    }
    let (one, two) = (folder.open(), folder.open());
    one.journal().append(OpKind::Upload, b"of the living").unwrap();
    let looked_at = two.journal().left(&|_, payload| payload.len() == 2).unwrap();
    assert_eq!(looked_at.len(), 600, "who only looks takes nothing");
    assert_eq!(looked_at[599].payload, 599_u16.to_le_bytes());
    let mut seen = Vec::new();
    one.journal()
        .replay(&|_, _| true, &mut |op| {
            seen.push(u16::from_le_bytes(op.payload.try_into().unwrap()));
            if seen.len() % 2 == 0 { Replayed::Done } else { Replayed::Kept }
        })
        .unwrap();
    assert_eq!(seen, (0..600).collect::<Vec<u16>>());
    let mut nothing = |op| panic!("{op:?}");
    one.journal().replay(&|_, _| true, &mut nothing).unwrap();
    two.journal().replay(&|_, _| true, &mut nothing).unwrap();
    drop(one);
    let mut kept = 0;
    two.journal()
        .replay(&|_, _| true, &mut |_| {
            kept += 1;
            Replayed::Done
        })
        .unwrap();
    assert_eq!(kept, 301);
}

#[test]
fn bytes_in_staging_that_nobody_knows_are_kept() {
    let folder = Folder::new();
    drop(folder.open());
    let staged = folder.path().join("staged");
    std::fs::write(staged.join("7-0"), b"whose are these").unwrap();
    std::fs::write(staged.join("7-1"), b"").unwrap();
    std::fs::write(staged.join("7-0.side"), b"old").unwrap();
    drop(folder.open());
    assert_eq!(folder.files("staged"), Vec::<String>::new());
    assert_eq!(folder.files("recovery"), ["unknown-7-0", "unknown-7-0.quayfs-note"]);
}

#[test]
fn a_database_that_cannot_be_read_is_set_aside_and_no_staged_byte_is_lost() {
    // Its beginning, and its tables.
    for offset in [0, 4096, 5 * 4096] {
        let folder = Folder::new();
        drop(folder.open());
        std::fs::write(folder.path().join("staged/7-0"), b"whose are these").unwrap();
        let database =
            std::fs::File::options().write(true).open(folder.path().join("state.db")).unwrap();
        database.write_all_at(&bytes(9, 0, 40_000), offset).unwrap();
        let store = folder.open();
        let aside = folder.path().join("recovery/state.db");
        assert_eq!(store.set_aside(), Some(aside.as_path()), "damaged at {offset}");
        let kept = ["state.db", "state.db.quayfs-note", "unknown-7-0", "unknown-7-0.quayfs-note"];
        assert_eq!(folder.files("recovery"), kept);
        let note = std::fs::read_to_string(aside.with_extension("db.quayfs-note")).unwrap();
        assert!(note.starts_with("the database of the state folder could not be read"), "{note}");
        // And from then on all is as with a new folder.
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, b"new bytes");
        drop((staged, store));
        let store = folder.open();
        assert_eq!(store.set_aside(), None);
        assert_eq!(store.orphans().unwrap().len(), 1);
    }
}

#[test]
fn what_goes_to_recovery_never_replaces_anything() {
    let folder = Folder::new();
    let store = folder.open();
    for text in [&b"one"[..], b"two"] {
        let staged = store.stage(b"note", Base::Empty).unwrap();
        write(&staged, &[], 0, text);
        let kept = store.to_recovery(&staged, BECAUSE).unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), text);
    }
    let want = ["name", "name.1", "name.1.quayfs-note", "name.quayfs-note"];
    assert_eq!(folder.files("recovery"), want);
}

#[test]
fn a_recovered_file_is_made_whole_from_its_base() {
    let folder = Folder::new();
    let store = folder.open();
    let old = bytes(1, 0, 2 * GRANULE);
    let cached = store.cached(b"v", 2 * GRANULE_BYTES).unwrap();
    cached.fill(0, &old[..GRANULE]).unwrap();
    let base = Base::Over { cached, bytes: 2 * GRANULE_BYTES };
    let staged = store.stage(b"note", base).unwrap();
    write(&staged, &old, 10, b"edit");
    assert_eq!(staged.missing(range(0, 2 * GRANULE)), Some(range(GRANULE, 2 * GRANULE)));
    let kept = store.to_recovery(&staged, BECAUSE).unwrap();
    let bytes = std::fs::read(&kept).unwrap();
    assert_eq!(bytes[10..14], *b"edit");
    assert_eq!(bytes[14..GRANULE], old[14..GRANULE]);
    let note = std::fs::read_to_string(kept.with_extension("quayfs-note")).unwrap();
    assert!(note.starts_with("because\n"), "{note}");
    assert!(note.contains("\n131072..262144\n"), "{note}");
    let open = || open_kept(&folder.path(), "name".as_ref()).unwrap();
    assert!(matches!(open(), KeptOpened::InUse), "its writer has it open");
    drop((staged, store));
    let KeptOpened::File(opened) = open() else { panic!("it is there") };
    assert_eq!((opened.size(), opened.origin()), (2 * GRANULE_BYTES, Some(&b"note"[..])));
    assert_eq!(opened.missing(), Some(&[range(GRANULE, 2 * GRANULE)][..]));
    let mut read = [0; 4];
    opened.read(10, &mut read).unwrap();
    assert_eq!(read, *b"edit");
}

#[test]
fn a_recovered_file_can_be_read_and_written_by_who_has_it_open() {
    let folder = Folder::new();
    let store = folder.open();
    let staged = store.stage(b"note", Base::Empty).unwrap();
    write(&staged, &[], 0, b"lost the race");
    let kept = store.to_recovery(&staged, BECAUSE).unwrap();
    write(&staged, &[], 0, b"LOST");
    assert_eq!(content(&staged, &[]), b"LOST the race");
    assert_eq!(common::kind(staged.seal()), quayfs_store::ErrorKind::Gone);
    store.discard(&staged).unwrap();
    assert_eq!(std::fs::read(kept).unwrap(), b"LOST the race");
    assert!(store.orphans().unwrap().is_empty());
}
