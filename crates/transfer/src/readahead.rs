//! Decides what to fetch ahead of a file's readers; pure.
//!
//! A file may be read at several places in turn (an index and its data, columns, pyramid levels),
//! so it has several cursors. A cursor that goes on where it ended is a stream: its window is a
//! multiple of what it has read so far, so that it grows with every window consumed and a short
//! look at a file fetches little.

use base::ByteRange;

/// Within what windows grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The window of a stream that has just begun.
    pub(crate) window_bytes_min: u64,
    /// The largest window: what bandwidth times latency needs, within the memory for it.
    pub(crate) window_bytes_max: u64,
    /// The smallest request that fetches ahead.
    pub(crate) piece_bytes_min: u64,
    /// The largest request that fetches ahead.
    pub(crate) piece_bytes_max: u64,
}

/// What to fetch ahead, in requests of how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) range: ByteRange,
    pub(crate) piece_bytes: u64,
}

/// More streams through one file than any tool we know has.
const CURSORS_MAX: usize = 8;

/// The window is this many times what the stream has read: a stream that stalls on the network
/// reaches any window in a few round trips.
const WINDOW_PER_RUN: u64 = 4;

/// The kernel reads ahead in several requests that arrive in any order; those of an established
/// stream are within this distance of each other.
const REORDER_BYTES: u64 = 4 << 20;

/// A begun stream may leave out this much: a header skipped is still a stream.
const GAP_BYTES: u64 = 128 << 10;

#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Where the stream goes on.
    next: u64,
    /// What it has read in a row.
    run_bytes: u64,
    /// How many reads that were.
    reads: u64,
    /// Up to where fetching has been asked for.
    ahead: u64,
    /// When it last moved, in reads of the file.
    moved_at: u64,
}

impl Cursor {
    fn takes(&self, read: ByteRange) -> bool {
        let (back, forth) =
            if 2 <= self.reads { (REORDER_BYTES, REORDER_BYTES) } else { (0, GAP_BYTES) };
        self.next.saturating_sub(back) <= read.start() && read.start() <= self.next + forth
    }
}

/// The streams through one file.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    cursors: Vec<Cursor>,
    reads: u64,
}

impl Cursors {
    /// Accounts for one read of a file of `size` bytes; returns what to fetch ahead, if anything.
    pub(crate) fn on_read(&mut self, read: ByteRange, size: u64, limits: Limits) -> Option<Ahead> {
        assert!(limits.window_bytes_min <= limits.window_bytes_max);
        assert!(limits.piece_bytes_min <= limits.piece_bytes_max);
        self.reads += 1;
        let now = self.reads;
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.takes(read)) else {
            self.begin(read);
            return None;
        };
        cursor.moved_at = now;
        cursor.reads += 1;
        cursor.run_bytes += read.len();
        cursor.next = cursor.next.max(read.end());
        cursor.ahead = cursor.ahead.max(cursor.next);
        advance(cursor, size, limits)
    }

    fn begin(&mut self, read: ByteRange) {
        if self.cursors.len() == CURSORS_MAX {
            let oldest = (0..CURSORS_MAX).min_by_key(|&i| self.cursors[i].moved_at);
            self.cursors.swap_remove(oldest.expect("there are cursors"));
        }
        let next = read.end();
        self.cursors.push(Cursor {
            next,
            run_bytes: read.len(),
            reads: 1,
            ahead: next,
            moved_at: self.reads,
        });
    }
}

fn advance(cursor: &mut Cursor, size: u64, limits: Limits) -> Option<Ahead> {
    let window =
        (cursor.run_bytes * WINDOW_PER_RUN).clamp(limits.window_bytes_min, limits.window_bytes_max);
    let piece_bytes =
        (window / 8).next_power_of_two().clamp(limits.piece_bytes_min, limits.piece_bytes_max);
    let target = cursor.next + window;
    // Whole pieces only, so that a steady reader causes few and large requests.
    let end = if size <= target { size } else { target - target % piece_bytes };
    let range = ByteRange::new(cursor.ahead, end)?;
    cursor.ahead = end;
    Some(Ahead { range, piece_bytes })
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use proptest::prelude::{prop_assert, proptest};

    use super::{Cursors, Limits};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const LIMITS: Limits = Limits {
        window_bytes_min: 512 * KIB,
        window_bytes_max: 64 * MIB,
        piece_bytes_min: MIB,
        piece_bytes_max: 8 * MIB,
    };

    /// Feeds reads of `(offset, len)` and returns how many bytes were asked for ahead.
    fn ahead_bytes(size: u64, reads: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let mut cursors = Cursors::default();
        reads
            .into_iter()
            .filter_map(|(offset, len)| {
                cursors.on_read(ByteRange::at(offset, len).unwrap(), size, LIMITS)
            })
            .map(|ahead| ahead.range.len())
            .sum()
    }

    #[test]
    fn random_reads_fetch_nothing_ahead() {
        let reads = (0..500_u64).map(|i| ((i * 7_919_123) % (900 * MIB), 4 * KIB));
        assert_eq!(ahead_bytes(1 << 30, reads), 0);
    }

    #[test]
    fn a_short_look_fetches_little_and_a_stream_gets_the_largest_window() {
        let look = (0..2).map(|i| (i * 128 * KIB, 128 * KIB));
        assert!(ahead_bytes(1 << 30, look) <= 2 * MIB);

        let stream = (0..256).map(|i| (i * 128 * KIB, 128 * KIB));
        let ahead = ahead_bytes(1 << 30, stream);
        assert!((88 * MIB..=96 * MIB).contains(&ahead), "{ahead}");
    }

    #[test]
    fn interleaved_streams_each_have_a_window() {
        let reads = (0..64)
            .flat_map(|i| [(i * 128 * KIB, 128 * KIB), (512 * MIB + i * 128 * KIB, 128 * KIB)]);
        assert!(2 * 24 * MIB <= ahead_bytes(1 << 30, reads));
    }

    #[test]
    fn the_kernels_reordered_reads_are_one_stream() {
        let reads = (0..64).flat_map(|i| {
            [(2 * i + 1, 128 * KIB), (2 * i, 128 * KIB)].map(|(n, len)| (n * 128 * KIB, len))
        });
        let begin = [(0, 128 * KIB), (128 * KIB, 128 * KIB)];
        assert!(32 * MIB <= ahead_bytes(1 << 30, begin.into_iter().chain(reads)));
    }

    proptest! {
        #[test]
        fn never_beyond_the_end_and_never_twice(
            size in 1..(200 * MIB),
            reads in proptest::collection::vec((0..(200 * MIB), 1..MIB), 1..50),
        ) {
            let mut cursors = Cursors::default();
            for (offset, len) in reads {
                let Some(read) = ByteRange::at(offset, len).and_then(|read| read.below(size)) else {
                    continue;
                };
                let mut previous = None;
                for _ in 0..3 {
                    if let Some(ahead) = cursors.on_read(read, size, LIMITS) {
                        prop_assert!(ahead.range.end() <= size);
                        prop_assert!(previous.is_none_or(|end| end <= ahead.range.start()));
                        previous = Some(ahead.range.end());
                    }
                }
            }
        }
    }
}
