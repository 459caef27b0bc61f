//! Commits files that come last behind the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Ino;
use futures::{StreamExt, stream};
use parking_lot::Mutex;

use crate::errno::{Error, Result};
use crate::file::File;
use crate::hope::{Hope, Tried};
use crate::vfs::{Commit, News, Next, Unpublished, Vfs};

/// Folders whose names are waited for at a time.
const FOLDERS_AT_A_TIME: usize = 16;

/// What came of files that were to be committed together.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Why some could not be.
    pub(crate) failed: Vec<Error>,
    /// How many were not tried, because the store had answered none of many that were.
    untried: usize,
    /// How many were not tried, because they come after those.
    kept_back: usize,
    /// How many were not tried, because somebody holds them back.
    pub(crate) held: usize,
}

/// A file that is not in the bucket.
#[derive(Debug)]
enum Left {
    Failed(Arc<File>, Error),
    Untried(Arc<File>),
}

/// What files that come last in a folder have to come after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// All that could be in the bucket by now is there.
    Nothing,
    /// Something that could not be brought there.
    Failed,
    /// What is only for somebody else to close.
    Held,
}

impl Vfs {
    /// Whether `file` comes after all else of its folder.
    pub(crate) fn comes_last(&self, file: &File) -> bool {
        let last = &self.options.last;
        let is_any = !last.is_empty() && self.options.commit == Commit::Async;
        is_any && self.namespace.path(file.ino()).is_some_and(|path| last.has_path(&path))
    }

    /// What `file`, which comes last, has to wait for: files in and below its folder that the bucket lacks. None if
    /// it is time for it, also because the bucket will never have all of them.
    pub(crate) async fn comes_after(&self, file: &File) -> Result<Vec<Arc<File>>> {
        let Ok(folder) = self.namespace.parent(file.ino()) else { return Ok(Vec::new()) };
        if self.has_lost(folder) {
            return Ok(Vec::new());
        }
        let lacking = self.lacking(folder);
        if !lacking.is_empty() {
            return Ok(lacking);
        }
        // Links, folders and other names.
        self.namespace.sync_below(folder).await?;
        Ok(self.lacking(folder))
    }

    /// The files in and below `folder` that the bucket lacks, but for those that come last, and those that hold these
    /// back.
    fn lacking(&self, folder: Ino) -> Vec<Arc<File>> {
        let mut lacking = self.files.dirty();
        lacking.retain(|other| !self.comes_last(other));
        lacking.extend(self.holding());
        lacking.retain(|other| self.is_below(other.ino(), folder));
        lacking
    }

    /// The files that are open and hold back what comes last, until they are removed: also when somebody has brought
    /// them into the bucket meanwhile.
    fn holding(&self) -> Vec<Arc<File>> {
        let mut holding = self.handles.written();
        holding.retain(|file| self.holds(file).is_some());
        holding
    }

    /// The path of `file`, if it holds back what comes last in its folder while it is open for writing.
    fn holds(&self, file: &File) -> Option<Vec<u8>> {
        if self.options.last.is_empty() {
            return None;
        }
        self.namespace.path(file.ino()).filter(|path| self.options.last.is_held_by(path))
    }

    /// Somebody has `file` open for writing: if it holds something back, it does so again.
    pub(crate) fn begins_to_hold(&self, file: &File) {
        if !self.lost.lock().is_empty()
            && let Some(path) = self.holds(file)
            && let Some(place) = self.place_of(file, &path)
        {
            self.lost.lock().remove(&place);
        }
    }

