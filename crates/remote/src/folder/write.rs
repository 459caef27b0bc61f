//! Writes objects: bytes into a file of the side area first, then one rename into place.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use base::Timestamp;
use rustix::fs::{Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::disk::{Disk, TMP};
use super::fault::{Fault, Outcome};
use super::find::is_bare;
use super::place::{Place, Plain, SIDE_KEYS, is_path, side_folder};
use super::stamp::{self, Kept, Marker};
use super::tree::{in_the_way, split};
use crate::{Condition, ErrorKind, Key, Metadata, PutOptions, Version};

/// A file that is not an object yet; removed on drop unless it became one.
pub(super) struct Draft<'a> {
    disk: &'a Disk,
    path: Vec<u8>,
    pub(super) file: File,
    fate: Fate,
}

/// What becomes of a draft that is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Remove,
    Keep,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.fate == Fate::Remove {
            // What cannot be removed now is swept later; the call itself has its own result.
            let removed = self.disk.tree.remove_file(&self.path);
            if let Err(fault) = removed {
                tracing::debug!(?fault, "a temporary file stays behind");
            }
        }
    }
}

impl Disk {
    /// An empty draft.
    pub(super) fn draft(&self) -> Outcome<Draft<'_>> {
        let path = [TMP, b"/", self.fresh_name().as_bytes()].concat();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let fd = match self.tree.open_at(&path, flags) {
            Err(Errno::NOENT) => {
                self.make_side_folder(TMP)?;
                self.tree.open_at(&path, flags)?
            }
            other => other?,
        };
        Ok(Draft { disk: self, path, file: File::from(fd), fate: Fate::Remove })
    }

    /// A file of the side area as a draft; it stays where it is if it does not become an object.
    pub(super) fn adopt(&self, path: Vec<u8>, file: File) -> Draft<'_> {
        Draft { disk: self, path, file, fate: Fate::Keep }
    }

    /// Makes `bytes` the object `key`.
    pub(super) fn put(&self, key: &Key, bytes: &[u8], options: &PutOptions) -> Outcome<Version> {
        if bytes.is_empty()
            && let Plain::Folder(path) = Place::of(key).plain
            && let Some(version) = self.put_marker(key, &path, options)?
        {
            return Ok(version);
        }
        let mut draft = self.draft()?;
        draft.file.write_all(bytes)?;
        self.publish(key, draft, &options.metadata, &options.condition)
    }

    /// Makes `draft` the object `key`, durably.
    pub(super) fn publish(
        &self,
        key: &Key,
        mut draft: Draft<'_>,
        metadata: &Metadata,
        condition: &Condition,
    ) -> Outcome<Version> {
        if key.as_bytes().is_empty() {
            return Err(Fault::new(ErrorKind::Unsupported, "an object needs a name"));
        }
        self.note_kept(stamp::set_metadata(&draft.file, metadata)?);
        stamp_time(&draft.file, self.now())?;
        draft.file.sync_all()?;

        let lock = self.lock()?;
        self.check(key, condition)?;
        self.keep_bare_folder_above(key)?;
        let changed = self.place(key, &mut draft, condition)?;
        let version = stamp::version(&rustix::fs::fstat(&draft.file)?);
        drop(lock);

        for folder in changed {
            rustix::fs::fsync(folder)?;
        }
        Ok(version)
    }

    /// Moves the draft to its place. Returns the folders to sync.
    fn place(
        &self,
        key: &Key,
        draft: &mut Draft<'_>,
        condition: &Condition,
    ) -> Outcome<Vec<OwnedFd>> {
        let Place { plain, side } = Place::of(key);
        if let Plain::File(path) = &plain
            && let Some(changed) = self.place_plain(path, draft, condition)?
        {
            self.remove_side(&side)?;
            return Ok(changed);
        }
        let (folder, name) = split(&side);
        let Some(mut made) = self.tree.make_folder(folder)? else {
            return Err(Fault::new(ErrorKind::Unsupported, "the key is too long for the disk"));
        };
        self.move_draft(draft, &made.fd, name, RenameFlags::empty())?;
        if let Plain::Folder(path) = &plain {
            // So that people see the folder; it is no error if it cannot be.
            self.tree.make_folder(path)?;
        }
        made.changed.push(made.fd);
        Ok(made.changed)
    }

    /// As [`Disk::place`], as an ordinary file; `None` if something else is in the way.
    fn place_plain(
        &self,
        path: &[u8],
        draft: &mut Draft<'_>,
        condition: &Condition,
    ) -> Outcome<Option<Vec<OwnedFd>>> {
        match self.tree.stat(path)? {
            Some(stat) if !super::tree::is_file(&stat) => return Ok(None),
            // Whoever was kept out of the old file is kept out of the new one.
            Some(stat) => rustix::fs::fchmod(&draft.file, Mode::from_raw_mode(stat.st_mode))?,
            None => {}
        }
        let (above, name) = split(path);
        let Some(mut made) = self.tree.make_folder(above)? else { return Ok(None) };
        // Other programs do not know our lock.
        let flags = match condition {
            Condition::Absent => RenameFlags::NOREPLACE,
            Condition::Always | Condition::Is(_) => RenameFlags::empty(),
        };
        match self.move_draft(draft, &made.fd, name, flags) {
            Ok(()) => {
                made.changed.push(made.fd);
                Ok(Some(made.changed))
            }
            Err(Errno::EXIST) if flags == RenameFlags::NOREPLACE => Err(Fault::changed()),
            Err(errno) if in_the_way(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn move_draft(
        &self,
        draft: &mut Draft<'_>,
        folder: &OwnedFd,
        name: &[u8],
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (above, old_name) = split(&draft.path);
        let above = self.tree.open_at(above, OFlags::PATH | OFlags::DIRECTORY)?;
        let mut moved = rustix::fs::renameat_with(&above, old_name, folder, name, flags);
        if moved == Err(Errno::INVAL) && flags == RenameFlags::NOREPLACE {
            // Not every disk knows the flag; the lock still orders us among ourselves.
            moved = rustix::fs::renameat(&above, old_name, folder, name);
        }
        if moved.is_ok() {
            draft.fate = Fate::Keep;
        }
        moved
    }

    /// Makes the folder at `path` the object `path/`. `None` if the disk cannot.
    fn put_marker(&self, key: &Key, path: &[u8], options: &PutOptions) -> Outcome<Option<Version>> {
        let lock = self.lock()?;
        self.check(key, &options.condition)?;
        self.keep_bare_folder_above(key)?;
        let Some(made) = self.tree.make_folder(path)? else { return Ok(None) };
        let marker = Marker { written: self.now(), metadata: options.metadata.clone() };
        if stamp::set_marker(&made.fd, &marker)? == Kept::No {
            return Ok(None);
        }
        self.remove_side(&Place::of(key).side)?;
        let version = marker.meta(&rustix::fs::fstat(&made.fd)?).version;
        drop(lock);

        for folder in made.changed.iter().chain([&made.fd]) {
            rustix::fs::fsync(folder)?;
        }
        Ok(Some(version))
    }

    /// A folder that someone left empty is an object. Before it gets its first entry that is
    /// written down, or the object would vanish by a write to another.
    fn keep_bare_folder_above(&self, key: &Key) -> Outcome<()> {
        let mut path = key.as_bytes().strip_suffix(b"/").unwrap_or(key.as_bytes());
        while let Some(slash) = path.iter().rposition(|&byte| byte == b'/') {
            path = &path[..slash];
            if !is_path(path) {
                continue;
            }
            if let Some(folder) = self.tree.open_folder(path)? {
                let side = side_folder(&[path, b"/"].concat());
                let kept = stamp::marker(&folder)?.is_some()
                    || !is_bare(&folder)?
                    || self.has_side_keys(&side)?;
                if !kept {
                    let marker = Marker { written: self.now(), metadata: Metadata::new() };
                    self.note_kept(stamp::set_marker(&folder, &marker)?);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes the object `key`, and the folders that were there only for it.
    pub(super) fn delete(&self, key: &Key) -> Outcome<()> {
        if self.find(key)?.is_none() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let Place { plain, side } = Place::of(key);
        self.remove_side(&side)?;
        match plain {
            Plain::Nowhere => {}
            Plain::File(path) => {
                if self.tree.stat_file(&path)?.is_some() {
                    self.tree.remove_file(&path)?;
                    self.prune(&path)?;
                }
            }
            Plain::Folder(path) => self.remove_marker(&path)?,
        }
        Ok(())
    }

    fn remove_marker(&self, path: &[u8]) -> Outcome<()> {
        let Some(folder) = self.tree.open_folder(path)? else { return Ok(()) };
        stamp::remove_marker(&folder)?;
        if self.tree.remove_folder(path)? {
            return self.prune(path);
        }
        if is_bare(&folder)? {
            let words = "the folder holds links or special files, which are no objects";
            return Err(Fault::new(ErrorKind::Denied, words));
        }
        Ok(())
    }

    /// Removes the folders above `path` that are empty and no objects themselves.
    fn prune(&self, path: &[u8]) -> Outcome<()> {
        let (mut above, _) = split(path);
        while !above.is_empty() {
            let Some(folder) = self.tree.open_folder(above)? else { return Ok(()) };
            let key = Key::from(&[above, b"/"].concat()[..]);
            let marked = stamp::marker(&folder)?.is_some()
                || self.tree.stat_file(&Place::of(&key).side)?.is_some();
            if marked || !self.tree.remove_folder(above)? {
                return Ok(());
            }
            above = split(above).0;
        }
        Ok(())
    }

    /// Removes a file of the side area's keys, and the folders that were there only for it.
    fn remove_side(&self, path: &[u8]) -> Outcome<()> {
        if !self.tree.remove_file(path)? {
            return Ok(());
        }
        let (mut above, _) = split(path);
        while above != SIDE_KEYS && self.tree.remove_folder(above)? {
            above = split(above).0;
        }
        Ok(())
    }
}

/// Gives the file a time of its own: the kernel's is as coarse as its timer tick, in which a file
/// may be written, replaced, and written again with the first one's inode number.
fn stamp_time(file: &File, now: Timestamp) -> Outcome<()> {
    let time = Timespec { tv_sec: now.secs, tv_nsec: i64::from(now.nanos) };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::futimens(file, &times)?)
}
