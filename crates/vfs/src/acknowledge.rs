//! A close that does not wait for the bucket: what was written is sealed and recorded with what it is
//! to become, so that it gets into the bucket even if this process dies, and its upload follows.

use std::sync::Arc;
use std::time::Duration;

use base::Ino;
use futures::future::BoxFuture;
use store::{ErrorKind, Staged};

use crate::aimed::{Acknowledged, Aimed, Frozen};
use crate::errno::{Error, Result};
use crate::file::{File, Sealing};
use crate::vfs::{Commit, Vfs};
use crate::waiting::Crowd;

/// With a longer upload delay who set it wants to see first what is to be uploaded: nothing shortens it.
const HURRIED_DELAY_MAX: Duration = Duration::from_mins(1);

/// A file that comes last waits no longer for what may still come before it: others wait for it.
const LAST_DELAY_MAX: Duration = Duration::from_secs(1);

/// Whether a file comes after all else of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    Last,
    Anyhow,
}

/// Whether what was noted of a file is of where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Stays,
    /// Nothing was noted.
    Changes,
}

fn is_shortened(delay: Duration) -> bool {
    delay <= HURRIED_DELAY_MAX
}

/// How long an upload waits of the upload `delay`.
fn shortened(delay: Duration, crowd: Crowd, comes: Comes) -> Duration {
    if !is_shortened(delay) {
        return delay;
    }
    match (crowd, comes) {
        (Crowd::Many | Crowd::Full, _) => Duration::ZERO,
        (Crowd::Few, Comes::Last) => delay.min(LAST_DELAY_MAX),
        (Crowd::Few, Comes::Anyhow) => delay,
    }
}

impl Vfs {
    /// What was written to `file` so far is safe as a close promises it.
    pub(crate) async fn close(self: &Arc<Self>, file: &Arc<File>) -> Result<()> {
        match self.options.commit {
            Commit::Close => self.commit_apart(file).await,
            Commit::Async => self.acknowledge(file).await,
        }
    }

    /// How long an upload waits that nobody waits for.
    pub(crate) fn upload_delay(&self) -> Duration {
        match self.options.commit {
            Commit::Close => Duration::ZERO,
            Commit::Async => self.options.upload_delay,
        }
    }

    fn crowd(&self) -> Crowd {
        self.options.pending_limit.crowd(self.store.open_files())
    }

    /// How long the upload of `file`, which was closed, waits.
    pub(crate) fn delay_of(&self, file: &File) -> Duration {
        let comes = if self.comes_last(file) { Comes::Last } else { Comes::Anyhow };
        shortened(self.upload_delay(), self.crowd(), comes)
    }

    /// Whether uploads need not wait for all of the upload delay.
    pub(crate) fn is_hurried(&self) -> bool {
        is_shortened(self.upload_delay())
    }

    /// What was written to `file` so far survives the death of this process, and is uploaded.
    async fn acknowledge(self: &Arc<Self>, file: &Arc<File>) -> Result<()> {
        // One that comes last does not come before its turn for that. What is barred fails there, for who closes it
        // to hear.
        let is_full = self.crowd() == Crowd::Full && !self.comes_last(file);
        if is_full || self.is_barred(file) {
            return self.commit_apart(file).await;
        }
        let sealing = file.sealing().await;
        let mut acknowledged = self.acknowledge_in_turn(file, &sealing).await;
        if matches!(acknowledged, Ok(Place::Changes)) && !self.namespace.is_moving(file.ino()) {
            // It has changed: that was noted just now.
            acknowledged = self.acknowledge_in_turn(file, &sealing).await;
        }
        drop(sealing);
        match acknowledged {
            Ok(Place::Stays) => {}
            // It waits for that.
            Ok(Place::Changes) => return self.commit_apart(file).await,
            // What the kernel may write to has no room for two versions.
            Err(Error::Store(error)) if error.kind == ErrorKind::Held => {
                return self.commit_apart(file).await;
            }
            Err(error) => return Err(error),
        }
        if self.namespace.is_moving(file.ino()) {
            // A move has begun meanwhile, and may not have taken it along.
            return self.commit_apart(file).await;
        }
        if file.is_dirty() {
            self.commit_after(file, self.delay_of(file));
        }
        Ok(())
    }

