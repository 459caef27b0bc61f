//! Reads the names of one folder, from its plain place and from the side area.

use std::sync::Arc;

use super::disk::Disk;
use super::fault::Outcome;
use super::find::{is_side_area, plain_folder};
use super::levels::{ListingId, Names};
use super::place::{SideName, decode, side_folder};
use super::stamp;
use super::tree::{Child, ChildKind, Tree};

impl Disk {
    /// The names below `prefix`, which is empty or ends in `/`, as the listing first saw them.
    pub(super) fn names(&self, listing: ListingId, prefix: &[u8]) -> Outcome<Names> {
        match self.levels.recall(listing, prefix) {
            Some(names) => Ok(names),
            None => Ok(Arc::new(self.read_names(prefix)?)),
        }
    }

    fn read_names(&self, prefix: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        // The side area first: a key may move from there to its plain place, never back.
        let mut names = self.read_side_names(prefix)?;
        if let Some(path) = plain_folder(prefix)
            && let Some(folder) = self.tree.open_folder(path)?
        {
            Tree::children(&folder, |Child { mut name, kind }| {
                if !is_side_area(prefix, &name) {
                    if kind == ChildKind::Folder {
                        name.push(b'/');
                    }
                    names.push(name);
                }
                true
            })?;
            let is_object =
                !path.is_empty() && (names.is_empty() || stamp::marker(&folder)?.is_some());
            if is_object {
                names.push(Vec::new());
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn read_side_names(&self, prefix: &[u8]) -> Outcome<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        // Folders of the side area with the pieces of a part that lead to them.
        let mut folders = vec![(side_folder(prefix), Vec::new())];
        while let Some((path, pieces)) = folders.pop() {
            let Some(fd) = self.tree.open_folder(&path)? else { continue };
            let mut parts = Vec::new();
            Tree::children(&fd, |Child { name, kind }| {
                match (SideName::parse(&name), kind) {
                    (Some(SideName::File(piece)), ChildKind::File) => {
                        names.extend(decode(&[&pieces[..], piece].concat()));
                    }
                    (Some(SideName::Folder(piece)), ChildKind::Folder) => {
                        let below = [&path[..], b"/", &name].concat();
                        parts.extend(decode(&[&pieces[..], piece].concat()).map(|p| (p, below)));
                    }
                    (Some(SideName::Piece(piece)), ChildKind::Folder) => {
                        let below = [&path[..], b"/", &name].concat();
                        folders.push((below, [&pieces[..], piece].concat()));
                    }
                    (_, ChildKind::File | ChildKind::Folder) => {}
                }
                true
            })?;
            for (mut part, below) in parts {
                // A crash may leave a folder of the side area behind that has no keys any more.
                if self.has_side_keys(&below)? {
                    part.push(b'/');
                    names.push(part);
                }
            }
        }
        Ok(names)
    }
}
