//! Chooses what to drop from the cache; pure.
//!
//! What was used longest ago goes first. A file that was read once counts as many times as long
//! unused as one that was read again: a scan over many files drops the scan, not what is in use;
//! but what was in use long ago goes in the end.

/// How often a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Once, or never yet.
    Once,
    /// Again and again.
    Often,
}

/// Whether someone has the file open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody.
    Idle,
    /// Someone in this process; `newer` stripes of the file were used after this one.
    InUse {
        /// How many.
        newer: usize,
    },
}

/// Something that could be dropped: a file, or a stripe of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// When it was last used, in microseconds.
    pub last_use: u64,
    /// How often its file was read.
    pub habit: Habit,
    /// Whether its file is open.
    pub standing: Standing,
}

/// The stripes of an open file that are never dropped: the one being read and the one being filled.
const STRIPES_KEPT: usize = 2;

/// So much faster does a file age that was read once: a scan must be so many times as large as the
/// cache before it drops what was read again and again until it began.
const ONCE_AGES_TIMES: u64 = 16;

/// The indices of what to drop, in order, to free `need_bytes`, or as much as may be.
pub(crate) fn choose(candidates: &[Candidate], now: u64, need_bytes: u64) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|&at| may_go(candidates[at].standing)).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(age(&candidates[at], now)));
    let mut freed = 0;
    order.retain(|&at| {
        let is_needed = freed < need_bytes;
        freed += candidates[at].disk_bytes;
        is_needed
    });
    order
}

fn may_go(standing: Standing) -> bool {
    match standing {
        Standing::Idle => true,
        Standing::InUse { newer } => STRIPES_KEPT <= newer,
    }
}

fn age(candidate: &Candidate, now: u64) -> u64 {
    let age = now.saturating_sub(candidate.last_use);
    match candidate.habit {
        Habit::Once => age.saturating_mul(ONCE_AGES_TIMES),
        Habit::Often => age,
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Habit, Standing, choose};

    #[test]
    fn the_longest_unused_go_first_and_no_more_than_needed() {
        let at = |last_use| candidate(last_use, Habit::Often, Standing::Idle);
        check(&[at(30), at(10), at(20)], 15, &[1, 2]);
    }

    #[test]
    fn a_scan_does_not_drop_what_is_read_again_and_again() {
        let hot = candidate(50, Habit::Often, Standing::Idle);
        let scanned = candidate(80, Habit::Once, Standing::Idle);
        check(&[hot, scanned], 10, &[1]);
    }

    #[test]
    fn what_was_hot_long_ago_goes_at_last() {
        let once_hot = candidate(1, Habit::Often, Standing::Idle);
        let scanned = candidate(99, Habit::Once, Standing::Idle);
        check(&[once_hot, scanned], 10, &[0]);
    }

    #[test]
    fn the_newest_stripes_of_an_open_file_stay() {
        let stripe = |last_use, newer| candidate(last_use, Habit::Once, Standing::InUse { newer });
        check(&[stripe(1, 2), stripe(2, 1), stripe(3, 0)], 1000, &[0]);
    }

    fn candidate(last_use: u64, habit: Habit, standing: Standing) -> Candidate {
        Candidate { disk_bytes: 10, last_use, habit, standing }
    }

    fn check(candidates: &[Candidate], need_bytes: u64, want: &[usize]) {
        assert_eq!(choose(candidates, 100, need_bytes), want);
    }
}
