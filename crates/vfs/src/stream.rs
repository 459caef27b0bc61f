//! Uploads that begin while their file is still being written.
//!
//! As soon as a file is longer than one part, whole parts behind its writer are sent ahead, by a task of
//! their own; of a file that was there, those behind its end, while the store copies what was there. A
//! commit stops the task, and sends what was not sent or was changed since. What fails here fails nobody:
//! the commit then sends everything.
//!
//! ```text
//!   written   ████████████████████████████████░░░
//!   parts     |sent    |sent    |under way|      |
//! ```
//!
//! An upload leaves parts in the bucket that nobody sees and somebody pays for. So the note of the staged
//! file tells of it before it is begun, and whoever finds the note after a crash removes them.

use std::sync::Arc;

use base::Timestamp;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use namespace::Target;
use store::Staged;
use transfer::{Begun, Early, Making};

use crate::ahead::{Noted, State};
use crate::errno::Result;
use crate::file::{Bytes, File, Mapped, Named};
use crate::note::Note;
use crate::vfs::Vfs;

/// Parts of one file that are under way at a time.
const PARTS_MAX: usize = 8;

/// How much earlier than we note it an upload may seem to have begun, by the store's clock.
const CLOCKS_DIFFER_SECS: i64 = 60;

impl Vfs {
    /// A file has grown to `end`.
    pub(crate) fn grew(&self, file: &Arc<File>, end: u64) {
        if self.stream_from < end && file.stream.wakes(end) {
            // Nothing is sent ahead any more at the end.
            let Some(vfs) = self.me.upgrade() else { return };
            let file = Arc::clone(file);
            self.runtime.spawn(async move { vfs.stream(&file).await });
        }
    }

