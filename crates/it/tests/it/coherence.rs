//! What one program writes, others have at once, whatever they read it through.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use testkit::{Bucket, Mount, SharedMap, close, noise, read_at};

use crate::mounted;

const PAGE: usize = 4096;
const LEN: usize = 4 * PAGE;
const ROUNDS: usize = 2000;
/// Places of one write each.
const SLOTS: usize = LEN / 8;

/// A file of zeros that somebody writes, who opened it for nothing else, before all others.
fn written_alone() -> (Bucket<'static>, Mount, File) {
    let (bucket, mount) = mounted();
    let writer = OpenOptions::new().write(true).create_new(true).open(mount.join("file")).unwrap();
    writer.write_all_at(&[0; LEN], 0).unwrap();
    (bucket, mount, writer)
}

fn first_number(file: &File) -> u64 {
    u64::from_le_bytes(read_at(file, 0, 8).unwrap().try_into().unwrap())
}

#[test]
fn what_is_written_is_read_at_once_and_seen_in_mappings() {
    let (bucket, mount, writer) = written_alone();
    let mut want = vec![0; LEN];
    let reader = File::open(mount.join("file")).unwrap();
    let map = SharedMap::readable(&reader, LEN);
    for round in 0..200_usize {
        let bytes = noise(round as u64, 1 + 37 * round % 6000);
        let at = 7919 * round % (LEN - bytes.len());
        writer.write_all_at(&bytes, at as u64).unwrap();
        want[at..at + bytes.len()].copy_from_slice(&bytes);
        assert!(read_at(&reader, 0, LEN).unwrap() == want, "read in round {round}");
        assert!(map.bytes() == want, "mapped in round {round}");
    }
    writer.write_all_at(b"longer", LEN as u64 + 100).unwrap();
    want.resize(LEN + 100, 0);
    want.extend(b"longer");
    assert!(read_at(&reader, 0, 2 * LEN).unwrap() == want, "what has grown");
    drop(map);
    close(writer).unwrap();
    assert!(bucket.get("file").unwrap() == want, "the object");
    assert!(fs::read(mount.join("file")).unwrap() == want, "a new reader");
}

/// Pages are read again while they are being written: what was read before the write is not kept.
#[test]
fn a_page_that_is_read_while_it_is_written_is_not_kept_as_it_was() {
    let (_bucket, mount, writer) = written_alone();
    let reader = File::open(mount.join("file")).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let map = SharedMap::readable(&reader, LEN);
            while !is_over.load(Ordering::Relaxed) {
                map.read(0, &mut [0; 8]);
            }
        });
        // Also where this one fails.
        let _ends = Ends(&is_over);
        for number in 1..=ROUNDS as u64 {
            writer.write_all_at(&number.to_le_bytes(), 0).unwrap();
            assert_eq!(first_number(&reader), number, "read after it was written");
        }
    });
}

/// Has others stop when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A page is written by a mapping and by calls, in places that lie beside each other, at the same time.
#[test]
fn what_is_stored_and_what_is_written_in_the_same_pages_are_both_kept() {
    let (bucket, mount, writer) = written_alone();
    let mapped = OpenOptions::new().read(true).write(true).open(mount.join("file")).unwrap();
    thread::scope(|scope| {
        let storing = scope.spawn(|| {
            let map = SharedMap::writable(&mapped, LEN);
            for round in 1..=ROUNDS {
                let slot = 2 * (round % (SLOTS / 2)) + 1;
                map.write(slot * 8, &(round as u64).to_le_bytes());
            }
            map.sync().unwrap();
        });
        for round in 1..=ROUNDS {
            let slot = 2 * (round % (SLOTS / 2));
            writer.write_all_at(&(round as u64).to_le_bytes(), slot as u64 * 8).unwrap();
        }
        storing.join().unwrap();
    });
    let mut want = vec![0; SLOTS];
    for round in 1..=ROUNDS {
        let slot = 2 * (round % (SLOTS / 2));
        want[slot..slot + 2].fill(round as u64);
    }
    let numbers = |bytes: &[u8]| {
        let (numbers, _) = bytes.as_chunks();
        numbers.iter().copied().map(u64::from_le_bytes).collect::<Vec<_>>()
    };
    assert!(numbers(&fs::read(mount.join("file")).unwrap()) == want, "read");
    close(mapped).unwrap();
    close(writer).unwrap();
    assert!(numbers(&bucket.get("file").unwrap()) == want, "the object");
}
