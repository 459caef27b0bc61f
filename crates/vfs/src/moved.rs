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

    fn moved(&self, ino: Ino, content: Content) {
        let Some(file) = self.files.find(ino) else { return };
        // It was for the old name.
        self.end_stream(&file);
        if let (Some(staged), Some(identity)) = (file.staged(), &content.identity) {
            staged.origin_moved(identity);
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
        let _order = file.noting.lock();
        if file.state.read().name == Named::No {
            return Ok(());
        }
        let upload = file.acknowledged.lock().as_ref().map(|version| version.aimed.upload.clone());
        Ok(staged.set_note(&self.note_of(file, Named::Yes, &upload.unwrap_or_default())?)?)
    }
}
