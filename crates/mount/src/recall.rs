//! Names that a mount asks for before anybody does: of its top folder, and of those that were used last.
//!
//! Who mounts a bucket again goes on where he was, as a rule. What he needs first is asked for while the bucket
//! is looked at anyhow, and is there when the mount is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use namespace::{Bucket, Shows};
use remote::{Key, Page, Remote};
use store::Store;
use tokio::task::JoinSet;

use crate::config::Config;

/// The first page of a folder, and when it was asked for.
pub(crate) struct Asked {
    folder: (Key, Shows),
    at: Duration,
    page: BoxFuture<'static, Option<Page>>,
}

/// What a mount asks for, but for the first page of the top folder.
pub(crate) struct Questions {
    /// What of that page is taken in.
    top: Shows,
    others: Vec<Asked>,
}

/// Which folders of a volume were used last, in the state folder.
#[derive(Debug)]
pub(crate) struct Recall {
    store: Store,
    volume: String,
    /// For how long an answer is believed.
    ttl: Duration,
}

impl Recall {
    /// Of the volume of `config`.
    pub(crate) fn new(store: &Store, config: &Config) -> Recall {
        Recall { store: store.clone(), volume: config.volume(), ttl: config.metadata_ttl }
    }

    /// Asks `remote` for the first pages of the folders that were used last, but for the top folder.
    pub(crate) fn ask(&self, remote: &Arc<dyn Remote>, clock: &dyn Clock) -> Questions {
        let mut questions = Questions { top: Shows::Folders, others: Vec::new() };
        // What is believed for no time cannot be told ahead.
        if self.ttl.is_zero() {
            return questions;
        }
        let mut prefixes = self.store.folders(&self.volume).unwrap_or_else(|error| {
            tracing::warn!(%error, "which folders were used last is not remembered");
            Vec::new()
        });
        // Each after those above it, by which it is known.
        prefixes.sort();
        for prefix in prefixes {
            if prefix.is_empty() {
                questions.top = Shows::All;
                continue;
            }
            let (remote, prefix) = (Arc::clone(remote), Key::from(&prefix[..]));
            let (at, request) = (clock.monotonic(), Bucket::first_page(&prefix));
            // Whoever drops the answer ends the request.
            let mut asking = JoinSet::new();
            asking.spawn(async move { remote.list(&request).await.ok() });
            let page = async move { asking.join_next().await?.ok().flatten() }.boxed();
            questions.others.push(Asked { folder: (prefix, Shows::All), at, page });
        }
        questions
    }

    /// Remembers which folders of `namespace` were used last.
    pub(crate) fn keep(&self, namespace: &Bucket) {
        // Who used nothing does not make the next one forget.
        let Some(folders) = namespace.folders_used_last() else { return };
        let prefixes: Vec<&[u8]> = folders.iter().map(Key::as_bytes).collect();
        if let Err(error) = self.store.note_folders(&self.volume, &prefixes) {
            tracing::warn!(%error, "which folders were used last is not remembered");
        }
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { folder, at, page: _ } = self;
        f.debug_struct("Asked").field("folder", folder).field("at", at).finish_non_exhaustive()
    }
}

impl Questions {
    /// With the first page of the top folder, which was asked for at `at`. None if nobody may look at that: what is
    /// in other folders is for who knows those above them.
    pub(crate) fn with_top(self, page: Option<Page>, at: Duration) -> Vec<Asked> {
        let Some(page) = page else { return Vec::new() };
        let page = future::ready(Some(page)).boxed();
        let top = Asked { folder: (Key::from(""), self.top), at, page };
        std::iter::once(top).chain(self.others).collect()
    }
}

/// Takes in what was `asked`, one after the other; nothing is changed here between the last question and this
/// call.
pub(crate) fn take_in(
    namespace: &Arc<Bucket>,
    asked: Vec<Asked>,
) -> impl Future<Output = ()> + use<> {
    let taking =
        asked.into_iter().map(|Asked { folder, at, page }| namespace.take_page(folder, at, page));
    let taking: Vec<_> = taking.collect();
    async move {
        for page in taking {
            page.await;
        }
    }
}
