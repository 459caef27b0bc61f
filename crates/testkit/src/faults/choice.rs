//! Which request meets with which fault; pure.

use std::time::Duration;

/// What a store, or a network before it, does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 500, and nothing was done.
    ServerError,
    /// 503 `SlowDown`, and nothing was done.
    SlowDown,
    /// The connection is reset while the request is sent, so that nothing was done.
    ResetBefore,
    /// The store did it, and the connection is reset before a byte of its answer.
    ResetAfter,
    /// The store did it, and the connection ends in the middle of its answer.
    Truncated,
    /// Nothing happens for a while, and then everything as it should.
    Stall,
    /// A page for people with status 200, of something that is no store; nothing was done.
    Page,
    /// The store did it, and the answer is such a page, with status 200.
    PageAfter,
    /// Such a page with status 500; nothing was done.
    ErrorPage,
    /// Status 200 and an error in the body, as S3 answers what takes it long, and nothing was done;
    /// for other requests a [`Fault::ServerError`].
    ErrorWithin,
    /// 403, as S3 answers who reads or copies what is in an archive; nothing was done, and repeating
    /// does not help. Comes only where it is asked for.
    Archived,
    /// 501, as a store answers that does not know what is asked; nothing was done. Comes only where it is
    /// asked for.
    Unknown,
}

impl Fault {
    /// All that pass.
    pub const ALL: [Fault; 10] = [
        Fault::ServerError,
        Fault::SlowDown,
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::Truncated,
        Fault::Stall,
        Fault::Page,
        Fault::PageAfter,
        Fault::ErrorPage,
        Fault::ErrorWithin,
    ];
}

/// How often things go wrong, and how.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The same seed gives the same fault to the same number of a request.
    pub seed: u64,
    /// Of a thousand requests.
    pub share_per_mille: u64,
    /// One of these each time, all alike.
    pub faults: Vec<Fault>,
    /// How long a stall is.
    pub stall: Duration,
    /// How many stalls there are; what would be another one is none.
    pub stalls_max: u64,
}

impl Weather {
    /// Nothing goes wrong but what is asked for.
    pub fn calm() -> Weather {
        let stall = Duration::from_secs(10);
        Weather { seed: 0, share_per_mille: 0, faults: Vec::new(), stall, stalls_max: 1 }
    }

    /// One request in twenty meets with a fault of any kind.
    pub fn rough(seed: u64) -> Weather {
        let (share_per_mille, faults) = (50, Fault::ALL.to_vec());
        Weather { seed, share_per_mille, faults, ..Weather::calm() }
    }

    /// What happens to request number `number`.
    pub(super) fn fault(&self, number: u64) -> Option<Fault> {
        let drawn = mixed(self.seed, number);
        if self.faults.is_empty() || self.share_per_mille <= drawn % 1000 {
            return None;
        }
        let count = u64::try_from(self.faults.len()).expect("a few");
        let chosen = usize::try_from(drawn / 1000 % count).expect("below the length");
        Some(self.faults[chosen])
    }
}

/// A number that looks drawn, the same for the same two.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut word = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Fault, Weather};

    #[test]
    fn one_request_in_twenty_meets_with_a_fault_and_every_kind_comes() {
        for seed in 0..5 {
            let weather = Weather::rough(seed);
            let faults: Vec<Fault> = (0..20_000).filter_map(|n| weather.fault(n)).collect();
            assert!((800..1200).contains(&faults.len()), "{}", faults.len());
            let kinds: BTreeSet<Fault> = faults.into_iter().collect();
            assert_eq!(kinds.len(), Fault::ALL.len());
        }
    }

    #[test]
    fn nothing_goes_wrong_in_calm_weather() {
        assert!((0..20_000).all(|number| Weather::calm().fault(number).is_none()));
    }
}
