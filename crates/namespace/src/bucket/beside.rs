//! What is known of the files beside a file: for who fetches them before they are asked for. Asks nobody.

use std::ops::Bound;

use base::{Ino, Name};

use super::form::Form;
use super::nodes::{Bytes, File, Kind, Place};
use super::shared::Shared;
use crate::node::{InFolder, Neighbour};

/// How many names are looked at for each that is wanted: a folder may hold little else than large files.
const LOOKS_PER_FILE: usize = 4;

impl Shared {
    /// Where the file `ino` is; `None` if it has no name any more.
    pub(super) fn in_folder(&self, ino: Ino) -> Option<InFolder> {
        let state = self.state();
        let Place::Named { parent, name } = &state.tree.node(ino)?.place else { return None };
        let entries = state.tree.folder(*parent)?.children.len();
        Some(InFolder { folder: *parent, name: name.clone(), entries })
    }

    /// The next `files_max` files of `folder` after the name `after`, or from its beginning, that are known
    /// to be in the bucket with at most `bytes_max` bytes.
    pub(super) fn files_after(
        &self,
        (folder, after): (Ino, Option<&Name>),
        bytes_max: u64,
        files_max: usize,
    ) -> Vec<Neighbour> {
        let state = self.state();
        let Some(entries) = state.tree.folder(folder).map(|folder| &folder.children) else {
            return Vec::new();
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let neighbour = |(name, &ino): (&Name, &Ino)| match &state.tree.node(ino)?.kind {
            Kind::File(file @ File { form: Form::Plain, bytes: Bytes::Object(stored), .. })
                if (1..=bytes_max).contains(&stored.size) && !state.leaving.contains(&ino) =>
            {
                Some(Neighbour { name: name.clone(), ino, content: self.content_of(file) })
            }
            Kind::File(_) | Kind::Folder(_) => None,
        };
        entries
            .range::<Name, _>((from, Bound::Unbounded))
            .take(files_max.saturating_mul(LOOKS_PER_FILE))
            .filter_map(neighbour)
            .take(files_max)
            .collect()
    }
}
