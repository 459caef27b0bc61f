//! What the names ask of those who have files open, and tell them.

use std::sync::Arc;

use base::Ino;
use namespace::{Content, ErrorKind, Target, Use, Users};
use store::Staged;

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
        // In the order in which an upload goes from one to the next.
        let sealed_for = file.sealed_for();
        let acknowledged = file.acknowledged.lock();
        let promised = acknowledged.as_ref().map(|version| version.aimed.upload.clone());
        [sealed_for, promised, file.upload_under_way()].into_iter().flatten().collect()
    }

    fn moved(&self, ino: Ino, content: Content) {
        self.goes_on(ino, content, Notes::Anew);
    }

    fn put_aside(&self, ino: Ino, content: Content) {
        // What a close was told is safe is of the object that is still under its name.
        self.goes_on(ino, content, Notes::Stay);
    }
}

/// What becomes of the note of a file whose bytes are in another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notes {
    /// It speaks of the new name.
    Anew,
    /// It is right.
    Stay,
}

impl Vfs {
    /// A file in use goes on with bytes that are in another object.
    fn goes_on(&self, ino: Ino, content: Content, notes: Notes) {
        let Some(file) = self.files.find(ino) else { return };
        // It was for the old name.
        self.end_stream(&file);
        if let (Some(staged), Some(identity)) = (file.staged(), &content.identity) {
            staged.origin_moved(identity);
            if let Some(version) = &mut *file.acknowledged.lock() {
                version.sealed.origin_moved(identity);
            }
        }
        let noted = self.follow(&file, content).and_then(|()| match notes {
            Notes::Anew => self.note_anew(&file),
            Notes::Stay => Ok(()),
        });
        if let Err(error) = noted {
            tracing::warn!(%ino, %error, "an open file cannot follow its object");
        }
    }

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
        let mut notes = file.noting.lock();
        *notes += 1;
        if file.acknowledged.lock().is_some() {
            drop(notes);
            return self.note_again(file, &staged);
        }
        if file.state.read().name == Named::No {
            return Ok(());
        }
        let note = self.note_of(file, Named::Yes, "")?;
        self.set_note(file, &staged, &note)
    }

    /// Notes where the staged bytes of `file` belong. If it is just taking a name, what had that before
    /// belongs nowhere from the same moment on: who finds both after a crash could not tell which of them
    /// is the file.
    pub(crate) fn set_note(&self, file: &File, staged: &Staged, note: &[u8]) -> Result<()> {
        let replaced = file.replaces.lock().clone();
        if let Some(replaced) =
            replaced.filter(|file| is_nameless(self.namespace.target(file.ino())))
            && let Some(nameless) = replaced.staged()
        {
            let mut notes = replaced.noting.lock();
            *notes += 1;
            return Ok(self.store.set_notes(&[(staged, note), (&nameless, &[])])?);
        }
        Ok(staged.set_note(note)?)
    }
}

/// Whether a file was removed here.
pub(crate) fn is_nameless(target: namespace::Result<Target>) -> bool {
    target.is_err_and(|error| error.kind == ErrorKind::NotFound)
}
