//! Decides what to fetch ahead of a file's readers; pure.
//!
//! A file may be read at several places in turn (an index and its data, columns, pyramid levels),
//! so it has several cursors. A cursor that goes on where it ended is a stream: its window is a
//! multiple of what it has read so far, so that it grows with every window consumed and a short
//! look at a file fetches little. Where streams have lately ended soon, no more is fetched ahead of the next
//! one than it takes to be as long, until it is much longer.

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
    /// What is fetched is a multiple of this.
    pub(crate) granule_bytes: u64,
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
pub(crate) const WINDOW_PER_RUN: u64 = 4;

/// The kernel reads ahead in several requests that arrive in any order; those of an established
/// stream are within this distance of each other.
const REORDER_BYTES: u64 = 4 << 20;

/// A begun stream may leave out this much: a header skipped is still a stream.
const GAP_BYTES: u64 = 128 << 10;

/// Where streams are at most this long on average, they are looks here and there: so much the kernel reads around each
/// page of a mapped file that somebody touches.
const SHORT_RUN_BYTES: u64 = 4 << 20;

/// Fewer streams that ended say nothing of the next.
const RUNS_MIN: u32 = 4;

/// Whether what was read was here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Here,
    Missing,
}

/// What a read is to the streams through its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It goes on with one, for which this is to be fetched ahead.
    Stream(Option<Ahead>),
    /// It is where one has been: it comes late, or somebody goes backwards.
    Behind,
    /// It goes on with none.
    None,
}

/// How long streams were that ended, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    /// Up to a few.
    count: u32,
    mean_bytes: u64,
}

impl Runs {
    fn learn(&mut self, run_bytes: u64) {
        self.mean_bytes =
            if self.count == 0 { run_bytes } else { (3 * self.mean_bytes + run_bytes) / 4 };
        self.count = RUNS_MIN.min(self.count + 1);
    }

    /// How many bytes a stream of `run_bytes` may be expected to have before it; `None` if nobody can tell.
    fn left_bytes(&self, run_bytes: u64) -> Option<u64> {
        let are_short = self.count == RUNS_MIN && self.mean_bytes <= SHORT_RUN_BYTES;
        let is_one_of_them = are_short && run_bytes < 2 * self.mean_bytes;
        is_one_of_them.then(|| self.mean_bytes.saturating_sub(run_bytes))
    }
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Where the stream began.
    from: u64,
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

    /// Whether all that was read is read once more from where that began, and has gone meanwhile. What only
    /// comes late was not read yet.
    fn begins_again_by(&self, (read, found): (ByteRange, Found)) -> bool {
        let all_bytes = self.next - self.from;
        found == Found::Missing && read.start() == self.from && all_bytes <= self.run_bytes
    }
}

/// The streams through one file.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    streams: Vec<Cursor>,
    runs: Runs,
    reads: u64,
}

impl Cursors {
    /// Accounts for one read of a file of `size` bytes.
    pub(crate) fn on_read(
        &mut self,
        (read, found): (ByteRange, Found),
        size: u64,
        limits: Limits,
    ) -> Follows {
        assert!(limits.window_bytes_min <= limits.window_bytes_max);
        assert!(limits.piece_bytes_min <= limits.piece_bytes_max);
        self.reads += 1;
        let now = self.reads;
        let is_again = |cursor: &Cursor| cursor.begins_again_by((read, found));
        let taken = self.streams.iter_mut().find(|cursor| cursor.takes(read));
        let Some(cursor) = taken.filter(|cursor| !is_again(cursor)) else {
            // Who read last went elsewhere.
            let last = self.streams.iter().find(|cursor| cursor.moved_at + 1 == now);
            if let Some(last) = last {
                self.runs.learn(last.run_bytes);
            }
            self.streams.retain(|cursor| !is_again(cursor));
            self.begin(read);
            return Follows::None;
        };
        cursor.moved_at = now;
        cursor.reads += 1;
        cursor.run_bytes += read.len();
        if read.end() <= cursor.next {
            return Follows::Behind;
        }
        cursor.next = read.end();
        cursor.ahead = cursor.ahead.max(cursor.next);
        Follows::Stream(match self.runs.left_bytes(cursor.run_bytes) {
            Some(0) => None,
            Some(left_bytes) => go_to_the_end(cursor, left_bytes, size, limits),
            None => advance(cursor, size, limits),
        })
    }

