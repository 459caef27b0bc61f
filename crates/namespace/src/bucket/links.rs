//! Symbolic links, pipes, sockets and device nodes: objects that stand for something besides bytes.
//!
//! A link is an object whose body is its target, the others are empty objects. What they are is in
//! their metadata, as s3fs has it, and in the folder's attribute object, so that a listing knows.

use std::sync::Arc;

use base::{FileKind, Ino, Name};
use bytes::Bytes as Body;
use remote::{Condition, ErrorKind as RemoteErrorKind, Fresh, PutOptions, UPLOAD_ID};

use super::form::Form;
use super::keys;
use super::looks::{Looks, Source};
use super::nodes::{File, Kind, Stored};
use super::options::Returns;
use super::shared::Shared;
use crate::{Entry, Error, ErrorKind, NewNode, Owner, Result, Special};

/// The longest target that the kernel takes.
const TARGET_BYTES_MAX: u64 = 4095;

const LINK_MODE: u16 = 0o777;

impl Shared {
    /// Makes a symbolic link.
    pub(super) async fn symlink(
        self: &Arc<Self>,
        place: (Ino, &Name),
        target: &[u8],
        owner: Owner,
    ) -> Result<Entry> {
        if target.is_empty() || TARGET_BYTES_MAX < target.len() as u64 {
            return Err(Error::name(ErrorKind::Invalid, "symlink", place.1));
        }
        let form = Form::Link(Some(Arc::new(target.to_vec())));
        let new = NewNode { mode: LINK_MODE, owner };
        match self.options.returns {
            Returns::InBucket => {
                let body = Body::copy_from_slice(target);
                self.make_object("symlink", place, (form, body), new).await
            }
            Returns::Journaled => self.make_object_soon("symlink", place, form, new).await,
        }
    }

    /// Makes a pipe, a socket or a device node.
    pub(super) async fn mknod(
        self: &Arc<Self>,
        place: (Ino, &Name),
        special: Special,
        new: NewNode,
    ) -> Result<Entry> {
        match special.kind {
            FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {}
            FileKind::File | FileKind::Directory | FileKind::Symlink => {
                return Err(Error::name(ErrorKind::Invalid, "mknod", place.1));
            }
        }
        let form = Form::Special(special);
        match self.options.returns {
            Returns::InBucket => self.make_object("mknod", place, (form, Body::new()), new).await,
            Returns::Journaled => self.make_object_soon("mknod", place, form, new).await,
        }
    }

    async fn make_object(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        (form, body): (Form, Body),
        new: NewNode,
    ) -> Result<Entry> {
        let _turn = self.alone(op, &[(parent, name)]).await?;
        if self.find(op, parent, name).await?.is_some() {
            return Err(Error::name(ErrorKind::Exists, op, name));
        }
        self.check_new(op, (parent, name), form.kind()).await?;
        let _claim = self.changes.claim(parent, name);
        let (key, new) = {
            let state = self.state();
            state.check_free(op, parent, name)?;
            let key = keys::file(&state.tree.prefix(op, parent)?, name);
            (key, state.inherited(new, form.kind(), parent))
        };
        let looks = Looks::new(new.mode & 0o7777, new.owner, self.clock.wall(), Source::Here);
        let mut metadata = looks.metadata(form.kind());
        if form.rdev() != 0 {
            metadata.insert("rdev".to_owned(), form.rdev().to_string());
        }
        metadata.insert(UPLOAD_ID.to_owned(), self.random_name(&key));
        let conditional = self.remote.personality().conditional_writes;
        let condition = if conditional { Condition::Absent } else { Condition::Always };
        let size = body.len() as u64;
        let put = self.remote.put(&key, body, &PutOptions { condition, metadata }).await;
        let version = match put {
            Err(error) if error.kind == RemoteErrorKind::Changed => {
                return Err(Error::name(ErrorKind::Exists, op, name));
            }
            put => put.map_err(|error| Error::remote(op, error))?,
        };
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.check_free(op, parent, name)?;
        let file = File { form, ..File::stored(Stored { key, version, size }) };
        let ino = self.make(&mut state, (parent, name), Kind::File(file), new, now);
        if let Some(node) = state.tree.node_mut(ino) {
            // The times are those that the object carries.
            node.looks = looks;
        }
        let entry = state.entry(name, ino);
        drop(state);
        self.note_made(op, ino);
        // No listing tells it from a file: only what was just noted does, until the folder's attributes
        // are in the bucket.
        self.ledger.sync();
        Ok(entry)
    }

    /// Makes sure that the target of `ino` is known, if it is a link: what is written down of a link
    /// has its target in it.
    pub(super) async fn know_target(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let unknown = {
            let mut state = self.state();
            let node = state.tree.named_by_kernel("readlink", ino)?;
            matches!(&node.kind, Kind::File(File { form: Form::Link(None), .. }))
        };
        if unknown { self.readlink(ino).await.map(drop) } else { Ok(()) }
    }

    /// Where a symbolic link points.
    pub(super) async fn readlink(self: &Arc<Self>, ino: Ino) -> Result<Arc<Vec<u8>>> {
        let stored = {
            let mut state = self.state();
            let node = state.tree.named_by_kernel("readlink", ino)?;
            match &node.kind {
                Kind::File(File { form: Form::Link(Some(target)), .. }) => {
                    return Ok(Arc::clone(target));
                }
                Kind::File(file @ File { form: Form::Link(None), .. }) => {
                    file.stored_bytes().cloned()
                }
                Kind::File(_) | Kind::Folder(_) => None,
            }
        };
        let invalid = || Error::node(ErrorKind::Invalid, "readlink", ino);
        let Stored { key, version, .. } = stored.ok_or_else(invalid)?;
        let fresh = self.remote.get_whole(&key, None, TARGET_BYTES_MAX).await;
        let target = match fresh.map_err(|error| Error::remote("readlink", error))? {
            Fresh::New(meta, target) if meta.version == version => Arc::new(target.to_vec()),
            Fresh::New(..) | Fresh::Same => {
                return Err(Error::node(ErrorKind::Stale, "readlink", ino));
            }
        };
        // What has a NUL in it, or nothing, leads nowhere.
        if target.is_empty() || target.contains(&0) {
            return Err(invalid());
        }
        if let Some(node) = self.state().tree.node_mut(ino)
            && let Kind::File(File { form: form @ Form::Link(None), .. }) = &mut node.kind
        {
            *form = Form::Link(Some(Arc::clone(&target)));
        }
        Ok(target)
    }
}