    /// The folder of `file`, whose path is `path`, and its name there: a folder may be renamed.
    fn place_of(&self, file: &File, path: &[u8]) -> Option<(Ino, Vec<u8>)> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        Some((self.namespace.parent(file.ino()).ok()?, name.to_owned()))
    }

    /// One of those who have `file` open for writing is about to close it. If he is the only one, and it holds
    /// something back, he was killed: who is through with his work removes it first. What it holds back would say
    /// that all is done.
    pub(crate) fn is_closed_for_good(&self, file: &Arc<File>) {
        if self.holds(file).is_some() && self.handles.writers(file) == 1 {
            tracing::warn!(ino = %file.ino(), "who held back what comes last ended without a word: it does not come");
            self.loses(file);
        }
    }

    /// `file` lost to somebody else's. It is no file any more that could fail again, so that is remembered until
    /// there is one of its name that the bucket has.
    pub(crate) fn loses(&self, file: &File) {
        if !self.options.last.is_empty()
            && let Some(path) = self.namespace.path(file.ino())
            && let Some(place) = self.place_of(file, &path)
        {
            self.lost.lock().insert(place);
        }
    }

    /// If `gone` was a folder, nothing comes last there any more.
    pub(crate) fn forget_losses(&self, gone: Ino) {
        self.lost.lock().retain(|(folder, _)| *folder != gone);
    }

    /// The bucket has `file`.
    pub(crate) fn is_no_loss(&self, file: &File) {
        if !self.lost.lock().is_empty()
            && let Some(path) = self.namespace.path(file.ino())
            && !self.options.last.is_held_by(&path)
            && let Some(place) = self.place_of(file, &path)
        {
            self.lost.lock().remove(&place);
        }
    }

    /// Whether a file in or below `folder` lost to somebody else's, and the bucket has none of its name since, or a
    /// change of a name there was given up.
    fn has_lost(&self, folder: Ino) -> bool {
        let is_lost = {
            let lost = self.lost.lock();
            lost.iter().any(|(place, _)| *place == folder || self.is_below(*place, folder))
        };
        is_lost || self.namespace.has_given_up(folder)
    }

    /// Whether `file` comes after something that the bucket will never have.
    pub(crate) fn is_barred(&self, file: &File) -> bool {
        self.comes_last(file)
            && self.namespace.parent(file.ino()).is_ok_and(|folder| self.has_lost(folder))
    }

    /// Commits `files`, so many at a time; those that come last when the others of their folders are through, and
    /// names too, and not if one of them failed.
    pub(crate) async fn commit_in_order(
        self: &Arc<Self>,
        files: Vec<Arc<File>>,
        at_a_time: usize,
    ) -> Committed {
        let (last, first): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| self.comes_last(file));
        let hope = Mutex::new(Hope::of(at_a_time));
        let mut left = self.commit_all(first, (at_a_time, &hope)).await;
        let mut ready = Vec::new();
        let (mut kept_back, mut held) = (0, 0);
        let mut asking = Vec::new();
        let holding = if last.is_empty() { Vec::new() } else { self.holding() };
        for (folder, files) in self.by_folder(last) {
            // Without a name they come after nothing.
            let Some(folder) = folder else {
                ready.extend(files);
                continue;
            };
            match self.before(folder, &left, &holding) {
                Before::Held => held += files.len(),
                Before::Nothing if !hope.lock().is_gone() => asking.push((folder, files)),
                Before::Nothing | Before::Failed => kept_back += files.len(),
            }
        }
        let asked = asking.into_iter().map(|(folder, files)| {
            let hope = &hope;
            async move {
                if hope.lock().is_gone() {
                    return (None, files);
                }
                let synced = self.namespace.sync_below(folder).await.map_err(Error::from);
                if let Err(error) = &synced {
                    hope.lock().ended(failed(error));
                }
                (Some(synced), files)
            }
        });
        let mut asked = stream::iter(asked).buffer_unordered(FOLDERS_AT_A_TIME);
        while let Some((synced, files)) = asked.next().await {
            match synced {
                Some(Ok(())) => ready.extend(files),
                None => kept_back += files.len(),
                Some(Err(error)) => {
                    kept_back += files.len();
                    let failed = |file| Left::Failed(file, error);
                    left.extend(files.into_iter().next().map(failed));
                }
            }
        }
        drop(asked);
        left.extend(self.commit_all(ready, (at_a_time, &hope)).await);
        let mut committed = Committed { kept_back, held, ..Committed::default() };
        for left in left {
            match left {
                Left::Failed(_, error) => committed.failed.push(error),
                Left::Untried(_) => committed.untried += 1,
            }
        }
        committed
    }

    /// What the files of `folder` that come last have to come after, of what is `left` and what is `holding` them.
    fn before(&self, folder: Ino, left: &[Left], holding: &[Arc<File>]) -> Before {
        let is_below = |file: &Arc<File>| self.is_below(file.ino(), folder);
        if left.iter().map(Left::file).any(is_below) {
            Before::Failed
        } else if holding.iter().any(is_below) {
            Before::Held
        } else {
            Before::Nothing
        }
    }

    fn by_folder(&self, files: Vec<Arc<File>>) -> BTreeMap<Option<Ino>, Vec<Arc<File>>> {
        let mut folders: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for file in files {
            let folder = self.namespace.parent(file.ino()).ok();
            folders.entry(folder).or_default().push(file);
        }
        folders
    }

    /// Commits `files`, so many at a time, for as long as there is hope; returns those that are not in the bucket.
    async fn commit_all(
        self: &Arc<Self>,
        files: Vec<Arc<File>>,
        (at_a_time, hope): (usize, &Mutex<Hope>),
    ) -> Vec<Left> {
        stream::iter(files)
            .map(|file| async move {
                if hope.lock().is_gone() {
                    return Some(Left::Untried(file));
                }
                let was_dirty = file.is_dirty();
                let committed = self.commit(&file).await;
                hope.lock().ended(tried(was_dirty, &committed));
                committed.err().map(|error| Left::Failed(file, error))
            })
            .buffer_unordered(at_a_time)
            .filter_map(|left| async { left })
            .collect()
            .await
    }
}

