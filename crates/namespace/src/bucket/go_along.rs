//! Bytes that a close was promised to be uploaded, and that go with the folder or file that moves.
//!
//! What is noted of such bytes names the object that they are to become, under its old name. The journal
//! knows which of them go with a move, by the ids of their uploads: who finds them after a crash asks
//! where they belong by then.

use std::collections::HashSet;
use std::sync::Arc;

use base::Ino;
use remote::Condition;

use super::carries::{Along, Carry, End};
use super::carry::there;
use super::journal::Record;
use super::shared::{Shared, noted};
use crate::{Belongs, Error, RecordId, Result};

/// Ids in one record of the journal.
const IDS_MAX: usize = 1000;

/// A file or folder is about to move: who promises anything of it from now on waits for that, and
/// so what was promised before is all that the journal is to be told of. Until this is dropped.
#[derive(Debug)]
pub(super) struct Departure {
    shared: Arc<Shared>,
    ino: Ino,
}

impl Departure {
    /// The journal has the move `of`. Bytes that are sealed from now on may go along.
    pub(super) fn moves(&self, of: RecordId) {
        if let Some(departing) = self.shared.state().tree.departing.get_mut(&self.ino) {
            departing.of = Some(of);
        }
    }

    /// The move is made, or taken back: bytes that were sealed meanwhile are noted under the name that counts. If
    /// it is broken off instead, the journal keeps what was noted of them.
    pub(super) fn over(self) {
        let noted = match self.shared.state().tree.departing.get_mut(&self.ino) {
            Some(departing) if departing.count == 1 => std::mem::take(&mut departing.noted),
            Some(_) | None => return,
        };
        if !noted.is_empty() {
            self.shared.ledger.strike(&noted);
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(departing) = state.tree.departing.get_mut(&self.ino) {
            departing.count -= 1;
            if departing.count == 0 {
                state.tree.departing.remove(&self.ino);
            }
        }
    }
}

/// The records that `uploads` go with the move `of`.
fn carries(of: RecordId, uploads: &[String]) -> impl Iterator<Item = Record> {
    uploads.chunks(IDS_MAX).map(move |uploads| Record::Carries { of, uploads: uploads.to_vec() })
}

impl Shared {
    /// To be called before anything of the move of `ino` is noted.
    pub(super) fn departs(self: &Arc<Self>, ino: Ino) -> Departure {
        self.state().tree.departing.entry(ino).or_default().count += 1;
        Departure { shared: Arc::clone(self), ino }
    }

    /// Notes a move that is about to be made, and with it what was promised of `files`: a crash finds both
    /// or neither.
    pub(super) fn note_move(
        &self,
        op: &'static str,
        record: &Record,
        files: &[Ino],
        known: &mut HashSet<String>,
    ) -> Result<Vec<RecordId>> {
        let fresh = self.promised(files, known);
        let beside = |of| carries(of, &fresh).map(|record| record.to_bytes()).collect();
        noted(op, self.ledger.append_with(&record.to_bytes(), &beside))
    }

    /// The move `of` takes along what was promised of `files`, besides what is `known` to go.
    pub(super) fn note_carried(
        &self,
        op: &'static str,
        of: RecordId,
        files: &[Ino],
        known: &mut HashSet<String>,
    ) -> Result<Vec<RecordId>> {
        let fresh = self.promised(files, known);
        carries(of, &fresh).map(|record| self.note_ahead(op, &record)).collect()
    }

    /// The uploads that were promised of `files`, besides those that are `known`, as they are from then on.
    fn promised(&self, files: &[Ino], known: &mut HashSet<String>) -> Vec<String> {
        let Some(users) = self.users() else { return Vec::new() };
        let promised = files.iter().flat_map(|&ino| users.promised(ino));
        promised.filter(|upload| known.insert(upload.clone())).collect()
    }

    /// Whether bytes of the file `ino`, which are about to be sealed for `upload` under its old name, go along with
    /// the move that keeps their upload waiting.
    pub(super) fn goes_along(&self, ino: Ino, upload: &str) -> bool {
        let Some((departing, of)) = self.state().tree.departs_with(ino) else { return false };
        let record = Record::Carries { of, uploads: vec![upload.to_owned()] };
        let noted = match self.note_ahead("rename", &record) {
            Ok(noted) => noted,
            Err(error) => {
                tracing::debug!(%error, "bytes of a file that moves are not safe from a crash yet");
                return false;
            }
        };
        let is_noted = {
            let mut state = self.state();
            let now = state.tree.departing.get_mut(&departing).filter(|now| now.of == Some(of));
            now.map(|now| now.noted.push(noted)).is_some()
        };
        if !is_noted {
            self.ledger.strike(&[noted]);
        }
        is_noted
    }

    /// Whether bytes of the file were promised to be uploaded.
    pub(super) fn has_promised(&self, ino: Ino) -> bool {
        self.users().is_some_and(|users| !users.promised(ino).is_empty())
    }

    /// Where bytes belong that were noted with the id `upload`. `None` if their move has to wait.
    pub(super) async fn carried(&self, upload: &str, noted: Belongs) -> Result<Option<Belongs>> {
        let Belongs { mut key, mut condition, mut said } = noted;
        let count = self.carries.len();
        // In the order in which they were made: one move may have followed another.
        for at in 0..count {
            let to = match self.carries.carried_by(at, upload, &key) {
                Along::Not => continue,
                Along::Waits => return Ok(None),
                Along::To(to) => to,
            };
            if let Condition::Is(version) = &condition {
                let found = there(self.remote.head(&to).await);
                let found = found.map_err(|error| Error::remote("replay", error))?;
                if let Some(found) = found
                    && self.carries.is_copy_of(at, (&key, version), &found.version)
                {
                    condition = Condition::Is(found.version);
                }
            }
            said = self.said_at(said, &to);
            key = to;
        }
        Ok(Some(Belongs { key, condition, said }))
    }

    /// Nobody will ask for what was carried.
    pub(super) fn carried_all(&self) {
        for Carry { end, .. } in self.carries.take_all() {
            match end {
                End::Done { records, .. } => self.ledger.strike(&records),
                End::Waits => {}
            }
        }
    }
}
