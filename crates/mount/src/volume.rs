//! One bucket that is served: its layers, and the work that they have in the background.

use std::sync::Arc;
use std::time::Duration;

use base::{Clock, Ino};
use namespace::Bucket;
use remote::{CloudStore, Key, Limit, Remote, Traffic};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use transfer::Tuned;
use vfs::{Unpublished, Vfs};

use crate::assemble::Assembled;
use crate::config::{Changes, Config};
use crate::dispatch::Dispatch;
use crate::kernel::FuseKernel;
use crate::knowledge::Knowledge;
use crate::ledger::StoreLedger;
use crate::process::Processes;
use crate::recall::{self, Recall};
use crate::status::ReadOnly;

/// Parts of uploads that nobody completes are removed so often. A request that was on its way when its
/// sender died has arrived by then.
const REMOVAL_DELAY: Duration = Duration::from_mins(1);

/// What is pinned is looked at so often: that asks for a listing of each of its folders.
const PINS_DELAY: Duration = Duration::from_mins(10);

/// One bucket that is served.
#[derive(Debug)]
pub(crate) struct Volume {
    /// What answers the kernel's requests.
    pub(crate) dispatch: Arc<Dispatch>,
    /// Why the bucket takes no changes, if it takes none.
    pub(crate) read_only: Option<ReadOnly>,
    /// What it is in a mount of all buckets: `s3/bucket`.
    pub(crate) place: String,
    /// Services of the store for people, such as signed URLs; `None` for a local folder.
    pub(crate) cloud: Option<Arc<dyn CloudStore>>,
    remote: Arc<dyn Remote>,
    /// What bounds the requests under way.
    pub(crate) limit: Arc<Limit>,
    /// The requests under way.
    pub(crate) traffic: Arc<Traffic>,
    /// The prefix of all its keys.
    pub(crate) prefix: String,
    /// URL of the mounted bucket or prefix, such as `s3://bucket/prefix`.
    pub(crate) url: String,
    /// How large the parts of its uploads are.
    pub(crate) parts: Tuned,
    /// What the bucket's store can do.
    pub(crate) knowledge: Knowledge,
    recall: Recall,
    namespace: Arc<Bucket>,
    ledger: Arc<StoreLedger>,
    background: [JoinHandle<()>; 4],
}

impl Volume {
    /// Starts what `assembled` does without being asked; `kernel` is who will ask.
    pub(crate) fn start(
        config: &Config,
        assembled: Assembled,
        kernel: FuseKernel,
        runtime: &Handle,
    ) -> Volume {
        let Assembled { vfs, namespace, ledger, remote, clock, changes, .. } = assembled;
        let Assembled { limit, traffic, parts, cloud, knowledge, recall, asked, .. } = assembled;
        vfs.attach(Arc::new(kernel));
        // Before anybody asks for a change.
        let asked = runtime.spawn(recall::take_in(&namespace, asked));
        let named = Arc::clone(&namespace);
        let attributes = runtime.spawn(async move { named.keep_attributes().await });
        let removal = runtime.spawn(remove_left(Arc::clone(&vfs), Arc::clone(&clock)));
        let pins = runtime.spawn(look_at_pins(Arc::clone(&vfs), Arc::clone(&clock)));
        let dispatch = Dispatch {
            vfs,
            clock,
            runtime: runtime.clone(),
            ttl: config.metadata_ttl,
            processes: Processes::default(),
        };
        let (dispatch, background) = (Arc::new(dispatch), [attributes, removal, pins, asked]);
        let read_only = match (config.changes, changes) {
            (Changes::Allowed, Changes::Allowed) => None,
            (Changes::Allowed, Changes::Refused) => Some(ReadOnly::Credentials),
            (Changes::Refused, _) => Some(ReadOnly::Asked),
        };
        let place = config.location.place();
        let prefix = config.location.prefix().to_owned();
        let url = config.location.to_string();
        Volume {
            dispatch,
            read_only,
            place,
            cloud,
            remote,
            limit,
            traffic,
            prefix,
            url,
            parts,
            knowledge,
            recall,
            namespace,
            ledger,
            background,
        }
    }

    /// Why the bucket takes no changes, as far as is known: who may write to a part of it shows that by doing so.
    pub(crate) fn takes_no_changes(&self) -> Option<ReadOnly> {
        let is_refused = self.namespace.refuses_changes();
        self.read_only.or(is_refused.then_some(ReadOnly::Credentials))
    }

    /// The file system.
    pub(crate) fn vfs(&self) -> &Arc<Vfs> {
        &self.dispatch.vfs
    }

    /// Returns the key in the bucket of an object that the mount calls `key`.
    pub(crate) fn object_key(&self, key: &Key) -> Key {
        Key::new([self.prefix.as_bytes(), key.as_bytes()].concat())
    }

    /// The bucket itself.
    pub(crate) fn remote(&self) -> &Arc<dyn Remote> {
        &self.remote
    }

    /// Brings everything into the bucket, and returns what could not be brought.
    pub(crate) async fn drain(&self) -> Vec<Unpublished> {
        let mut left = self.vfs().drain().await;
        left.extend(self.ledger.stuck());
        left
    }

    /// As [`Volume::drain`], for what is at or below `top`.
    pub(crate) async fn sync(&self, top: Ino) -> Vec<Unpublished> {
        let mut left = self.vfs().sync_below(top).await;
        left.extend(self.ledger.stuck());
        left
    }

    /// Ends what is done in the background: the mount is gone.
    pub(crate) fn stop(&self) {
        self.background.iter().for_each(JoinHandle::abort);
    }

    /// Records what the next mount wants to know, after the last drain.
    pub(crate) fn settle(&self) {
        self.ledger.settle();
        self.knowledge.keep();
        self.recall.keep(&self.namespace);
    }
}

async fn remove_left(vfs: Arc<Vfs>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(REMOVAL_DELAY).await;
        vfs.remove_left().await;
    }
}

async fn look_at_pins(vfs: Arc<Vfs>, clock: Arc<dyn Clock>) {
    loop {
        vfs.look_at_pins().await;
        clock.sleep(PINS_DELAY).await;
    }
}
