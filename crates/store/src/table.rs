//! The versions this process has open: one [`Cached`] for each, kept a while after its last use.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::backing::BackingFile;
use crate::cached::{Body, Cached, Use};
use crate::error::{Error, Result};
use crate::ground::Ground;
use crate::layout::VersionName;
use crate::lock::Mode;
use crate::presence::Presence;
use crate::recovery;
use crate::state::versions::{VersionNews, VersionRow};

/// How many versions that nobody uses stay open: small files are often opened again.
const IDLE_FILES_MAX: usize = 256;

/// How long a version that nobody uses stays open, in microseconds.
const IDLE_MICROS_MAX: u64 = 30_000_000;

/// How many versions are recorded in one transaction.
const BATCH_FILES_MAX: usize = 256;

/// How often a backing file is looked for that others remove at the same time.
const OPEN_ATTEMPTS_MAX: usize = 64;

/// The open versions by name.
#[derive(Debug)]
pub(crate) struct Table {
    ground: Arc<Ground>,
    // Invariant: the only place where an unused version's `Arc` is; who holds the lock and counts
    // one reference knows that nobody else can get another.
    open: Mutex<Open>,
    // A version is no longer being opened.
    opened: Condvar,
}

/// The table, locked.
#[derive(Debug)]
pub(crate) struct Open {
    files: HashMap<VersionName, Arc<Cached>>,
    // Those that somebody is about to open, without the lock: that waits for the disk and the database.
    opening: HashSet<VersionName>,
    // How many files there may be before unused ones are looked for.
    trim_above: usize,
}

/// A version that is being opened: whoever else wants it waits until this is dropped.
struct Opening<'a> {
    table: &'a Table,
    name: VersionName,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.table.open.lock().opening.remove(&self.name);
        self.table.opened.notify_all();
    }
}

impl Table {
    /// A table with nothing in it.
    pub(crate) fn new(ground: &Arc<Ground>) -> Table {
        let open =
            Open { files: HashMap::new(), opening: HashSet::new(), trim_above: IDLE_FILES_MAX };
        Table { ground: Arc::clone(ground), open: Mutex::new(open), opened: Condvar::new() }
    }

