//! Carries operations out on a folder, and says what came of them.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    Uid, XattrFlags, chownat, copy_file_range, fallocate, lremovexattr, lsetxattr, mknodat,
    renameat_with, utimensat,
};

use super::ops::{Op, Verb};
use crate::{SharedMap, close, noise, read_at};

const MODES: [u32; 8] = [0o644, 0o600, 0o755, 0o4755, 0o2755, 0o2644, 0o1777, 0];
const OWNERS: [(u32, u32); 4] = [(0, 0), (1000, 1000), (12, 3456), (65534, 0)];
const HANDS: usize = 2;

/// What came of an operation; equal on two trees that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went well and says nothing.
    Done,
    /// So many bytes, with their hash.
    Bytes(usize, u64),
    /// Names or a target.
    Words(Vec<String>),
    /// The kernel's number.
    Failed(i32),
}

/// Somebody who does operations on one tree, with a file in each hand.
#[derive(Debug)]
pub struct Player {
    root: PathBuf,
    hands: [Option<File>; HANDS],
}

impl Player {
    /// A player on the tree `root`, with empty hands.
    pub fn new(root: &Path) -> Player {
        Player { root: root.to_path_buf(), hands: Default::default() }
    }

    /// The tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Does `op`, unless it is somebody else's to do.
    pub fn play(&mut self, op: &Op) -> Outcome {
        match self.try_play(op) {
            Ok(outcome) => outcome,
            Err(error) => match error.raw_os_error() {
                Some(errno) => Outcome::Failed(errno),
                None => panic!("{op}: {error}"),
            },
        }
    }

    /// Closes what is in the hands.
    pub fn let_go(&mut self) -> Vec<Outcome> {
        let hands = self.hands.iter_mut().filter_map(Option::take);
        hands
            .map(|file| match close(file) {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed(error.raw_os_error().unwrap_or(0)),
            })
            .collect()
    }

    /// Whether the file at `path` is in a hand.
    pub fn holds(&self, path: &str) -> bool {
        let Ok(there) = fs::symlink_metadata(self.root.join(path)) else { return false };
        let mut held = self.hands.iter().flatten();
        held.any(|file| file.metadata().is_ok_and(|here| here.ino() == there.ino()))
    }

    #[expect(clippy::too_many_lines, reason = "a table, an arm a verb")]
    fn try_play(&mut self, op: &Op) -> io::Result<Outcome> {
        let path = self.root.join(&op.path);
        let other = self.root.join(&op.other);
        let Op { at, len, seed, .. } = *op;
        let bytes = || noise(u64::from(seed), usize::try_from(len).expect("lengths are small"));
        match op.verb {
            Verb::Write => {
                done(with(writing().create(true), &path, |file| file.write_all_at(&bytes(), at)))
            }
            Verb::Append => done(with(OpenOptions::new().append(true), &path, |mut file| {
                file.write_all(&bytes())
            })),
            Verb::Replace => done(with(writing().create(true).truncate(true), &path, |file| {
                file.write_all_at(&bytes(), 0)
            })),
            Verb::Create => done(with(writing().create_new(true), &path, |_| Ok(()))),
            Verb::Truncate => done(with(&mut writing(), &path, |file| file.set_len(at))),
            Verb::Read => {
                let mut read = Ok(Vec::new());
                with(OpenOptions::new().read(true), &path, |file| {
                    read = read_at(file, at, usize::try_from(len).expect("lengths are small"));
                    Ok(())
                })?;
                read.map(|bytes| hashed(&bytes))
            }
            Verb::Map => {
                done(with(writing().read(true), &path, |file| write_map(file, at, &bytes())))
            }
            Verb::Copy => copy(&path, &other, at, len),
            Verb::Allocate => done(allocate(&path, FallocateFlags::empty(), at, len)),
            Verb::Punch => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                done(allocate(&path, flags, at, len))
            }
            Verb::Zero => done(allocate(&path, FallocateFlags::ZERO_RANGE, at, len)),
            Verb::MkDir => done(fs::create_dir(path)),
            Verb::RmDir => done(fs::remove_dir(path)),
            Verb::Unlink => done(fs::remove_file(path)),
            Verb::Rename => done(rename(&path, &other, RenameFlags::empty())),
            Verb::RenameNew => done(rename(&path, &other, RenameFlags::NOREPLACE)),
            Verb::Exchange => done(rename(&path, &other, RenameFlags::EXCHANGE)),
            Verb::SymLink => done(std::os::unix::fs::symlink(&op.other, path)),
            Verb::ReadLink => {
                let target = fs::read_link(path)?;
                Ok(Outcome::Words(vec![target.to_string_lossy().into_owned()]))
            }
            Verb::MkFifo => {
                let mode = Mode::from_raw_mode(0o640);
                done(mknodat(CWD, &path, FileType::Fifo, mode, 0).map_err(Into::into))
            }
            Verb::ChMod => {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(chosen(&MODES, seed));
                done(fs::set_permissions(path, mode))
            }
            Verb::ChOwn => {
                let (uid, gid) = chosen(&OWNERS, seed);
                let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                done(chownat(CWD, &path, owner.0, owner.1, flags).map_err(Into::into))
            }
            Verb::Times => done(set_times(&path, seed)),
            Verb::SetXattr => {
                let value = noise(u64::from(seed), usize::try_from(len % 700).expect("small"));
                done(lsetxattr(&path, xattr(seed), &value, XattrFlags::empty()).map_err(Into::into))
            }
            Verb::RemoveXattr => done(lremovexattr(&path, xattr(seed)).map_err(Into::into)),
            Verb::List => {
                let entries: io::Result<Vec<_>> = fs::read_dir(path)?.collect();
                let names = entries?.into_iter().map(|entry| entry.file_name());
                let mut names: Vec<_> =
                    names.map(|name| name.to_string_lossy().into_owned()).collect();
                names.sort();
                Ok(Outcome::Words(names))
            }
            Verb::Stat => {
                let seen = super::tree::look(&path)?;
                Ok(Outcome::Words(vec![format!("{seen:?}")]))
            }
            Verb::Open => {
                let hand = hand(seed);
                let closed = self.hands[hand].take().map_or(Ok(()), close);
                let mut options = match at % 4 {
                    0 => OpenOptions::new().read(true).clone(),
                    1 => writing().create(true).clone(),
                    2 => writing().read(true).create(true).clone(),
                    _ => writing().read(true).create(true).truncate(true).clone(),
                };
                self.hands[hand] = Some(no_wait(&mut options).open(path)?);
                done(closed)
            }
            Verb::Put => self.in_hand(seed, |file| done(file.write_all_at(&bytes(), at))),
            Verb::Get => self.in_hand(seed, |file| {
                let len = usize::try_from(len).expect("lengths are small");
                Ok(hashed(&read_at(file, at, len)?))
            }),
            Verb::Cut => self.in_hand(seed, |file| done(file.set_len(at))),
            Verb::Sync => self.in_hand(seed, |file| done(file.sync_all())),
            Verb::Close => done(self.hands[hand(seed)].take().map_or(Ok(()), close)),
            Verb::TheyPut | Verb::TheyDelete | Verb::Remount | Verb::Kill => Ok(Outcome::Done),
        }
    }

    fn in_hand(
        &self,
        seed: u8,
        body: impl FnOnce(&File) -> io::Result<Outcome>,
    ) -> io::Result<Outcome> {
        match &self.hands[hand(seed)] {
            Some(file) => body(file),
            None => Ok(Outcome::Done),
        }
    }
}

