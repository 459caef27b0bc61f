//! File system that answers the questions of [`Query`] besides its calls.

use std::sync::Arc;
use std::time::Duration;

use base::{Errno, FileKind, Ino};
use fuse::{Answer, Caller, Reply, Request, Service};
use futures::FutureExt as _;
use remote::{CloudStore, Details, Key};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use vfs::{Inspection, Stage};

use crate::missing::Missing;
use crate::query::{ANSWER_BYTES_MAX, BriefStatus, Info, Query, Wait};
use crate::report::Report;
use crate::status::UploadState;
use crate::sync_waits::{SyncWaits, Taken};
use crate::volume::Volume;
use crate::volumes::{Unbrought, Volumes};

/// Longest time of one answer: the kernel keeps the caller from being killed while the daemon has its request.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// Requests to stores at a time that questions cause.
const STORE_REQUESTS_MAX: usize = 8;

/// Error of a store for a user that may not see its words.
const NO_DETAILS: &str = "the store does not give the details of this object";

/// Bytes of reasons in one answer: JSON may spell each byte in six.
const REASON_BYTES_MAX: usize = 10 << 10;

/// A file system with answers to questions about paths.
#[derive(Debug)]
pub(crate) struct Queried {
    inner: Arc<dyn Service>,
    answers: Arc<Answers>,
}

/// Source of the answers.
#[derive(Debug)]
struct Answers {
    volumes: Arc<Volumes>,
    report: Arc<Report>,
    waits: SyncWaits<Unbrought>,
    store_turns: Semaphore,
    runtime: Handle,
    /// The user that mounted.
    mounter: u32,
}

impl Queried {
    pub(crate) fn new(inner: Arc<dyn Service>, report: Arc<Report>, runtime: &Handle) -> Queried {
        let answers = Answers {
            volumes: Arc::clone(&report.volumes),
            report,
            waits: SyncWaits::default(),
            store_turns: Semaphore::new(STORE_REQUESTS_MAX),
            runtime: runtime.clone(),
            mounter: rustix::process::geteuid().as_raw(),
        };
        Queried { inner, answers: Arc::new(answers) }
    }
}

impl Service for Queried {
    fn serve(&self, caller: Caller, request: Request<'_>) -> Answer {
        let Request::GetXattr { ino, name, size } = request else {
            return self.inner.serve(caller, request);
        };
        let Some(query) = Query::parse(name) else { return self.inner.serve(caller, request) };
        // A question for the length alone begins no wait.
        if size == 0 {
            return Answer::Now(Ok(Reply::Length(ANSWER_BYTES_MAX)));
        }
        let answers = Arc::clone(&self.answers);
        Answer::Later(async move { answers.answer(query, caller.uid, ino).await }.boxed())
    }
}

impl Answers {
    async fn answer(&self, query: Query, uid: u32, ino: Ino) -> Result<Reply, Errno> {
        match query {
            Query::Status => reply(&self.brief_status().await?),
            Query::Info => reply(&self.info(uid, ino).await?),
            Query::Sync => {
                let volumes = Arc::clone(&self.volumes);
                let begin = || self.runtime.spawn(async move { volumes.sync(ino).await });
                let ticket = self.waits.begin((uid, ino), self.now(), begin);
                reply(&self.wait(ticket.ok_or(Errno::EBUSY)?, uid, ino).await?)
            }
            Query::SyncOf(ticket) => reply(&self.wait(ticket, uid, ino).await?),
        }
    }

    /// Waits for the end of the wait `ticket`, for [`ANSWER_TIME_MAX`] at most.
    async fn wait(&self, ticket: u64, uid: u32, ino: Ino) -> Result<Wait, Errno> {
        let mut task = match self.waits.take(ticket, (uid, ino), self.now()) {
            Taken::Yes(task) => task,
            Taken::Busy => return Err(Errno::EBUSY),
            Taken::Unknown => return Err(Errno::ENODATA),
        };
        let done = tokio::select! {
            biased;
            done = &mut task => Some(done),
            () = self.report.common.clock.sleep(ANSWER_TIME_MAX) => None,
        };
        let missing = match done {
            None => {
                self.waits.give_back(ticket, task);
                None
            }
            Some(done) => {
                self.waits.end(ticket);
                let missing = Missing::of(done.map_err(|_| Errno::EIO)?.all());
                Some(self.visible(missing, uid, ino).await.within(REASON_BYTES_MAX))
            }
        };
        let pending = self.volumes.pending();
        Ok(Wait {
            ticket,
            pending_uploads: pending.files,
            pending_bytes: pending.bytes,
            done: missing.is_some(),
            missing: missing.unwrap_or_default(),
        })
    }

