//! Files change sides: from the cache into staging, and back when the bucket has their bytes.
//!
//! Each move renames one file and changes its records. The order is such that after a crash in
//! between, bytes that exist nowhere else are still recorded, and nothing is said to be cached that
//! is not.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;

use base::ByteRange;

use crate::body::{Body, Home, Lent, View};
use crate::cached::{self, Cached, Use};
use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Origin;
use crate::ground::Ground;
use crate::layout::VersionName;
use crate::lock::Mode;
use crate::presence::{Presence, Standing};
use crate::recovery;
use crate::residency::{Event, Residency};
use crate::sealed::Sealed;
use crate::spares::Spare;
use crate::staged::{BodyGuard, Staged};
use crate::state::staged::{NewStaged, StagedState};
use crate::state::versions::VersionNews;
use crate::table::{Table, is_idle};

/// What a staged file starts from.
#[derive(Clone, Debug)]
pub enum Base {
    /// Nothing: it is empty.
    Empty,
    /// The version shows through below `bytes` where nothing was written.
    Over {
        /// The version; it need not be here.
        cached: Arc<Cached>,
        /// How much of it, and so how long the staged file is at first.
        bytes: u64,
    },
    /// The complete backing file of the version itself, which no other file may have
    /// [in use](Cached::in_use).
    Take(Arc<Cached>),
}

/// What became of a staged file whose sealed version was published.
#[derive(Clone, Debug)]
pub enum Adopted {
    /// It is the cached file of the version now, and gone from staging.
    Clean(Arc<Cached>),
    /// It was written to since the seal: it stays staged, and dirty.
    StillDirty,
    /// It is clean, but stays staged: the kernel has it, and may still write to it through a shared mapping, or
    /// others have the same version open. [`Store::restore`](crate::Store::restore) tries again.
    Kept,
}

/// Makes a staged file that is empty or lies over a version.
pub(crate) fn stage_new(
    ground: &Arc<Ground>,
    note: &[u8],
    base: Option<(Arc<Cached>, u64)>,
) -> Result<Arc<Staged>> {
    let Spare { file_name, file } =
        ground.spares.take().map_err(|error| Error::io("stage", &ground.layout.stage(), error))?;
    let path = ground.layout.staged(&file_name);
    let io = |error| Error::io("stage", &path, error);

    // A file that only shows a whole version has nothing that the bucket does not have.
    let is_clean = base.as_ref().is_some_and(|(cached, visible)| *visible == cached.size());
    let (residency, state) = if is_clean {
        (Residency::Clean, StagedState::Clean)
    } else {
        (Residency::Dirty, StagedState::Open)
    };
    let mut body = Body::new(file, 0, residency);
    if let Some((cached, visible)) = base.filter(|(_, visible)| 0 < *visible) {
        body.size = visible;
        body.file.set_len(visible).map_err(io)?;
        body.origin = Some(Origin { identity: cached.identity().into(), until: visible, since: 0 });
        if !clone_base(&mut body, &cached).map_err(io)? {
            body.base = Some(View { cached: Some(cached), visible });
        }
    }
    let id = ground.db.insert_staged(&NewStaged { file: &file_name, note, state });
    let id = id.inspect_err(|_| {
        // Nothing was promised yet; what cannot be removed is swept at the next start.
        let _ = ground.disk.unlink(&path);
    })?;
    Ok(Arc::new(Staged::new(ground, id, file_name, body)))
}

/// Where the disk can: takes over a complete base without copying it. Whether it did.
fn clone_base(body: &mut Body, cached: &Cached) -> io::Result<bool> {
    let Ok(base) = cached.here("clone") else { return Ok(false) };
    if !base.presence.is_complete() || body.file.share_from(&base.file).is_err() {
        return Ok(false);
    }
    body.file.set_len(body.size)?;
    for (piece, row) in base.presence.rows() {
        body.extents.load(piece, &row, cached.size());
    }
    if body.size < cached.size() {
        body.extents.resized(body.size);
    }
    Ok(true)
}

