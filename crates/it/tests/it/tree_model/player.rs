//! Thread that changes a tree and its model alike.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::model::{Model, Node, is_within};

/// Directories below one another.
const DEPTH_MAX: usize = 6;
/// Operations between two comparisons of a listing.
const LIST_EVERY: u64 = 50;
const SIZES: [usize; 6] = [0, 0, 1, 500, 5_000, 70_000];
const FILE_MODES: [u32; 3] = [0o600, 0o644, 0o755];
const DIR_MODES: [u32; 3] = [0o700, 0o750, 0o755];
const NEW_FILE: u32 = 0o644;
const NEW_DIR: u32 = 0o755;

/// When threads stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) began: Instant,
    pub(super) lasts: Duration,
}

/// Operations of a thread, and the tree that they make.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) model: Model,
    /// First operation that failed, or had another result than the model says.
    pub(super) trouble: Option<String>,
    top: PathBuf,
    done: Vec<String>,
    random: Random,
}

/// `SplitMix64`.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let word = word ^ (word >> 31);
        usize::try_from(word % u64::try_from(bound).expect("small")).expect("small")
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

impl Player {
    /// Makes the directory `top` and changes what is in it.
    pub(super) fn play(top: &Path, seed: u64, limit: Limit) -> Player {
        let model = Model::default();
        let (top, done, random) = (top.to_path_buf(), Vec::new(), Random(seed));
        let mut player = Player { model, trouble: None, top, done, random };
        if let Err(error) = fs::create_dir(&player.top) {
            player.trouble = Some(format!("mkdir of the top: {error}"));
        }
        let mut number = 0;
        while player.trouble.is_none() && limit.began.elapsed() < limit.lasts {
            number += 1;
            let done = player.step().and_then(|()| {
                if number % LIST_EVERY == 0 { player.compare_names() } else { Ok(()) }
            });
            if let Err(error) = done {
                player.trouble = Some(error.to_string());
            }
        }
        player
    }

