//! Finds the object of a key: as a plain file, in the side area, or as a folder.

use std::fs::File;

use rustix::fs::Stat;

use super::disk::Disk;
use super::fault::{Fault, Outcome};
use super::place::{Place, Plain, SIDE, is_path, side_folder};
use super::stamp;
use super::tree::{Child, ChildKind, Tree};
use crate::{Condition, Key, Meta, Metadata, Version};

/// Where an object is.
pub(super) enum Found {
    /// In a file.
    File { path: Vec<u8>, stat: Stat },
    /// It is a folder.
    Folder(Meta),
}

impl Found {
    pub(super) fn version(&self) -> Version {
        match self {
            Found::File { stat, .. } => stamp::version(stat),
            Found::Folder(meta) => meta.version.clone(),
        }
    }

    /// What is known of it, as listings show it: without metadata.
    pub(super) fn into_listed_meta(self) -> Meta {
        match self {
            Found::File { stat, .. } => stamp::meta(&stat),
            Found::Folder(meta) => Meta { metadata: Metadata::new(), ..meta },
        }
    }
}

impl Disk {
    /// The object `key`, if there is one.
    pub(super) fn find(&self, key: &Key) -> Outcome<Option<Found>> {
        let Place { plain, side } = Place::of(key);
        let in_file = |path: &[u8]| {
            let stat = self.tree.stat_file(path)?;
            Ok::<_, Fault>(stat.map(|stat| Found::File { path: path.to_vec(), stat }))
        };
        match plain {
            Plain::Nowhere => in_file(&side),
            Plain::Folder(path) => match in_file(&side)? {
                Some(found) => Ok(Some(found)),
                None => self.find_folder(&path, key),
            },
            Plain::File(path) => {
                if let Some(found) = in_file(&path)? {
                    return Ok(Some(found));
                }
                match in_file(&side)? {
                    Some(found) => Ok(Some(found)),
                    // A writer may just have moved it from the side area to its plain place.
                    None => in_file(&path),
                }
            }
        }
    }

    fn find_folder(&self, path: &[u8], key: &Key) -> Outcome<Option<Found>> {
        let Some(fd) = self.tree.open_folder(path)? else { return Ok(None) };
        let stat = rustix::fs::fstat(&fd)?;
        if let Some(marker) = stamp::marker(&fd)? {
            return Ok(Some(Found::Folder(marker.meta(&stat))));
        }
        let bare = is_bare(&fd)? && !self.has_side_keys(&side_folder(key.as_bytes()))?;
        Ok(bare.then(|| Found::Folder(stamp::bare_folder_meta(&stat))))
    }

    /// Whether the side area has a key in `folder`, which is a path there.
    pub(super) fn has_side_keys(&self, folder: &[u8]) -> Outcome<bool> {
        // A list instead of recursion: a key may have a thousand parts.
        let mut folders = vec![folder.to_vec()];
        while let Some(folder) = folders.pop() {
            let Some(fd) = self.tree.open_folder(&folder)? else { continue };
            let mut found = false;
            Tree::children(&fd, |Child { name, kind }| {
                match kind {
                    ChildKind::File => found = true,
                    ChildKind::Folder => folders.push([&folder[..], b"/", &name].concat()),
                }
                !found
            })?;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is known of the object `key`.
    pub(super) fn head(&self, key: &Key) -> Outcome<Meta> {
        // A file that is replaced between the two steps has a successor at the same place or, once,
        // at the other one.
        for _ in 0..3 {
            match self.find(key)?.ok_or_else(Fault::not_found)? {
                Found::Folder(meta) => return Ok(meta),
                Found::File { path, .. } => {
                    if let Some((fd, stat)) = self.tree.open_file(&path)? {
                        return Ok(Meta { metadata: stamp::metadata(&fd)?, ..stamp::meta(&stat) });
                    }
                }
            }
        }
        Err(Fault::not_found())
    }

    /// The file that the object `key` is in, if it has bytes at all.
    pub(super) fn open_object(&self, key: &Key) -> Outcome<Option<(File, Stat)>> {
        for _ in 0..3 {
            match self.find(key)?.ok_or_else(Fault::not_found)? {
                Found::Folder(_) => return Ok(None),
                Found::File { path, .. } => {
                    if let Some((fd, stat)) = self.tree.open_file(&path)? {
                        return Ok(Some((File::from(fd), stat)));
                    }
                }
            }
        }
        Err(Fault::not_found())
    }

    /// Fails with `Changed` if `condition` does not hold of `key`.
    pub(super) fn check(&self, key: &Key, condition: &Condition) -> Outcome<()> {
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => self.find(key)?.is_none(),
            Condition::Is(version) => {
                self.find(key)?.is_some_and(|found| found.version() == *version)
            }
        };
        if holds { Ok(()) } else { Err(Fault::changed()) }
    }
}

/// Whether there is nothing in the folder that could be part of a key.
pub(super) fn is_bare(folder: &std::os::fd::OwnedFd) -> Outcome<bool> {
    let mut bare = true;
    Tree::children(folder, |_| {
        bare = false;
        false
    })?;
    Ok(bare)
}

/// Whether `name` in the folder `prefix` is the side area itself.
pub(super) fn is_side_area(prefix: &[u8], name: &[u8]) -> bool {
    prefix.is_empty() && name == SIDE
}

/// The path of the plain folder that holds what begins with `prefix`, if there can be one.
pub(super) fn plain_folder(prefix: &[u8]) -> Option<&[u8]> {
    match prefix.strip_suffix(b"/") {
        None => prefix.is_empty().then_some(prefix),
        Some(path) => is_path(path).then_some(path),
    }
}
