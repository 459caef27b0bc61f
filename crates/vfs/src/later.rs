//! Uploads that nobody waits for: hands out who is due in the [`Backlog`], so many at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Clock, Ino};
use tokio::sync::Notify;

use crate::aimed::Upto;
use crate::backlog::{Due, Ended, Next, Pushed};
use crate::errno::Error;
use crate::file::File;
use crate::vfs::Vfs;

/// Whether a file's turn had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    Yes,
    No,
    /// It did not, because what comes before it failed.
    Kept,
}

impl Vfs {
    /// Commits in the background: again and again while the store cannot be reached, and until the
    /// kernel can no longer write to the backing file.
    pub(crate) fn commit_later(self: &Arc<Self>, file: &Arc<File>) {
        self.commit_after(file, Duration::ZERO);
    }

    /// As [`Vfs::commit_later`], but not before `delay` is over.
    pub(crate) fn commit_after(self: &Arc<Self>, file: &Arc<File>, delay: Duration) {
        let due = self.clock.monotonic() + delay;
        let pushed = self.later.with(|line| line.push(file, due));
        self.see_to(pushed);
    }

    /// What was closed and waits for the upload delay waits no longer, however long that is. Who fails, or comes
    /// after others, waits for that.
    pub fn hasten(self: &Arc<Self>) {
        let waiting = self.later.with(|line| line.waiting());
        self.hurry(waiting);
    }

    /// As [`Vfs::hasten`], for `files`, and unless the upload delay is a long one.
    fn hurry_if_short(self: &Arc<Self>, files: &[Arc<File>]) {
        if self.is_hurried() {
            self.hurry(files.iter().map(|file| file.ino()));
        }
    }

    fn hurry(self: &Arc<Self>, files: impl IntoIterator<Item = Ino>) {
        let now = self.clock.monotonic();
        for ino in files {
            let pushed = self.later.with(|line| line.hurry(ino, now));
            self.see_to(pushed);
        }
    }

    fn see_to(self: &Arc<Self>, pushed: Pushed) {
        match pushed {
            Pushed::InLine => {}
            Pushed::First => self.later.news.notify_one(),
            Pushed::Alone => {
                let (clock, news) = (Arc::clone(&self.clock), Arc::clone(&self.later.news));
                self.runtime.spawn(hand_out(Arc::downgrade(self), clock, news));
            }
        }
    }

    async fn commit_due(self: &Arc<Self>, due: Due) {
        let file = Arc::clone(&due.file);
        let committed = self.commit_in_its_turn(&file).await;
        let restored = committed.and_then(|tried| self.restore(&file).map(|()| tried));
        let ended = match restored {
            Ok(Tried::No) => Ended::Behind,
            Ok(Tried::Kept) => Ended::Failed,
            // Whoever writes on has a close to come; uploading after every write would be without
            // end.
            Ok(Tried::Yes) if self.files.is_open(file.ino()) && !file.is_lingering() => Ended::Done,
            Ok(Tried::Yes) if file.is_dirty() => Ended::Unfinished,
            // A mapping may have outlived its descriptors; nothing says when it goes.
            Ok(Tried::Yes) if file.is_lingering() => Ended::Failed,
            Ok(Tried::Yes) => Ended::Done,
            Err(error) => {
                tracing::warn!(ino = %file.ino(), %error, "an upload failed");
                if error.may_pass() { Ended::Failed } else { Ended::Done }
            }
        };
        let now = self.clock.monotonic();
        let (pushed, is_over) =
            self.later.with(|line| (line.end(due, ended, now), !line.has(file.ino())));
        self.see_to(pushed);
        if is_over {
            self.retire(&file);
        }
    }

    /// As [`Vfs::commit_in_background`], if the bucket has all that comes before.
    pub(crate) async fn commit_in_its_turn(
        self: &Arc<Self>,
        file: &Arc<File>,
    ) -> Result<Tried, Error> {
        if file.is_dirty() && self.comes_last(file) {
            match self.comes_after(file).await {
                Ok(first) if first.is_empty() => {}
                Ok(first) => {
                    self.hurry_if_short(&first);
                    return Ok(Tried::No);
                }
                Err(error) => {
                    let reason = format!("it comes after what failed: {error}");
                    // Meanwhile it may have lost its name, or have been brought to the bucket by who could not wait.
                    let is_so = || file.is_dirty() && self.comes_last(file);
                    self.failures.waits(file.ino(), reason, is_so);
                    return Ok(Tried::Kept);
                }
            }
        }
        self.commit_in_background(file).await.map(|()| Tried::Yes)
    }

    /// Brings what was acknowledged of `file` into the bucket, or, if nobody writes it, all of it.
    pub(crate) async fn commit_in_background(
        self: &Arc<Self>,
        file: &Arc<File>,
    ) -> Result<(), Error> {
        // Not in the way of those who close the file while its name is about to change.
        drop(self.namespace.settle(file.ino()).await?);
        let turn = file.turn().await;
        self.commit_in_turn(file, &turn, Upto::Acknowledged).await
    }
}

/// Hands out who is due for as long as anybody is in the line. Does not keep the file system.
async fn hand_out(vfs: Weak<Vfs>, clock: Arc<dyn Clock>, news: Arc<Notify>) {
    loop {
        let Some(vfs) = vfs.upgrade() else { return };
        let now = clock.monotonic();
        let next = vfs.later.with(|line| line.next(now));
        let due = match next {
            Next::Nothing => return,
            Next::File(due) => {
                let runtime = vfs.runtime.clone();
                runtime.spawn(async move { vfs.commit_due(due).await });
                continue;
            }
            Next::NotBefore(due) => due,
        };
        drop(vfs);
        tokio::select! {
            () = clock.sleep_until(due) => {}
            () = news.notified() => {}
        }
    }
}