/// Takes a complete version's backing file into staging.
pub(crate) fn take(
    table: &Table,
    ground: &Arc<Ground>,
    note: &[u8],
    cached: &Arc<Cached>,
) -> Result<Arc<Staged>> {
    if !cached.is_complete()
        && let Some(all) = ByteRange::new(0, cached.size())
    {
        cached.verify(all)?;
    }
    let mut open = table.lock();
    // A file that came from staging a moment ago has its place in the cache then.
    ground.db.settle()?;
    let turn = ground.turn();
    let guard = cached.guard("take")?;
    if !guard.body().presence.is_complete() {
        return Err(cached.error(ErrorKind::Missing, "take"));
    }
    if cached.is_shared() {
        // The claim tells of other processes only.
        return Err(cached.error(ErrorKind::Held, "take"));
    }
    let moving = guard.moving()?;
    if !guard.is_current()? || !guard.claim(Mode::Exclusive)? {
        return Err(cached.error(ErrorKind::Held, "take"));
    }
    let file_name = ground.spares.name();
    let rows = guard.body().presence.rows();
    let (name, size) = (cached.name(), cached.size());
    let identity = cached.identity();
    let to = ground.layout.staged(&file_name);
    let new = NewStaged { file: &file_name, note, state: StagedState::Clean };
    // The record first: a staged file that nobody knows would be taken for lost bytes.
    let inode = guard.body().file.inode();
    let taken = ground.db.take_version((name, inode), &new, (identity, size), &rows);
    let taken = taken.and_then(|id| {
        let id = id.ok_or_else(|| cached.error(ErrorKind::Held, "take"))?;
        let moved = move_ours(&ground.disk, (&cached.path(), &to), inode);
        let refused = match moved {
            Ok(true) => return Ok(id),
            Ok(false) => cached.error(ErrorKind::Held, "take"),
            Err(error) => Error::io("take", &to, error),
        };
        // What is recorded now is of a file that is not there; it says so when it is opened.
        let _ = ground.db.remove_staged(id);
        Err(refused)
    });
    let id = match taken {
        Ok(id) => id,
        Err(error) => {
            guard.body().presence.give_back_unsaved(&rows);
            guard.claim(Mode::Shared)?;
            return Err(error);
        }
    };
    // Others who waited find that the name leads to no file any more.
    drop(moving);
    let cached::Body { file, presence } = guard.leave();
    open.remove(name);
    drop(turn);
    drop(open);
    ground.space.give_back(presence.disk_bytes());

    let mut body = Body::new(file, size, Residency::Clean);
    for (piece, row) in &rows {
        body.extents.load(*piece, row, size);
    }
    // The record has these sums already.
    body.extents.take_unsaved(size, 0);
    body.published = Some(identity.into());
    body.origin = (0 < size).then(|| Origin { identity: identity.into(), until: size, since: 0 });
    Ok(Arc::new(Staged::new(ground, id, file_name, body)))
}

/// Renames the file that is `inode`; false, and the names are as they were, if that one leads to another one by now. Another
/// process that has uploaded the same version puts its file in the place of ours without asking, and what is
/// looked at before is not so any more: only what came along tells.
fn move_ours(disk: &Disk, (from, to): (&Path, &Path), inode: u64) -> io::Result<bool> {
    disk.rename(from, to)?;
    let came = disk.inode(to);
    if matches!(came, Ok(Some(came)) if came == inode) {
        return Ok(true);
    }
    // Also if that is not known: in staging it would be taken for lost bytes.
    disk.rename(to, from)?;
    came.map(|_| false)
}

/// The bucket has the sealed bytes as the version `identity`.
pub(crate) fn adopt(
    table: &Table,
    staged: &Arc<Staged>,
    sealed: Sealed,
    identity: &[u8],
) -> Result<Adopted> {
    assert!(Arc::ptr_eq(sealed.staged(), staged), "a sealed version of another file");
    let moment = sealed.moment();
    let epoch = sealed.answered();
    let ground = staged.ground();
    let mut guard = staged.guard("adopt")?;
    let body = guard.body();
    if body.epoch != epoch {
        // It gave way to a newer version while it was on its way: that one is what is to be answered.
        return Ok(Adopted::StillDirty);
    }
    // Whoever can still write to it unseen is looked for by later rescans; one now, for as long as
    // the file is large, would keep everyone waiting for nothing.
    let stays = body.lent == Lent::ToKernel && !body.file.is_ours_alone();
    if !stays && let Err(error) = staged.rescan_body(body) {
        staged.thaw(body, Event::Rejected(epoch));
        return Err(error);
    }
    let origin = body.frozen.as_ref().and_then(|frozen| frozen.origin(identity));
    let is_clean = staged.thaw(body, Event::Acked(epoch));
    body.origin = origin;
    body.extents.published(moment);
    staged.count(body);
    if !is_clean {
        ground.db.set_staged_state(staged.id(), StagedState::Open)?;
        return Ok(Adopted::StillDirty);
    }
    body.published = Some(identity.into());
    if stays {
        ground.db.set_staged_clean(staged.id(), identity)?;
        return Ok(Adopted::Kept);
    }
    match become_cached(table, staged, guard) {
        Ok(Some(cached)) => Ok(Adopted::Clean(cached)),
        Ok(None) => {
            ground.db.set_staged_clean(staged.id(), identity)?;
            Ok(Adopted::Kept)
        }
        Err(error) => {
            // The bucket has the bytes; that they are not in the cache costs a download at worst.
            tracing::warn!(%error, "cannot take published bytes into the cache");
            Ok(Adopted::Kept)
        }
    }
}

