//! Buckets that could not be attached, and why: a program that asks for one is told a number only.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::status::StoreStatus;

/// Buckets that are remembered, those that were asked for last.
const REFUSED_MAX: usize = 64;

/// The buckets that could not be attached when somebody asked for them last, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    buckets: Mutex<VecDeque<(String, String)>>,
}

impl Refused {
    /// The bucket at `place` cannot be attached.
    pub(crate) fn add(&self, place: String, reason: String) {
        let mut buckets = self.buckets.lock();
        buckets.retain(|(other, _)| *other != place);
        if buckets.len() == REFUSED_MAX {
            buckets.pop_front();
        }
        buckets.push_back((place, reason));
    }

    /// It was.
    pub(crate) fn remove(&self, place: &str) {
        self.buckets.lock().retain(|(other, _)| other != place);
    }

    /// In words.
    pub(crate) fn stores(&self) -> Vec<StoreStatus> {
        let of = |(bucket, reason): &(String, String)| StoreStatus {
            bucket: bucket.clone(),
            refused: Some(reason.clone()),
            ..StoreStatus::default()
        };
        self.buckets.lock().iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{REFUSED_MAX, Refused};

    #[test]
    fn the_last_reason_of_each_bucket_is_told_until_it_is_attached_and_of_the_newest_only() {
        let refused = Refused::default();
        let told = || {
            let stores = refused.stores().into_iter();
            stores.map(|store| (store.bucket, store.refused.unwrap())).collect::<Vec<_>>()
        };
        refused.add("s3/a".to_owned(), "denied".to_owned());
        refused.add("s3/b".to_owned(), "none".to_owned());
        refused.add("s3/a".to_owned(), "none".to_owned());
        assert_eq!(told(), ["s3/b", "s3/a"].map(|at| (at.to_owned(), "none".to_owned())));
        refused.remove("s3/b");
        assert_eq!(told().len(), 1);
        for number in 0..REFUSED_MAX {
            refused.add(format!("s3/c{number}"), "none".to_owned());
        }
        assert_eq!(told().len(), REFUSED_MAX);
        assert_eq!(told()[0].0, "s3/c0");
    }
}