    /// The trouble, and all operations, one a line.
    pub(super) fn report(&self) -> String {
        let trouble = self.trouble.as_deref().unwrap_or("no operation failed");
        format!("{}: {trouble}, after\n{}", self.top.display(), self.done.join("\n"))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    fn note(&mut self, what: String) {
        self.done.push(what);
    }

    /// A path of this kind, if there is one.
    fn some(&mut self, is_kind: impl Fn(&Node) -> bool) -> Option<String> {
        let all: Vec<&String> =
            self.model.0.iter().filter(|(_, node)| is_kind(node)).map(|(path, _)| path).collect();
        if all.is_empty() {
            return None;
        }
        Some(all[self.random.below(all.len())].clone())
    }

    fn some_file(&mut self) -> Option<String> {
        self.some(|node| matches!(node, Node::File { .. }))
    }

    fn some_dir(&mut self) -> Option<String> {
        self.some(|node| matches!(node, Node::Directory { .. }))
    }

    /// A path in a random directory, which may be free or not.
    fn some_path(&mut self) -> String {
        let dir = if self.random.below(4) == 0 { None } else { self.some_dir() };
        let letter = char::from(b'a' + u8::try_from(self.random.below(10)).expect("small"));
        let name = format!("{letter}{}", self.random.below(30));
        match dir {
            Some(dir) => format!("{dir}/{name}"),
            None => name,
        }
    }

    fn step(&mut self) -> io::Result<()> {
        match self.random.below(100) {
            0..28 => self.write(),
            28..38 => self.mkdir(),
            38..47 => self.append(),
            47..58 => self.unlink(),
            58..69 => self.rename_file(),
            69..77 => self.rename_dir(),
            77..82 => self.remove_tree(),
            82..86 => self.link(),
            86..88 => self.unlink_link(),
            88..91 => self.truncate(),
            91..93 => self.chmod(),
            93..95 => self.chmod_dir(),
            _ => self.read(),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let path = self.some_path();
        let mode = match self.model.0.get(&path) {
            None => NEW_FILE,
            Some(Node::File { mode, .. }) => *mode,
            Some(Node::Directory { .. } | Node::Link { .. }) => return Ok(()),
        };
        let byte = u8::try_from(self.random.below(256)).expect("small");
        let bytes = vec![byte; self.random.one_of(&SIZES)];
        self.note(format!("write {path}, {} bytes", bytes.len()));
        let mut file = fs::File::create(self.at(&path)).map_err(at(&path))?;
        file.write_all(&bytes)?;
        testkit::close(file).map_err(at(&path))?;
        self.model.0.insert(path, Node::File { bytes, mode });
        Ok(())
    }

    fn append(&mut self) -> io::Result<()> {
        let Some(path) = self.some_file() else { return Ok(()) };
        self.note(format!("append to {path}"));
        let file = OpenOptions::new().append(true).open(self.at(&path));
        let mut file = file.map_err(at(&path))?;
        file.write_all(b"+more")?;
        testkit::close(file).map_err(at(&path))?;
        if let Some(Node::File { bytes, .. }) = self.model.0.get_mut(&path) {
            bytes.extend(b"+more");
        }
        Ok(())
    }

    fn mkdir(&mut self) -> io::Result<()> {
        let path = self.some_path();
        if self.model.0.contains_key(&path) || DEPTH_MAX < path.matches('/').count() {
            return Ok(());
        }
        self.note(format!("mkdir {path}"));
        fs::create_dir(self.at(&path)).map_err(at(&path))?;
        self.model.0.insert(path, Node::Directory { mode: NEW_DIR });
        Ok(())
    }

    fn unlink(&mut self) -> io::Result<()> {
        let Some(path) = self.some_file() else { return Ok(()) };
        self.remove_one(&path)
    }

    fn unlink_link(&mut self) -> io::Result<()> {
        let Some(path) = self.some(|node| matches!(node, Node::Link { .. })) else { return Ok(()) };
        self.remove_one(&path)
    }

    fn remove_one(&mut self, path: &str) -> io::Result<()> {
        self.note(format!("unlink {path}"));
        fs::remove_file(self.at(path)).map_err(at(path))?;
        self.model.remove(path);
        Ok(())
    }

    fn rename_file(&mut self) -> io::Result<()> {
        let (Some(from), to) = (self.some_file(), self.some_path()) else { return Ok(()) };
        if from == to || matches!(self.model.0.get(&to), Some(Node::Directory { .. })) {
            return Ok(());
        }
        self.note(format!("rename {from} to {to}"));
        fs::rename(self.at(&from), self.at(&to)).map_err(at(&from))?;
        self.model.remove(&to);
        self.model.rename(&from, &to);
        Ok(())
    }

    /// To a free name, or over an empty directory; then looks at once at something below it.
    fn rename_dir(&mut self) -> io::Result<()> {
        let (Some(from), to) = (self.some_dir(), self.some_path()) else { return Ok(()) };
        let is_free = match self.model.0.get(&to) {
            None => true,
            Some(Node::Directory { .. }) => self.model.names(&to).is_empty(),
            Some(Node::File { .. } | Node::Link { .. }) => false,
        };
        if !is_free || is_within(&to, &from) || is_within(&from, &to) {
            return Ok(());
        }
        self.note(format!("rename directory {from} to {to}"));
        fs::rename(self.at(&from), self.at(&to)).map_err(at(&from))?;
        self.model.remove(&to);
        self.model.rename(&from, &to);
        let below = self.model.0.keys().filter(|path| is_within(path, &to) && **path != to);
        let below: Vec<String> = below.cloned().collect();
        if below.is_empty() {
            return Ok(());
        }
        let path = below[self.random.below(below.len())].clone();
        self.note(format!("stat {path}"));
        self.at(&path).symlink_metadata().map_err(at(&path)).map(drop)
    }

    fn remove_tree(&mut self) -> io::Result<()> {
        let Some(path) = self.some_dir() else { return Ok(()) };
        self.note(format!("remove tree {path}"));
        fs::remove_dir_all(self.at(&path)).map_err(at(&path))?;
        self.model.remove(&path);
        Ok(())
    }

    fn link(&mut self) -> io::Result<()> {
        let path = self.some_path();
        if self.model.0.contains_key(&path) {
            return Ok(());
        }
        let target = format!("target-{}", self.done.len());
        self.note(format!("link {path}"));
        symlink(&target, self.at(&path)).map_err(at(&path))?;
        self.model.0.insert(path, Node::Link { target });
        Ok(())
    }

    fn truncate(&mut self) -> io::Result<()> {
        let (Some(path), size) = (self.some_file(), self.random.below(200)) else { return Ok(()) };
        self.note(format!("truncate {path} to {size}"));
        let file = OpenOptions::new().write(true).open(self.at(&path)).map_err(at(&path))?;
        file.set_len(size as u64)?;
        testkit::close(file).map_err(at(&path))?;
        if let Some(Node::File { bytes, .. }) = self.model.0.get_mut(&path) {
            bytes.resize(size, 0);
        }
        Ok(())
    }

    fn chmod(&mut self) -> io::Result<()> {
        let (Some(path), new) = (self.some_file(), self.random.one_of(&FILE_MODES)) else {
            return Ok(());
        };
        self.change_mode(&path, new)?;
        if let Some(Node::File { mode, .. }) = self.model.0.get_mut(&path) {
            *mode = new;
        }
        Ok(())
    }

    fn chmod_dir(&mut self) -> io::Result<()> {
        let (Some(path), new) = (self.some_dir(), self.random.one_of(&DIR_MODES)) else {
            return Ok(());
        };
        self.change_mode(&path, new)?;
        if let Some(Node::Directory { mode }) = self.model.0.get_mut(&path) {
            *mode = new;
        }
        Ok(())
    }

    fn change_mode(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.note(format!("chmod {path} {mode:o}"));
        fs::set_permissions(self.at(path), Permissions::from_mode(mode)).map_err(at(path))
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(path) = self.some_file() else { return Ok(()) };
        self.note(format!("read {path}"));
        let there = fs::read(self.at(&path)).map_err(at(&path))?;
        match self.model.0.get(&path) {
            Some(Node::File { bytes, .. }) if *bytes != there => {
                let (is, want) = (there.len(), bytes.len());
                Err(io::Error::other(format!("{path} has {is} bytes, or others, for {want}")))
            }
            _ => Ok(()),
        }
    }

    fn compare_names(&mut self) -> io::Result<()> {
        let dir = self.some_dir().unwrap_or_default();
        self.note(format!("list {dir}"));
        let names = crate::names(&self.at(&dir));
        let mut want = self.model.names(&dir);
        want.sort();
        if names == want {
            Ok(())
        } else {
            Err(io::Error::other(format!("{dir} has {names:?} instead of {want:?}")))
        }
    }
}

/// An error that names the path.
fn at(path: &str) -> impl Fn(io::Error) -> io::Error {
    let path = path.to_owned();
    move |error| io::Error::new(error.kind(), format!("{path}: {error}"))
}