    /// Returns as much of `missing`, at or below `ino`, as the user may see.
    async fn visible(&self, missing: Missing, uid: u32, ino: Ino) -> Missing {
        if self.is_trusted(uid) {
            return missing.kept_in(&self.report.state_dir);
        }
        // Reasons about a single file name that file alone, and the kernel let the user reach it.
        match self.volumes.owner(ino) {
            Some((volume, inner)) if !is_directory(&volume, inner).await => missing,
            Some(_) | None => missing.without_names(),
        }
    }

    async fn brief_status(&self) -> Result<BriefStatus, Errno> {
        let status = self.report.status().await.map_err(|_| Errno::EIO)?;
        Ok(BriefStatus {
            source: status.source,
            health: status.health,
            mounted_secs: status.mounted_secs,
            pending_uploads: status.pending_uploads,
            pending_bytes: status.pending_bytes,
            pending_changes: status.pending_changes,
            cached_bytes: status.cache.cached_bytes,
        })
    }

    async fn info(&self, uid: u32, ino: Ino) -> Result<Info, Errno> {
        let (volume, inner) = self.volumes.owner(ino).ok_or(Errno::ENODATA)?;
        let found = volume.vfs().inspect(inner).await.map_err(|error| vfs::errno(&error))?;
        let sees_reasons = uid == found.attr.uid || self.is_trusted(uid);
        let key = found.key.as_ref().filter(|_| found.version.is_some());
        let details = match (key, &volume.cloud) {
            (Some(key), Some(cloud)) => Some(self.details(&**cloud, &volume.object_key(key)).await),
            (Some(_) | None, _) => None,
        };
        let info = local_info(&volume, found);
        let upload_error = info.upload_error.filter(|_| sees_reasons);
        let info = Info { upload_error, ..info };
        Ok(match details {
            None => info,
            Some(Ok(details)) => Info {
                version_id: details.version_id,
                storage_class: details.storage_class,
                encryption: details.encryption,
                ..info
            },
            // The store's words may name accounts and keys.
            Some(Err(reason)) => {
                let reason = if sees_reasons { reason } else { NO_DETAILS.to_owned() };
                Info { store_error: Some(reason), ..info }
            }
        })
    }

    /// Asks the store about the object `key`; the reason if it does not answer in time.
    async fn details(&self, cloud: &dyn CloudStore, key: &Key) -> Result<Details, String> {
        let asked = async {
            let _turn = self.store_turns.acquire().await.expect("never closed");
            cloud.details(key).await.map_err(|error| error.to_string())
        };
        tokio::select! {
            asked = asked => asked,
            () = self.report.common.clock.sleep(ANSWER_TIME_MAX) => {
                Err("the store did not answer within a second".to_owned())
            }
        }
    }

    /// Whether a user may see all names of the mount.
    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.mounter
    }

    fn now(&self) -> Duration {
        self.report.common.clock.monotonic()
    }
}

async fn is_directory(volume: &Volume, ino: Ino) -> bool {
    let attr = Arc::clone(volume.vfs()).attr(ino).await;
    attr.is_ok_and(|attr| attr.kind == FileKind::Directory)
}

/// Returns what is known without the store of a file of `volume`.
fn local_info(volume: &Volume, found: Inspection) -> Info {
    let Inspection { attr, path, key, version, cached_bytes, .. } = found;
    let below = match (&key, path) {
        (Some(key), _) => key.to_string(),
        (None, path) => base::spelled(&path.unwrap_or_default()).into_owned(),
    };
    let upload = found.upload.map(|stage| match stage {
        Stage::Waiting => UploadState::Waiting,
        Stage::UnderWay => UploadState::UnderWay,
        Stage::Failed(_) => UploadState::Failed,
    });
    Info {
        kind: kind_of(attr.kind).to_owned(),
        url: format!("{}/{below}", volume.url.trim_end_matches('/')),
        key: key.map(|key| volume.object_key(&key).to_string()),
        bytes: attr.size,
        version: version.map(|version| version.as_str().to_owned()),
        version_id: None,
        storage_class: None,
        encryption: None,
        store_error: None,
        cached_bytes,
        pinned: found.is_pinned,
        upload,
        upload_error: found.upload_error,
        pending_files: found.pending_files,
        handles: found.handles,
    }
}

fn kind_of(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice | FileKind::BlockDevice => "device",
    }
}

fn reply(answer: &impl Serialize) -> Result<Reply, Errno> {
    let text = serde_json::to_vec(answer).map_err(|_| Errno::EIO)?;
    if ANSWER_BYTES_MAX as usize <= text.len() {
        return Err(Errno::E2BIG);
    }
    Ok(Reply::Data(text))
}
