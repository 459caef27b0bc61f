//! What a bucket's store can do: remembered from earlier mounts, learnt from its answers, told to people.

use std::sync::Arc;

use base::Clock;
use remote::{Capability, Has, Learned};
use store::{Facts, Store};

use crate::config::Config;
use crate::status::StoreStatus;

/// What is known of one bucket's store, and where that is remembered.
#[derive(Debug)]
pub(crate) struct Knowledge {
    facts: Facts,
    learned: Arc<Learned>,
    clock: Arc<dyn Clock>,
}

/// Without these a write is not safe from others that are made in the same moment.
const CONDITIONS: [Capability; 4] = [
    Capability::PutIfAbsent,
    Capability::PutIfMatch,
    Capability::CompleteIfAbsent,
    Capability::CompleteIfMatch,
];

impl Knowledge {
    /// What `store` remembers of the bucket of `config`; from now on more is learnt in `learned`.
    pub(crate) fn recall(
        store: &Store,
        config: &Config,
        learned: Arc<Learned>,
        clock: &Arc<dyn Clock>,
    ) -> Knowledge {
        let (facts, clock) = (store.facts(&config.bucket()), Arc::clone(clock));
        match facts.believed(clock.as_ref()) {
            Ok(believed) => recall(&learned, &believed),
            // It is asked again then.
            Err(error) => tracing::warn!(%error, "what the store can do is not remembered"),
        }
        Knowledge { facts, learned, clock }
    }

    /// What has shown of the store.
    pub(crate) fn learned(&self) -> &Arc<Learned> {
        &self.learned
    }

    /// Remembers what is known now.
    pub(crate) fn keep(&self) {
        let known = self.learned.known();
        let facts: Vec<_> =
            known.iter().map(|(capability, has)| (capability.name(), *has == Has::Yes)).collect();
        if let Err(error) = self.facts.note(&facts, self.clock.as_ref()) {
            tracing::warn!(%error, "what the store can do is not remembered");
        }
    }

    /// Whether the store lets nobody's object be replaced by mistake.
    pub(crate) fn keeps_conditions(&self) -> bool {
        keeps_conditions(&self.learned)
    }
}

/// Whether no condition is known to be neglected.
pub(crate) fn keeps_conditions(learned: &Learned) -> bool {
    !CONDITIONS.iter().any(|&condition| learned.lacks(condition))
}

/// What is told of the store of the bucket `bucket`.
pub(crate) fn status(bucket: &str, learned: &Learned) -> StoreStatus {
    let known = learned.known();
    let of = |wanted| {
        let names = known.iter().filter(move |(_, has)| *has == wanted);
        names.map(|(capability, _)| capability.name().to_owned()).collect()
    };
    let (has, lacks) = (of(Has::Yes), of(Has::No));
    StoreStatus { bucket: bucket.to_owned(), has, lacks, ..StoreStatus::default() }
}

/// Only what nobody has learnt yet: a service that is the same everywhere has not to be remembered.
fn recall(learned: &Learned, believed: &[(String, bool)]) {
    for capability in Capability::ALL {
        let fact = believed.iter().find(|(name, _)| name == capability.name());
        if let (Some((_, is_so)), None) = (fact, learned.has(capability)) {
            learned.learn(capability, if *is_so { Has::Yes } else { Has::No });
        }
    }
}

#[cfg(test)]
mod tests {
    use remote::{Capability, Has, Learned};

    use super::{keeps_conditions, recall, status};

    #[test]
    fn what_is_remembered_is_known_unless_it_is_known_better() {
        let learned = Learned::default();
        learned.learn(Capability::PartCopy, Has::No);
        let believed = [("part-copy", true), ("put-if-match", false), ("of-a-newer-program", true)];
        recall(&learned, &believed.map(|(name, is_so)| (name.to_owned(), is_so)));
        let want = [(Capability::PutIfMatch, Has::No), (Capability::PartCopy, Has::No)];
        assert_eq!(learned.known(), want);
        assert!(!keeps_conditions(&learned));
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let learned = Learned::default();
        learned.learn(Capability::PartCopy, Has::No);
        learned.learn(Capability::SortedLists, Has::Yes);
        let told = status("s3/b", &learned);
        assert_eq!(
            (told.has, told.lacks),
            (vec!["sorted-lists".to_owned()], vec!["part-copy".to_owned()])
        );
        assert!(keeps_conditions(&learned));
    }
}