/// A staged file that is clean goes (back) into the cache; `None` if it has to stay.
pub(crate) fn restore(table: &Table, staged: &Arc<Staged>) -> Result<Option<Arc<Cached>>> {
    let mut guard = staged.guard("restore")?;
    let body = guard.body();
    if !staged.is_body_back(body)? {
        return Ok(None);
    }
    if body.residency != Residency::Clean || body.home == Home::Recovery {
        return Ok(None);
    }
    if body.published.is_some() {
        return become_cached(table, staged, guard);
    }
    // It only showed another version and was never written to: that version is still there.
    let Some(base) = shown(table, body) else { return Ok(None) };
    remove(staged, guard)?;
    Ok(Some(base))
}

/// The version of which a file shows all, through holes or as a clone of it.
fn shown(table: &Table, body: &Body) -> Option<Arc<Cached>> {
    let through = body.base.as_ref().and_then(|view| view.cached.clone());
    through.or_else(|| {
        let origin = body.origin.as_ref().filter(|origin| origin.until == body.size)?;
        table.lock().get(VersionName::of(&origin.identity, body.size)).cloned()
    })
}

/// Moves a clean file into the cache. `None` if the kernel could still write to it, or if it reads it and others
/// have the same version open.
fn become_cached(
    table: &Table,
    staged: &Staged,
    mut guard: BodyGuard<'_>,
) -> Result<Option<Arc<Cached>>> {
    let ground = staged.ground();
    let body = guard.body();
    assert_eq!(body.residency, Residency::Clean, "only the bucket's bytes are cached");
    if body.lent == Lent::ToKernel && !body.file.is_ours_alone() {
        return Ok(None);
    }
    let identity = body.published.clone().expect("a clean file was published as something");
    let size = body.size;
    let name = VersionName::of(&identity, size);
    let rows = body.extents.rows(size, body.visible());
    let used = Use { last_use: ground.stamp(), uses: 1 };
    let (from, to) = (staged.path(), ground.layout.object(name));
    let io = |error| Error::io("adopt", &to, error);
    let presence = Presence::empty(size);
    for (piece, row) in &rows {
        presence.load(*piece, row, Standing::Here, used.last_use);
    }
    let news = VersionNews {
        name,
        identity: Cow::Owned(identity.to_vec()),
        size,
        inode: body.file.inode(),
        last_use: used.last_use,
        uses: used.uses,
        pieces: rows,
    };

    let mut open = table.lock_for(&[name]);
    let is_read_by_kernel = 1 < Arc::strong_count(&body.file);
    if is_read_by_kernel && open.get(name).is_some_and(|cached| !is_idle(cached)) {
        // Whoever comes to write next has to write to this very file, which must not be another file's, too.
        return Ok(None);
    }
    let turn = ground.turn();
    // The record first: until it is made, this is the staged file that it was, and what is to
    // become of it is done again after a crash. The bucket has the bytes.
    let (disk, place) = (Arc::clone(&ground.disk), to.clone());
    recovery::clear(ground, &to);
    let disk_bytes = presence.disk_bytes();
    ground.space.add_clean(disk_bytes);
    let books = Arc::downgrade(ground);
    let put = move || {
        if let Some(ground) = books.upgrade() {
            ground.space.recorded(disk_bytes);
        }
        if let Err(error) = rename_into(&disk, &from, &place) {
            tracing::warn!(path = %place.display(), %error, "cannot take a file into the cache");
        }
    };
    ground.db.adopt_staged(staged.id(), staged.file_name(), news, put)?;
    let body = guard.leave();
    staged.count_nothing();
    body.file.claim(Mode::Shared).map_err(io)?;
    let body = cached::Body { file: body.file, presence };
    let cached = if let Some(cached) = open.get(name) {
        // Someone has the version open: they go on with the complete file.
        ground.space.give_back(cached.replace_body(body));
        Arc::clone(cached)
    } else {
        let cached = Arc::new(Cached::new(ground, &identity, (name, size), body, used));
        open.insert(Arc::clone(&cached));
        cached
    };
    drop(turn);
    // Whoever writes many files opens none of them.
    table.trim_if_many(&mut open);
    drop(open);
    ground.space.make_room_after(disk_bytes);
    Ok(Some(cached))
}

/// Renames into a folder that may not be there yet.
fn rename_into(disk: &Disk, from: &Path, to: &Path) -> io::Result<()> {
    match disk.rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.make_folder_in(to.parent().expect("objects are in folders"))?;
            disk.rename(from, to)
        }
        renamed => renamed,
    }
}

/// Gives up a staged file.
pub(crate) fn discard(staged: &Staged) -> Result<()> {
    remove(staged, staged.guard("discard")?)
}

fn remove(staged: &Staged, guard: BodyGuard<'_>) -> Result<()> {
    let ground = staged.ground();
    for path in [staged.path(), ground.layout.side(staged.file_name())] {
        ground.disk.unlink(&path).map_err(|error| Error::io("discard", &path, error))?;
    }
    // The record last: a staged file that nobody knows would be taken for lost bytes.
    ground.db.remove_staged(staged.id())?;
    drop(guard.leave());
    staged.count_nothing();
    Ok(())
}
