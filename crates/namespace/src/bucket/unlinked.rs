//! The bytes of files that lose their names while somebody reads them.
//!
//! The object goes with the name. So what a user of the file may still want of it, because it is not
//! all on this host, is first copied to a hidden key; the file's users go on with the copy, and it is
//! removed when the last of them is gone. The journal knows of it: after a crash nobody uses it, and
//! the next mount removes it.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Ino;
use remote::{Condition, ErrorKind as RemoteErrorKind, Key};
use siphasher::sip::SipHasher24;

use super::copies::Copy;
use super::journal::Record;
use super::nodes::{Kind, Place, Stored};
use super::shared::{Shared, State};
use crate::{Error, Result, Use};

/// What the hidden keys begin with.
pub(super) const HIDDEN_PREFIX: &str = ".quayfs-unlinked/";

/// Whether a key that ends in `rest`, behind a folder, is one of the hidden keys.
pub(super) fn is_kept(rest: &[u8]) -> bool {
    let folder = HIDDEN_PREFIX.trim_end_matches('/').as_bytes();
    rest.split(|&byte| byte == b'/').any(|part| part == folder)
}

/// A file that is about to lose its name and its object: while this lives nobody begins to use it.
#[derive(Debug)]
pub(super) struct Leaving {
    shared: Arc<Shared>,
    ino: Ino,
    /// The object it had until it was copied.
    before: Option<Stored>,
}

impl Shared {
    /// Makes sure that who uses the file `ino` can do without its object.
    pub(super) async fn leave(self: &Arc<Self>, op: &'static str, ino: Ino) -> Result<Leaving> {
        let stored = self.state().leave(ino);
        self.leave_object(op, ino, stored).await
    }

    /// As [`Shared::leave`], of a file that lost its name some time ago. `None` if nobody can use it
    /// any more: its number may be that of another file by now.
    pub(super) async fn leave_nameless(
        self: &Arc<Self>,
        op: &'static str,
        ino: Ino,
    ) -> Result<Option<Leaving>> {
        let stored = {
            let mut state = self.state();
            match state.tree.node(ino).map(|node| &node.place) {
                Some(Place::Unlinked) => state.leave(ino),
                Some(Place::Root | Place::Named { .. } | Place::Replaced) | None => {
                    return Ok(None);
                }
            }
        };
        self.leave_object(op, ino, stored).await.map(Some)
    }

    async fn leave_object(
        self: &Arc<Self>,
        op: &'static str,
        ino: Ino,
        stored: Option<Stored>,
    ) -> Result<Leaving> {
        let mut leaving = Leaving { shared: Arc::clone(self), ino, before: None };
        // In this order: who opens the file is among its users before he looks whether it leaves.
        let Some(stored) = stored.filter(|_| self.in_use(ino) == Use::Partly) else {
            return Ok(leaving);
        };
        if self.unlinked.copies.lock().contains_key(&ino) {
            // By an earlier try.
            return Ok(leaving);
        }
        let key = self.hidden_key(&stored).await;
        let record = self.note_ahead(op, &Record::Unlinked { kept: key.clone() })?;
        let copied = self.remote.copy(stored.original(), &key, &Condition::Always).await;
        let version = match copied {
            Ok(version) => version,
            Err(error) => {
                self.ledger.strike(&[record]);
                let gone = [RemoteErrorKind::Changed, RemoteErrorKind::NotFound];
                // Others have replaced or removed it: there is nothing to keep any more.
                return if gone.contains(&error.kind) {
                    Ok(leaving)
                } else {
                    Err(Error::remote(op, error))
                };
            }
        };
        self.unlinked.copies.lock().insert(ino, Copy { key: key.clone(), record });
        self.place_bytes(ino, Stored { key, version, size: stored.size });
        leaving.before = Some(stored);
        Ok(leaving)
    }

    /// The bytes of the file `ino` are in this object from now on.
    fn place_bytes(&self, ino: Ino, stored: Stored) {
        let content = {
            let mut state = self.state();
            match state.tree.node_mut(ino).map(|node| &mut node.kind) {
                Some(Kind::File(file)) => {
                    file.follow(stored);
                    self.content_of(file)
                }
                Some(Kind::Folder(_)) | None => return,
            }
        };
        if let Some(users) = self.users() {
            users.put_aside(ino, content);
        }
    }

    /// Nobody uses the nameless file `ino` any more, or any if none is named.
    pub(super) async fn release(&self, ino: Option<Ino>) {
        let copies: Vec<Copy> = {
            let mut copies = self.unlinked.copies.lock();
            match ino {
                Some(ino) => copies.remove(&ino).into_iter().collect(),
                None => copies.drain().map(|(_, copy)| copy).collect(),
            }
        };
        for Copy { key, record } in copies {
            match self.remote.delete(&key).await {
                Ok(()) => self.ledger.strike(&[record]),
                // The journal still knows of it.
                Err(error) => tracing::warn!(%error, "the bytes of a removed file stay for now"),
            }
        }
    }

    /// A key for what is only to be seen by us.
    async fn hidden_key(&self, stored: &Stored) -> Key {
        let hidden = format!("{HIDDEN_PREFIX}{}", self.random_name(&stored.key));
        self.hidden_beside(&stored.key, &hidden).await
    }

    /// A name that no other mount, of whatever host, makes for anything.
    pub(super) fn random_name(&self, key: &Key) -> String {
        let made = self.unlinked.made.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.wall();
        let half = |salt: u64| {
            let mut hasher = SipHasher24::new_with_keys(self.options.seed, salt);
            hasher.write(key.as_bytes());
            hasher.write_u64(made);
            hasher.write_i64(now.secs);
            hasher.write_u32(now.nanos);
            hasher.finish()
        };
        format!("{:016x}{:016x}", half(1), half(2))
    }
}

impl State {
    /// The file `ino` is about to leave; returns the object that it has.
    fn leave(&mut self, ino: Ino) -> Option<Stored> {
        self.leaving.insert(ino);
        match self.tree.node(ino).map(|node| &node.kind) {
            Some(Kind::File(file)) => file.stored_bytes().cloned(),
            Some(Kind::Folder(_)) | None => None,
        }
    }
}

impl Leaving {
    /// The file keeps its name and its object after all.
    pub(super) async fn stay(mut self) {
        if let Some(before) = self.before.take() {
            self.shared.place_bytes(self.ino, before);
            self.shared.release(Some(self.ino)).await;
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.state().leaving.remove(&self.ino);
    }
}