fn hand(seed: u8) -> usize {
    usize::from(seed) % HANDS
}

fn chosen<T: Copy>(choices: &[T], seed: u8) -> T {
    choices[usize::from(seed) % choices.len()]
}

fn xattr(seed: u8) -> &'static str {
    chosen(&["user.one", "user.two", "trusted.three", "nonsense"], seed)
}

fn done(result: io::Result<()>) -> io::Result<Outcome> {
    result.map(|()| Outcome::Done)
}

fn hashed(bytes: &[u8]) -> Outcome {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    Outcome::Bytes(bytes.len(), hasher.finish())
}

fn writing() -> OpenOptions {
    OpenOptions::new().write(true).clone()
}

/// A pipe without a reader must not keep us waiting.
fn no_wait(options: &mut OpenOptions) -> &OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed())
}

/// Opens, does something, closes; the first error counts.
fn with(
    options: &mut OpenOptions,
    path: &Path,
    body: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let file = no_wait(options).open(path)?;
    let done = body(&file);
    let closed = close(file);
    done.and(closed)
}

fn allocate(path: &Path, flags: FallocateFlags, at: u64, len: u64) -> io::Result<()> {
    with(&mut writing(), path, |file| {
        // A hole beyond the end, and room for what is there, change nothing, and whether the time is
        // differs from one file system to the other.
        let size = file.metadata()?.len();
        let is_idle = if flags.contains(FallocateFlags::PUNCH_HOLE) {
            size <= at
        } else {
            flags.is_empty() && at + len <= size
        };
        if is_idle && 0 < len {
            return Ok(());
        }
        Ok(fallocate(file, flags, at, len)?)
    })
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

fn write_map(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    let size = file.metadata()?;
    let size = if size.is_file() { size.len() } else { 0 };
    let len = (bytes.len() as u64).min(size.saturating_sub(at));
    if 0 < len {
        let map = SharedMap::writable(file, usize::try_from(size).expect("files are small"));
        let (at, len) =
            (usize::try_from(at).expect("in the file"), usize::try_from(len).expect("too"));
        map.write(at, &bytes[..len]);
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, at: u64, len: u64) -> io::Result<Outcome> {
    let source = no_wait(OpenOptions::new().read(true)).open(from)?;
    let target = no_wait(writing().create(true)).open(to)?;
    let (mut from, mut to) = (at, 0);
    let copied = loop {
        let left = usize::try_from(at + len - from).expect("lengths are small");
        if left == 0 {
            break Ok(());
        }
        match copy_file_range(&source, Some(&mut from), &target, Some(&mut to), left) {
            Ok(0) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(io::Error::from(error)),
        }
    };
    close(target)?;
    copied.map(|()| Outcome::Bytes(usize::try_from(to).expect("lengths are small"), 0))
}

/// Times in 2001 and later, to the nanosecond, so that they are told from those of today.
fn set_times(path: &Path, seed: u8) -> io::Result<()> {
    let time = |shift: i64| Timespec {
        tv_sec: 981_173_106 + i64::from(seed) * 86_400 + shift,
        tv_nsec: 123_456_789 - i64::from(seed),
    };
    let times = Timestamps { last_access: time(5), last_modification: time(0) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

    use super::{Outcome, Player};
    use crate::Scratch;
    use crate::posix::{beginning, ops};

    #[test]
    fn many_random_operations_go_well_and_many_fail() {
        let folder = Scratch::new();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let (mut well, mut failed) = (0, 0);
        for case in 0..100 {
            let mut player = Player::new(&folder.folder(case.to_string()));
            let ops = ops(60).new_tree(&mut runner).unwrap().current();
            for op in beginning().iter().chain(&ops) {
                match player.play(op) {
                    Outcome::Failed(_) => failed += 1,
                    Outcome::Done | Outcome::Bytes(..) | Outcome::Words(_) => well += 1,
                }
            }
        }
        assert!(1500 < well && 700 < failed, "{well} well, {failed} failed");
    }
}