    /// As [`Vfs::commit`], in a box: a close that needs none does not carry its thousands of bytes about.
    fn commit_apart<'a>(self: &'a Arc<Self>, file: &'a Arc<File>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.commit(file))
    }

    async fn acknowledge_in_turn(
        self: &Arc<Self>,
        file: &Arc<File>,
        _sealing: &Sealing,
    ) -> Result<Place> {
        let Some(staged) = self.rescanned(file).await? else { return Ok(Place::Stays) };
        if !file.is_dirty() || !staged.is_written() {
            return Ok(Place::Stays);
        }
        let notes = *file.noting.lock();
        match self.seal_now(file, &staged).await {
            Ok(Frozen::As(mut version)) => {
                version.sealed.stay();
                *file.acknowledged.lock() = Some(version);
                file.seals_for(None);
            }
            Ok(Frozen::Nameless) => return Ok(Place::Stays),
            Ok(Frozen::Moving) => return Ok(Place::Changes),
            // What our edit left out is gone for good.
            Err(error) if error.is_changed() => return Err(self.keep_loser(file, &staged).await),
            Err(error) => return Err(error),
        }
        // A rename that came in between may have noted the new name before the old one, and who sends parts
        // ahead that there is no upload yet.
        self.note_since(file, &staged, notes)?;
        Ok(Place::Stays)
    }

    /// The attributes of `ino` were changed: what a close was told is safe has them too.
    pub(crate) fn note_attributes(&self, ino: Ino) -> Result<()> {
        let Some(file) = self.files.find(ino) else { return Ok(()) };
        let Some(staged) = file.staged() else { return Ok(()) };
        self.note_again(&file, &staged)
    }

    /// What is noted of an acknowledged version is of the name and the attributes of now.
    pub(crate) fn note_again(&self, file: &File, staged: &Staged) -> Result<()> {
        let notes = *file.noting.lock();
        self.note_since(file, staged, notes)
    }

    /// As [`Vfs::note_again`], if the note was the right one when so many had been written.
    fn note_since(&self, file: &File, staged: &Staged, notes: u64) -> Result<()> {
        let is_as_it_was = *file.noting.lock() == notes;
        let revision = self.namespace.revision();
        let aimed = match &*file.acknowledged.lock() {
            Some(Acknowledged { aimed, .. }) if is_as_it_was && aimed.revision == revision => {
                return Ok(());
            }
            Some(Acknowledged { aimed, .. }) => aimed.clone(),
            None => return Ok(()),
        };
        let again = if is_as_it_was && self.namespace.said(file.ino()) == aimed.said {
            self.aim_again(file, staged, &aimed)
        } else {
            self.aim_anew(file, staged, &aimed)
        };
        match again {
            Ok(again) => {
                if let Some(version) = &mut *file.acknowledged.lock() {
                    version.aimed = again;
                }
                Ok(())
            }
            Err(error) if error.is_nameless() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Freezes the bytes of now, and notes what they are to become; an earlier version that was
    /// acknowledged gives way to them. Who has put what comes of it in its place says so, by
    /// [`File::seals_for`].
    pub(crate) async fn seal_now(&self, file: &Arc<File>, staged: &Arc<Staged>) -> Result<Frozen> {
        let aimed = match self.aim(file, staged).await {
            // Removed a moment ago, and so never published.
            Err(error) if error.is_nameless() => return Ok(Frozen::Nameless),
            aimed => aimed?,
        };
        // In this order: a move that begins after the look takes along what is sealed. One that has begun is told.
        file.seals_for(Some(&aimed.upload));
        let frozen = if self.namespace.is_moving(file.ino())
            && !self.namespace.goes_along(file.ino(), &aimed.upload)
        {
            Ok(Frozen::Moving)
        } else {
            self.seal_aimed(file, staged, aimed).await
        };
        if !matches!(frozen, Ok(Frozen::As(_))) {
            file.seals_for(None);
        }
        frozen
    }

    async fn seal_aimed(
        &self,
        file: &Arc<File>,
        staged: &Arc<Staged>,
        aimed: Aimed,
    ) -> Result<Frozen> {
        let sealed = match self.seal(file, staged, &aimed).await {
            // Removed just now.
            Err(error) if error.is_nameless() => return Ok(Frozen::Nameless),
            sealed => sealed?,
        };
        // What was written between the two is in the sealed bytes, and so is its time.
        if file.written() == aimed.written {
            return Ok(Frozen::As(Acknowledged { sealed, aimed }));
        }
        match self.aim(file, staged).await {
            Ok(Aimed { written, .. }) => {
                let aimed = Aimed { written, ..aimed };
                let aimed = self.aim_again(file, staged, &aimed)?;
                Ok(Frozen::As(Acknowledged { sealed, aimed }))
            }
            Err(error) => {
                self.store.reject(staged, sealed);
                if error.is_nameless() { Ok(Frozen::Nameless) } else { Err(error) }
            }
        }
    }

    /// Where an acknowledged version goes now: the file may have got another name since.
    pub(crate) fn aim_again(&self, file: &File, staged: &Staged, aimed: &Aimed) -> Result<Aimed> {
        if self.namespace.target(file.ino())? == aimed.target {
            return Ok(aimed.clone());
        }
        self.aim_anew(file, staged, aimed)
    }

    fn aim_anew(&self, file: &File, staged: &Staged, aimed: &Aimed) -> Result<Aimed> {
        let _order = file.noting.lock();
        let revision = self.namespace.revision();
        let target = self.namespace.target(file.ino())?;
        let (said, origin) = (self.namespace.said(file.ino()), self.origin(file, &target));
        let again = Aimed { target, said, origin, revision, ..aimed.clone() };
        self.set_note(file, staged, &self.note_aimed(file, staged, &again)?)?;
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Comes, Crowd, HURRIED_DELAY_MAX, LAST_DELAY_MAX, shortened};

    #[test]
    fn the_upload_delay_is_shorter_for_the_last_and_none_where_many_wait() {
        let short = Duration::from_secs(10);
        assert_eq!(shortened(short, Crowd::Few, Comes::Anyhow), short);
        assert_eq!(shortened(short, Crowd::Few, Comes::Last), LAST_DELAY_MAX);
        assert_eq!(shortened(Duration::ZERO, Crowd::Few, Comes::Last), Duration::ZERO);
        for (crowd, comes) in [(Crowd::Many, Comes::Last), (Crowd::Full, Comes::Anyhow)] {
            assert_eq!(shortened(short, crowd, comes), Duration::ZERO);
        }
    }

    #[test]
    fn nothing_shortens_a_long_upload_delay() {
        let long = HURRIED_DELAY_MAX + Duration::from_secs(1);
        for comes in [Comes::Last, Comes::Anyhow] {
            assert_eq!(shortened(long, Crowd::Full, comes), long);
        }
    }
}
