//! Links and the like that are made here at once, and in the bucket a little later: who removes
//! them or gives them another name by then does so without a request.

use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Name};
use bytes::Bytes as Body;
use remote::{Condition, ErrorKind as RemoteErrorKind, PutOptions, UPLOAD_ID, Version};

use super::change::{Change, InLine, Made};
use super::changes::Claim;
use super::form::Form;
use super::journal::{NewObject, Record};
use super::keys;
use super::makings::{Making, Stage};
use super::nodes::{Bytes, File, Kind, Place, Stored};
use super::shared::{Shared, State};
use crate::{Entry, Error, ErrorKind, NewNode, RecordId, Result};

/// How long what was made waits before it is sent.
pub(super) const SEND_DELAY: Duration = Duration::from_millis(100);

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// Where its name says, if there is one.
    Settled,
    /// It is yet to be made.
    Unmade,
    /// It is just being made, or moved.
    InTransit,
}

impl Shared {
    /// Makes what is an object and no bytes; the bucket has it later.
    pub(super) async fn make_object_soon(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        form: Form,
        new: NewNode,
    ) -> Result<Entry> {
        let room = self.outbox.room().await;
        let place = self.ahead(op, &[(parent, name)]).await?;
        let asked = self.clock.monotonic();
        if self.find(op, parent, name).await?.is_some() {
            return Err(Error::name(ErrorKind::Exists, op, name));
        }
        self.check_new(op, (parent, name), form.kind()).await?;
        let claim = self.changes.claim(parent, name);
        let (ino, entry, object) = {
            let mut state = self.state();
            state.check_free(op, parent, name)?;
            let key = keys::file(&state.tree.prefix(op, parent)?, name);
            let new = state.inherited(new, form.kind(), parent);
            let file = File { form, ..File::local(None) };
            let ino = self.make(&mut state, (parent, name), Kind::File(file), new, asked);
            let object = state.new_object(op, ino, self.random_name(&key))?;
            (ino, state.entry(name, ino), object)
        };
        match self.note_making(op, object, None) {
            Ok(making) => {
                self.send_making((vec![parent], ino), making, (place, vec![claim]), room);
                Ok(entry)
            }
            Err(error) => {
                self.state().tree.detach(ino, &Place::Unlinked);
                Err(error)
            }
        }
    }

    /// The journal knows what is to be made, instead of what it knew of it before.
    pub(super) fn note_making(
        &self,
        op: &'static str,
        object: NewObject,
        instead: Option<RecordId>,
    ) -> Result<Making> {
        let record = Record::MakeObject { object: object.clone(), instead };
        let record = self.note_ahead(op, &record)?;
        self.ledger.strike(instead.as_slice());
        Ok(Making { object: Arc::new(object), record })
    }

    /// What is to be made gets into the bucket when its turn comes.
    pub(super) fn send_making(
        self: &Arc<Self>,
        (dirs, ino): (Vec<Ino>, Ino),
        making: Making,
        (place, claims): (InLine, Vec<Claim>),
        room: tokio::sync::OwnedSemaphorePermit,
    ) {
        let number = self.makings.add(ino, making);
        let (change, records) = (Change::MakeObject { ino, number }, Vec::new());
        self.send(Made { dirs, change, records, place, claims, room });
    }

    /// Where the object of `ino` is. Who is alone at its name is told what stays true, but that what
    /// is unmade may be in transit at any moment.
    pub(super) fn whereabouts(&self, ino: Ino) -> Whereabouts {
        match self.makings.stage(ino) {
            Some(Stage::Waiting) => Whereabouts::Unmade,
            Some(Stage::Sending) => Whereabouts::InTransit,
            None if self.state().tree.is_elsewhere(ino) => Whereabouts::InTransit,
            None => Whereabouts::Settled,
        }
    }

    /// Sees to it that an unmade object is never made; false if that is too late.
    pub(super) fn unmake(&self, ino: Ino) -> bool {
        let taken = self.makings.take(ino);
        if let Some(making) = &taken {
            self.ledger.strike(&[making.record]);
        }
        taken.is_some()
    }

    /// What is said of `ino` was changed: if it is yet to be made, the journal has that, too.
    pub(super) fn renew_making(&self, op: &'static str, ino: Ino) -> Result<()> {
        let Some(before) = self.makings.get(ino) else { return Ok(()) };
        let upload = before.object.metadata.get(UPLOAD_ID).cloned().unwrap_or_default();
        // Else it was made, or lost its name, a moment ago.
        let Ok(object) = self.state().new_object(op, ino, upload) else { return Ok(()) };
        let record = Record::MakeObject { object: object.clone(), instead: Some(before.record) };
        let record = self.note_ahead(op, &record)?;
        let newer = Making { object: Arc::new(object), record };
        self.ledger.strike(&[self.makings.renew(ino, newer)]);
        Ok(())
    }

