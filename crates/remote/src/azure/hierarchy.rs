//! Accounts with a hierarchical namespace (Data Lake Storage Gen2): whether a container is of one, and what
//! such an account is asked at its other endpoint. See "Get Account Information" of the Blob service and
//! "Path - Create", "Path - Delete" and "Path - Get Properties" of Data Lake Storage, in Microsoft's REST
//! reference.
//!
//! Folders are things of their own there. Their keys end in a slash here; the service takes none there.

use std::sync::atomic::Ordering;

use http::Method;

use crate::capabilities::Has;
use crate::http::Answer;
use crate::{
    Capability, Condition, Error, ErrorKind, Key, Meta, Metadata, Original, PutOptions, Result,
    Version,
};

use super::away;
use super::call::{Call, Door};
use super::paths::{folder, is_folder, properties};
use super::{Azure, check_metadata, is_in_bucket, meta_of, text, version_of};

/// How often the rename of a folder is asked on: the service may do a part of it at a time.
const RENAME_CALLS_MAX: u32 = 10_000;

/// What the service says where the folder is not there in which something is to be.
const NO_PARENT: &str = "RenameDestinationParentPathNotFound";

/// What it says of a folder that something is in.
const NOT_EMPTY: [&str; 2] = ["DirectoryNotEmpty", "DirectoryIsNotEmpty"];

impl Azure {
    /// Whether the account has a hierarchical namespace; asked once.
    pub(super) async fn has_real_folders(&self) -> Result<bool> {
        let shared = &self.shared;
        if let Some(has) = shared.learned.has(Capability::RealFolders) {
            return Ok(has == Has::Yes);
        }
        if shared.is_taken_for_flat.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match self.ask_for_hierarchy().await? {
            Some(has) => shared.learned.learn(Capability::RealFolders, has),
            None => shared.is_taken_for_flat.store(true, Ordering::Relaxed),
        }
        Ok(shared.learned.has(Capability::RealFolders) == Some(Has::Yes))
    }

    /// `None` if nobody could say.
    async fn ask_for_hierarchy(&self) -> Result<Option<Has>> {
        let (op, key) = ("ask what the account is", Key::from(""));
        let call = Call::new(op, Method::GET, &key)
            .query("restype", "account")
            .query("comp", "properties");
        match self.shared.container.container(call).await {
            Ok(answer) => {
                if let Some(said) = answer.header("x-ms-is-hns-enabled") {
                    let is_so = said.eq_ignore_ascii_case("true");
                    return Ok(Some(if is_so { Has::Yes } else { Has::No }));
                }
            }
            Err(error) if matches!(error.kind, ErrorKind::Transient { .. }) => return Err(error),
            // It is not for everybody to know.
            Err(error) => tracing::debug!(%error, "the account does not say what it is"),
        }
        // Only such an account knows of owners.
        let call = Call::new(op, Method::HEAD, &key)
            .query("action", "getAccessControl")
            .through(Door::Paths);
        Ok(match self.shared.container.container(call).await {
            Ok(answer) if answer.header("x-ms-owner").is_some() => Some(Has::Yes),
            Ok(_) => Some(Has::No),
            Err(error) if matches!(error.kind, ErrorKind::Transient { .. }) => {
                tracing::debug!(%error, "taken for an account without a hierarchical namespace");
                None
            }
            Err(_) => Some(Has::No),
        })
    }

    /// What is known of the folder `key`.
    pub(super) async fn head_folder(&self, op: &'static str, key: &Key) -> Result<Meta> {
        let absent = || Error::new(ErrorKind::NotFound, op, key).because("no such folder");
        let folder = folder(key).ok_or_else(absent)?;
        let answer = self.blob(Call::new(op, Method::HEAD, &folder)).await?;
        let meta = meta_of(op, key, &answer)?;
        if !is_folder(answer.header("x-ms-resource-type"), &meta.metadata) {
            return Err(absent());
        }
        Ok(Meta { size: 0, ..meta })
    }

    /// Makes the folder `key`, and those above it. One that is there stays as it is.
    pub(super) async fn put_folder(&self, key: &Key, options: &PutOptions) -> Result<Version> {
        let op = "put";
        check_metadata(op, key, &options.metadata)?;
        let missing = || Error::new(ErrorKind::Unsupported, op, key).because("a folder has a name");
        let folder = folder(key).ok_or_else(missing)?;
        match self.make_folder(op, &folder, &options.metadata).await {
            Ok(_) => Ok(self.head_folder(op, key).await?.version),
            Err(error) if error.kind == ErrorKind::Changed => match &options.condition {
                Condition::Absent => Err(error),
                Condition::Always => Ok(self.head_folder(op, key).await?.version),
                Condition::Is(wanted) => {
                    let found = self.head_folder(op, key).await?.version;
                    if found == *wanted { Ok(found) } else { Err(error) }
                }
            },
            Err(error) => Err(error),
        }
    }

    async fn make_folder(
        &self,
        op: &'static str,
        folder: &Key,
        metadata: &Metadata,
    ) -> Result<Answer> {
        let said =
            (!metadata.is_empty()).then(|| ("x-ms-properties".to_owned(), properties(metadata)));
        let call = Call::new(op, Method::PUT, folder)
            .query("resource", "directory")
            .header("if-none-match", "*")
            .headers(said)
            .through(Door::Paths);
        self.blob(call).await
    }

