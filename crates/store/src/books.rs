//! How much may be added to the cache; pure.

use crate::disk::Room;

/// How much of a limit in bytes a process is given ahead, for others not to have to be asked each time: this
/// part, at most so much.
const AHEAD_PART: u64 = 256;
const AHEAD_BYTES_MAX: u64 = 16 << 20;

/// What is written down, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// What clean data takes on the disk, of all processes as far as we know. Reservations are among it.
    pub used: u64,
    /// What may be written before anybody is asked again.
    pub allowance: u64,
    /// What is reserved.
    pub reserved: u64,
    /// What has come and is not recorded.
    pub settled: u64,
    /// What has come since the folder was opened.
    pub come: u64,
}

impl Books {
    /// Reserves `bytes` of what may be written before anybody is asked again, if that is enough.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let left = self.allowance.checked_sub(bytes);
        if let Some(left) = left {
            self.allowance = left;
            self.reserve(bytes);
        }
        left.is_some()
    }

    /// Reserves what may be written.
    pub(crate) fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.used = self.used.saturating_add(bytes);
    }

    /// Bytes are here.
    pub(crate) fn come(&mut self, bytes: u64) {
        self.settled += bytes;
        self.come += bytes;
        self.used = self.used.saturating_add(bytes);
    }

    /// What others do not know of from the database.
    pub(crate) fn unrecorded_bytes(&self) -> u64 {
        self.reserved + self.settled
    }

    /// What has come and is not recorded, as it is now.
    pub(crate) fn unrecorded(&self) -> Unrecorded {
        Unrecorded { settled: self.settled, come: self.come }
    }

    /// As [`Books::unrecorded_bytes`], with all that was recorded after `before`.
    pub(crate) fn unrecorded_since(&self, before: Unrecorded) -> u64 {
        self.reserved + before.settled + (self.come - before.come)
    }

    /// Reserves `bytes` if the limit allows it beside what is held, and something ahead of what is to come.
    pub(crate) fn grant(&mut self, (held_bytes, limit): (u64, u64), bytes: u64) -> Answer {
        if 0 < bytes && self.take(bytes) {
            // Another thread has asked meanwhile.
            return Answer::Granted;
        }
        let ahead_bytes = (limit / AHEAD_PART).min(AHEAD_BYTES_MAX);
        if let Some(left) = limit.checked_sub(held_bytes.saturating_add(bytes)) {
            self.allowance = left.min(ahead_bytes);
            self.reserve(bytes);
            Answer::Granted
        } else {
            self.allowance = self.allowance.min(limit.saturating_sub(held_bytes));
            Answer::Short(held_bytes.saturating_add(bytes) - limit)
        }
    }
}

/// What had come and was not recorded at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unrecorded {
    settled: u64,
    come: u64,
}

/// What came of asking for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is reserved.
    Granted,
    /// So much must go first.
    Short(u64),
}

/// What of the disk stays free, where the cache has `used_bytes` of it.
pub(crate) fn free_to_keep(room: Room, used_bytes: u64, percent: u8) -> u64 {
    let of = |bytes: u64, percent: u64| bytes / 100 * percent.min(100);
    let percent = u64::from(percent);
    let without_us = room.free_bytes.saturating_add(used_bytes);
    of(room.total_bytes, percent).min(of(without_us, 5 * percent))
}

#[cfg(test)]
mod tests {
    use super::{Answer, Books, free_to_keep};
    use crate::disk::Room;

    #[test]
    fn a_share_of_the_disk_is_kept_and_half_of_what_is_free_at_most() {
        let room = |free_bytes| Room { free_bytes, total_bytes: 1000 };
        assert_eq!(free_to_keep(room(900), 0, 10), 100);
        assert_eq!(free_to_keep(room(100), 300, 10), 100, "what the cache has could be free");
        assert_eq!(free_to_keep(room(100), 0, 10), 50);
        assert_eq!(free_to_keep(room(0), 100, 10), 50);
        assert_eq!(free_to_keep(room(500), 0, 0), 0);
    }

    #[test]
    fn what_is_granted_is_within_the_limit_with_what_is_given_ahead() {
        check(Books::default(), (0, 2560), 100, Answer::Granted, (100, 10));
        check(Books::default(), (2455, 2560), 100, Answer::Granted, (100, 5));
        check(Books::default(), (2461, 2560), 100, Answer::Short(1), (0, 0));
        let ahead = || Books { allowance: 120, ..Books::default() };
        check(ahead(), (9999, 2560), 100, Answer::Granted, (100, 20));
        check(ahead(), (2500, 2560), 130, Answer::Short(70), (0, 60));
    }

    #[test]
    fn what_is_recorded_while_somebody_looks_counts_all_the_same() {
        let mut books = Books::default();
        books.come(100);
        let before = books.unrecorded();
        // A file is recorded, and another comes.
        books.settled -= 100;
        books.come(7);
        books.reserve(30);
        assert_eq!(books.unrecorded_bytes(), 37);
        assert_eq!(books.unrecorded_since(before), 137);
    }

    /// What is reserved and what may be written besides after asking for `bytes`.
    fn check(mut books: Books, held: (u64, u64), bytes: u64, want: Answer, books_want: (u64, u64)) {
        assert_eq!(books.grant(held, bytes), want);
        assert_eq!((books.reserved, books.allowance), books_want);
    }
}
