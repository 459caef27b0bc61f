//! What the names ask of those who have files open, and tell them.

use std::sync::Arc;

use base::Ino;
use namespace::{Content, Use, Users};

use crate::errno::Result;
use crate::file::{File, Named};
use crate::vfs::Vfs;

impl Users for Vfs {
    fn in_use(&self, ino: Ino) -> Use {
        match self.files.find(ino) {
            None => Use::No,
            Some(file) if file.is_whole() || !self.files.is_open(ino) => Use::Whole,
            Some(_) => Use::Partly,
        }
    }

    fn promised(&self, ino: Ino) -> Vec<String> {
        let Some(file) = self.files.find(ino) else { return Vec::new() };
        let acknowledged = file.acknowledged.lock();
        let promised = acknowledged.as_ref().map(|version| version.aimed.upload.clone());
        promised.into_iter().chain(file.upload_under_way()).collect()
    }

    fn moved(&self, ino: Ino, content: Content) {
        let Some(file) = self.files.find(ino) else { return };
        // It was for the old name.
        self.end_stream(&file);
        if let (Some(staged), Some(identity)) = (file.staged(), &content.identity) {
            staged.origin_moved(identity);
            if let Some(version) = &mut *file.acknowledged.lock() {
                version.sealed.origin_moved(identity);
            }
        }
        if let Err(error) = self.follow(&file, content).and_then(|()| self.note_anew(&file)) {
            tracing::warn!(%ino, %error, "an open file cannot follow its object");
        }
    }
}

impl Vfs {
    /// What is not here yet of a file in use is fetched from where it is now.
    pub(crate) fn follow(&self, file: &File, content: Content) -> Result<()> {
        let Some(identity) = content.identity else { return Ok(()) };
        if file.is_whole() || !file.is_read_elsewhere(&identity) {
            return Ok(());
        }
        let moved = self.download(&identity, content.size, content.extents)?;
        file.state.write().follow(moved);
        Ok(())
    }

    /// Staged bytes say where they belong; after a rename that is elsewhere.
    fn note_anew(&self, file: &Arc<File>) -> Result<()> {
        let Some(staged) = file.staged() else { return Ok(()) };
        if file.acknowledged.lock().is_some() {
            return self.note_again(file, &staged);
        }
        let _order = file.noting.lock();
        if file.state.read().name == Named::No {
            return Ok(());
        }
        Ok(staged.set_note(&self.note_of(file, Named::Yes, "")?)?)
    }
}
