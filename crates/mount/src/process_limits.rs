//! What the system lets this process have.

use std::sync::Arc;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use vfs::PendingLimit;

/// Files that we have open whoever waits: connections, what is under way to the store, files that are made ahead, and
/// room for who asks how we are.
const ALWAYS_OPEN: u64 = 448;

/// Of the others what waits for its upload leaves so many to what programs have open, to the cache and to the versions that
/// edits are of, or half where that is less.
const OTHERS: u64 = 4096;

/// Where that is less than half, edits may have more open than that: with seven of eight of all open nothing is added to
/// what waits.
const SPARE_PART: u64 = 8;

/// Fewer would be uploaded one by one.
const PENDING_MIN: usize = 16;

/// As many files, and as large ones, as we are allowed to ask for: a user's shell has lower limits, against programs that
/// are out of hand.
pub(crate) fn raise() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = getrlimit(resource);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(resource, raised) {
            tracing::debug!(?resource, %error, "the limit stays as it is");
        }
    }
}

/// A file that is to be longer than we may write is an error of what is done with it, and not the end of this process.
pub(crate) fn outlive(runtime: &Runtime) {
    let _entered = runtime.enter();
    // Whoever is listened to once does not end this process any more.
    if let Err(error) = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
        tracing::warn!(%error, "a file that is too large ends this process");
    }
}

/// What may wait for its upload, of all buckets; to be asked when the limit is raised.
pub(crate) fn pending_limit() -> Arc<PendingLimit> {
    let (pending, open) = shares_of(getrlimit(Resource::Nofile).current);
    PendingLimit::of(pending, open)
}

/// How many files may wait, and how many may be open for that, where this process may have `files` open.
fn shares_of(files: Option<u64>) -> (usize, usize) {
    let files = files.unwrap_or(u64::MAX).saturating_sub(ALWAYS_OPEN);
    let (pending, open) = if files / 2 <= OTHERS {
        (files / 2, u64::MAX)
    } else {
        (files - OTHERS, files - files / SPARE_PART)
    };
    let [pending, open] =
        [pending, open].map(|share| usize::try_from(share).unwrap_or(usize::MAX).max(PENDING_MIN));
    (pending.min(vfs::PENDING_FILES), open)
}

#[cfg(test)]
mod tests {
    use super::{PENDING_MIN, shares_of};

    #[test]
    fn who_may_have_few_files_open_has_fewer_waiting() {
        for (files, want) in [
            (Some(1 << 20), (vfs::PENDING_FILES, 917_112)),
            (Some(20_000), (15_456, 17_108)),
            (Some(4096), (1824, usize::MAX)),
            (Some(1024), (288, usize::MAX)),
            (Some(20), (PENDING_MIN, usize::MAX)),
        ] {
            assert_eq!(shares_of(files), want, "{files:?}");
        }
        assert_eq!(shares_of(None).0, vfs::PENDING_FILES);
    }
}
