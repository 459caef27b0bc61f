//! As whom the store is asked.

use std::time::Duration;

use base::{Clock, SystemClock};
use remote::Identity;

use super::finding::Finding;
use crate::assemble;
use crate::config::Config;
use crate::location::Location;

const SUBJECT: &str = "credentials";

/// How long whoever gives credentials may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Credentials that nobody renews should last longer.
const LEFT_SECONDS_GOOD: i64 = 600;

pub(super) async fn look(config: &Config) -> Finding {
    if matches!(config.location, Location::Folder(_) | Location::All) {
        return Finding::ok(SUBJECT, "none are needed");
    }
    let clock = SystemClock::new();
    let identity = tokio::select! {
        identity = assemble::identity(config) => identity,
        () = clock.sleep(PATIENCE) => {
            let advice = "check the profile, the web identity or the machine's metadata service";
            return Finding::fail(SUBJECT, "who should give them does not answer", advice);
        }
    };
    match identity {
        Ok(Some(identity)) => judged(&identity, clock.wall().secs),
        Ok(None) => Finding::fail(
            SUBJECT,
            "none were found, or they cannot be had",
            "log in with the tools of the cloud, or name a profile or a key as for its own tools; a public bucket \
             needs --anonymous",
        ),
        Err(error) => Finding::fail(SUBJECT, error.to_string(), "put these right first"),
    }
}

/// Never a secret: names are shortened.
fn judged(Identity { kind, name, expires }: &Identity, now_secs: i64) -> Finding {
    let seen = format!("{kind} {name}");
    let seen = seen.trim_end();
    let Some(end) = expires else { return Finding::ok(SUBJECT, seen) };
    let left_seconds = end.secs - now_secs;
    if left_seconds <= 0 {
        return Finding::fail(SUBJECT, format!("{seen}, which have ended"), "log in again");
    }
    let seen = format!("{seen}, for {} more minutes", left_seconds / 60);
    if left_seconds < LEFT_SECONDS_GOOD {
        return Finding::warn(SUBJECT, seen, "log in again, if nobody renews them");
    }
    Finding::ok(SUBJECT, seen)
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use remote::Identity;

    use super::judged;
    use crate::doctor::Verdict;

    #[test]
    fn what_ends_soon_is_said_to() {
        for (end_secs, verdict, words) in [
            (None, Verdict::Ok, "access key AKIA…MPLE"),
            (Some(7300), Verdict::Ok, "for 105 more minutes"),
            (Some(1300), Verdict::Warn, "for 5 more minutes"),
            (Some(1000), Verdict::Fail, "have ended"),
        ] {
            let expires = end_secs.map(|secs| Timestamp { secs, nanos: 0 });
            let identity = Identity { kind: "access key", name: "AKIA…MPLE".to_owned(), expires };
            let found = judged(&identity, 1000);
            assert_eq!(found.verdict, verdict, "{}", found.seen);
            assert!(found.seen.contains(words), "{}", found.seen);
        }
    }
}