    /// Removes the folder `key` if nothing is in it.
    pub(super) async fn delete_folder(&self, key: &Key) -> Result<()> {
        let op = "delete";
        // A file of that name is none of the folder's.
        match self.head_folder(op, key).await {
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::NotFound && is_in_bucket(&error) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let Some(folder) = folder(key) else { return Ok(()) };
        let call =
            Call::new(op, Method::DELETE, &folder).query("recursive", "false").through(Door::Paths);
        match self.blob(call).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind == ErrorKind::NotFound && is_in_bucket(&error) => Ok(()),
            Err(error) if NOT_EMPTY.iter().any(|code| is_code(&error, code)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn rename_object(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        let op = "rename";
        let unless_changed =
            [("x-ms-source-if-match".to_owned(), text::etag(original.version))].into_iter();
        let conditions: Vec<(String, String)> =
            unless_changed.chain(text::condition(condition)).collect();
        match self.rename_path(op, (original.key, to), &conditions).await {
            Ok(()) => self.shared.paths_away.answers(),
            Err(error) => return Err(self.unless_away(original, error).await),
        }
        let meta = meta_of(op, to, &self.blob(Call::new(op, Method::HEAD, to)).await?)?;
        Ok(meta.version)
    }

    pub(super) async fn rename_folder_of(&self, from: &Key, to: &Key) -> Result<()> {
        let op = "rename folder";
        let refuse = || Error::new(ErrorKind::Unsupported, op, from).because("not a folder");
        let (from, to) = (folder(from).ok_or_else(refuse)?, folder(to).ok_or_else(refuse)?);
        let free = [("if-none-match".to_owned(), "*".to_owned())];
        self.rename_path(op, (&from, &to), &free).await
    }

    /// What came of renaming `original` at the endpoint for paths; `Unsupported` if that cannot be reached, while
    /// that for blobs answers and has the file.
    async fn unless_away(&self, original: Original<'_>, error: Error) -> Error {
        let shared = &self.shared;
        if !away::is_out_of_reach(&error) {
            shared.paths_away.answers();
            return error;
        }
        if shared.container.has_one_door() || !shared.paths_away.fails() {
            return error;
        }
        match self.is_at_blobs(original).await {
            Ok(()) => {}
            // An earlier try may have arrived.
            Err(gone) if gone.kind == ErrorKind::NotFound => return gone,
            Err(_) => return error,
        }
        shared.paths_away.leave_alone(shared.clock.monotonic().saturating_add(away::AWAY));
        tracing::warn!(%error, "the account's endpoint for paths (dfs) cannot be reached: files are copied instead of renamed");
        away::away(original)
    }

    async fn is_at_blobs(&self, Original { key, version, .. }: Original<'_>) -> Result<()> {
        let op = "rename";
        let answer = self.blob(Call::new(op, Method::HEAD, key)).await?;
        if version_of(op, key, &answer)? == *version {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Changed, op, key))
    }

    /// Gives a path another name, and makes the folders in which that is.
    async fn rename_path(
        &self,
        op: &'static str,
        (from, to): (&Key, &Key),
        conditions: &[(String, String)],
    ) -> Result<()> {
        match self.rename_path_once(op, (from, to), conditions).await {
            Err(error) if is_code(&error, NO_PARENT) => {
                let slash = to.as_bytes().iter().rposition(|&byte| byte == b'/');
                let Some(slash) = slash else { return Err(error) };
                let above = Key::from(&to.as_bytes()[..slash]);
                match self.make_folder(op, &above, &Metadata::new()).await {
                    Ok(_) => {}
                    // Somebody else made it meanwhile.
                    Err(there) if there.kind == ErrorKind::Changed => {}
                    Err(failed) => return Err(failed),
                }
                self.rename_path_once(op, (from, to), conditions).await
            }
            renamed => renamed,
        }
    }

    async fn rename_path_once(
        &self,
        op: &'static str,
        (from, to): (&Key, &Key),
        conditions: &[(String, String)],
    ) -> Result<()> {
        let source = self.shared.container.rename_source(op, from)?;
        let mut more: Option<String> = None;
        for _ in 0..RENAME_CALLS_MAX {
            let mut call = Call::new(op, Method::PUT, to)
                .header("x-ms-rename-source", source.clone())
                .through(Door::Paths);
            call = match more.take() {
                // What was asked of the names held when it began.
                Some(more) => call.query("continuation", more),
                None => call.headers(conditions.iter().cloned()),
            };
            let answer = self.blob(call).await?;
            let next = answer.header("x-ms-continuation").filter(|next| !next.is_empty());
            match next {
                Some(next) => more = Some(next.to_owned()),
                None => return Ok(()),
            }
        }
        Err(Error::new(ErrorKind::Corrupt, op, from).because("the rename does not end"))
    }

    /// Whether nothing can be below `prefix` because a file is in the way: the service calls that a mistake
    /// of who lists.
    pub(super) async fn is_below_a_file(&self, op: &'static str, prefix: &Key) -> Result<bool> {
        let slash = prefix.as_bytes().iter().rposition(|&byte| byte == b'/');
        let Some(slash) = slash.filter(|&slash| 0 < slash) else { return Ok(false) };
        let file = Key::from(&prefix.as_bytes()[..slash]);
        match self.blob(Call::new(op, Method::HEAD, &file)).await {
            Ok(answer) => {
                let metadata = text::metadata_of(answer.headers());
                Ok(!is_folder(answer.header("x-ms-resource-type"), &metadata))
            }
            Err(error) if error.kind == ErrorKind::NotFound && is_in_bucket(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn is_code(error: &Error, code: &str) -> bool {
    error.provider_error().is_some_and(|said| said.code == code)
}
