//! Folders of buckets with a hierarchical namespace, and what such buckets move in one step. See
//! "Buckets: getStorageLayout", "Folders", "Objects: move" and "Operations: get" in the reference of Google's
//! JSON API.
//!
//! Folders are resources of their own there: their keys end in a slash, and objects may have the same.

use std::time::Duration;

use http::Method;
use serde::Deserialize;

use crate::capabilities::Has;
use crate::http::encode;
use crate::{
    Capability, Condition, Error, ErrorKind, Key, Meta, Metadata, Original, Result, Version,
};

use super::call::{Call, name};
use super::json::{self, Written};
use super::objects::{Shared, condition, generation, is_absent, written};

/// How often it is asked whether a folder has its new name.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long the store may take for it: as long as for any work that it tells nothing wrong of.
const MOVE_MAX: Duration = Duration::from_mins(15);

/// So many times in a row it may not say how it goes; whoever asks again is told later.
const SILENT_MAX: u32 = 5;

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// What is told of a bucket's layout.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layout {
    hierarchical_namespace: Option<Hierarchy>,
}

#[derive(Deserialize)]
struct Hierarchy {
    #[serde(default)]
    enabled: bool,
}

/// A folder. Other fields are of no interest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Folder {
    metageneration: Option<serde_json::Value>,
    #[serde(alias = "updated")]
    update_time: Option<String>,
}

impl Folder {
    /// What tells it from what it was: no object has such a version.
    fn version(&self) -> Version {
        let number = self.metageneration.as_ref().map(ToString::to_string).unwrap_or_default();
        Version::new(&format!("folder-{}", number.trim_matches('"')))
    }
}

/// A rename under way, or how it ended.
#[derive(Deserialize)]
struct Operation {
    name: Option<String>,
    #[serde(default)]
    done: bool,
    error: Option<Status>,
}

/// In the words of gRPC: `google.rpc.Status`.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: i32,
    #[serde(default)]
    message: String,
}

impl Status {
    /// Of a move that nobody knows of any more, and that has moved nothing.
    fn gone() -> Status {
        Status { code: 14, message: "the rename is not known any more".to_owned() }
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            3 | 12 => ErrorKind::Unsupported,
            5 => ErrorKind::NotFound,
            6 | 9 => ErrorKind::Changed,
            7 | 16 => ErrorKind::Denied,
            _ => TRANSIENT,
        }
    }
}

impl Shared {
    /// Whether the bucket has a hierarchical namespace; asked once.
    pub(super) async fn has_real_folders(&self) -> Result<bool> {
        if let Some(has) = self.learned.has(Capability::RealFolders) {
            return Ok(has == Has::Yes);
        }
        let has = self.ask_for_hierarchy().await?;
        self.learned.learn(Capability::RealFolders, has);
        Ok(has == Has::Yes)
    }

    async fn ask_for_hierarchy(&self) -> Result<Has> {
        let (op, key) = ("ask for the layout", Key::from(""));
        // Who may list a part only may be asked for that part.
        let prefix = str::from_utf8(self.prefix.as_bytes()).ok().filter(|text| !text.is_empty());
        let mut call = Call::new(op, Method::GET, &key)
            .query("fields", "hierarchicalNamespace")
            .queries(prefix.map(|prefix| ("prefix", prefix.to_owned())));
        call.path.push_str("/storageLayout");
        match self.bucket.ask::<Layout>(call).await {
            Ok(layout) => {
                let is_so = layout.hierarchical_namespace.is_some_and(|found| found.enabled);
                Ok(if is_so { Has::Yes } else { Has::No })
            }
            Err(error) if matches!(error.kind, ErrorKind::Transient { .. }) => Err(error),
            // A server that is not Google's, or credentials that may know nothing: then the first listing
            // tells what is wrong.
            Err(error) => {
                tracing::debug!(%error, "taken for a bucket without a hierarchical namespace");
                Ok(Has::No)
            }
        }
    }

