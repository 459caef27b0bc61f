//! What a mount counts and times; the one table that names all counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::histogram::{Histogram, Times};
use crate::timing::Timing;

macro_rules! counters {
    ($($variant:ident = $name:literal, $text:literal;)*) => {
        /// Something that is counted. Units are in the names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $text] $variant,)*
        }

        impl Counter {
            /// All of them, in the order of the table.
            pub const ALL: &[Counter] = &[$(Counter::$variant,)*];

            /// The name under which it is shown.
            pub fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)*
                }
            }

            /// What it counts, in a sentence.
            pub fn text(self) -> &'static str {
                match self {
                    $(Counter::$variant => $text,)*
                }
            }
        }
    };
}

counters! {
    FuseRequests = "fuse_requests", "Requests from the kernel.";
    FuseReads = "fuse_reads", "Read requests from the kernel; passthrough reads are not among them.";
    FuseReadBytes = "fuse_read_bytes", "Bytes that read requests returned to the kernel.";
    FuseWrites = "fuse_writes", "Write requests from the kernel.";
    FuseWriteBytes = "fuse_write_bytes", "Bytes that write requests brought from the kernel.";
    FusePanics = "fuse_panics", "Requests that ended in a panic and got EIO.";
    PassthroughOpens = "passthrough_opens", "Files opened in passthrough: the kernel reads them without quayfs.";
    RemoteHeads = "remote_heads", "HEAD requests to the store.";
    RemoteGets = "remote_gets", "GET requests to the store for file data.";
    RemoteGetBytes = "remote_get_bytes", "Bytes of object data received from the store.";
    RemoteSmallGets = "remote_small_gets", "GET requests to the store for attribute objects and links.";
    RemoteLists = "remote_lists", "LIST requests to the store, one for each page.";
    RemotePuts = "remote_puts", "PUT requests to the store, for objects and for parts.";
    RemotePutBytes = "remote_put_bytes", "Bytes of object data sent to the store.";
    RemoteCopies = "remote_copies", "COPY requests to the store, for whole objects.";
    RemotePartCopies = "remote_part_copies", "Requests to the store to copy a part of an object into an upload.";
    RemotePartCopyBytes = "remote_part_copy_bytes", "Bytes of the parts that the store copied into uploads.";
    RemoteDeletes = "remote_deletes", "DELETE requests to the store.";
    RemoteErrors = "remote_errors", "Requests to the store that failed, repeats included.";
    RemoteRetries = "remote_retries", "Requests to the store that were repeated.";
    RemoteHedges = "remote_hedges", "GET requests that were sent a second time because the first answer was late.";
    RemoteThrottled = "remote_throttled", "Requests that the store refused because of its rate limit.";
    UploadsDone = "uploads_done", "File versions uploaded.";
    UploadsFailed = "uploads_failed", "File versions whose upload failed for good.";
    FilesAhead = "files_ahead", "Small files prefetched because other files of their folder were read.";
    EvictedBytes = "evicted_bytes", "Bytes evicted from the cache.";
    MissedReadBytes = "missed_read_bytes", "Bytes of reads that were not in the cache.";
    StaleReads = "stale_reads", "Reads that failed because the object was replaced or removed.";
    UncachedReadBytes = "uncached_read_bytes", "Bytes of reads that bypassed the full cache.";
}

/// The counters and times of one mount.
#[derive(Debug)]
pub struct Metrics {
    values: [AtomicU64; Counter::ALL.len()],
    times: Box<[Histogram]>,
}

impl Metrics {
    /// All at zero.
    #[expect(clippy::new_without_default, reason = "a second way to say the same")]
    pub fn new() -> Metrics {
        let values = [const { AtomicU64::new(0) }; Counter::ALL.len()];
        Metrics { values, times: Timing::ALL.iter().map(|_| Histogram::new()).collect() }
    }

    /// Adds `n` to `counter`.
    pub fn add(&self, counter: Counter, n: u64) {
        self.values[counter as usize].fetch_add(n, Ordering::Relaxed);
    }

    /// The value of `counter`.
    pub fn value(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    /// Every counter with its value, in the order of the table.
    pub fn snapshot(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL.iter().map(|&counter| (counter, self.value(counter)))
    }

    /// Something was done in this time.
    pub fn record(&self, timing: Timing, took: Duration) {
        self.times[timing as usize].record(took);
    }

    /// How long that took so far.
    pub fn times(&self, timing: Timing) -> Times {
        self.times[timing as usize].times()
    }
}
