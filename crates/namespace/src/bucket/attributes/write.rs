//! Brings what was noted into the bucket: in batches, under conditions, and again after a conflict.

use std::time::Duration;

use base::FileKind;
use bytes::Bytes as Body;
use futures::{StreamExt as _, stream};
use remote::{Condition, ErrorKind as RemoteErrorKind, Fresh, Key, Metadata, PutOptions, Version};

use super::book::{Form, Origin, Pending, Readable, SHARDS, Sheet, shard};
use super::item::{Item, Label};
use super::line::Usual;
use super::place;
use super::read::{OBJECT_BYTES_MAX, SHARDS_AT_A_TIME, Want};
use super::sheet::{self, Items};
use crate::bucket::options::Attributes;
use crate::bucket::shared::Shared;
use crate::{Error, ErrorKind, RecordId, Result};

const OP: &str = "write attributes";

/// The largest object that all entries of a folder are in.
const WHOLE_BYTES_MAX: usize = 512 << 10;

/// How often a write is tried that others get before.
const TRIES_MAX: usize = 16;

/// How long a folder is left alone after a write that failed.
pub(super) const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_mins(1);

/// What the bucket is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing waits.
    Done,
    /// Who else wrote has to be read first.
    Read,
    /// All that waited when it was begun is written; what was changed since is not.
    Wrote,
}

/// Changes of one folder, by name.
type Changes = Vec<(Label, Pending)>;

impl Shared {
    /// Writes what is noted of the entries of one directory, for a caller that holds the turn at its path or at
    /// one above it.
    pub(super) async fn write_held(&self, prefix: &Key) -> Result<()> {
        if self.options.attributes != Attributes::Kept {
            return Ok(());
        }
        let Some(turn) = self.turn_of(prefix) else { return Ok(()) };
        let _turn = turn.lock().await;
        let written = match self.write_in_turn(prefix).await {
            Err(error) if error.is_refusal() && !self.takes_changes(prefix) => {
                self.refused_there(prefix, &error);
                Ok(())
            }
            written => written,
        };
        let now = self.clock.monotonic();
        let mut state = self.state();
        if let Some(books) = &mut state.tree.books {
            let book = books.get_mut(prefix);
            book.resting = match (&written, book.resting) {
                (Ok(()), _) => None,
                (Err(_), None) => Some((now + REST_MIN, REST_MIN)),
                (Err(_), Some((_, rest))) => {
                    let rest = (rest * 2).min(REST_MAX);
                    Some((now + rest, rest))
                }
            };
        }
        drop(state);
        if let Err(error) = &written {
            tracing::warn!(folder = %prefix, %error, "attributes have yet to get into the bucket");
        }
        written
    }

    /// The store takes nothing of the entries of a folder, as it may be where credentials are for others. Who would
    /// change something there is told so before, and the times of folders hold as long as the mount. What else waits,
    /// as an earlier process promised it, is kept for credentials that may write it: it is tried again with the next
    /// change there, when all is written, and by each mount.
    fn refused_there(&self, prefix: &Key, error: &Error) {
        let is_time_only = |pending: &Pending| {
            let item = pending.item.as_ref();
            pending.origin == Origin::Now && item.is_some_and(|i| i.kind == FileKind::Directory)
        };
        let times: Changes = {
            let state = self.state();
            let book = state.tree.books.as_ref().and_then(|books| books.get(prefix));
            let pending = book.into_iter().flat_map(|book| &book.pending);
            let times = pending.filter(|(_, pending)| is_time_only(pending));
            times.map(|(label, pending)| (label.clone(), pending.clone())).collect()
        };
        self.settle(prefix, &times);
        let mut state = self.state();
        let is_held = state.tree.books.as_mut().is_some_and(|books| books.get_mut(prefix).hold());
        drop(state);
        if is_held {
            tracing::warn!(folder = %prefix, %error, "attributes of an earlier mount are refused, and kept here");
        } else {
            tracing::debug!(folder = %prefix, %error, "times of folders hold as long as the mount");
        }
    }

