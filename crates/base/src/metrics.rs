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
    FuseReadBytes = "fuse_read_bytes", "Bytes handed to the kernel by reads.";
    FuseWrites = "fuse_writes", "Write requests from the kernel.";
    FuseWriteBytes = "fuse_write_bytes", "Bytes taken from the kernel by writes.";
    FusePanics = "fuse_panics", "Requests that ended in a panic and got EIO.";
    PassthroughOpens = "passthrough_opens", "Opens whose reads the kernel does itself.";
    RemoteHeads = "remote_heads", "HEAD requests sent.";
    RemoteGets = "remote_gets", "GET requests sent for the bytes of files.";
    RemoteGetBytes = "remote_get_bytes", "Bytes of object data received.";
    RemoteSmallGets = "remote_small_gets", "GET requests sent for small objects that say something of others.";
    RemoteLists = "remote_lists", "LIST pages asked for.";
    RemotePuts = "remote_puts", "Objects and parts sent.";
    RemotePutBytes = "remote_put_bytes", "Bytes of object data sent.";
    RemoteCopies = "remote_copies", "Server-side copies asked for.";
    RemotePartCopies = "remote_part_copies", "Parts of uploads asked to be copied inside the store.";
    RemotePartCopyBytes = "remote_part_copy_bytes", "Bytes of such parts.";
    RemoteDeletes = "remote_deletes", "DELETE requests sent.";
    RemoteErrors = "remote_errors", "Requests that got no good answer, repeats included.";
    RemoteRetries = "remote_retries", "Requests that were repeated.";
    RemoteHedges = "remote_hedges", "GET requests sent a second time because the first answer was late.";
    RemoteThrottled = "remote_throttled", "Requests that the store refused because there were too many.";
    UploadsDone = "uploads_done", "File versions published.";
    UploadsFailed = "uploads_failed", "File versions that could not be published.";
    FilesAhead = "files_ahead", "Small files fetched because others of their folder were read.";
    EvictedBytes = "evicted_bytes", "Cached bytes dropped to make room.";
    MissedReadBytes = "missed_read_bytes", "Bytes that reads did not find in the cache.";
    StaleReads = "stale_reads", "Reads that failed because the object was replaced or removed.";
    UncachedReadBytes = "uncached_read_bytes", "Bytes read past the cache because it was full.";
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
