//! What waits for a bucket that is never to have it: nobody asks the bucket, which may be gone, and no byte is lost.

use std::path::PathBuf;

use store::{Orphan, OrphanState, Store};

use crate::note::Note;
use crate::recover::{NEVER_CLOSED, keep};

/// Moves the bytes that dead daemons had for `volume` to the recovery folder; returns where they are. What the bucket had
/// of a file and is not on this machine is missing there, and the note beside it says so.
pub fn give_up(store: &Store, volume: &str) -> store::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for Orphan { staged, note, state } in store.orphans()? {
        // What is of another volume, or says nothing of itself, stays for the next mount.
        let Some(note) = Note::from_bytes(&note).filter(|note| note.volume == volume) else {
            continue;
        };
        let why = match state {
            OrphanState::Open if note.leaves_nothing(staged.size()) => {
                store.discard(&staged)?;
                continue;
            }
            OrphanState::Sealed => "closed, and given up before the bucket had it",
            OrphanState::Open => NEVER_CLOSED,
        };
        kept.push(keep(store, &staged, &note, why)?);
    }
    Ok(kept)
}
