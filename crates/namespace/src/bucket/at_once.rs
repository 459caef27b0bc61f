//! What the store moves in one step: nobody sees both names, or neither, and there is nothing to remove.
//!
//! An answer that is lost is found out by a look at both names: what was moved is gone from the one and
//! is at the other.

use base::Ino;
use futures::TryStreamExt as _;
use remote::{
    Condition, Error as RemoteError, ErrorKind as RemoteErrorKind, Key, Moves, UPLOAD_ID, Version,
};

use super::alike::may_have_arrived;
use super::carry::{Route, is_prefix, there};
use super::journal::{FileMove, Record};
use super::marks::Manner;
use super::nodes::Stored;
use super::rename::Uncopied;
use super::shared::Shared;
use crate::{Error, RecordId, Result};

const OP: &str = "rename";

impl Shared {
    /// Gives the folder on `route` its new prefix, if the store can do that in one step.
    pub(super) async fn move_at_once(&self, route: &Route) -> remote::Result<Manner> {
        if !self.has_real_folders() || !is_prefix(&route.from) || !is_prefix(&route.to) {
            return Ok(Manner::Copied);
        }
        let renamed = match self.remote.rename_folder(&route.from, &route.to).await {
            Err(error) if error.kind == RemoteErrorKind::Changed => {
                // It may be there already, or an empty folder may be in the way.
                if self.is_moved(route).await? {
                    return Ok(Manner::AtOnce);
                }
                if !self.clear_way(&route.to).await? {
                    return Err(error);
                }
                self.remote.rename_folder(&route.from, &route.to).await
            }
            renamed => renamed,
        };
        match renamed {
            Ok(()) => Ok(Manner::AtOnce),
            Err(error) if error.kind == RemoteErrorKind::Unsupported => Ok(Manner::Copied),
            Err(error) if is_unclear(error.kind) && self.is_moved(route).await? => {
                Ok(Manner::AtOnce)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the folder on `route` its old prefix again, if it is all at the new one.
    pub(super) async fn move_back(&self, route: &Route) -> remote::Result<Manner> {
        let is_folder = is_prefix(&route.from) && is_prefix(&route.to);
        if !self.has_real_folders() || !is_folder || !self.is_moved(route).await? {
            return Ok(Manner::Copied);
        }
        let back = Route { from: route.to.clone(), to: route.from.clone() };
        self.move_at_once(&back).await
    }

    /// Whether nothing is at the beginning of the way, and a folder at its end.
    async fn is_moved(&self, route: &Route) -> remote::Result<bool> {
        let (from, to) = futures::join!(self.remote.head(&route.from), self.remote.head(&route.to));
        Ok(there(from)?.is_none() && there(to)?.is_some())
    }

    /// Removes the folder `prefix` if nothing is in it. Says whether it did.
    async fn clear_way(&self, prefix: &Key) -> remote::Result<bool> {
        let mut objects = self.objects(prefix);
        while let Some((rest, _)) = objects.try_next().await? {
            if !rest.is_empty() {
                return Ok(false);
            }
        }
        self.remote.delete(prefix).await.map(|()| true)
    }

    pub(super) fn is_moved_at_once(&self, FileMove { from, to, .. }: &FileMove) -> bool {
        let is_atomic = self.remote.personality().naming.moves == Moves::Atomic;
        // The marker of a folder is no file of its own to such a store.
        is_atomic && !is_prefix(from) && !is_prefix(to)
    }

    /// Notes which upload made the object of `ino`, if the store moves it in one step and bytes go along: who
    /// finishes the move after a crash finds nothing to compare it with.
    pub(super) async fn note_maker(
        &self,
        (ino, of): (Ino, RecordId),
        planned: &FileMove,
    ) -> Result<Option<RecordId>> {
        if !self.is_moved_at_once(planned) || !self.has_promised(ino) {
            return Ok(None);
        }
        let found = there(self.remote.head(&planned.from).await);
        let found = found.map_err(|error| Error::remote(OP, error))?;
        let same = found.filter(|found| found.version == planned.version);
        let Some(upload) = same.and_then(|mut found| found.metadata.remove(UPLOAD_ID)) else {
            return Ok(None);
        };
        self.note_for_good(OP, &Record::Maker { of, upload }).map(Some)
    }

    /// Moves the object of a file in one step if the store can do that, else copies it.
    pub(super) async fn move_once(
        &self,
        stored: &Stored,
        planned: &FileMove,
        condition: &Condition,
    ) -> std::result::Result<(Version, Manner), Uncopied> {
        if self.is_moved_at_once(planned) {
            match self.remote.rename(stored.original(), &planned.to, condition).await {
                Ok(version) => return Ok((version, Manner::AtOnce)),
                Err(error) if error.kind == RemoteErrorKind::Unsupported => {}
                Err(error) if is_unclear(error.kind) => {
                    return match self.renamed_object(stored, planned).await {
                        Ok(Some(version)) => Ok((version, Manner::AtOnce)),
                        Ok(None) => Err(Uncopied::Not(Error::remote(OP, as_changed(error)))),
                        Err(_) => Err(Uncopied::Unclear(Error::remote(OP, error))),
                    };
                }
                Err(error) => return Err(Uncopied::Not(Error::remote(OP, error))),
            }
        }
        let version = self.copy_once(stored, planned, condition).await?;
        Ok((version, Manner::Copied))
    }

    /// The version that the object has under its new name, if it is gone from the old one and there.
    pub(super) async fn renamed_object(
        &self,
        stored: &Stored,
        planned: &FileMove,
    ) -> Result<Option<Version>> {
        let (source, target) =
            futures::join!(self.remote.head(&stored.key), self.remote.head(&planned.to));
        let of_store = |error| Error::remote(OP, error);
        let (source, target) = (there(source).map_err(of_store)?, there(target).map_err(of_store)?);
        let target = target.filter(|target| {
            target.size == stored.size && planned.over.as_ref() != Some(&target.version)
        });
        let is_gone = source.is_none();
        Ok(target.filter(|_| is_gone).map(|target| target.version))
    }
}

/// Whether what failed like this may have been done all the same, by this or an earlier try.
fn is_unclear(kind: RemoteErrorKind) -> bool {
    may_have_arrived(kind) || kind == RemoteErrorKind::NotFound
}

/// The source was found just now: that it is gone is as stale as one that was replaced.
fn as_changed(error: RemoteError) -> RemoteError {
    if error.kind == RemoteErrorKind::NotFound {
        RemoteError { kind: RemoteErrorKind::Changed, ..error }
    } else {
        error
    }
}
