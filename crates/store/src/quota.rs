//! What the processes that share a state folder have in its cache beyond what is recorded: a number for
//! each of them, in one file. With what is recorded, that is all that the cache takes.
//!
//! ```text
//! word 0        how often somebody found no room
//! word n        what process n has added, or may add, and is not recorded yet, in bytes
//!
//! lock 0        exclusive while someone sums up and says what is theirs from now on
//! lock n        exclusive for process n, for as long as it lives
//! ```
//!
//! A number whose process is dead counts no more: what that had added and not recorded, nobody knows of.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::lock::{self, Mode};

const TURN: u64 = 0;

const WORD_BYTES: usize = 8;

/// A turn takes less than a millisecond: one that takes so long is that of a frozen process. The books of each process
/// are its own until that goes on.
const TURN_PATIENCE: Duration = Duration::from_secs(1);

/// So many processes may share a state folder.
const PROCESSES_MAX: u64 = 4096;

/// The file of numbers, and which of them is ours.
#[derive(Debug)]
pub(crate) struct Quota {
    file: File,
    path: PathBuf,
    ours: u64,
    // The lock of the file does not keep our own threads apart.
    turn: Mutex<()>,
    // Word 0, when we looked last.
    heard: AtomicU64,
    // The last turn did not come in time: the next is not waited for.
    is_stuck: AtomicBool,
}

impl Quota {
    /// Opens the file of the state folder, and takes the first number that is nobody's.
    pub(crate) fn open(layout: &Layout, disk: &Disk) -> Result<Quota> {
        let path = layout.quota();
        let io = |error| Error::io("open", &path, error);
        let file = disk.open_or_create(&path).map_err(io)?;
        for ours in 1..=PROCESSES_MAX {
            if lock::attempt(&file, ours, Mode::Exclusive).map_err(io)? {
                let (turn, heard) = (Mutex::new(()), AtomicU64::new(0));
                let is_stuck = AtomicBool::new(false);
                let quota = Quota { file, path: path.clone(), ours, turn, heard, is_stuck };
                quota.write(ours, 0).map_err(io)?;
                quota.is_room_wanted().map_err(io)?;
                return Ok(quota);
            }
        }
        Err(io(io::Error::other("too many processes share this folder")))
    }

    /// In turn with all others: `change` is told what these have, and says what we have from now on.
    pub(crate) fn exchange(&self, change: impl FnOnce(u64) -> u64) -> Result<()> {
        self.in_turn(|| {
            let others = self.others()?;
            self.write(self.ours, change(others))
        })
    }

    /// Others are asked to let go of what they do not use.
    pub(crate) fn want_room(&self) -> Result<()> {
        self.in_turn(|| {
            let cries = self.read(0)?.wrapping_add(1);
            self.heard.store(cries, Ordering::Relaxed);
            self.write(0, cries)
        })
    }

    /// Whether another process has found no room since this was asked last.
    pub(crate) fn is_room_wanted(&self) -> io::Result<bool> {
        let cries = self.read(0)?;
        Ok(self.heard.swap(cries, Ordering::Relaxed) != cries)
    }

    fn in_turn<T>(&self, then: impl FnOnce() -> io::Result<T>) -> Result<T> {
        let _turn = self.turn.lock();
        let io = |error| Error::io("share the cache", &self.path, error);
        self.await_turn().map_err(io)?;
        let done = then();
        lock::release(&self.file, TURN).map_err(io)?;
        done.map_err(io)
    }

    fn await_turn(&self) -> io::Result<()> {
        let was_stuck = self.is_stuck.load(Ordering::Relaxed);
        let patience = if was_stuck { Duration::ZERO } else { TURN_PATIENCE };
        let turn = lock::wait(&self.file, TURN, Mode::Exclusive, patience);
        self.is_stuck.store(turn.is_err(), Ordering::Relaxed);
        if let Err(error) = &turn
            && !was_stuck
        {
            let path = self.path.display();
            tracing::warn!(%error, %path, "the cache may grow beyond its size, because mounts cannot tell one another");
        }
        turn
    }

    fn others(&self) -> io::Result<u64> {
        let len = self.file.metadata()?.len().min((1 + PROCESSES_MAX) * WORD_BYTES as u64);
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, 0)?;
        let words = bytes.chunks_exact(WORD_BYTES).map(number).zip(0_u64..).skip(1);
        let mut sum = 0_u64;
        for (bytes, process) in words.filter(|(bytes, at)| *bytes != 0 && *at != self.ours) {
            if lock::is_held(&self.file, process)? {
                sum = sum.saturating_add(bytes);
            } else {
                self.write(process, 0)?;
            }
        }
        Ok(sum)
    }

    fn read(&self, word: u64) -> io::Result<u64> {
        let mut bytes = [0; WORD_BYTES];
        match self.file.read_exact_at(&mut bytes, word * WORD_BYTES as u64) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read.map(|()| number(&bytes)),
        }
    }

    fn write(&self, word: u64, number: u64) -> io::Result<()> {
        self.file.write_all_at(&number.to_le_bytes(), word * WORD_BYTES as u64)
    }
}

impl Drop for Quota {
    /// Not only by closing the file: a child that was forked a moment ago has it open until it runs its program.
    fn drop(&mut self) {
        if let Err(error) = lock::release(&self.file, self.ours) {
            tracing::debug!(%error, "a lock goes when the last who has its file closes it");
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::Quota;
    use crate::disk::Disk;
    use crate::layout::Layout;
    use crate::lock::{self, Mode};

    #[test]
    fn each_is_told_what_the_living_others_have() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || Quota::open(&Layout::new(folder.path().to_owned()), &Disk::default()).unwrap();
        let (one, two, three) = (open(), open(), open());
        check(&one, 0, 10);
        check(&two, 10, 200);
        check(&three, 210, 3000);
        check(&one, 3200, 11);
        drop(two);
        check(&three, 11, 3000);
        // The number of the dead one is given again.
        let four = open();
        check(&four, 3011, 0);
        assert_eq!(four.ours, 2);
    }

    #[test]
    fn who_finds_no_room_is_heard_once_by_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || Quota::open(&Layout::new(folder.path().to_owned()), &Disk::default()).unwrap();
        let (one, two) = (open(), open());
        assert!(!two.is_room_wanted().unwrap());
        one.want_room().unwrap();
        assert!(!one.is_room_wanted().unwrap(), "its own files are its own affair");
        assert!(two.is_room_wanted().unwrap());
        assert!(!two.is_room_wanted().unwrap());
        assert!(!open().is_room_wanted().unwrap(), "it has nothing to let go of");
    }

    #[test]
    fn a_process_that_is_frozen_in_its_turn_does_not_keep_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path().to_owned());
        let quota = Quota::open(&layout, &Disk::default()).unwrap();
        let frozen = std::fs::File::options().write(true).open(layout.quota()).unwrap();
        assert!(lock::attempt(&frozen, super::TURN, Mode::Exclusive).unwrap());
        let is_refused = || quota.exchange(|_| 0).is_err();
        assert!(is_refused());
        assert!(quota.is_stuck.load(Ordering::Relaxed) && is_refused());
        drop(frozen);
        assert!(!is_refused());
        assert!(!quota.is_stuck.load(Ordering::Relaxed));
    }

    fn check(quota: &Quota, want_others: u64, ours: u64) {
        let mut told = None;
        quota
            .exchange(|others| {
                told = Some(others);
                ours
            })
            .unwrap();
        assert_eq!(told, Some(want_others));
    }
}
