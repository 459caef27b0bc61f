//! `Store`: the state folder as one process uses it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use base::{Clock, Metrics};

use crate::cached::Cached;
use crate::collect::{self, Dropped, collect};
use crate::damaged;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::ground::Ground;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::moves::{self, Adopted, Base};
use crate::numbers::Numbers;
use crate::orphan::{self, Orphan};
use crate::owners::{Company, Owners};
use crate::pins::Pins;
use crate::quota::Quota;
use crate::recovery::{self, Keeping};
use crate::sealed::Sealed;
use crate::space::{CacheLimit, Keeper, Space};
use crate::staged::Staged;
use crate::state::Db;
use crate::table::Table;

/// What the store is to use.
#[derive(Clone, Debug)]
pub struct Options {
    /// The state folder: it holds bytes that exist nowhere else.
    pub dir: PathBuf,
    /// How large the cache may grow.
    pub cache: CacheLimit,
}

/// What is used and what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What clean data takes on the disk.
    pub cached_bytes: u64,
    /// What data takes on the disk that the bucket does not have.
    pub staged_bytes: u64,
    /// What is free on the disk.
    pub disk_free_bytes: u64,
    /// How large the disk is.
    pub disk_total_bytes: u64,
}

/// What a test decides instead of the machine.
#[cfg(feature = "testing")]
#[derive(Clone, Debug)]
pub struct World {
    /// What goes wrong with the disk.
    pub faults: Arc<crate::Faults>,
    /// Which run of the machine it is.
    pub boot_id: String,
}

/// The local store. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ground: Arc<Ground>,
    table: Arc<Table>,
    journal: Journal,
    // Locks that say that we are alive; the journal has them too.
    owners: Arc<Owners>,
    /// The database that was found damaged.
    set_aside: Option<PathBuf>,
}

