//! What a bucket promises beyond the trait: requests, others' changes, races, memory.

mod along;
mod attributes;
mod carried;
mod crash;
mod late;
mod lengths;
mod links;
mod listings;
mod made;
mod model;
mod moved;
mod numbers;
mod odd;
mod others;
mod outage;
mod outbox;
mod places;
mod races;
mod recent;
mod removed_dirs;
mod requests;
mod revision;
mod rounds;
mod stand_in;
mod stubs;
mod unsorted;
mod unwritable;
mod walks;
mod writers;

use std::sync::Arc;
use std::time::Duration;

use base::{Attr, Ino, ManualClock, Name, Share};
use remote::fake::{Fake, Op};
use remote::{Folder, Key, ListOrder, Metadata, Naming, Personality, PutOptions, Remote};

use super::{Bucket, BucketOptions};
use crate::conformance::{self, Volume};
use crate::{
    Entry, Error, Ledger, Listed, Namespace, NewNode, NoLedger, Owner, Published, SetAttr,
};

const TTL: Duration = Duration::from_secs(1);
const NODE: NewNode = NewNode { mode: 0o644, owner: Owner { uid: 1000, gid: 1000 } };

/// A bucket over a store in memory, with time at a standstill.
struct Bench {
    fake: Fake,
    clock: Arc<ManualClock>,
    bucket: Bucket,
}

impl Bench {
    fn new() -> Bench {
        Bench::over(Fake::new(), BucketOptions::default())
    }

    fn over(fake: Fake, options: BucketOptions) -> Bench {
        Bench::with(fake, options, Arc::new(NoLedger))
    }

    fn with(fake: Fake, options: BucketOptions, ledger: Arc<dyn Ledger>) -> Bench {
        let clock = Arc::new(ManualClock::default());
        let bucket = Bucket::new(Arc::new(fake.clone()), Arc::clone(&clock) as _, ledger, options);
        Bench { fake, clock, bucket }
    }

    /// Only what is below `prefix`.
    fn below(prefix: &str) -> Bench {
        Bench::below_with(prefix, BucketOptions::default())
    }

    fn below_with(prefix: &str, options: BucketOptions) -> Bench {
        let (fake, clock) = (Fake::new(), Arc::new(ManualClock::default()));
        let below = Arc::new(remote::prefixed(Arc::new(fake.clone()), Key::from(prefix)));
        let bucket = Bucket::new(below, Arc::clone(&clock) as _, Arc::new(NoLedger), options);
        Bench { fake, clock, bucket }
    }

    /// What somebody else writes.
    fn put(&self, key: &str, bytes: &'static str) {
        self.fake.insert(&Key::from(key), bytes, Metadata::new());
    }

    /// What somebody else removes.
    fn remove(&self, key: &str) {
        assert!(self.fake.remove(&Key::from(key)));
    }

    fn keys(&self) -> Vec<String> {
        self.fake.keys().iter().map(ToString::to_string).collect()
    }

    /// Lets what is remembered grow too old.
    fn expire(&self) {
        self.clock.advance(TTL);
    }

    async fn lookup(&self, parent: Ino, text: &str) -> Result<Entry, Error> {
        self.bucket.lookup(parent, &name(text)).await
    }

    async fn ino(&self, parent: Ino, text: &str) -> Ino {
        self.lookup(parent, text).await.unwrap().attr.ino
    }

    async fn create(&self, parent: Ino, text: &str) -> Ino {
        self.bucket.create(parent, &name(text), NODE).await.unwrap().attr.ino
    }

    async fn mkdir(&self, parent: Ino, text: &str) -> Ino {
        self.bucket.mkdir(parent, &name(text), NODE).await.unwrap().attr.ino
    }

    async fn write(&self, parent: Ino, text: &str, bytes: &'static str) -> Ino {
        let ino = self.create(parent, text).await;
        self.upload(ino, bytes).await;
        ino
    }