    /// Sends the parts of `file` that are whole now.
    async fn stream(&self, file: &Arc<File>) {
        let mut state = file.stream.turn().await;
        let wake_at = match self.stream_some(file, &mut state).await {
            Ok(Some(wake_at)) => wake_at,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(ino = %file.ino(), %error, "nothing more of a file is sent ahead");
                return;
            }
        };
        drop(state);
        file.stream.wake_at(wake_at);
        // It may have grown while nobody was to look.
        self.grew(file, file.size());
    }

    /// Returns how long the file must be for more to do; `None` if there will be nothing.
    async fn stream_some(&self, file: &Arc<File>, state: &mut State) -> Result<Option<u64>> {
        let mut sending = FuturesUnordered::new();
        let mut failed = Ok(());
        let wake_at = loop {
            let staged = streamable(file);
            if let (None, Some(staged)) = (&state.begun, &staged) {
                // What is there already is copied by the store, and not sent.
                let Some(first) = self.uploader.first_ahead(staged.origin_bytes()) else {
                    break None;
                };
                state.next = first;
            }
            let part = self.uploader.part_at(state.next);
            let (Some(staged), Some(part)) = (staged, part) else { break None };
            let is_ready = part.end() <= file.size();
            let is_stopped = file.stream.is_stopped();
            if is_ready && !is_stopped && failed.is_ok() && sending.len() < PARTS_MAX {
                if state.begun.is_none() {
                    let (begun, copies) = self.begin(file, (&staged, part.start())).await?;
                    sending.extend(copies);
                    state.begun = Some(begun);
                }
                let begun = state.begun.as_ref().expect("it has begun");
                if !begun.is_of(&staged) {
                    break None;
                }
                state.next = part.end();
                sending.push(self.uploader.send_ahead(begun, part));
                continue;
            }
            match sending.next().await {
                Some(sent) => failed = failed.and(keep(state, sent)),
                None => break Some(part.end()),
            }
        };
        while let Some(sent) = sending.next().await {
            failed = failed.and(keep(state, sent));
        }
        failed.map(|()| wake_at)
    }

    /// Begins an upload of what the file will be; its note tells of it before. Parts from `first` on
    /// are sent ahead, and what is to be copied before them comes with it.
    async fn begin(
        &self,
        file: &Arc<File>,
        (staged, first): (&Arc<Staged>, u64),
    ) -> Result<(Begun, Vec<Making<'_>>)> {
        let target = self.namespace.target(file.ino())?;
        let origin = self.origin(file, &target);
        let Target { key, condition, metadata, .. } = target;
        let since = self.about_now();
        let id = self.uploader.new_id();
        file.stream.note(Noted { id: id.clone(), since, upload: None });
        self.note_stream(file, staged)?;
        let begin = self.uploader.begin((staged, first), (&key, &condition, &metadata), id);
        let begun = begin.await?;
        let (id, upload) = (begun.id.clone(), Some(begun.upload.0.clone()));
        file.stream.note(Noted { id, since, upload });
        if let Err(error) = self.note_stream(file, staged) {
            // It is found by its time.
            tracing::warn!(%error, "an upload that has begun is not noted");
        }
        let identity = staged.origin();
        let original = origin.as_ref().and_then(|origin| origin.original(identity.as_deref()));
        let copies = original.map(|original| self.uploader.copy_ahead(&begun, original));
        Ok((begun, copies.unwrap_or_default()))
    }

    /// The note tells of what was begun, and still of a version that a close was told is safe.
    fn note_stream(&self, file: &File, staged: &Staged) -> Result<()> {
        // Who seals meanwhile sees that the note was written, and writes it once more.
        let mut notes = file.noting.lock();
        let acknowledged = file.acknowledged.lock().as_ref().map(|version| version.aimed.clone());
        let name = file.state.read().name;
        let note = match (acknowledged, name) {
            (Some(aimed), Named::Yes) => self.note_aimed(file, staged, &aimed),
            (_, name) => self.note_of(file, name, "")?,
        };
        *notes += 1;
        Ok(staged.set_note(&note)?)
    }

    /// What the note of a file of `size` bytes is to tell of the upload `id` in parts that has begun, or
    /// is about to.
    pub(crate) fn upload_in_parts(&self, file: &File, size: u64, id: &str) -> Option<Noted> {
        let begins = || Noted { id: id.to_owned(), since: self.about_now(), upload: None };
        file.stream.noted().or_else(|| (self.stream_from < size).then(begins))
    }

    /// No upload that begins from now on has begun before this, by the store's clock.
    fn about_now(&self) -> Timestamp {
        let secs = self.clock.wall().secs - CLOCKS_DIFFER_SECS;
        Timestamp { secs, nanos: 0 }
    }

    /// Gives up what was sent ahead of a file that will not be published.
    pub(crate) fn end_stream(&self, file: &Arc<File>) {
        if file.stream.noted().is_none() {
            return;
        }
        let (uploader, file) = (Arc::clone(&self.uploader), Arc::clone(file));
        // The end of the mount waits for it.
        let ending = Arc::clone(&self.ending).try_read_owned();
        self.runtime.spawn(async move {
            let _ending = ending;
            let begun = file.stream.stop().await.take();
            if let Some(begun) = begun {
                uploader.end(&begun).await;
            }
        });
    }

    /// As [`Vfs::end_stream`], and waits for it: what is to lose its name, or to get another, has a note
    /// that tells where its parts are only until then.
    pub(crate) async fn end_ahead(&self, file: &File) {
        if file.stream.noted().is_none() {
            return;
        }
        let begun = file.stream.stop().await.take();
        if let Some(begun) = begun {
            self.uploader.end(&begun).await;
        }
    }

    /// Removes the parts of a file that was found after a crash.
    pub(crate) async fn clear_stream(&self, note: &Note) {
        let Some(Noted { since, upload, .. }) = &note.begun else { return };
        let mut cleared = Ok(());
        if let Some(upload) = upload {
            let upload = remote::UploadId(upload.clone());
            cleared = self.uploader.give_up(&note.key, &upload).await;
        }
        // One that was begun later, or before it was noted.
        let cleared = cleared.and(self.uploader.give_up_since(&note.key, *since).await);
        if let Err(error) = cleared {
            tracing::warn!(key = %note.key, %error, "parts that were sent ahead could not be removed");
        }
    }
}

/// Notes what became of a part.
fn keep(state: &mut State, sent: transfer::Result<Option<Early>>) -> Result<()> {
    // A hole, or what the kernel writes itself, is sent with the rest.
    if let (Some(early), Some(begun)) = (sent?, &mut state.begun) {
        begun.sent(early);
    }
    Ok(())
}

/// The staged file, if it is one that will be published, of which we see all that is written.
fn streamable(file: &File) -> Option<Arc<Staged>> {
    let state = file.state.read();
    let (Bytes::Staged { staged, .. }, Named::Yes, Mapped::Never) =
        (&state.bytes, state.name, state.mapped)
    else {
        return None;
    };
    // A version that a close was told is safe goes first.
    file.acknowledged.lock().is_none().then(|| Arc::clone(staged))
}
