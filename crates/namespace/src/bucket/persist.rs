//! A change of names that could not be finished goes on while the mount lives.
//!
//! Who asked for it has had his error. The journal knows of it, so that after a crash the next mount
//! finishes it; until then who wants to change the names gets an error too, so that nobody builds on
//! what may still move.

use std::sync::Arc;

use base::{Ino, Name};
use remote::{Key, Moves};

use super::carry::{Cargo, Copies, Route, there};
use super::go_along::Departure;
use super::journal::FileMove;
use super::land::Landing;
use super::nodes::Stored;
use super::shared::Shared;
use super::swap::Swap;
use crate::{Error, RecordId, Result};

const OP: &str = "rename";

/// How many changes are gone on with at a time; of others only the journal knows.
pub(super) const RESTS_MAX: usize = 256;

/// How a change of names failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// Before anything had the new name.
    Before(Error),
    /// The object of the new name is another one already; nothing is left to do.
    After(Error),
    /// In the middle: this is left to do.
    Unfinished(Error, Box<Rest>),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Before(error)
    }
}

/// What is left to do.
#[derive(Debug)]
pub(super) enum Rest {
    /// Nobody knows whether the file was copied.
    Copied(Unclear),
    /// The file has its new name, and its old object is to be removed if it still is this one.
    Old { dir: Ino, stored: Stored, record: RecordId },
    /// A folder has its new name, and what was copied is to be removed under its old one.
    OldFolder { prefix: Key, cargo: Cargo, records: Vec<RecordId> },
    /// A folder keeps its old name, and what was copied of it is to be removed again.
    Copies { route: Route, cargo: Cargo, records: Vec<RecordId> },
    /// Two names change places.
    Swap(Swap),
}

/// The move of a file of which nobody knows whether it was copied.
#[derive(Debug)]
pub(super) struct Unclear {
    pub(super) source: Ino,
    pub(super) from: (Ino, Name),
    pub(super) to: (Ino, Name),
    pub(super) stored: Stored,
    pub(super) planned: FileMove,
    pub(super) record: RecordId,
    /// It may still move.
    #[expect(dead_code, reason = "it is held until this is dropped")]
    pub(super) departure: Departure,
}

impl Shared {
    /// Does `rest`, or tells what is left of it.
    pub(super) async fn finish_rest(
        self: &Arc<Self>,
        rest: Rest,
    ) -> std::result::Result<(), (Rest, Error)> {
        match rest {
            Rest::Copied(unclear) => match self.copied_after_all(&unclear).await {
                Ok(None) => Ok(()),
                Ok(Some(rest)) => Box::pin(self.finish_rest(rest)).await,
                Err(error) => Err((Rest::Copied(unclear), error)),
            },
            Rest::Old { dir, stored, record } => match self.remove_old(dir, &stored).await {
                Ok(()) => {
                    self.strike_for_good(&[record]);
                    Ok(())
                }
                Err(error) => Err((Rest::Old { dir, stored, record }, error)),
            },
            Rest::OldFolder { prefix, cargo, records } => {
                match self.remove_all(&prefix, Copies::There, &cargo.marks).await {
                    Ok(_) => {
                        self.ledger.strike(&records);
                        Ok(())
                    }
                    Err(error) => {
                        let rest = Rest::OldFolder { prefix, cargo, records };
                        Err((rest, Error::remote(OP, error)))
                    }
                }
            }
            Rest::Copies { route, cargo, records } => {
                match self.uncopy(&route, &cargo.marks).await {
                    Ok(()) => {
                        self.ledger.strike(&records);
                        Ok(())
                    }
                    Err(error) => {
                        let rest = Rest::Copies { route, cargo, records };
                        Err((rest, Error::remote(OP, error)))
                    }
                }
            }
            Rest::Swap(mut swap) => match self.go_on(&mut swap).await {
                Ok(()) => Ok(()),
                Err(error) => Err((Rest::Swap(swap), error)),
            },
        }
    }

    /// The bucket refused `rest` for good.
    pub(super) fn give_up_rest(&self, rest: &Rest) {
        match rest {
            // It has its new name, and what is left under the old one is a thing of its own.
            Rest::Old { record, .. } => self.strike_for_good(&[*record]),
            Rest::OldFolder { records, .. } => self.strike_for_good(records),
            // The journal has it, for the next mount.
            Rest::Copied(_) | Rest::Copies { .. } | Rest::Swap(_) => {}
        }
    }

    /// Finds out whether a file was copied: then it has its new name, and the rest is left to do.
    async fn copied_after_all(&self, unclear: &Unclear) -> Result<Option<Rest>> {
        let Unclear { source, from, to, stored, planned, record, departure: _ } = unclear;
        let landed = self.arrived(stored, planned).await?;
        let Some(landed) = landed else {
            self.strike_for_good(&[*record]);
            return Ok(None);
        };
        self.land_file((from.0, &from.1), (to.0, &to.1), *source, Landing::Object(landed));
        Ok(Some(Rest::Old { dir: from.0, stored: stored.clone(), record: *record }))
    }

    /// The copy of the file, or the file itself, if it is where it was to go.
    pub(super) async fn arrived(
        &self,
        stored: &Stored,
        planned: &FileMove,
    ) -> Result<Option<Stored>> {
        let (source, copy) =
            futures::join!(self.remote.head(&stored.key), self.remote.head(&planned.to));
        let of_store = |error| Error::remote(OP, error);
        let (source, copy) = (there(source).map_err(of_store)?, there(copy).map_err(of_store)?);
        let (Some(source), Some(copy)) = (source, copy) else {
            if self.remote.personality().naming.moves == Moves::Copied {
                return Ok(None);
            }
            let version = self.renamed_object(stored, planned).await?;
            let (key, size) = (planned.to.clone(), stored.size);
            return Ok(version.map(|version| Stored { key, version, size }));
        };
        let is_untouched = planned.over.as_ref() == Some(&copy.version);
        if source.version != stored.version || is_untouched {
            return Ok(None);
        }
        let is_copy = self.is_copy((&stored.key, &source), (&planned.to, &copy)).await;
        Ok(is_copy.map_err(of_store)?.then(|| Stored {
            key: planned.to.clone(),
            version: copy.version,
            size: stored.size,
        }))
    }

    /// Removes what a file that has moved left, if it still is what was copied.
    async fn remove_old(&self, dir: Ino, stored: &Stored) -> Result<()> {
        let found = there(self.remote.head(&stored.key).await);
        match found.map_err(|error| Error::remote(OP, error))? {
            Some(meta) if meta.version == stored.version => {
                self.remove_object(OP, dir, &stored.key).await
            }
            Some(_) | None => Ok(()),
        }
    }
}