    async fn write_in_turn(&self, prefix: &Key) -> Result<()> {
        let replayed = self.replayed(prefix);
        if !replayed.is_empty() {
            let below = self.look_below(OP, prefix).await?;
            if !below.marker && !below.others {
                // It was removed since: the attribute object would be all that there is of it.
                self.settle(prefix, &replayed);
                return Ok(());
            }
        }
        for _ in 0..TRIES_MAX {
            match self.write_once(prefix).await {
                // What others change meanwhile has its own time: there may be no end of it.
                Ok(Step::Done | Step::Wrote) => return Ok(()),
                Ok(Step::Read) => self.read_again(prefix).await?,
                Err(error) if error.kind == RemoteErrorKind::Changed => {
                    self.read_again(prefix).await?;
                }
                Err(error) => return Err(refused(error)),
            }
        }
        let key = prefix.join(place::OBJECT);
        let busy = remote::Error::new(RemoteErrorKind::Unavailable, OP, &key);
        Err(refused(busy.because("others write there all the time")))
    }

    /// All that waits for the directory `prefix`, if nothing of it was noted by this process.
    fn replayed(&self, prefix: &Key) -> Changes {
        let state = self.state();
        let book = state.tree.books.as_ref().and_then(|books| books.get(prefix));
        let pending = book.into_iter().flat_map(|book| &book.pending);
        let pending = pending.map(|(label, pending)| (label.clone(), pending.clone()));
        let all: Changes = pending.collect();
        let is_replayed = |(_, pending): &(Label, Pending)| pending.origin == Origin::Replay;
        if all.iter().all(is_replayed) && !prefix.as_bytes().is_empty() { all } else { Vec::new() }
    }

    async fn read_again(&self, prefix: &Key) -> Result<()> {
        let told = self.load(prefix, Want::Form).await;
        let told = told.map_err(refused)?;
        self.retell_folder(prefix, &told);
        Ok(())
    }

    async fn write_once(&self, prefix: &Key) -> remote::Result<Step> {
        let (form, usual, changes) = {
            let mut state = self.state();
            let Some(books) = &mut state.tree.books else { return Ok(Step::Done) };
            let book = books.get_mut(prefix);
            let changes: Changes = book
                .pending
                .iter()
                .map(|(label, pending)| (label.clone(), pending.clone()))
                .collect();
            (book.form.clone(), book.usual, changes)
        };
        if changes.is_empty() {
            return Ok(Step::Done);
        }
        let changes = self.without_stale(prefix, changes).await?;
        match form {
            Form::Unknown => Ok(Step::Read),
            Form::Foreign => Err(not_ours(&prefix.join(place::OBJECT))),
            Form::Absent => self.write_whole(prefix, None, usual, changes).await,
            Form::Whole(version) => self.write_whole(prefix, Some(version), usual, changes).await,
            Form::Split { id, .. } => self.write_shards(prefix, &id, usual, changes).await,
        }
    }

    /// Drops what an earlier process noted of objects that were replaced since.
    async fn without_stale(&self, prefix: &Key, changes: Changes) -> remote::Result<Changes> {
        let mut current = Vec::with_capacity(changes.len());
        for (label, change) in changes {
            let doubted = match (change.origin, &change.item) {
                (Origin::Replay, Some(Item { version: Some(version), .. })) => {
                    let known = self.state();
                    let written = known
                        .tree
                        .books
                        .as_ref()
                        .and_then(|books| books.get(prefix)?.written(&label)?.version.clone());
                    written.is_some_and(|written| written != *version).then(|| version.clone())
                }
                (Origin::Replay | Origin::Now | Origin::NowOfReplay, _) => None,
            };
            if let Some(version) = doubted {
                let is_there = match self.remote.head(&prefix.join(&label)).await {
                    Ok(meta) => meta.version == version,
                    Err(error) if error.kind == RemoteErrorKind::NotFound => false,
                    Err(error) => return Err(error),
                };
                if !is_there {
                    self.settle(prefix, &[(label, change)]);
                    continue;
                }
            }
            current.push((label, change));
        }
        Ok(current)
    }

    async fn write_whole(
        &self,
        prefix: &Key,
        version: Option<Version>,
        usual: Usual,
        changes: Changes,
    ) -> remote::Result<Step> {
        let old = self.written_items(prefix, 0);
        let new = merged(&old, &changes);
        if new == old {
            self.settle(prefix, &changes);
            return Ok(Step::Done);
        }
        let key = prefix.join(place::OBJECT);
        if new.is_empty() {
            self.delete_object(&key, version.as_ref()).await?;
            self.wrote(prefix, Form::Absent, new, &changes);
            return Ok(Step::Wrote);
        }
        let text = sheet::write(&new, usual);
        if WHOLE_BYTES_MAX < text.len() {
            return self.split(prefix, version, usual, old).await;
        }
        let written = self.put_text(&key, text, version.as_ref()).await?;
        self.wrote(prefix, Form::Whole(written), new, &changes);
        Ok(Step::Wrote)
    }