    /// Makes the object of `ino`, if it is still to be made.
    pub(super) async fn send_object(&self, ino: Ino, number: u64) -> Result<()> {
        let Some(Making { object, .. }) = self.makings.begin(ino, number) else { return Ok(()) };
        let version = self.put_object("make", &object).await?;
        {
            let now = self.clock.monotonic();
            let mut state = self.state();
            if let Some(node) = state.tree.node_mut(ino)
                && let Kind::File(file) = &mut node.kind
            {
                let (key, size) = (object.key.clone(), object.body.len() as u64);
                file.bytes = Bytes::Object(Stored { key, version, size });
                file.size = size;
                node.as_of = Some(now);
            }
        }
        self.note_made("make", ino);
        if let Some(record) = self.makings.end(ino, number) {
            self.ledger.strike(&[record]);
        }
        Ok(())
    }

    /// Makes an object under its condition; what arrived although the store said otherwise counts.
    pub(super) async fn put_object(&self, op: &'static str, object: &NewObject) -> Result<Version> {
        let NewObject { key, over, body, said: _, metadata } = object;
        let condition = match over {
            _ if !self.remote.personality().conditional_writes => Condition::Always,
            Some(over) => Condition::Is(over.clone()),
            None => Condition::Absent,
        };
        let options = PutOptions { condition, metadata: metadata.clone() };
        let put = self.remote.put(key, Body::copy_from_slice(body), &options).await;
        let refused = match put {
            Err(error) if error.kind == RemoteErrorKind::Changed => error,
            put => return put.map_err(|error| Error::remote(op, error)),
        };
        let found = super::carry::there(self.remote.head(key).await);
        let found = found.map_err(|error| Error::remote(op, error))?;
        let upload = metadata.get(UPLOAD_ID);
        match found {
            Some(meta) if upload.is_some() && meta.metadata.get(UPLOAD_ID) == upload => {
                Ok(meta.version)
            }
            Some(_) | None => Err(Error::remote(op, refused)),
        }
    }

    /// What an earlier process was to make.
    pub(super) async fn finish_object(&self, op: &'static str, object: &NewObject) -> Result<()> {
        match self.put_object(op, object).await {
            Ok(version) => {
                self.recovered(&version, &object.said);
                Ok(())
            }
            Err(error) if error.kind == ErrorKind::Remote(RemoteErrorKind::Changed) => {
                tracing::warn!(key = %object.key, "not made: others have made something there");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The object of `ino` will not be made: the name is what the bucket says.
    pub(super) fn give_up_making(&self, ino: Ino, number: u64) {
        let Some(record) = self.makings.end(ino, number) else { return };
        let mut state = self.state();
        if let Some(Place::Named { parent, name }) = state.tree.node(ino).map(|node| &node.place) {
            let (parent, name) = (*parent, name.clone());
            state.tree.detach(ino, &Place::Replaced);
            if let Some(folder) = state.tree.folder_mut(parent) {
                folder.windows.forget(&name);
            }
        }
        drop(state);
        self.ledger.strike(&[record]);
    }
}

impl State {
    /// The object that `ino`, which so far is only here, is to be.
    pub(super) fn new_object(
        &self,
        op: &'static str,
        ino: Ino,
        upload: String,
    ) -> Result<NewObject> {
        let key = self.tree.key(op, ino)?;
        let node = self.tree.node(ino).expect("it has a key");
        let Kind::File(File { bytes: Bytes::Local { beneath }, form, .. }) = &node.kind else {
            return Err(Error::node(ErrorKind::Invalid, op, ino));
        };
        let body = match form {
            Form::Link(Some(target)) => target.to_vec(),
            Form::Plain | Form::Link(None) | Form::Special(_) => Vec::new(),
        };
        let mut metadata = node.looks.metadata(form.kind());
        if form.rdev() != 0 {
            metadata.insert("rdev".to_owned(), form.rdev().to_string());
        }
        metadata.insert(UPLOAD_ID.to_owned(), upload);
        let said = self.tree.said_ahead(ino);
        Ok(NewObject { key, over: beneath.clone(), body, said, metadata })
    }
}
