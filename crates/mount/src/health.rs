//! How a mount is, in one word, and why. Pure.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::shown;
use crate::recover_list::recover_list;

/// How a mount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Nothing to say.
    Ok,
    /// It works on: programs may have to wait.
    Busy,
    /// It works, but somebody should look.
    Degraded,
    /// Bytes or names could not be brought into the bucket.
    Failing,
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts<'a> {
    pub(crate) failures: &'a [String],
    /// The state folder and why it cannot be looked at, if it cannot.
    pub(crate) cache_error: Option<(&'a Path, &'a str)>,
    /// The state folder and the files in its recovery folder, if there are any.
    pub(crate) recovery: Option<(&'a Path, u64)>,
    pub(crate) dirty_bytes: u64,
    pub(crate) dirty_limit_bytes: u64,
    pub(crate) disk_free_bytes: u64,
    pub(crate) disk_total_bytes: u64,
    /// Why stores do not accept the credentials any more, those that do not.
    pub(crate) refusals: &'a [String],
    /// Calls, and silent stores, that programs wait for too long.
    pub(crate) overdue: &'a [String],
    /// Requests to the store that failed lately.
    pub(crate) errors: u64,
    /// The last of them, if one did.
    pub(crate) last_error: Option<&'a str>,
    /// How long the credentials are still good for, if that is known.
    pub(crate) credentials_left: Option<Duration>,
}

/// With less of the disk free it is soon full, unless it is so small that this is much of it.
const FREE_BYTES_MIN: u64 = 256 << 20;
const FREE_PART_MIN: u64 = 20;

impl Health {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Busy => "busy",
            Health::Degraded => "degraded",
            Health::Failing => "failing",
        }
    }
}

/// The worst of what is known, and all that is worth saying, worst first.
pub(crate) fn judge(facts: &Facts<'_>) -> (Health, Vec<String>) {
    let mut found: Vec<(Health, String)> = Vec::new();
    match facts.failures {
        [] => {}
        [one] => found.push((Health::Failing, format!("1 upload or change failed: {one}"))),
        [first, ..] => {
            let count = facts.failures.len();
            found.push((Health::Failing, format!("{count} uploads or changes failed: {first}, …")));
        }
    }
    if facts.credentials_left == Some(Duration::ZERO) {
        found.push((Health::Failing, "the credentials have ended".to_owned()));
    }
    found.extend(facts.refusals.iter().map(|why| (Health::Failing, why.clone())));
    found.extend(facts.overdue.iter().map(|why| (Health::Degraded, why.clone())));
    if 0 < facts.errors {
        let text = "requests to the store failed within the last two minutes";
        let why = facts.last_error.unwrap_or("the log says why");
        found.push((Health::Degraded, format!("{text}: {why}")));
    }
    if let Some((dir, files)) = facts.recovery {
        let text = format!("{files} file(s) in recovery/: `{}`", recover_list(dir));
        found.push((Health::Degraded, text));
    }
    if let Some((dir, why)) = facts.cache_error {
        let text = format!("the state folder {} cannot be used: {why}", shown(dir));
        found.push((Health::Failing, text));
    } else if facts.disk_free_bytes < FREE_BYTES_MIN.min(facts.disk_total_bytes / FREE_PART_MIN) {
        found.push((Health::Degraded, "the disk of the state folder is nearly full".to_owned()));
    }
    if 0 < facts.dirty_bytes && facts.dirty_limit_bytes <= facts.dirty_bytes {
        found.push((Health::Busy, "writers wait for uploads: --dirty-limit is reached".to_owned()));
    }
    found.sort_by_key(|(health, _)| std::cmp::Reverse(*health));
    let worst = found.first().map_or(Health::Ok, |(health, _)| *health);
    (worst, found.into_iter().map(|(_, why)| why).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Facts, Health, judge};

    fn fine() -> Facts<'static> {
        let (disk_free_bytes, disk_total_bytes) = (1 << 40, 1 << 41);
        let dirty_limit_bytes = 1 << 30;
        Facts { dirty_limit_bytes, disk_free_bytes, disk_total_bytes, ..Facts::default() }
    }

    #[test]
    fn the_worst_fact_gives_the_word_and_each_says_why() {
        let failures = ["a.txt: denied".to_owned(), "b.txt: denied".to_owned()];
        let stuck = ["read of a by cat (7)".to_owned()];
        let refused = ["s3/b no longer accepts access key AKIA…".to_owned()];
        for (facts, want, words) in [
            (fine(), Health::Ok, &[][..]),
            (Facts { dirty_bytes: 1 << 30, ..fine() }, Health::Busy, &["--dirty-limit"]),
            (Facts { disk_free_bytes: 255 << 20, ..fine() }, Health::Degraded, &["nearly full"]),
            (
                Facts { disk_free_bytes: 8 << 20, disk_total_bytes: 100 << 20, ..fine() },
                Health::Ok,
                &[],
            ),
            (
                Facts {
                    cache_error: Some((Path::new("/c"), "moved")),
                    disk_free_bytes: 0,
                    ..fine()
                },
                Health::Failing,
                &["state folder /c cannot be used: moved"],
            ),
            (
                Facts { recovery: Some((Path::new("/c"), 2)), ..fine() },
                Health::Degraded,
                &["2 file(s) in recovery/: `quayfs recover --list --cache-dir /c`"],
            ),
            (
                Facts { failures: &failures, errors: 1, ..fine() },
                Health::Failing,
                &["2 uploads or changes failed: a.txt", "the log says why"],
            ),
            (
                Facts { errors: 3, last_error: Some("LIST: SlowDown"), ..fine() },
                Health::Degraded,
                &["LIST: SlowDown"],
            ),
            (Facts { overdue: &stuck, ..fine() }, Health::Degraded, &["read of a by cat (7)"]),
            (
                Facts { overdue: &stuck, refusals: &refused, ..fine() },
                Health::Failing,
                &["no longer accepts", "read of a"],
            ),
            (
                Facts { credentials_left: Some(Duration::ZERO), ..fine() },
                Health::Failing,
                &["have ended"],
            ),
            (Facts { credentials_left: Some(Duration::MAX), ..fine() }, Health::Ok, &[]),
        ] {
            let (health, why) = judge(&facts);
            assert_eq!((health, why.len()), (want, words.len()), "{why:?}");
            for (why, word) in why.iter().zip(words) {
                assert!(why.contains(word), "{why}");
            }
        }
    }
}
