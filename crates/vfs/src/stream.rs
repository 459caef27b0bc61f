//! Uploads that begin while their file is still being written.
//!
//! As soon as a file is longer than one part, whole parts behind its writer are sent ahead, by a task of
//! their own; of a file that was there, those behind its end, while the store copies what was there. A
//! commit stops the task, and sends what was not sent or was changed since. What fails here fails nobody:
//! the commit then sends everything. Nothing is sent before the upload delay is over, which counts from when the
//! file became longer than a part: what is soon removed or written again costs nothing here either.
//!
//! ```text
//!   written   ████████████████████████████████░░░
//!   parts     |sent    |sent    |under way|      |
//! ```

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use namespace::Target;
use store::Staged;
use transfer::{Begun, Early, Grid, Making};

use crate::ahead::State;
use crate::errno::Result;
use crate::file::{Bytes, File, Mapped, Named};
use crate::vfs::Vfs;

/// Parts of one file that are under way at a time.
const PARTS_MAX: usize = 8;

impl Vfs {
    /// A file has grown to `end`.
    pub(crate) fn grew(&self, file: &Arc<File>, end: u64) {
        if self.stream_from < end && file.stream.wakes(end, || self.is_ripe(file)) {
            // Nothing is sent ahead any more at the end.
            let Some(vfs) = self.me.upgrade() else { return };
            let file = Arc::clone(file);
            self.runtime.spawn(async move { vfs.stream(&file).await });
        }
    }

    /// Whether the upload delay of a file that is longer than a part is over.
    fn is_ripe(&self, file: &File) -> bool {
        let delay = self.upload_delay();
        delay.is_zero() || file.stream.is_older(delay, self.clock.monotonic())
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
        // In its turn: a commit may begin anew right after it.
        file.stream.wake_at(wake_at);
        drop(state);
        // It may have grown while nobody was to look.
        self.grew(file, file.size());
    }

    /// Returns how long the file must be for more to do; `None` if there will be nothing.
    async fn stream_some(&self, file: &Arc<File>, state: &mut State) -> Result<Option<u64>> {
        let mut sending = FuturesUnordered::new();
        let mut failed = Ok(());
        let wake_at = loop {
            let staged = streamable(file);
            let grid =
                state.begun.as_ref().map_or_else(|| self.uploader.grid(), |begun| begun.grid);
            if let (None, Some(staged)) = (&state.begun, &staged) {
                // What is there already is copied by the store, and not sent.
                let Some(first) = self.uploader.first_ahead(&grid, staged.origin_bytes()) else {
                    break None;
                };
                state.next = first;
            }
            let part = grid.part_of(state.next);
            let (Some(staged), Some(part)) = (staged, part) else { break None };
            // A file of one part goes in one request.
            let enough = part.end() + u64::from(part.start() == 0 && state.begun.is_none());
            let is_ready = enough <= file.size();
            let is_stopped = file.stream.is_stopped();
            if is_ready && !is_stopped && failed.is_ok() && sending.len() < PARTS_MAX {
                if state.begun.is_none() {
                    let (begun, copies) = self.begin(file, (&staged, part.start(), grid)).await?;
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
                None => break Some(enough),
            }
        };
        while let Some(sent) = sending.next().await {
            failed = failed.and(keep(state, sent));
        }
        failed.map(|()| wake_at)
    }

    /// Begins an upload of what the file will be, cut along `grid`. Parts from `first` on are sent ahead, and
    /// what is to be copied before them comes with it.
    async fn begin(
        &self,
        file: &Arc<File>,
        (staged, first, grid): (&Arc<Staged>, u64, Grid),
    ) -> Result<(Begun, Vec<Making<'_>>)> {
        let target = self.namespace.target(file.ino())?;
        let origin = self.origin(file, &target);
        let Target { key, condition, metadata, .. } = target;
        let id = self.uploader.new_id();
        file.stream.begins(&id);
        let begin = self.uploader.begin((staged, first, grid), (&key, &condition, &metadata), id);
        let begun = begin.await?;
        let identity = staged.origin();
        let original = origin.as_ref().and_then(|origin| origin.original(identity.as_deref()));
        let copies = original.map(|original| self.uploader.copy_ahead(&begun, original));
        Ok((begun, copies.unwrap_or_default()))
    }

    /// Gives up what was sent ahead of a file that will not be published.
    pub(crate) fn end_stream(&self, file: &Arc<File>) {
        if file.stream.id().is_none() {
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

    /// As [`Vfs::end_stream`], and waits for it: what is to get another name is sent to another key from
    /// then on.
    pub(crate) async fn end_ahead(&self, file: &File) {
        if file.stream.id().is_none() {
            return;
        }
        let begun = file.stream.stop().await.take();
        if let Some(begun) = begun {
            self.uploader.end(&begun).await;
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
