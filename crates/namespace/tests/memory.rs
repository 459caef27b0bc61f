//! What a folder of many entries takes in memory: remembered, and held open. Alone in its program,
//! because it looks at the memory of the whole process.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::sync::Arc;

use base::{Ino, ManualClock, Name};
use quayfs_namespace::{Bucket, BucketOptions, Listing, Namespace, NoLedger};
use remote::fake::Fake;
use remote::{Key, Metadata};

const ENTRIES: usize = 200_000;
const PAGE_BYTES: usize = 4096;

/// Bytes that this process has in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE_BYTES
}

#[tokio::test]
async fn an_entry_takes_little_memory_remembered_and_less_in_an_open_folder() {
    let fake = Fake::new();
    for file in 0..ENTRIES {
        fake.insert(&Key::from(&*format!("folder/file-{file:06}.txt")), "", Metadata::new());
    }
    let clock = Arc::new(ManualClock::default());
    let bucket = Bucket::new(Arc::new(fake), clock, Arc::new(NoLedger), BucketOptions::default());
    let folder = bucket.lookup(Ino::ROOT, &Name::new(b"folder").unwrap()).await.unwrap().attr.ino;

    let before = resident();
    assert_eq!(bucket.listing(folder).await.unwrap().all().await.unwrap().len(), ENTRIES);
    let remembered = (resident() - before) / ENTRIES;

    // Enough of them that what the allocator kept free does not count.
    let before = resident();
    let mut open: Vec<Listing> = Vec::new();
    for _ in 0..20 {
        open.push(bucket.listing(folder).await.unwrap());
    }
    let held = (resident() - before) / ENTRIES / open.len();
    eprintln!("{remembered} bytes remembered, {held} bytes in an open folder, for each entry");
    assert!(remembered <= 700, "{remembered} bytes for each entry remembered");
    assert!(held <= 48, "{held} bytes for each entry of an open folder");
}
