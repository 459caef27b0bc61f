//! Finishes the move of a file that an earlier mount began.

use remote::{Condition, Meta, Moves, Original, UPLOAD_ID, Version};

use super::carry::{Cargo, there};
use super::journal::FileMove;
use super::marks::Marks;
use super::shared::Shared;
use crate::{Error, RecordId, Result};

const OP: &str = "replay";

/// Whether bytes go along with a move that a close was promised to be uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Going {
    /// Some do.
    Along {
        /// The upload that made the object, if that was noted.
        maker: Option<String>,
    },
    /// None do.
    Nothing,
}

impl Going {
    /// Whether `there` may be taken for what was the version `moved` under the old name, where nothing is any
    /// more. What goes along is uploaded over it, so then a guess must not do.
    fn knows(&self, moved: &Version, there: &Meta) -> bool {
        match self {
            Going::Along { maker } => {
                there.version == *moved
                    || maker.is_some() && there.metadata.get(UPLOAD_ID) == maker.as_ref()
            }
            Going::Nothing => true,
        }
    }
}

impl Shared {
    /// Returns what was copied.
    pub(super) async fn finish_file(
        &self,
        (of, going): (RecordId, &Going),
        planned: &FileMove,
        records: &mut Vec<RecordId>,
    ) -> Result<Marks> {
        let of_store = |error| Error::remote(OP, error);
        let FileMove { from, to, version, over } = planned;
        let (source, copy) = futures::join!(self.remote.head(from), self.remote.head(to));
        let (source, copy) = (there(source).map_err(of_store)?, there(copy).map_err(of_store)?);
        let found = copy.as_ref().map(|copy| &copy.version);
        let is_atomic = self.remote.personality().naming.moves == Moves::Atomic;
        if let (None, Some(there)) = (&source, &copy)
            && is_atomic
            && Some(&there.version) != over.as_ref()
            && going.knows(version, there)
        {
            // All that is left is to say so.
            return self.file_follows((of, going), planned, &there.version, records).await;
        }
        // Gone, or somebody else's since.
        let Some(source) = source.filter(|source| source.version == *version) else {
            return Ok(Marks::default());
        };
        let now = if found == over.as_ref() {
            // Before all guesses: what was there may look like a copy.
            let condition = match over {
                Some(over) => Condition::Is(over.clone()),
                None => Condition::Absent,
            };
            let original = Original { key: from, version, size: source.size };
            self.remote.copy(original, to, &condition).await.map_err(of_store)?
        } else {
            let copied = match copy {
                Some(copy) => {
                    let is_copy = self.is_copy((from, &source), (to, &copy)).await;
                    is_copy.map_err(of_store)?.then_some(copy.version)
                }
                None => None,
            };
            let Some(now) = copied else {
                tracing::warn!(%from, %to, "not renamed: others changed the new name meanwhile");
                return Ok(Marks::default());
            };
            now
        };
        let marks = self.file_follows((of, going), planned, &now, records).await?;
        self.made_but_for(self.remote.delete(from).await.map_err(of_store))?;
        Ok(marks)
    }

    /// The object of a file is at its new name, in the version `now`: what is said of it follows.
    async fn file_follows(
        &self,
        (of, going): (RecordId, &Going),
        FileMove { from, to, version, .. }: &FileMove,
        now: &Version,
        records: &mut Vec<RecordId>,
    ) -> Result<Marks> {
        self.line_follows((from, to), &|of| (of == version).then(|| now.clone())).await?;
        let cargo = Cargo::of_one(version, now);
        if *going != Going::Nothing {
            // Who asks where it went may do so when its old object is gone.
            records.push(self.note_ahead(OP, &cargo.copied(of))?);
        }
        self.line_leaves(from)?;
        Ok(cargo.marks)
    }
}