/// How the try ended to commit a file, which was dirty before or not.
fn tried(was_dirty: bool, committed: &Result<()>) -> Tried {
    match committed {
        Err(error) => failed(error),
        Ok(()) if was_dirty => Tried::Answered,
        Ok(()) => Tried::Unasked,
    }
}

/// How a try ended that failed for `error`.
fn failed(error: &Error) -> Tried {
    if error.is_unanswered() {
        return Tried::Unanswered;
    }
    match error {
        Error::Namespace(_) | Error::Transfer(transfer::Error::Remote(_)) => Tried::Answered,
        // What it comes after is lost, or the local disk failed.
        Error::Conflict { .. }
        | Error::Store(_)
        | Error::Transfer(transfer::Error::Store(_) | transfer::Error::Stopped)
        | Error::Call(_) => Tried::Unasked,
    }
}

impl Left {
    fn file(&self) -> &Arc<File> {
        match self {
            Left::Failed(file, _) | Left::Untried(file) => file,
        }
    }
}

impl Unpublished {
    /// Failed for `error`, which `reason` tells in words.
    pub(crate) fn failed(reason: String, error: &Error) -> Unpublished {
        let next = if error.is_conflict() {
            Next::Lost
        } else if error.is_refused() {
            Next::Refused
        } else {
            Next::TryAgain
        };
        Unpublished { reason, next, news: None }
    }

    /// It stays in the state folder.
    pub(crate) fn pending(reason: String) -> Unpublished {
        Unpublished { reason, next: Next::TryAgain, news: None }
    }

    /// Somebody else says when.
    fn held(reason: String) -> Unpublished {
        Unpublished { reason, next: Next::Wait, news: None }
    }

    /// Its bytes are in the recovery folder.
    pub(crate) fn lost((number, reason): (u64, String)) -> Unpublished {
        Unpublished { reason, next: Next::Lost, news: Some(News::Lost(number)) }
    }

    /// It is a change of a name that is undone.
    pub(crate) fn given_up((number, reason): (u64, String)) -> Unpublished {
        let reason = format!("{reason}; it is undone: make it again if it is still wanted");
        Unpublished { reason, next: Next::MakeAgain, news: Some(News::GivenUp(number)) }
    }
}

impl Committed {
    /// In words.
    pub(crate) fn unpublished(self) -> Vec<Unpublished> {
        let failed = self.failed.iter().map(|error| Unpublished::failed(error.to_string(), error));
        let untried = match self.untried {
            0 => None,
            files => Some(format!("{files} more file(s) were not tried: the store is unavailable")),
        };
        let kept_back = match self.kept_back {
            0 => None,
            files => Some(format!(
                "{files} file(s) that come last were kept back: what they come after is not there yet"
            )),
        };
        let held = match self.held {
            0 => None,
            files => Some(format!(
                "{files} file(s) that come last are held back: a file of their name and `.held` is open"
            )),
        };
        let pending = untried.into_iter().chain(kept_back).map(Unpublished::pending);
        failed.chain(pending).chain(held.map(Unpublished::held)).collect()
    }
}
