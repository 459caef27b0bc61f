//! What the bucket has at a key and below it, for who asks about one name.

use std::time::Duration;

use base::{Ino, Name};
use remote::{Entry, ErrorKind as RemoteErrorKind, Key, ListRequest};

use super::keys::{self, Company};
use super::listing::{self, Seen, There, Told};
use super::shared::Shared;
use super::tree::Tree;
use crate::{Error, Result};

/// How many hidden objects are expected in a folder.
const HIDDEN_FEW: usize = 3;

/// Whether a folder has a marker of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marked {
    Yes,
    No,
}

/// What can be told of a name.
#[derive(Debug)]
enum Sight {
    /// The object, and the beginning of what is below it.
    Seen(Option<Seen>, Vec<Entry>),
    /// Nothing is below it, and whether it is there nobody may know: it may be filled.
    Empty,
    /// Nothing.
    OnTheWay,
}

/// What the bucket has below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookBelow {
    /// The folder's marker.
    pub(super) marker: bool,
    /// The object beside it by which other programs say that it is there; not looked for where there are
    /// other keys.
    pub(super) stub: Option<Key>,
    /// Keys beyond the marker.
    pub(super) others: bool,
}

/// What is told of `part` in the folder `prefix`, and of nothing beside it.
fn alone(prefix: &Key, part: &[u8], there: &There) -> Vec<(Name, There)> {
    let name = keys::name(prefix, part, Company::Alone);
    name.into_iter().map(|name| (name, there.clone())).collect()
}

impl Tree {
    /// Whether nobody may look into the folder `prefix`.
    pub(super) fn is_on_the_way(&self, prefix: &Key) -> bool {
        let is_passed = |dir| self.folder(dir).is_some_and(|folder| folder.on_the_way);
        // Such a folder is in another one, or is the top.
        is_passed(Ino::ROOT) && self.folder_at(prefix).is_some_and(is_passed)
    }
}

impl Shared {
    /// What the bucket has of `part` in the folder `prefix`, by name; a folder comes before what is
    /// beside it.
    pub(super) async fn ask_about_part(
        &self,
        op: &'static str,
        prefix: &Key,
        part: &[u8],
    ) -> Result<(Vec<(Name, There)>, Marked)> {
        let object = prefix.join(part);
        let below = object.join(b"/");
        let (object, folder) =
            futures::join!(self.look_at(op, &object, part), self.first_below(op, &below, 1));
        let (object, folder) = match (object, folder) {
            (Ok(object), Ok(folder)) => (object, folder),
            (object, folder) => match self
                .as_far_as_seen(op, (prefix, part), object, folder)
                .await?
            {
                Sight::Seen(object, folder) => (object, folder),
                Sight::Empty => return Ok((alone(prefix, part, &There::Folder), Marked::No)),
                Sight::OnTheWay => return Ok((alone(prefix, part, &There::OnTheWay), Marked::No)),
            },
        };
        let is_stub = object.as_ref().is_some_and(Seen::is_stub);
        let object = object.filter(|_| !is_stub);
        let marked = match folder.first() {
            Some(Entry::Object(key, meta)) if *key == below && meta.size == 0 => Marked::Yes,
            Some(_) | None => Marked::No,
        };
        let folder = is_stub || !folder.is_empty();
        let is = |company| {
            let name = keys::name(prefix, part, company);
            name.filter(|name| !keys::is_chunk_name(name))
        };
        let (name, beside) = match (object, folder) {
            (Some(seen), true) => (There::Folder, There::File(seen)),
            (Some(seen), false) => (There::File(seen), There::Nothing),
            (None, true) => (There::Folder, There::Nothing),
            (None, false) => (There::Nothing, There::Nothing),
        };
        let told = [(is(Company::Alone), name), (is(Company::Folder), beside)];
        let told = told.into_iter().filter_map(|(name, there)| Some((name?, there)));
        Ok((told.collect(), marked))
    }

