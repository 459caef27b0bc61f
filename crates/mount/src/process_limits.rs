//! What the system lets this process have.

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Files that we have open whoever waits: connections, what is under way to the store, files that are made ahead, and
/// room for who asks how we are.
const ALWAYS_OPEN: u64 = 448;

/// One part of the others is for what waits for its upload, the rest for what programs have open and for the cache, as are
/// the versions that edits are of.
const PENDING_PART: u64 = 2;

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

/// Files that may wait for their upload, of all buckets; to be asked when the limit is raised.
pub(crate) fn pending_files() -> usize {
    share_of(getrlimit(Resource::Nofile).current)
}

fn share_of(files: Option<u64>) -> usize {
    let share = files.map_or(u64::MAX, |files| files.saturating_sub(ALWAYS_OPEN) / PENDING_PART);
    usize::try_from(share).unwrap_or(usize::MAX).clamp(PENDING_MIN, vfs::PENDING_FILES)
}

#[cfg(test)]
mod tests {
    use super::{PENDING_MIN, share_of};

    #[test]
    fn who_may_have_few_files_open_has_fewer_waiting() {
        for (files, want) in [
            (None, vfs::PENDING_FILES),
            (Some(1 << 20), vfs::PENDING_FILES),
            (Some(4096), 1824),
            (Some(1024), 288),
            (Some(20), PENDING_MIN),
        ] {
            assert_eq!(share_of(files), want, "{files:?}");
        }
    }
}