impl Store {
    /// Opens the state folder, makes it if it is not there, and puts in order what earlier
    /// processes left, unless others are at work in it.
    pub fn open(options: Options, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Result<Store> {
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        let boot_id =
            fs::read_to_string(path).map_err(|error| Error::io("read boot id", path, error))?;
        Store::assemble(options, (clock, metrics), &Arc::new(Disk::default()), boot_id.trim())
    }

    /// Whether there is a state folder `dir`.
    pub fn is_at(dir: &Path) -> bool {
        Layout::new(dir.to_owned()).database().exists()
    }

    /// Opens the state folder in a world that a test has made.
    #[cfg(feature = "testing")]
    pub fn open_in(
        world: &World,
        options: Options,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Store> {
        let disk = Arc::new(Disk::faulty(Arc::clone(&world.faults)));
        Store::assemble(options, (clock, metrics), &disk, &world.boot_id)
    }

    /// Opens the state folder by this clock, on this disk and in this run of the machine.
    pub(crate) fn assemble(
        options: Options,
        (clock, metrics): (Arc<dyn Clock>, Arc<Metrics>),
        disk: &Arc<Disk>,
        boot_id: &str,
    ) -> Result<Store> {
        let Options { dir, cache } = options;
        let layout = Layout::new(dir);
        let folders =
            [layout.dir().to_owned(), layout.objects(), layout.stage(), layout.recovery()];
        for folder in &folders {
            let io = |error| Error::io("make folder", folder, error);
            disk.make_folder(folder).map_err(io)?;
        }
        let (owners, company) = Owners::open(&layout, disk)?;
        let begin = || {
            let (clock, metrics) = (Arc::clone(&clock), Arc::clone(&metrics));
            begin((layout.dir(), cache), (clock, metrics), disk, boot_id, (&owners, company))
        };
        let (ground, set_aside) = match begin() {
            Err(error) if company == Company::None && damaged::is_damaged(&error) => {
                let path = damaged::set_aside(&layout, disk, &error)?;
                (begin()?, Some(path))
            }
            ground => (ground?, None),
        };
        if company == Company::None {
            owners.join()?;
        }
        let table = Arc::new(Table::new(&ground));
        ground.space.set_keeper(keeper(&table, &ground));
        ground.space.tally()?;
        let owners = Arc::new(owners);
        let journal = Journal::new(&ground, &owners);
        Ok(Store { shared: Arc::new(Shared { ground, table, journal, owners, set_aside }) })
    }

    /// What all parts share.
    pub(crate) fn ground(&self) -> &Ground {
        &self.shared.ground
    }

    /// Who has the state folder open.
    pub(crate) fn owners(&self) -> &Owners {
        &self.shared.owners
    }

    /// How many files of the state folder are open here that have bytes of a file: each is a descriptor of this process.
    pub fn open_files(&self) -> usize {
        self.shared.ground.disk.open_files()
    }

    /// The time that the store goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.shared.ground.clock()
    }

    /// Where the database is that was found damaged when the folder was opened, if it was.
    pub fn set_aside(&self) -> Option<&Path> {
        self.shared.set_aside.as_deref()
    }

    /// The backing file of the immutable version `identity` of `size` bytes, found or made. There
    /// is one for each version as long as someone has it.
    pub fn cached(&self, identity: &[u8], size: u64) -> Result<Arc<Cached>> {
        self.shared.table.version(identity, size)
    }

    /// A file for bytes that the bucket does not have yet. The note is for recovery: it comes back
    /// with the [`Orphan`].
    ///
    /// [`Base::Take`] fails with [`Held`](crate::ErrorKind::Held) if another process or file
    /// uses the version, and with [`Missing`](crate::ErrorKind::Missing) if not all of it is here.
    pub fn stage(&self, note: &[u8], base: Base) -> Result<Arc<Staged>> {
        let Shared { ground, table, .. } = &*self.shared;
        match base {
            Base::Empty => moves::stage_new(ground, note, None),
            Base::Over { cached, bytes } => {
                let visible = bytes.min(cached.size());
                moves::stage_new(ground, note, Some((cached, visible)))
            }
            Base::Take(cached) => moves::take(table, ground, note, &cached),
        }
    }

    /// The bucket has the sealed bytes as the version `identity`. If nothing was written since the
    /// seal, the staged file becomes the cached one.
    ///
    /// # Panics
    ///
    /// If `sealed` is not of `staged`.
    pub fn adopt(&self, staged: &Arc<Staged>, sealed: Sealed, identity: &[u8]) -> Result<Adopted> {
        moves::adopt(&self.shared.table, staged, sealed, identity)
    }

    /// The bucket has not taken the sealed bytes: they stay, and stay dirty.
    pub fn reject(&self, staged: &Arc<Staged>, mut sealed: Sealed) {
        assert!(Arc::ptr_eq(sealed.staged(), staged), "a sealed version of another file");
        sealed.rejected();
    }

    /// A staged file that is clean becomes the cached one (again); `None` if it stays, because it
    /// is dirty or because the kernel has it.
    pub fn restore(&self, staged: &Arc<Staged>) -> Result<Option<Arc<Cached>>> {
        moves::restore(&self.shared.table, staged)
    }

    /// Gives up a staged file whose bytes nobody needs.
    pub fn discard(&self, staged: &Arc<Staged>) -> Result<()> {
        moves::discard(staged)
    }

    /// Moves the bytes of a staged file to the recovery folder, beside a note that tells why, what
    /// is missing and where that is; returns the path of the bytes. Whoever has the file open can go
    /// on reading and writing it there, but it can no more be sealed.
    pub fn to_recovery(&self, staged: &Arc<Staged>, keeping: Keeping<'_>) -> Result<PathBuf> {
        recovery::keep(staged, keeping)
    }

    /// Notes of several staged files change together: after a crash all are as they were, or none.
    pub fn set_notes(&self, notes: &[(&Staged, &[u8])]) -> Result<()> {
        let notes: Vec<_> = notes.iter().map(|(staged, note)| (staged.id(), *note)).collect();
        self.shared.ground.db.set_staged_notes(&notes)
    }

    /// Whoever is about to note nothing of a staged file panics from here on, as if the process died.
    #[cfg(feature = "testing")]
    pub fn die_at_an_empty_note(&self) {
        self.shared.ground.db.die_at_an_empty_note();
    }

    /// What is to be carried out whatever happens.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The inode numbers of `volume` that are not what their paths say.
    pub fn numbers(&self, volume: &str) -> Numbers {
        Numbers::new(&self.shared.ground, volume)
    }

    /// What was found out about the store behind `volume`.
    pub fn facts(&self, volume: &str) -> Facts {
        Facts::new(&self.shared.ground, volume)
    }

    /// Which folders of `volume` were used last, as [`Store::note_folders`] was told.
    pub fn folders(&self, volume: &str) -> Result<Vec<Vec<u8>>> {
        self.shared.ground.db.folders(volume)
    }

    /// Notes that these folders of `volume` were used last, for the next mount.
    pub fn note_folders(&self, volume: &str, prefixes: &[&[u8]]) -> Result<()> {
        self.shared.ground.db.note_folders(volume, prefixes)
    }

    /// What of `volume` is never dropped.
    pub fn pins(&self, volume: &str) -> Pins {
        Pins::new(&self.shared.ground, volume)
    }

    /// What pinned versions take of the cache, of all volumes.
    pub fn pinned_bytes(&self) -> Result<u64> {
        self.shared.ground.db.pinned_bytes()
    }

    /// Drops all that is here of a version whose bytes turned out to be wrong, pinned or not. Where another
    /// process has it open they stay on the disk until that closes it, but nobody reads them here nor learns of
    /// them any more: the version has another file from now on. What that process has learned of them before it
    /// keeps for itself.
    pub fn forget(&self, cached: &Arc<Cached>) -> Result<u64> {
        collect::forget(&self.shared.ground, cached)
    }

    /// Drops all that is here of the version `identity` of `size` bytes, if nobody uses it.
    pub fn drop_version(&self, identity: &[u8], size: u64) -> Result<Dropped> {
        collect::drop_version(&self.shared.table, &self.shared.ground, (identity, size))
    }

    /// What the cache could take besides what is pinned, with nothing else in it.
    pub fn cacheable_bytes(&self) -> Result<u64> {
        let ground = &self.shared.ground;
        Ok(ground.space.capacity_bytes().saturating_sub(ground.db.pinned_bytes()?))
    }

    /// Claims the staged files whose process died.
    pub fn orphans(&self) -> Result<Vec<Orphan>> {
        orphan::claim_all(&self.shared.ground)
    }

    /// Whether `bytes` of versions would fit with nothing of the cache going for them.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.shared.ground.space.has_room(bytes)
    }

