//! Stores that accepted the credentials of a mount once and do not accept them any more: every call fails with `EACCES`,
//! and neither the number nor the store's words name the credentials.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Clock;
use remote::{Identity, Refusal, Trouble};

use crate::volumes::Volumes;

/// How often the stores are looked at.
const DELAY: Duration = Duration::from_secs(1);

/// A store that does not accept the credentials any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Its bucket, such as `s3/bucket`.
    place: String,
    /// The text for users.
    pub(crate) text: String,
}

/// All of them.
pub(crate) async fn all(volumes: &Volumes) -> Vec<Refused> {
    let mut found = Vec::new();
    for volume in volumes.all() {
        let Some(refusal) = volume.traffic.refusal() else { continue };
        let identity = match &volume.cloud {
            Some(cloud) => cloud.identity().await,
            None => None,
        };
        let place = volume.place.clone();
        found.push(Refused { text: told(&place, &refusal, identity.as_ref()), place });
    }
    found
}

/// Logs each store that begins to refuse the credentials, or accepts them again, until the volumes are gone.
pub(crate) async fn log(volumes: Weak<Volumes>, clock: Arc<dyn Clock>) {
    let mut known = BTreeSet::new();
    while let Some(volumes) = volumes.upgrade() {
        let refused = all(&volumes).await;
        drop(volumes);
        let now: BTreeSet<String> = refused.iter().map(|refused| refused.place.clone()).collect();
        for Refused { text, .. } in refused.iter().filter(|one| !known.contains(&one.place)) {
            tracing::error!("{text}");
        }
        for place in known.difference(&now) {
            tracing::info!(bucket = place, "the credentials are accepted again");
        }
        known = now;
        clock.sleep(DELAY).await;
    }
}

/// `s3/bucket no longer accepts access key AKIA…MPLE: InvalidAccessKeyId: …`.
fn told(place: &str, refusal: &Refusal, identity: Option<&Identity>) -> String {
    let Refusal { trouble, text } = refusal;
    if *trouble == Trouble::NoCredentials {
        return format!("there are no credentials for {place} any more: {text}");
    }
    let who = match identity {
        Some(Identity { kind, name, .. }) if !name.is_empty() => format!("{kind} {name}"),
        Some(_) | None => "these credentials".to_owned(),
    };
    format!("{place} no longer accepts {who}: {text}")
}

#[cfg(test)]
mod tests {
    use remote::{Identity, Refusal, Trouble};

    use super::told;

    #[test]
    fn refusal_names_the_credentials() {
        let refusal = |trouble| Refusal { trouble, text: "Code: words".to_owned() };
        let name = "AKIA…MPLE".to_owned();
        let key = Identity { kind: "access key", name, expires: None };
        for (trouble, identity, want) in [
            (
                Trouble::BadCredentials,
                Some(&key),
                "s3/b no longer accepts access key AKIA…MPLE: Code: words",
            ),
            (
                Trouble::BadCredentials,
                None,
                "s3/b no longer accepts these credentials: Code: words",
            ),
            (
                Trouble::NoCredentials,
                None,
                "there are no credentials for s3/b any more: Code: words",
            ),
        ] {
            assert_eq!(told("s3/b", &refusal(trouble), identity), want);
        }
    }
}