    /// The table for those who check and change several things at once.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// The table when nobody is about to open one of `names`.
    pub(crate) fn lock_for(&self, names: &[VersionName]) -> MutexGuard<'_, Open> {
        let mut open = self.open.lock();
        let is_opening = |open: &mut Open| names.iter().any(|name| open.opening.contains(name));
        self.opened.wait_while(&mut open, is_opening);
        open
    }

    /// The version `identity` of `size` bytes, found or made, for a user.
    pub(crate) fn version(&self, identity: &[u8], size: u64) -> Result<Arc<Cached>> {
        let name = VersionName::of(identity, size);
        let mut open = self.lock_for(&[name]);
        if let Some(cached) = open.files.get(&name) {
            if Arc::strong_count(cached) == 1 {
                cached.note_open();
            }
            return Ok(Arc::clone(cached));
        }
        open.opening.insert(name);
        drop(open);
        let _opening = Opening { table: self, name };
        let cached = Arc::new(self.open_version(identity, (name, size))?);
        let mut open = self.open.lock();
        open.files.insert(name, Arc::clone(&cached));
        self.trim_if_many(&mut open);
        Ok(cached)
    }

    /// Closes unused versions if more are open than may be: each is a descriptor of this process.
    pub(crate) fn trim_if_many(&self, open: &mut Open) {
        if open.trim_above < open.files.len()
            && let Err(error) = self.trim(open, 0)
        {
            // They stay open, as far as there are descriptors.
            tracing::warn!(%error, "cannot close unused files");
        }
    }

    /// Records what is known of all open versions, and closes those that were not used for a while
    /// or are too many: another process cannot drop what is open here.
    pub(crate) fn save(&self) -> Result<()> {
        self.save_and_close(self.ground.stamp().saturating_sub(IDLE_MICROS_MAX))
    }

    /// Records and closes all that nobody uses: another process has no room for what it reads.
    pub(crate) fn close_idle(&self) -> Result<()> {
        self.save_and_close(self.ground.stamp())
    }

    /// Records all, and closes what was last wanted before `old`.
    fn save_and_close(&self, old: u64) -> Result<()> {
        let files: Vec<Arc<Cached>> = self.open.lock().files.values().cloned().collect();
        let saved = self.save_files(&files);
        drop(files);
        self.trim(&mut self.open.lock(), old)?;
        saved
    }

    /// Closes the unused versions that were last wanted before `old`, and the longest unwanted of the
    /// others if there are too many.
    fn trim(&self, open: &mut Open, old: u64) -> Result<()> {
        open.trim_above = open.files.len() + IDLE_FILES_MAX;
        let mut idle: Vec<(u64, VersionName)> = open
            .files
            .values()
            .filter(|cached| is_idle(cached))
            .map(|cached| (cached.wanted_at(), cached.name()))
            .collect();
        idle.sort_unstable();
        let too_many = idle.len().saturating_sub(IDLE_FILES_MAX / 2);
        let too_old = idle.partition_point(|(wanted_at, _)| *wanted_at < old);
        idle.truncate(too_many.max(too_old));
        let closing: Vec<Arc<Cached>> =
            idle.iter().map(|(_, name)| Arc::clone(&open.files[name])).collect();
        // Recorded before it is closed: closing lets other processes drop it.
        self.save_files(&closing)?;
        for (_, name) in &idle {
            open.files.remove(name);
        }
        open.trim_above = open.files.len() + IDLE_FILES_MAX;
        Ok(())
    }

    pub(crate) fn save_files(&self, files: &[Arc<Cached>]) -> Result<()> {
        for batch in files.chunks(BATCH_FILES_MAX) {
            let turn = self.ground.turn();
            let taken = batch.iter().filter_map(|cached| {
                let (news, come_bytes) = cached.take_news(&turn)?;
                Some(((cached, come_bytes), news))
            });
            let (sources, news): (Vec<(&Arc<Cached>, u64)>, Vec<VersionNews<'_>>) = taken.unzip();
            if news.is_empty() {
                continue;
            }
            if let Err(error) = self.ground.db.save_versions(&news) {
                for ((cached, come_bytes), news) in sources.iter().zip(&news) {
                    cached.give_back_news(news, *come_bytes);
                }
                return Err(error);
            }
            drop(turn);
            self.ground.space.recorded(sources.iter().map(|(_, come_bytes)| come_bytes).sum());
            self.ground.space.tell();
        }
        Ok(())
    }

    /// Opens or makes the backing file and reads what is recorded of it.
    fn open_version(&self, identity: &[u8], (name, size): (VersionName, u64)) -> Result<Cached> {
        // It may have come from staging a moment ago.
        self.ground.db.settle()?;
        let (file, row) = self.claim_file(name, size)?;
        let presence = Presence::empty(size);
        let mut used = Use { last_use: self.ground.stamp(), uses: 0 };
        if let Some(row) = row {
            used = Use { last_use: row.last_use, uses: row.uses };
            for (piece, map, standing) in &row.pieces {
                presence.load(*piece, map, *standing, row.last_use);
            }
        }
        let body = Body { file, presence };
        Ok(Cached::new(&self.ground, identity, (name, size), body, used))
    }

    /// The backing file of a version, of the right length and with a shared claim on it, and what
    /// is recorded of it.
    fn claim_file(
        &self,
        name: VersionName,
        size: u64,
    ) -> Result<(Arc<BackingFile>, Option<VersionRow>)> {
        let path = self.ground.layout.object(name);
        let io = |error| Error::io("open cached file", &path, error);
        for _ in 0..OPEN_ATTEMPTS_MAX {
            let file = self.open_file(&path).map_err(io)?;
            // Whoever takes or evicts it removes the name while the claim is theirs alone.
            if !file.join().map_err(io)? {
                continue;
            }
            let Some(len) = self.current_len(&path, &file).map_err(io)? else { continue };
            let is_made = len == size;
            if is_made {
                let row = self.ground.db.version(name)?;
                let is_known = row.as_ref().is_some_and(|row| row.inode == file.inode());
                if is_known || row.is_none() && !file.is_allocated().map_err(io)? {
                    return Ok((file, row));
                }
            }
            // Of the bytes in it, if any, nothing is known: it is new, or its maker died, or uses
            // it and has recorded nothing yet. Two who find this must not both keep the shared
            // claim while they ask for more.
            file.disclaim().map_err(io)?;
            let moving = file.moving().map_err(io)?;
            let is_ours = file.claim(Mode::Exclusive).map_err(io)?;
            let is_current = self.current_len(&path, &file).map_err(io)?.is_some();
            if !is_current || !is_ours && !is_made {
                continue;
            }
            let row = if is_ours { self.make(name, size, &file)? } else { None };
            if file.claim(Mode::Shared).map_err(io)? {
                drop(moving);
                return Ok((file, row));
            }
        }
        Err(io(io::Error::other("others keep removing it")))
    }

    /// Makes a file of the right length with no bytes in it, under the exclusive claim, unless
    /// someone else did more than that since we looked.
    fn make(&self, name: VersionName, size: u64, file: &BackingFile) -> Result<Option<VersionRow>> {
        let io = |error| Error::io("make cached file", &self.ground.layout.object(name), error);
        let row = self.ground.db.version(name)?;
        let is_known = row.as_ref().is_some_and(|row| row.inode == file.inode());
        if is_known && file.len().map_err(io)? == size {
            return Ok(row);
        }
        if row.is_some() {
            self.ground.db.forget_versions(&[name])?;
        }
        file.set_len(0).map_err(io)?;
        file.set_len(size).map_err(io)?;
        Ok(None)
    }

    fn open_file(&self, path: &Path) -> io::Result<Arc<BackingFile>> {
        let disk = &self.ground.disk;
        recovery::clear(&self.ground, path);
        let file = match disk.open_or_create(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.make_folder_in(path.parent().expect("objects are in folders"))?;
                disk.open_or_create(path)?
            }
            file => file?,
        };
        Ok(Arc::new(BackingFile::new(file, Arc::clone(disk))?))
    }

    /// How long `file` is; `None` if `path` leads elsewhere by now.
    fn current_len(&self, path: &Path, file: &BackingFile) -> io::Result<Option<u64>> {
        let found = self.ground.disk.inode_and_len(path)?;
        Ok(found.and_then(|(inode, len)| (inode == file.inode()).then_some(len)))
    }
}

impl Open {
    /// The version `name`, if it is open.
    pub(crate) fn get(&self, name: VersionName) -> Option<&Arc<Cached>> {
        self.files.get(&name)
    }

    /// All open versions.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<Cached>> {
        self.files.values()
    }

    /// Adds a version that is not open.
    pub(crate) fn insert(&mut self, cached: Arc<Cached>) {
        self.files.insert(cached.name(), cached);
    }

    /// Closes a version.
    pub(crate) fn remove(&mut self, name: VersionName) -> Option<Arc<Cached>> {
        self.files.remove(&name)
    }
}

/// Whether nobody but the table, which the caller has locked, has the version or its file.
pub(crate) fn is_idle(cached: &Arc<Cached>) -> bool {
    Arc::strong_count(cached) == 1
        && cached.here("look").map_or(true, |body| Arc::strong_count(&body.file) == 1)
}
