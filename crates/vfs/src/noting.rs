//! What staged bytes are told to say of themselves, for whoever finds them after a crash.

use namespace::Target;
use store::Staged;

use crate::aimed::Aimed;
use crate::errno::{Error, Result};
use crate::file::{File, Named};
use crate::note::Note;
use crate::vfs::Vfs;

impl Vfs {
    /// What the staged bytes that are to go where `aimed` says tell of themselves.
    /// Fails if the file has no name any more.
    pub(crate) fn note_aimed(
        &self,
        file: &File,
        staged: &Staged,
        aimed: &Aimed,
    ) -> Result<Vec<u8>> {
        let origin_bytes = aimed.origin.as_ref().and_then(|origin| origin.size_for(staged));
        let said = aimed.said.clone();
        let after = file.earlier_uploads();
        // Where the bytes belong after a crash, not where an upload goes that is about to begin.
        let destination = match self.namespace.destination(file.ino()).map_err(Error::from) {
            Err(error) if error.is_nameless() => return Err(error),
            destination => destination.ok(),
        };
        let target = destination.as_ref().unwrap_or(&aimed.target);
        let note = self.note(target, &aimed.upload);
        let note = Note { origin_bytes, after, said, ..note }.to_bytes();
        file.noted(&note);
        Ok(note)
    }

    /// What the staged bytes of a file say of themselves; `upload` is empty before there is one. What
    /// else is to be said of the file matters only when they are sealed for it.
    pub(crate) fn note_of(&self, file: &File, name: Named, upload: &str) -> Result<Vec<u8>> {
        match name {
            Named::Yes => match self.namespace.destination(file.ino()).map_err(Error::from) {
                Ok(target) => {
                    let said = match upload {
                        "" => Vec::new(),
                        _ => self.namespace.said(file.ino()),
                    };
                    let after = file.earlier_uploads();
                    let note = Note { after, said, ..self.note(&target, upload) }.to_bytes();
                    file.noted(&note);
                    Ok(note)
                }
                Err(error) if error.is_nameless() => Ok(Vec::new()),
                Err(error) => Err(error),
            },
            // It is never published, and after a crash nobody misses it.
            Named::No => Ok(Vec::new()),
        }
    }

    /// The note of bytes that could not become the object of their file, by which they can be put back. The names may
    /// know the file no more, if its object was replaced: then the last note of its staged bytes says where it was.
    pub(crate) fn lost_note(&self, file: &File) -> Option<Note> {
        let last = Note::from_bytes(&file.last_note());
        let Ok(target) = self.namespace.destination(file.ino()) else { return last };
        let said = match (self.namespace.said(file.ino()), last) {
            (said, Some(last)) if said.is_empty() => last.said,
            (said, _) => said,
        };
        Some(Note { said, ..self.note(&target, "") })
    }

    /// What the staged bytes that are to become `target` say of themselves; `upload` is empty before
    /// there is one.
    pub(crate) fn note(&self, target: &Target, upload: &str) -> Note {
        Note {
            volume: self.options.volume.clone(),
            upload: upload.to_owned(),
            key: target.key.clone(),
            condition: target.condition.clone(),
            origin_bytes: None,
            after: Vec::new(),
            metadata: target.metadata.clone(),
            said: Vec::new(),
        }
    }
}
