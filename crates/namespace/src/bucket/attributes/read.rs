//! Makes sure that what is known of a folder's attributes is what its listing showed, or at most the
//! time to live old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use remote::{ErrorKind as RemoteErrorKind, Fresh, Key, Version};

use super::book::{Form, SHARDS, Sheet, shard};
use super::item::Label;
use super::place;
use super::sheet::{self, Items, Text};

use crate::bucket::shared::Shared;
use crate::{Error, Result};

/// The largest attribute object that is read, and written.
pub(super) const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// Shards that are read at a time.
pub(super) const SHARDS_AT_A_TIME: usize = 16;

/// The attribute objects that a listing of a folder showed, by what follows the folder's prefix.
pub(in crate::bucket) type Sightings = BTreeMap<Vec<u8>, Version>;

/// What is to be known.
#[derive(Clone, Copy, Debug)]
pub(in crate::bucket) enum Want<'a> {
    /// Where it is said.
    Form,
    /// What is said of one name.
    One(&'a [u8]),
    /// What is said of all names.
    All,
    /// What is said of all names in the objects that a listing of the whole folder showed.
    Listed(&'a Sightings),
}

/// What is known of one object.
enum Known {
    Nothing,
    /// Its version; `None` if it is not there.
    Version(Option<Version>),
}

/// What one object is now.
enum Found {
    Same,
    New(Version, Text),
    Nothing,
    /// Something that is not for us to read.
    Hidden,
}

impl Shared {
    /// Makes sure of what `want` wants to know of the folder whose keys begin with `prefix`.
    pub(in crate::bucket) async fn freshen(
        &self,
        op: &'static str,
        prefix: &Key,
        want: Want<'_>,
    ) -> Result<()> {
        self.freshen_older(op, prefix, want, self.options.metadata_ttl).await
    }

    /// As [`Shared::freshen`], also of what is older than `age_max`.
    pub(in crate::bucket) async fn freshen_older(
        &self,
        op: &'static str,
        prefix: &Key,
        want: Want<'_>,
        age_max: Duration,
    ) -> Result<()> {
        let key_bytes_max = self.remote.personality().key_bytes_max;
        if !place::has_attributes(prefix, key_bytes_max) || self.is_known(prefix, want, age_max) {
            return Ok(());
        }
        let Some(turn) = self.turn_of(prefix) else { return Ok(()) };
        let came = self.clock.monotonic();
        let _turn = turn.lock().await;
        // Who had the turn before may have asked the same, be it in vain.
        if self.is_known(prefix, want, age_max) {
            return Ok(());
        }
        if let Some(error) = self.failed_since(op, prefix, came) {
            return Err(error);
        }
        let told = self.load(prefix, want).await.map_err(|error| Error::remote(op, error));
        let failed = told.as_ref().err().map(Error::again);
        let now = self.clock.monotonic();
        let mut state = self.state();
        if let Some(books) = &mut state.tree.books {
            books.get_mut(prefix).failed = failed.map(|error| (now, error));
            books.shrink();
        }
        drop(state);
        let told = told?;
        self.retell_folder(prefix, &told);
        Ok(())
    }

    /// The failure of who asked for the attributes of `prefix` last, if that was after `came`: who waited
    /// for him does not wait once more.
    fn failed_since(&self, op: &'static str, prefix: &Key, came: Duration) -> Option<Error> {
        let mut state = self.state();
        let (at, error) = state.tree.books.as_mut()?.get_mut(prefix).failed.as_ref()?;
        (came < *at).then(|| Error { op, ..error.again() })
    }

    /// The right to read and write the attribute object of `prefix`; `None` if they are not used.
    pub(super) fn turn_of(&self, prefix: &Key) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let mut state = self.state();
        Some(Arc::clone(&state.tree.books.as_mut()?.get_mut(prefix).turn))
    }

    /// Something else is said than before of these names in a folder.
    pub(super) fn retell_folder(&self, prefix: &Key, told: &[Label]) {
        let mut state = self.state();
        if let Some(dir) = state.tree.folder_at(prefix) {
            state.tree.retell(dir, told);
        }
    }

    fn is_known(&self, prefix: &Key, want: Want<'_>, age_max: Duration) -> bool {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let Some(books) = &mut state.tree.books else { return true };
        match want {
            Want::Form => false,
            Want::One(label) => {
                books.get(prefix).is_some_and(|book| book.is_fresh(label, now, age_max))
            }
            Want::All => books.get(prefix).is_some_and(|book| {
                let fresh = |sheet: &Sheet| sheet.as_of.is_some_and(|as_of| now < as_of + age_max);
                let form = book.as_of.is_some_and(|as_of| now < as_of + age_max);
                match book.form {
                    Form::Unknown => false,
                    Form::Absent | Form::Foreign | Form::Whole(_) => form,
                    Form::Split { .. } => form && book.sheets.iter().all(fresh),
                }
            }),
            Want::Listed(sightings) => {
                let book = books.get_mut(prefix);
                let seen = sightings.get(place::OBJECT);
                let as_seen = match (&book.form, seen) {
                    (Form::Unknown | Form::Absent, None) => {
                        book.learn(Form::Absent, Items::new(), now).is_empty()
                    }
                    (Form::Whole(version), Some(seen)) => version == seen,
                    (Form::Split { version, id }, Some(seen)) => {
                        let shard = |(at, sheet): (usize, &Sheet)| {
                            sheet.as_of.is_some()
                                && sheet.version.as_ref()
                                    == sightings.get(&place::shard(id, at)[..])
                        };
                        version == seen && book.sheets.iter().enumerate().all(shard)
                    }
                    (Form::Unknown | Form::Absent, Some(_))
                    | (Form::Whole(_) | Form::Split { .. }, None)
                    | (Form::Foreign, _) => false,
                };
                if as_seen {
                    book.as_of = Some(now);
                    for sheet in &mut book.sheets {
                        sheet.as_of = Some(now);
                    }
                }
                as_seen
            }
        }
    }

    /// Reads what `want` wants to know, for who has the turn. Returns the names of which something
    /// else is said than before.
    pub(super) async fn load(&self, prefix: &Key, want: Want<'_>) -> remote::Result<Vec<Label>> {
        let as_of = self.clock.monotonic();
        let key = prefix.join(place::OBJECT);
        let known = {
            let mut state = self.state();
            let Some(books) = &mut state.tree.books else { return Ok(Vec::new()) };
            match &books.get_mut(prefix).form {
                Form::Whole(version) | Form::Split { version, .. } => Some(version.clone()),
                Form::Unknown | Form::Absent | Form::Foreign => None,
            }
        };
        let found = self.find_object(&key, known.as_ref()).await?;
        let (mut told, id) = {
            let mut state = self.state();
            let Some(books) = &mut state.tree.books else { return Ok(Vec::new()) };
            let book = books.get_mut(prefix);
            let told = match found {
                Found::Same => {
                    book.as_of = Some(as_of);
                    if let (Form::Whole(_), [sheet]) = (&book.form, &mut book.sheets[..]) {
                        sheet.as_of = Some(as_of);
                    }
                    Vec::new()
                }
                Found::Nothing => book.learn(Form::Absent, Items::new(), as_of),
                Found::Hidden => book.learn(Form::Foreign, Items::new(), as_of),
                Found::New(version, Text::Items { usual, items, bad }) => {
                    warn_of_bad_lines(&key, bad);
                    book.usual = usual;
                    book.learn(Form::Whole(version), items, as_of)
                }
                Found::New(version, Text::Split { usual, id }) => {
                    book.usual = usual;
                    book.learn(Form::Split { version, id }, Items::new(), as_of)
                }
                Found::New(_, Text::Unknown) => {
                    if book.form != Form::Foreign {
                        tracing::warn!(%key, "these attributes are not of a format that is known: they are left alone");
                    }
                    book.learn(Form::Foreign, Items::new(), as_of)
                }
            };
            let id = match &book.form {
                Form::Split { id, .. } => Some(id.clone()),
                Form::Unknown | Form::Absent | Form::Whole(_) | Form::Foreign => None,
            };
            (told, id)
        };
        if let Some(id) = id {
            told.extend(self.load_shards(prefix, &id, want).await?);
        }
        Ok(told)
    }

    async fn load_shards(
        &self,
        prefix: &Key,
        id: &str,
        want: Want<'_>,
    ) -> remote::Result<Vec<Label>> {
        let wanted: Vec<usize> = match want {
            Want::Form => Vec::new(),
            Want::One(label) => vec![shard(label)],
            Want::All => (0..SHARDS).collect(),
            Want::Listed(sightings) => (0..SHARDS)
                .filter(|&at| {
                    let seen = sightings.get(&place::shard(id, at)[..]);
                    match self.shard_of(prefix, at) {
                        Known::Nothing => true,
                        Known::Version(known) => known.as_ref() != seen,
                    }
                })
                .collect(),
        };
        let told: Vec<Vec<Label>> = stream::iter(wanted)
            .map(|at| self.load_shard(prefix, id, at))
            .buffer_unordered(SHARDS_AT_A_TIME)
            .try_collect()
            .await?;
        Ok(told.concat())
    }

    /// What is known of a shard.
    fn shard_of(&self, prefix: &Key, at: usize) -> Known {
        let state = self.state();
        let book = state.tree.books.as_ref().and_then(|books| books.get(prefix));
        match book.and_then(|book| book.sheets.get(at)) {
            Some(sheet) if sheet.as_of.is_some() => Known::Version(sheet.version.clone()),
            Some(_) | None => Known::Nothing,
        }
    }

    pub(super) async fn load_shard(
        &self,
        prefix: &Key,
        id: &str,
        at: usize,
    ) -> remote::Result<Vec<Label>> {
        let as_of = self.clock.monotonic();
        let known = match self.shard_of(prefix, at) {
            Known::Version(version) => version,
            Known::Nothing => None,
        };
        let key = prefix.join(&place::shard(id, at));
        let found = self.find_object(&key, known.as_ref()).await?;
        let mut state = self.state();
        let Some(books) = &mut state.tree.books else { return Ok(Vec::new()) };
        let book = books.get_mut(prefix);
        Ok(match found {
            Found::Same => {
                if let Some(sheet) = book.sheets.get_mut(at) {
                    sheet.as_of = Some(as_of);
                }
                Vec::new()
            }
            Found::Nothing => book.learn_shard(at, Sheet::new(None, Items::new(), as_of)),
            Found::Hidden => book.learn_shard(at, Sheet::foreign(Version::new(""), as_of)),
            Found::New(version, Text::Items { items, bad, .. }) => {
                warn_of_bad_lines(&key, bad);
                // What is not of this shard would not be found when it is changed.
                let items = items.into_iter().filter(|(label, _)| shard(label) == at).collect();
                book.learn_shard(at, Sheet::new(Some(version), items, as_of))
            }
            Found::New(version, Text::Split { .. } | Text::Unknown) => {
                tracing::warn!(%key, "ignoring a part of an attribute object: damaged, or of a newer version");
                book.learn_shard(at, Sheet::foreign(version, as_of))
            }
        })
    }

    async fn find_object(&self, key: &Key, known: Option<&Version>) -> remote::Result<Found> {
        match self.remote.get_whole(key, known, OBJECT_BYTES_MAX).await {
            Ok(Fresh::Same) => Ok(Found::Same),
            Ok(Fresh::New(meta, bytes)) => Ok(Found::New(meta.version, sheet::read(&bytes))),
            Err(error) if error.kind == RemoteErrorKind::NotFound => Ok(Found::Nothing),
            // It may not be read, or is absurdly large: names are shown without it. Whose credentials are
            // refused learns nothing of what is there.
            Err(error) if error.kind == RemoteErrorKind::Unsupported || error.is_refusal() => {
                let why = if error.is_refusal() {
                    "access denied"
                } else {
                    "too large, or the store cannot return it"
                };
                tracing::warn!(%key, %error, "ignoring an attribute object: {why}");
                Ok(Found::Hidden)
            }
            Err(error) => Err(error),
        }
    }
}

fn warn_of_bad_lines(key: &Key, bad: usize) {
    if 0 < bad {
        tracing::warn!(%key, lines = bad, "ignored malformed lines of an attribute object");
    }
}