    fn begin(&mut self, read: ByteRange) {
        if self.streams.len() == CURSORS_MAX {
            let oldest = (0..CURSORS_MAX).min_by_key(|&i| self.streams[i].moved_at);
            self.streams.swap_remove(oldest.expect("there are cursors"));
        }
        let next = read.end();
        self.streams.push(Cursor {
            from: read.start(),
            next,
            run_bytes: read.len(),
            reads: 1,
            ahead: next,
            moved_at: self.reads,
        });
    }
}

/// Of what is short all that is left, in one request.
fn go_to_the_end(cursor: &mut Cursor, left_bytes: u64, size: u64, limits: Limits) -> Option<Ahead> {
    let end = (cursor.next + left_bytes).next_multiple_of(limits.granule_bytes).min(size);
    let range = ByteRange::new(cursor.ahead, end)?;
    cursor.ahead = end;
    Some(Ahead { range, piece_bytes: limits.piece_bytes_min })
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

    use super::{Ahead, Cursors, Follows, Found, Limits};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const LIMITS: Limits = Limits {
        window_bytes_min: 512 * KIB,
        window_bytes_max: 64 * MIB,
        piece_bytes_min: MIB,
        piece_bytes_max: 8 * MIB,
        granule_bytes: 128 * KIB,
    };

    fn ahead(cursors: &mut Cursors, read: ByteRange, size: u64) -> Option<Ahead> {
        match cursors.on_read((read, Found::Missing), size, LIMITS) {
            Follows::Stream(ahead) => ahead,
            Follows::Behind | Follows::None => None,
        }
    }

    /// Feeds reads of `(offset, len)` and returns how many bytes were asked for ahead.
    fn ahead_bytes(size: u64, reads: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let mut cursors = Cursors::default();
        reads
            .into_iter()
            .filter_map(|(offset, len)| {
                ahead(&mut cursors, ByteRange::at(offset, len).unwrap(), size)
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
    fn short_looks_fetch_nothing_ahead_and_a_stream_after_them_does() {
        let look = |at: u64| [(at, 4 * KIB), (at + 4 * KIB, 92 * KIB), (at + 96 * KIB, 4 * KIB)];
        let looks = (0..50_u64).flat_map(|i| look((i * 7_919_123) % (900 * MIB)));
        assert!(ahead_bytes(1 << 30, looks.clone()) <= 8 * MIB, "before it is known");
        let stream = (0..256).map(|i| (950 * MIB + i * 128 * KIB, 128 * KIB));
        assert!(64 * MIB <= ahead_bytes(1 << 30, looks.chain(stream)));
    }

    #[test]
    fn records_of_one_length_are_fetched_to_their_end() {
        let record = |at: u64| (0..8).map(move |i| (at + i * 64 * KIB, 64 * KIB));
        let records = (0..100_u64).flat_map(|i| record((i * 97 * MIB) % (900 * MIB)));
        let ahead = ahead_bytes(1 << 30, records);
        assert!((30 * MIB..=55 * MIB).contains(&ahead), "{ahead} ahead of 50 MiB that are read");
    }

    #[test]
    fn what_the_kernel_reads_around_a_mapped_page_is_no_stream() {
        let around = |at: u64| (0..16).map(move |i| (at + i * 256 * KIB, 256 * KIB));
        let touched = (0..50_u64).flat_map(|i| around((i * 97 * MIB) % (900 * MIB)));
        let ahead = ahead_bytes(1 << 30, touched);
        assert!(ahead <= 50 * 4 * MIB + 4 * 16 * MIB, "{ahead} ahead of 200 MiB that are read");
    }

    #[test]
    fn long_runs_here_and_there_are_streams() {
        let run = |at: u64| (0..64).map(move |i| (at + i * 128 * KIB, 128 * KIB));
        let runs = (0..20_u64).flat_map(|i| run((i * 97 * MIB) % (900 * MIB)));
        assert!(20 * 4 * MIB <= ahead_bytes(1 << 30, runs));
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
                    if let Some(ahead) = ahead(&mut cursors, read, size) {
                        prop_assert!(ahead.range.end() <= size);
                        prop_assert!(previous.is_none_or(|end| end <= ahead.range.start()));
                        previous = Some(ahead.range.end());
                    }
                }
            }
        }
    }
}