    /// Spreads the entries of one object over many. Who reads meanwhile sees the one object, or all
    /// of the others; who splits the same object writes the same.
    async fn split(
        &self,
        prefix: &Key,
        version: Option<Version>,
        usual: Usual,
        items: Items,
    ) -> remote::Result<Step> {
        let id = id_of(version.as_ref());
        let mut shards: Vec<Items> = (0..SHARDS).map(|_| Items::new()).collect();
        for (label, item) in items {
            shards[shard(&label)].insert(label, item);
        }
        let texts: Vec<(Key, String)> = shards
            .iter()
            .enumerate()
            .filter(|(_, items)| !items.is_empty())
            .map(|(at, items)| (prefix.join(&place::shard(&id, at)), sheet::write(items, usual)))
            .collect();
        let written: Vec<remote::Result<()>> = stream::iter(texts)
            .map(|(key, text)| async move { self.put_exactly(&key, text).await })
            .buffer_unordered(SHARDS_AT_A_TIME)
            .collect()
            .await;
        written.into_iter().collect::<remote::Result<()>>()?;
        let text = sheet::write_split(usual, &id);
        let key = prefix.join(place::OBJECT);
        let version = self.put_text(&key, text, version.as_ref()).await?;
        let now = self.clock.monotonic();
        let mut state = self.state();
        if let Some(books) = &mut state.tree.books {
            let book = books.get_mut(prefix);
            book.learn(Form::Split { version, id }, Items::new(), now);
        }
        // The shards are read before they are written to.
        Ok(Step::Read)
    }

    async fn write_shards(
        &self,
        prefix: &Key,
        id: &str,
        usual: Usual,
        changes: Changes,
    ) -> remote::Result<Step> {
        let mut of_shards: Vec<Changes> = (0..SHARDS).map(|_| Changes::new()).collect();
        for (label, change) in changes {
            of_shards[shard(&label)].push((label, change));
        }
        let of_shards: Vec<(usize, Changes)> =
            of_shards.into_iter().enumerate().filter(|(_, changes)| !changes.is_empty()).collect();
        let written: Vec<remote::Result<()>> = stream::iter(of_shards)
            .map(|(at, changes)| self.write_shard(prefix, (id, at), usual, changes))
            .buffer_unordered(SHARDS_AT_A_TIME)
            .collect()
            .await;
        // Who else changed the form of the whole is found when it is read next.
        written.into_iter().collect::<remote::Result<()>>()?;
        Ok(Step::Wrote)
    }

    async fn write_shard(
        &self,
        prefix: &Key,
        (id, at): (&str, usize),
        usual: Usual,
        changes: Changes,
    ) -> remote::Result<()> {
        let known = {
            let state = self.state();
            let book = state.tree.books.as_ref().and_then(|books| books.get(prefix));
            book.and_then(|book| book.sheets.get(at)).is_some_and(|sheet| sheet.as_of.is_some())
        };
        if !known {
            let told = self.load_shard(prefix, id, at).await?;
            self.retell_folder(prefix, &told);
        }
        let key = prefix.join(&place::shard(id, at));
        let (old, version, readable) = {
            let state = self.state();
            let book = state.tree.books.as_ref().and_then(|books| books.get(prefix));
            let sheet = book.and_then(|book| book.sheets.get(at));
            let known = |sheet: &Sheet| (sheet.items.clone(), sheet.version.clone(), sheet.text);
            sheet.map(known).unwrap_or_default()
        };
        if readable == Readable::No {
            return Err(not_ours(&key));
        }
        let new = merged(&old, &changes);
        if new != old {
            let text = sheet::write(&new, usual);
            if OBJECT_BYTES_MAX < text.len() as u64 {
                // What nobody could read any more would be lost, with all that is there.
                let error = remote::Error::new(RemoteErrorKind::Full, "put", &key);
                return Err(error.because("extended attributes of too many names are too large"));
            }
            let put = self.put_text(&key, text, version.as_ref()).await;
            let now = self.clock.monotonic();
            let mut state = self.state();
            let Some(books) = &mut state.tree.books else { return put.map(drop) };
            let book = books.get_mut(prefix);
            match put {
                Ok(written) => {
                    book.learn_shard(at, Sheet::new(Some(written), new, now));
                }
                Err(error) => {
                    if let Some(sheet) = book.sheets.get_mut(at) {
                        sheet.as_of = None;
                    }
                    return Err(error);
                }
            }
        }
        self.settle(prefix, &changes);
        Ok(())
    }