    /// What is known of the folder `key`.
    pub(super) async fn folder(&self, op: &'static str, key: &Key) -> Result<Meta> {
        let mut call = Call::new(op, Method::GET, key);
        call.path = folder_path(op, key)?;
        let folder: Folder = self.bucket.ask(call).await?;
        let modified = folder.update_time.as_deref().and_then(json::timestamp).unwrap_or_default();
        Ok(Meta { size: 0, version: folder.version(), modified, metadata: Metadata::new() })
    }

    /// Makes the folder `key`, and those above it.
    pub(super) async fn make_folder(
        &self,
        op: &'static str,
        key: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let about = serde_json::json!({"name": name(op, key)?}).to_string();
        let mut call = Call::new(op, Method::POST, key).query("recursive", "true").json(about);
        call.path.push_str("/folders");
        match self.bucket.ask::<Folder>(call).await {
            Ok(made) => Ok(made.version()),
            Err(error) => {
                let error = as_taken(error);
                if error.kind == ErrorKind::Changed && *condition == Condition::Always {
                    return Ok(self.folder(op, key).await?.version);
                }
                Err(error)
            }
        }
    }

    /// Removes the folder `key` if nothing is in it.
    pub(super) async fn remove_folder(&self, op: &'static str, key: &Key) -> Result<()> {
        let mut call = Call::new(op, Method::DELETE, key);
        call.path = folder_path(op, key)?;
        match self.bucket.send(call).await.map_err(as_taken) {
            Ok(_) => Ok(()),
            Err(error) if is_absent(&error) || error.kind == ErrorKind::Changed => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives an object another name in one step.
    pub(super) async fn move_object(
        &self,
        Original { key: from, version, size: _ }: Original<'_>,
        to: &Key,
        wanted: &Condition,
    ) -> Result<Version> {
        let op = "rename";
        let mut call = Call::object(op, Method::POST, from)?
            .query("ifSourceGenerationMatch", generation(op, from, version)?)
            .queries(condition("ifGenerationMatch", op, to, wanted)?)
            .query("fields", "generation");
        call.path = format!("{}/moveTo/o/{}", call.path, encode(name(op, to)?.as_bytes()));
        let done: Written = self.bucket.ask(call).await?;
        written(op, to, &done)
    }

    /// Gives a folder another name, with all that is in it, and waits until it has it.
    pub(super) async fn move_folder(&self, from: &Key, to: &Key) -> Result<()> {
        let op = "rename folder";
        match self.move_folder_once(op, from, to).await {
            // The folder itself, or the one that it is to go to.
            Err(error) if is_absent(&error) => {
                self.folder(op, from).await?;
                let Some(above) = above(to) else { return Err(error) };
                self.make_folder(op, &above, &Condition::Always).await?;
                self.move_folder_once(op, from, to).await
            }
            moved => moved,
        }
    }

    async fn move_folder_once(&self, op: &'static str, from: &Key, to: &Key) -> Result<()> {
        let before = self.moving.of(from, to);
        let begun = match &before {
            Some(id) => Begun::UnderWay(id.clone()),
            None => self.begin_move(op, from, to).await?,
        };
        let outcome = match begun {
            Begun::Done(outcome) => outcome,
            Begun::UnderWay(id) => {
                self.moving.begun(from, to, &id);
                let outcome = self.outcome(op, from, &id).await?;
                self.moving.settled(from, to);
                // It may be that of an earlier move, and the folder have come back since.
                if before.is_some() && outcome.is_none() && self.is_there(op, from).await? {
                    return Err(unclear(op, from, "the folder is there again"));
                }
                outcome
            }
        };
        match outcome {
            None => Ok(()),
            Some(status) => Err(Error::new(status.kind(), op, from).because(status.message)),
        }
    }

    async fn begin_move(&self, op: &'static str, from: &Key, to: &Key) -> Result<Begun> {
        let mut call = Call::new(op, Method::POST, from);
        call.path = format!("{}/renameTo{}", folder_path(op, from)?, folder_path(op, to)?);
        let asked = self.bucket.ask(call).await.map_err(as_taken);
        let operation: Operation = asked.map_err(|error| {
            // Who may not do this may copy.
            let is_denied = error.kind == ErrorKind::Denied;
            if is_denied { Error { kind: ErrorKind::Unsupported, ..error } } else { error }
        })?;
        if operation.done {
            return Ok(Begun::Done(operation.error));
        }
        let id = operation.name.as_deref().and_then(|name| name.rsplit('/').next());
        let garbled = || unclear(op, from, "not a rename under way");
        Ok(Begun::UnderWay(id.ok_or_else(garbled)?.to_owned()))
    }

    /// How the move `id` has ended, once it has. Any error says that nobody knows: it may go on, and nothing
    /// else is to be done about the folder, such as copying what is in it.
    async fn outcome(&self, op: &'static str, from: &Key, id: &str) -> Result<Option<Status>> {
        let begun = self.clock.monotonic();
        let (mut pause, mut silent, mut limit) = (PAUSE_MIN, 0, MOVE_MAX);
        loop {
            if limit < self.clock.monotonic().saturating_sub(begun) {
                return Err(unclear(op, from, "the rename takes too long"));
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let mut call = Call::new(op, Method::GET, from);
            call.path = format!("/operations/{}", encode(id.as_bytes()));
            let error = match self.bucket.ask::<Operation>(call).await {
                Ok(now) if now.done => return Ok(now.error),
                Ok(_) => {
                    silent = 0;
                    continue;
                }
                // It is not for everybody to know, and not for ever; where the folder was tells as well.
                Err(error) if error.kind == ErrorKind::Denied || is_absent(&error) => {
                    match self.is_there(op, from).await {
                        Ok(true) if is_absent(&error) => return Ok(Some(Status::gone())),
                        Ok(true) => {
                            // That it failed is not told.
                            (silent, limit) = (0, self.patience);
                            continue;
                        }
                        Ok(false) => return Ok(None),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            silent += 1;
            if silent == SILENT_MAX {
                return Err(Error { kind: TRANSIENT, ..error });
            }
        }
    }

    async fn is_there(&self, op: &'static str, folder: &Key) -> Result<bool> {
        match self.folder(op, folder).await {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A move that the store was asked for.
enum Begun {
    /// It is over.
    Done(Option<Status>),
    /// The store calls it so.
    UnderWay(String),
}

/// Who asks again may hear more.
fn unclear(op: &'static str, folder: &Key, words: &'static str) -> Error {
    Error::new(TRANSIENT, op, folder).because(words)
}

/// The part of a URL that names a folder.
fn folder_path(op: &'static str, key: &Key) -> Result<String> {
    Ok(format!("/folders/{}", encode(name(op, key)?.as_bytes())))
}

/// The folder that a folder is in.
fn above(folder: &Key) -> Option<Key> {
    let bytes = folder.as_bytes().strip_suffix(b"/")?;
    let slash = bytes.iter().rposition(|&byte| byte == b'/')?;
    Some(Key::from(&bytes[..=slash]))
}

/// A conflict passes by itself where objects are written, but not where a folder is there, or full.
fn as_taken(error: Error) -> Error {
    let said = error.provider_error();
    let is_conflict = said.is_some_and(|said| ["conflict", "HTTP 409"].contains(&&said.code[..]));
    if is_conflict { Error { kind: ErrorKind::Changed, ..error } } else { error }
}

#[cfg(test)]
mod tests {
    use super::{Status, above};
    use crate::{ErrorKind, Key};

    #[test]
    fn a_folder_is_in_another_or_in_the_bucket() {
        assert_eq!(above(&Key::from("a/b/c/")), Some(Key::from("a/b/")));
        assert_eq!(above(&Key::from("a/")), None);
    }

    #[test]
    fn an_operation_that_failed_says_what_to_do_next() {
        let transient = ErrorKind::Transient { retry_after: None };
        for (code, want) in [
            (5, ErrorKind::NotFound),
            (6, ErrorKind::Changed),
            (9, ErrorKind::Changed),
            (7, ErrorKind::Denied),
            (13, transient),
            (14, transient),
        ] {
            assert_eq!(Status { code, message: String::new() }.kind(), want, "{code}");
        }
    }
}