    async fn upload(&self, ino: Ino, bytes: &'static str) {
        let target = self.bucket.target(ino).unwrap();
        let size = bytes.len() as u64;
        let options = PutOptions { condition: target.condition, metadata: target.metadata };
        let version = self.fake.put(&target.key, bytes.into(), &options).await.unwrap();
        self.bucket.publish(ino, Published { key: target.key, version, size });
    }

    async fn names(&self, dir: Ino) -> Vec<String> {
        names(&self.bucket.list(dir).await.unwrap())
    }

    /// HEADs and LISTs since the last time this was asked.
    fn asked(&self, before: &mut (u64, u64)) -> (u64, u64) {
        let now = (self.fake.calls(Op::Head), self.fake.calls(Op::List));
        let since = (now.0 - before.0, now.1 - before.1);
        *before = now;
        since
    }
}

impl Bucket {
    /// Every entry of `dir`, sorted by name, with the attributes that are remembered.
    async fn list(&self, dir: Ino) -> Result<Vec<Entry>, Error> {
        let mut entries = self.listing(dir).await?.all().await?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let state = self.shared.state();
        let root = state.tree.attr(Ino::ROOT);
        let entry = |Listed { name, ino, kind }| {
            let forgotten = Attr { ino, kind, ..root };
            Entry { name, attr: state.tree.node(ino).map_or(forgotten, |node| node.attr(ino)) }
        };
        Ok(entries.into_iter().map(entry).collect())
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn names(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.name.to_string()).collect()
}

fn size(bytes: u64) -> SetAttr {
    SetAttr { size: Some(bytes), ..SetAttr::default() }
}

#[tokio::test]
async fn a_bucket_in_memory_keeps_the_promises_of_namespaces() {
    conformance::run(|| {
        let bench = Bench::new();
        Volume { namespace: Arc::new(bench.bucket), remote: Arc::new(bench.fake) }
    })
    .await;
}

#[tokio::test]
async fn a_bucket_with_folders_of_its_own_keeps_the_promises_of_namespaces() {
    conformance::run(|| {
        let bench = Bench::over(Fake::with_folders(), BucketOptions::default());
        Volume { namespace: Arc::new(bench.bucket), remote: Arc::new(bench.fake) }
    })
    .await;
}

#[tokio::test]
async fn a_bucket_that_is_never_believed_keeps_the_promises_of_namespaces() {
    conformance::run(|| {
        let options = BucketOptions {
            metadata_ttl: Duration::ZERO,
            nodes: Share::whole(1),
            ..BucketOptions::default()
        };
        let bench = Bench::over(Fake::new(), options);
        Volume { namespace: Arc::new(bench.bucket), remote: Arc::new(bench.fake) }
    })
    .await;
}

/// A store that lists keys in no order, two at a time.
fn without_order() -> Fake {
    let naming = Naming { order: ListOrder::Unsorted, ..Naming::OF_KEYS };
    let fake = Fake::with(Personality { naming, ..Fake::new().personality() });
    fake.short_pages(2);
    fake
}

#[tokio::test]
async fn a_bucket_without_order_keeps_the_promises_of_namespaces() {
    conformance::run(|| {
        let bench = Bench::over(without_order(), BucketOptions::default());
        Volume { namespace: Arc::new(bench.bucket), remote: Arc::new(bench.fake) }
    })
    .await;
}

#[tokio::test]
async fn a_folder_as_a_bucket_keeps_the_promises_of_namespaces() {
    let folders = parking_lot::Mutex::new(Vec::new());
    conformance::run(|| {
        let folder = tempfile::tempdir().unwrap();
        let remote: Arc<dyn Remote> = Arc::new(Folder::open(folder.path()).unwrap());
        folders.lock().push(folder);
        let clock = Arc::new(ManualClock::default());
        let bucket =
            Bucket::new(Arc::clone(&remote), clock, Arc::new(NoLedger), BucketOptions::default());
        Volume { namespace: Arc::new(bucket), remote }
    })
    .await;
}
