//! Buckets that could not be attached, and why: a program that asks for one is told a number only.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::status::StoreStatus;

/// Buckets that are remembered, those that were asked for last.
const REFUSED_MAX: usize = 64;

/// For so long it is told of a name that is no bucket's: people look at once why it is not there, and programs ask
/// for many that nobody has ever meant.
const ABSENT_TOLD: Duration = Duration::from_mins(1);

/// How long it is told of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Until it is attached.
    Always,
    /// For a while from now on, since there is no such bucket.
    Briefly {
        /// What the clock of the mount says.
        now: Duration,
    },
}

/// The buckets that could not be attached when somebody asked for them last, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    buckets: Mutex<VecDeque<One>>,
}

#[derive(Debug)]
struct One {
    place: String,
    reason: String,
    until: Option<Duration>,
}

impl Refused {
    /// The bucket at `place` cannot be attached.
    pub(crate) fn add(&self, place: String, reason: String, told: Told) {
        let mut buckets = self.buckets.lock();
        buckets.retain(|other| other.place != place);
        if buckets.len() == REFUSED_MAX {
            buckets.pop_front();
        }
        let until = match told {
            Told::Always => None,
            Told::Briefly { now } => Some(now + ABSENT_TOLD),
        };
        buckets.push_back(One { place, reason, until });
    }

    /// It was.
    pub(crate) fn remove(&self, place: &str) {
        self.buckets.lock().retain(|other| other.place != place);
    }

    /// In words, as is told `now`.
    pub(crate) fn stores(&self, now: Duration) -> Vec<StoreStatus> {
        let of = |one: &One| StoreStatus {
            bucket: one.place.clone(),
            refused: Some(one.reason.clone()),
            ..StoreStatus::default()
        };
        let mut buckets = self.buckets.lock();
        buckets.retain(|one| one.until.is_none_or(|until| now < until));
        buckets.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ABSENT_TOLD, REFUSED_MAX, Refused, Told};

    #[test]
    fn the_last_reason_of_each_bucket_is_told_until_it_is_attached_and_of_the_newest_only() {
        let refused = Refused::default();
        let told = || {
            let stores = refused.stores(Duration::ZERO).into_iter();
            stores.map(|store| (store.bucket, store.refused.unwrap())).collect::<Vec<_>>()
        };
        let add = |place: &str, reason: &str| {
            refused.add(place.to_owned(), reason.to_owned(), Told::Always);
        };
        add("s3/a", "denied");
        add("s3/b", "none");
        add("s3/a", "none");
        assert_eq!(told(), ["s3/b", "s3/a"].map(|at| (at.to_owned(), "none".to_owned())));
        refused.remove("s3/b");
        assert_eq!(told().len(), 1);
        for number in 0..REFUSED_MAX {
            add(&format!("s3/c{number}"), "none");
        }
        assert_eq!(told().len(), REFUSED_MAX);
        assert_eq!(told()[0].0, "s3/c0");
    }

    #[test]
    fn of_what_is_no_bucket_is_told_for_a_while() {
        let refused = Refused::default();
        refused.add("s3/denied".to_owned(), "denied".to_owned(), Told::Always);
        let told = Told::Briefly { now: Duration::from_secs(9) };
        refused.add("s3/HEAD".to_owned(), "none".to_owned(), told);
        let told = |now| refused.stores(now).len();
        assert_eq!(told(ABSENT_TOLD), 2);
        assert_eq!(told(ABSENT_TOLD + Duration::from_secs(9)), 1);
        assert_eq!(refused.stores(Duration::ZERO)[0].bucket, "s3/denied");
    }
}
