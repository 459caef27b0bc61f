//! A copy of a file in the place of a link to it: for those who read the bucket and follow no links.

use std::sync::Arc;

use base::{Ino, Name};
use remote::{Condition, ErrorKind as RemoteErrorKind, Key, Version};

use super::form::Form;
use super::nodes::{Kind, Place, Stored};
use super::shared::Shared;
use crate::{Error, ErrorKind, Result};

const OP: &str = "copy over a link";

/// How often a link may get another name while one waits for it.
const TRIES_MAX: usize = 100;

impl Shared {
    /// The store copies the object of `file` over that of `link`.
    pub(super) async fn copy_over_link(self: &Arc<Self>, link: Ino, file: Ino) -> Result<()> {
        let stale = || Error::node(ErrorKind::Stale, OP, link);
        // The object of a link that was just made, and that of a file that was just moved, are still to come.
        self.outbox.hurry();
        drop(self.settle_name(file).await?);
        for _ in 0..TRIES_MAX {
            let (parent, name) = self.place(link)?.ok_or_else(stale)?;
            let _turn = self.alone(OP, &[(parent, &name)]).await?;
            if self.place(link)? == Some((parent, name.clone())) {
                return self.copy_in_turn(link, file, (parent, &name)).await;
            }
        }
        Err(stale())
    }

    async fn copy_in_turn(&self, link: Ino, file: Ino, (parent, name): (Ino, &Name)) -> Result<()> {
        let _claim = self.changes.claim(parent, name);
        let replaced = self.stored(link, |form| matches!(form, Form::Link(_)))?;
        let original = self.stored(file, |form| matches!(form, Form::Plain))?;
        let condition = Condition::Is(replaced.version);
        let copied = self.remote.copy(original.original(), &replaced.key, &condition).await;
        let copy = match copied {
            Ok(copy) => copy,
            Err(error) => {
                let is_lost =
                    matches!(error.kind, RemoteErrorKind::Changed | RemoteErrorKind::NotFound);
                let found =
                    if is_lost { self.copy_of(&original, &replaced.key).await? } else { None };
                found.ok_or_else(|| Error::remote(OP, error))?
            }
        };
        // Or the folder would go on to speak of the link, and each listing would have to ask what is there now.
        self.line_is_copied(file, (&replaced.key, copy));
        // Whoever looks the name up asks the bucket, as after a change by others.
        let mut state = self.state();
        state.tree.detach(link, &Place::Replaced);
        if let Some(folder) = state.tree.folder_mut(parent) {
            folder.windows.forget(name);
        }
        self.changes.note(parent, name);
        Ok(())
    }

    /// The version of the object `key`, if that is a copy of `original`: of one whose answer was lost.
    async fn copy_of(&self, original: &Stored, key: &Key) -> Result<Option<Version>> {
        let (from, to) = futures::join!(self.remote.head(&original.key), self.remote.head(key));
        let (Ok(from), Ok(to)) = (from, to) else { return Ok(None) };
        if from.version != original.version {
            return Ok(None);
        }
        let is_copy = self.is_copy((&original.key, &from), (key, &to)).await;
        let is_copy = is_copy.map_err(|error| Error::remote(OP, error))?;
        Ok(is_copy.then_some(to.version))
    }

    /// The object of `ino`, if that is of the wanted form.
    fn stored(&self, ino: Ino, is_wanted: fn(&Form) -> bool) -> Result<Stored> {
        let state = self.state();
        let stored = match state.tree.node(ino).map(|node| &node.kind) {
            Some(Kind::File(file)) if is_wanted(&file.form) => file.stored_bytes().cloned(),
            Some(Kind::File(_) | Kind::Folder(_)) | None => None,
        };
        stored.ok_or_else(|| Error::node(ErrorKind::Invalid, OP, ino))
    }
}
