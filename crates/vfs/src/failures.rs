//! Why files could not be brought into the bucket, until they are, or nobody misses them any more.

use std::collections::BTreeMap;
use std::path::Path;

use base::Ino;
use parking_lot::Mutex;

use crate::errno::Error;

/// What is known of files whose last upload failed.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<Ino, Failure>>);

#[derive(Clone, Debug)]
struct Failure {
    reason: String,
    /// Where the bytes went, if they were given up: a person decides about them there.
    kept: Option<String>,
}

impl Failures {
    /// The last try of `ino` ended like that.
    pub(crate) fn failed(&self, ino: Ino, error: &Error) {
        let kept = if let Error::Conflict { kept, .. } = error { Some(kept.clone()) } else { None };
        self.0.lock().insert(ino, Failure { reason: error.to_string(), kept });
    }

    /// There is no try of `ino`, for `reason`, if `is_so` while nobody tells otherwise.
    pub(crate) fn waits(&self, ino: Ino, reason: String, is_so: impl FnOnce() -> bool) {
        let mut failures = self.0.lock();
        if is_so() {
            failures.insert(ino, Failure { reason, kept: None });
        }
    }

    /// It succeeded, or nobody misses it.
    pub(crate) fn remove(&self, ino: Ino) {
        self.0.lock().remove(&ino);
    }

    /// Why they failed. Of what was kept, and is there no more, somebody has disposed.
    pub(crate) fn all(&self) -> BTreeMap<Ino, String> {
        let mut failures = self.0.lock();
        failures.retain(|_, failure| {
            failure.kept.as_ref().is_none_or(|kept| Path::new(kept).symlink_metadata().is_ok())
        });
        failures.iter().map(|(&ino, failure)| (ino, failure.reason.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use base::Ino;

    use super::Failures;
    use crate::errno::Error;

    #[test]
    fn of_what_was_kept_is_told_until_somebody_has_disposed_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("a");
        std::fs::write(&kept, b"bytes").unwrap();
        let failures = Failures::default();
        let why = "the object was changed by another client";
        let error = Error::Conflict { key: "a".into(), why, kept: kept.display().to_string() };
        failures.failed(Ino(2), &error);
        failures.waits(Ino(3), "it waits".into(), || true);
        failures.waits(Ino(4), "it waits".into(), || false);
        assert_eq!(failures.all().into_keys().collect::<Vec<_>>(), [Ino(2), Ino(3)]);
        std::fs::remove_file(&kept).unwrap();
        assert_eq!(failures.all().into_keys().collect::<Vec<_>>(), [Ino(3)]);
        failures.remove(Ino(3));
        assert!(failures.all().is_empty());
    }
}