    /// What is used and what is free.
    pub fn usage(&self) -> Result<Usage> {
        let ground = &self.shared.ground;
        ground.db.settle()?;
        ground.space.tally()?;
        let room = ground.space.room()?;
        let mut staged_bytes = 0;
        let folder = ground.layout.stage();
        let mut each = |_: &OsStr, metadata: &fs::Metadata| {
            use std::os::unix::fs::MetadataExt;
            staged_bytes += metadata.blocks() * 512;
        };
        ground.disk.list(&folder, &mut each).map_err(|error| Error::io("list", &folder, error))?;
        Ok(Usage {
            cached_bytes: ground.space.held_bytes()?,
            staged_bytes,
            disk_free_bytes: room.free_bytes,
            disk_total_bytes: room.total_bytes,
        })
    }

    /// What is taken on the disk by bytes that the bucket does not have.
    pub fn dirty_bytes(&self) -> u64 {
        self.shared.ground.space.dirty().total()
    }

    /// What such bytes could take if nothing else were here: what is free, and what can be dropped.
    pub fn room_bytes(&self) -> Result<u64> {
        let space = &self.shared.ground.space;
        let held_bytes = space.used_bytes().saturating_add(space.dirty().total());
        Ok(space.room()?.free_bytes.saturating_add(held_bytes))
    }

    /// Drops what is here of the first `below` bytes of a version although somebody has it open,
    /// unless the kernel or another process reads it itself; returns how many bytes that freed.
    pub fn let_go(&self, cached: &Arc<Cached>, below: u64) -> Result<u64> {
        collect::let_go(&self.shared.ground, cached, below)
    }

    /// Records what is here of one version, for other processes and for after a crash.
    pub fn record(&self, cached: &Arc<Cached>) -> Result<()> {
        self.shared.table.save_files(std::slice::from_ref(cached))
    }

    /// Records what is only known in memory: what is here, and when it was last used. Also the time
    /// to learn what other processes added to the cache.
    pub fn checkpoint(&self) -> Result<()> {
        let ground = &self.shared.ground;
        ground.space.balance()?;
        ground.db.tidy()
    }

    /// Records what waits to be, and lets go of what nobody uses if another process has no room.
    pub fn settle(&self) -> Result<()> {
        let Shared { ground, table, .. } = &*self.shared;
        ground.db.settle()?;
        if ground.space.is_room_wanted() { table.close_idle() } else { Ok(()) }
    }
}

/// Opens the database and, where nobody else is at work, puts in order what it speaks of.
fn begin(
    (dir, cache): (&Path, CacheLimit),
    world: (Arc<dyn Clock>, Arc<Metrics>),
    disk: &Arc<Disk>,
    boot_id: &str,
    (owners, company): (&Owners, Company),
) -> Result<Arc<Ground>> {
    let layout = Layout::new(dir.to_owned());
    let database = layout.database();
    // Made here, so that it and what is put beside it are for nobody else to read.
    disk.open_or_create(&database).map_err(|error| Error::io("open", &database, error))?;
    let db = Db::open(&database, boot_id, disk)?;
    owners.enter(db.owner())?;
    let space = Space::new(cache, dir, Arc::clone(disk), Quota::open(&layout, disk)?);
    let ground = Arc::new(Ground::new(layout, Arc::clone(disk), db, space, world));
    if company == Company::None {
        recovery::sweep(&ground)?;
        ground.db.sum_up_versions()?;
    }
    Ok(ground)
}

/// Who knows what is here. The books do not keep the table alive.
fn keeper(table: &Arc<Table>, ground: &Arc<Ground>) -> Box<dyn Keeper> {
    Box::new(TableKeeper { table: Arc::downgrade(table), ground: Arc::downgrade(ground) })
}

struct TableKeeper {
    table: Weak<Table>,
    ground: Weak<Ground>,
}

impl Keeper for TableKeeper {
    fn record(&self) -> Result<()> {
        self.ground.upgrade().map_or(Ok(()), |ground| ground.db.settle())?;
        self.table.upgrade().map_or(Ok(()), |table| table.save())
    }

    fn recorded_bytes(&self) -> Result<u64> {
        self.ground.upgrade().map_or(Ok(0), |ground| ground.db.cached_disk_bytes())
    }

    fn collect(&self, bytes: u64) -> u64 {
        match (self.table.upgrade(), self.ground.upgrade()) {
            (Some(table), Some(ground)) => collect(&table, &ground, bytes),
            _ => 0,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let saved = self.table.save();
        if let Err(error) = saved.and(self.ground.db.end()) {
            tracing::warn!(%error, "cannot record what is in the cache");
        }
    }
}