    /// What can be told of `part` in the folder `prefix` of which something may not be looked at.
    async fn as_far_as_seen(
        &self,
        op: &'static str,
        (prefix, part): (&Key, &[u8]),
        object: Result<Option<Seen>>,
        below: Result<Vec<Entry>>,
    ) -> Result<Sight> {
        let is_passed = self.state().uncounted().tree.is_on_the_way(prefix);
        match (object, below) {
            (Err(error), _) | (_, Err(error)) if !error.is_refusal() || self.has_real_folders() => {
                Err(error)
            }
            (Ok(object), Ok(below)) => Ok(Sight::Seen(object, below)),
            // What is below it is enough for a folder.
            (Err(_), Ok(below)) if !below.is_empty() => Ok(Sight::Seen(None, below)),
            (Ok(Some(object)), Err(_)) => Ok(Sight::Seen(Some(object), Vec::new())),
            (Ok(None) | Err(_), Err(error)) => {
                if is_passed {
                    Ok(Sight::OnTheWay)
                } else {
                    Err(error)
                }
            }
            (Err(error), Ok(_)) => {
                let request = listing::below(&prefix.join(part), 1);
                let is_it = |entry: &Entry| *entry.key() == prefix.join(part);
                match self.remote.list(&request).await {
                    Ok(page) if page.entries.iter().any(is_it) => Err(error),
                    Ok(_) => Ok(Sight::Seen(None, Vec::new())),
                    // An empty folder that may be filled.
                    Err(refused) if refused.is_refusal() && is_passed => Ok(Sight::Empty),
                    Err(refused) if refused.is_refusal() => Err(error),
                    Err(failed) => Err(Error::remote(op, failed)),
                }
            }
        }
    }

    /// The object `key`, whose last part is `part`, if it is there as a file.
    pub(super) async fn look_at(
        &self,
        op: &'static str,
        key: &Key,
        part: &[u8],
    ) -> Result<Option<Seen>> {
        if key.as_bytes().is_empty() {
            return Ok(None);
        }
        match self.remote.head(key).await {
            // Empty, it is a folder's marker.
            Ok(meta) if part.is_empty() && meta.size == 0 => Ok(None),
            Ok(meta) => Ok(Some(Seen::headed(meta))),
            Err(error) if error.kind == RemoteErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::remote(op, error)),
        }
    }

    /// Whether any key is shown in the folder `prefix`, where others may begin with it, too.
    pub(super) async fn shows_any(&self, op: &'static str, prefix: &Key) -> Result<bool> {
        let mut told = Told::default();
        let mut request = listing::page(prefix, None);
        loop {
            let page = self.remote.list(&request).await;
            let page = page.map_err(|error| Error::remote(op, error))?;
            told.add(prefix, page.entries, Duration::ZERO);
            match page.next {
                _ if !told.names.is_empty() => return Ok(true),
                None => return Ok(false),
                next => {
                    listing::turn(&mut request, next).map_err(|error| Error::remote(op, error))?;
                }
            }
        }
    }

    /// The first `wanted` entries below `prefix` that are not hidden, or all there are.
    async fn first_below(
        &self,
        op: &'static str,
        prefix: &Key,
        wanted: usize,
    ) -> Result<Vec<Entry>> {
        let few = u16::try_from(wanted + HIDDEN_FEW).expect("few are wanted");
        let mut request = if self.has_real_folders() {
            // Keys do not tell of empty ones.
            ListRequest { entries_max: few, ..listing::page(prefix, None) }
        } else {
            listing::below(prefix, few)
        };
        let mut found = Vec::new();
        if keys::check_length(prefix, self.remote.personality().key_bytes_max).is_err() {
            return Ok(found);
        }
        loop {
            let page = self.remote.list(&request).await;
            let page = page.map_err(|error| Error::remote(op, error))?;
            let shown =
                page.entries.into_iter().filter(|entry| !keys::is_hidden(prefix, entry.key()));
            found.extend(shown.take(wanted - found.len()));
            match page.next {
                None => return Ok(found),
                _ if found.len() == wanted => return Ok(found),
                next => {
                    listing::turn(&mut request, next).map_err(|error| Error::remote(op, error))?;
                }
            }
            request.entries_max = listing::PAGE_ENTRIES_MAX;
        }
    }

    /// Whether anything is shown in the folder `prefix`; and whether it has a marker.
    pub(super) async fn look_below(&self, op: &'static str, prefix: &Key) -> Result<LookBelow> {
        if keys::is_chunk(prefix) {
            let others = self.shows_any(op, prefix).await?;
            return Ok(LookBelow { marker: false, stub: None, others });
        }
        let entries = self.first_below(op, prefix, 2).await?;
        let is_marker = |entry: &Entry| match entry {
            Entry::Object(key, meta) => key == prefix && meta.size == 0,
            Entry::Prefix(_) => false,
        };
        let others = !entries.iter().all(is_marker);
        let stub = if others { None } else { self.stub(prefix).await };
        let stub = stub.transpose().map_err(|error| Error::remote(op, error))?;
        let marker = self.has_real_folders() || entries.iter().any(is_marker);
        Ok(LookBelow { marker, stub, others })
    }
}