    fn written_items(&self, prefix: &Key, at: usize) -> Items {
        let state = self.state();
        let book = state.tree.books.as_ref().and_then(|books| books.get(prefix));
        book.and_then(|book| book.sheets.get(at))
            .map(|sheet| sheet.items.clone())
            .unwrap_or_default()
    }

    fn wrote(&self, prefix: &Key, form: Form, items: Items, changes: &Changes) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        if let Some(books) = &mut state.tree.books {
            books.get_mut(prefix).learn(form, items, now);
        }
        drop(state);
        self.settle(prefix, changes);
    }

    /// The bucket has these changes, or need not have them.
    fn settle(&self, prefix: &Key, changes: &[(Label, Pending)]) {
        let records: Vec<RecordId> = {
            let mut state = self.state();
            let Some(books) = &mut state.tree.books else { return };
            let book = books.get_mut(prefix);
            let settled = changes.iter().flat_map(|(label, p)| book.settle(label, p.number));
            settled.collect()
        };
        if !records.is_empty() {
            self.ledger.strike(&records);
        }
    }

    async fn put_text(
        &self,
        key: &Key,
        text: String,
        replaced: Option<&Version>,
    ) -> remote::Result<Version> {
        let condition = if self.remote.personality().conditional_writes {
            replaced.map_or(Condition::Absent, |version| Condition::Is(version.clone()))
        } else {
            // The best that such a store allows: it is looked at just before.
            self.check_unchanged(key, replaced).await?;
            Condition::Always
        };
        let options = PutOptions { condition, metadata: Metadata::new() };
        self.remote.put(key, Body::from(text), &options).await
    }

    /// Writes an object that may be there already, from a split that was not finished or that is
    /// done elsewhere just now.
    async fn put_exactly(&self, key: &Key, text: String) -> remote::Result<()> {
        match self.put_text(key, text.clone(), None).await {
            Err(error) if error.kind == RemoteErrorKind::Changed => {}
            put => return put.map(drop),
        }
        match self.remote.get_whole(key, None, u64::MAX).await? {
            Fresh::New(_, bytes) if bytes == text.as_bytes() => Ok(()),
            Fresh::New(meta, _) => self.put_text(key, text, Some(&meta.version)).await.map(drop),
            Fresh::Same => Ok(()),
        }
    }

    /// Removes an object that nobody else changed.
    async fn delete_object(&self, key: &Key, version: Option<&Version>) -> remote::Result<()> {
        self.check_unchanged(key, version).await?;
        self.remote.delete(key).await
    }

    async fn check_unchanged(&self, key: &Key, version: Option<&Version>) -> remote::Result<()> {
        let found = match self.remote.head(key).await {
            Ok(meta) => Some(meta.version),
            Err(error) if error.kind == RemoteErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if found.as_ref() == version {
            Ok(())
        } else {
            Err(remote::Error::new(RemoteErrorKind::Changed, "head", key))
        }
    }

    /// How many changes the bucket does not have yet.
    #[cfg(test)]
    pub(in crate::bucket) fn attributes_pending(&self) -> usize {
        let state = self.state();
        let Some(books) = &state.tree.books else { return 0 };
        let pending = books.due(None).into_iter().filter_map(|prefix| books.get(&prefix));
        pending.map(|book| book.pending.len()).sum()
    }
}

/// The bucket does not take what is to be said. That an object is not to be written over is no
/// failure of the store.
fn refused(error: remote::Error) -> Error {
    let failed = Error::remote(OP, error);
    if failed.kind == ErrorKind::Remote(RemoteErrorKind::Unsupported) {
        Error { kind: ErrorKind::Unsupported, ..failed }
    } else {
        failed
    }
}

/// What is in the way of a change is not to be written over.
fn not_ours(key: &Key) -> remote::Error {
    remote::Error::new(RemoteErrorKind::Unsupported, "put", key)
        .because("the folder's attributes are not of a format that is known")
}

/// `old` with the changes made to it.
fn merged(old: &Items, changes: &Changes) -> Items {
    let mut new = old.clone();
    for (label, change) in changes {
        match &change.item {
            Some(item) => new.insert(label.clone(), item.clone()),
            None => new.remove(label),
        };
    }
    new
}

/// Names the split of one version: whoever splits it gives its parts these names.
fn id_of(version: Option<&Version>) -> String {
    let text = version.map(Version::as_str).unwrap_or_default();
    format!("{:08x}", base::crc32c(text.as_bytes()))
}
