//! Looks before a change whether it will be taken, where credentials are for a part of a bucket only.
//!
//! What may not be looked at is not changed: nobody could tell what is there. Elsewhere the store is asked once
//! before the first change in a folder, and what it says of that counts for all that is below it. A program hears
//! at once then that it may not write, and not when its bytes are here and the bucket does not take them.

use base::{Ino, Name};
use remote::{ErrorKind as RemoteErrorKind, Key};

use super::nodes::Place;
use super::options::Top;
use super::shared::{Shared, State};
use crate::{Error, ErrorKind, Result};

impl Shared {
    /// Fails if nothing may be changed in the folder `dir`.
    pub(super) async fn check_allowed(&self, op: &'static str, dir: Ino) -> Result<()> {
        if self.options.top == Top::Listed && self.allowed.get().is_none() {
            return Ok(());
        }
        let prefix = {
            let mut state = self.state();
            let state = state.uncounted();
            let prefix = state.tree.prefix(op, dir)?;
            if state.tree.folder(dir).is_some_and(|folder| folder.on_the_way) {
                return Err(Error::folder(ErrorKind::Remote(RemoteErrorKind::Denied), op, &prefix));
            }
            prefix
        };
        self.check_taken(op, prefix).await
    }

    /// Fails if the node `ino` may not be changed: what is said of it is kept in the folder above, if not by its
    /// object.
    pub(super) async fn check_allowed_of(&self, op: &'static str, ino: Ino) -> Result<()> {
        if self.options.top == Top::Listed && self.allowed.get().is_none() {
            return Ok(());
        }
        let dir = self.state().uncounted().dir_of(ino);
        match dir {
            Some(dir) => self.check_allowed(op, dir).await,
            // It has no name any more: nothing of it gets into the bucket.
            None => Ok(()),
        }
    }

    async fn check_taken(&self, op: &'static str, prefix: Key) -> Result<()> {
        let Some(allowed) = self.allowed.get() else { return Ok(()) };
        let refused = |prefix: &Key| Err(Error::folder(ErrorKind::ReadOnly, op, prefix));
        let said = |known| if known { Ok(()) } else { refused(&prefix) };
        if let Some(known) = allowed.known(&prefix, self.clock.monotonic()) {
            return said(known);
        }
        let _turn = allowed.turn.lock().await;
        if let Some(known) = allowed.known(&prefix, self.clock.monotonic()) {
            return said(known);
        }
        match (allowed.try_write)(prefix.clone()).await {
            Ok(()) => {
                tracing::info!(%prefix, "the store takes changes here");
                allowed.takes(prefix);
                Ok(())
            }
            Err(error) if error.is_refusal() => {
                tracing::warn!(%error, "the store takes no changes here");
                allowed.refuses(prefix.clone(), self.clock.monotonic());
                refused(&prefix)
            }
            Err(error) => Err(Error::remote(op, error)),
        }
    }

    /// Whether all changes in the folder `prefix` are taken, as far as was asked.
    pub(super) fn takes_changes(&self, prefix: &Key) -> bool {
        self.allowed.get().is_none_or(|allowed| allowed.place_of(prefix).is_some())
    }

    /// A key for what is only to be seen by us, at a place where the store takes it if it takes `key`: `hidden` in
    /// the topmost folder that takes changes. Nobody renames or removes that, since the folder above it takes none.
    /// Where the store cannot be asked it is one that is known to take some.
    pub(super) async fn hidden_beside(&self, key: &Key, hidden: &str) -> Key {
        let top = Key::from("");
        if let Some(allowed) = self.allowed.get() {
            let slashes = key.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let ends = std::iter::once(0).chain(slashes.map(|(at, _)| at + 1));
            for end in ends {
                let folder = top.join(&key.as_bytes()[..end]);
                match self.check_taken("keep for readers", folder.clone()).await {
                    Ok(()) => return folder.join(hidden.as_bytes()),
                    Err(error) if error.kind == ErrorKind::ReadOnly => {}
                    // In an outage each further question would take as long.
                    Err(_) => {
                        let known = allowed.place_of(key);
                        return known.unwrap_or(top).join(hidden.as_bytes());
                    }
                }
            }
        }
        top.join(hidden.as_bytes())
    }

    /// As [`Shared::check_allowed`], of two folders.
    pub(super) async fn check_both_allowed(
        &self,
        op: &'static str,
        (from, to): ((Ino, &Name), (Ino, &Name)),
    ) -> Result<()> {
        self.check_allowed(op, from.0).await?;
        if from.0 == to.0 { Ok(()) } else { self.check_allowed(op, to.0).await }
    }
}

impl State {
    /// The folder that `ino` is in; of the root, that itself. `None` if it has no name any more.
    fn dir_of(&self, ino: Ino) -> Option<Ino> {
        match self.tree.node(ino)?.place {
            Place::Root => Some(ino),
            Place::Named { parent, .. } => Some(parent),
            Place::Unlinked | Place::Replaced => None,
        }
    }
}
