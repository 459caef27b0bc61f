//! The files that are read and written most just now: a bounded table, kept only while somebody looks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Clock, Ino};
use parking_lot::Mutex;

/// Files in the table. When it is full the coldest half of them goes.
const FILES_MAX: usize = 512;

/// Without anybody who asks so long nothing is noted any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is noted of a file, fading with time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Heat {
    pub(crate) read_bytes: f64,
    pub(crate) written_bytes: f64,
    pub(crate) calls: f64,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    /// Until when somebody looks, in microseconds of the clock; looked at by every read and write.
    until_micros: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    // Invariant: at most `FILES_MAX`.
    files: HashMap<Ino, Heat>,
    faded: Duration,
}

impl Heat {
    fn weight(self) -> f64 {
        // A call counts as much as the page that it moves at least.
        self.read_bytes + self.written_bytes + 4096.0 * self.calls
    }

    fn times(self, factor: f64) -> Heat {
        Heat {
            read_bytes: self.read_bytes * factor,
            written_bytes: self.written_bytes * factor,
            calls: self.calls * factor,
        }
    }
}

impl Hot {
    /// A call moved bytes of a file, at the time `now`.
    #[expect(clippy::cast_precision_loss, reason = "heat is no exact figure")]
    pub(crate) fn note(&self, ino: Ino, (read, written): (u64, u64), now: Duration) {
        if self.until_micros.load(Ordering::Relaxed) < micros(now) {
            return;
        }
        let mut table = self.table.lock();
        if table.files.len() == FILES_MAX && !table.files.contains_key(&ino) {
            table.cool();
        }
        let heat = table.files.entry(ino).or_default();
        heat.read_bytes += read as f64;
        heat.written_bytes += written as f64;
        heat.calls += 1.0;
    }

    /// The hottest files, at most `files_max`, in what they moved a second, lately. Whoever asks wants them
    /// to be noted for a while.
    pub(crate) fn hottest(&self, files_max: usize, clock: &dyn Clock) -> Vec<(Ino, Heat)> {
        let now = clock.monotonic();
        let is_new =
            self.until_micros.swap(micros(now + PATIENCE), Ordering::Relaxed) < micros(now);
        let mut table = self.table.lock();
        if is_new {
            *table = Table { faded: now, ..Table::default() };
        }
        table.fade(now);
        let mut hottest: Vec<(Ino, Heat)> =
            table.files.iter().map(|(&ino, &heat)| (ino, heat)).collect();
        hottest.sort_by(|(_, a), (_, b)| b.weight().total_cmp(&a.weight()));
        hottest.truncate(files_max);
        // What keeps its pace is worth twice what it moves a second, since half of all fades each second.
        hottest.into_iter().map(|(ino, heat)| (ino, heat.times(0.5))).collect()
    }
}

impl Table {
    /// Half of what was noted goes with each second.
    fn fade(&mut self, now: Duration) {
        let past = now.saturating_sub(self.faded).as_secs_f64();
        self.faded = now;
        let factor = 0.5_f64.powf(past);
        for heat in self.files.values_mut() {
            *heat = heat.times(factor);
        }
        self.files.retain(|_, heat| 1.0 <= heat.weight());
    }

    fn cool(&mut self) {
        let mut weights: Vec<f64> = self.files.values().map(|heat| heat.weight()).collect();
        let (_, median, _) = weights.select_nth_unstable_by(FILES_MAX / 2, f64::total_cmp);
        let median = *median;
        let mut spare = FILES_MAX / 2;
        self.files.retain(|_, heat| {
            let stays = median <= heat.weight() && 0 < spare;
            spare -= usize::from(stays);
            stays
        });
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{Clock as _, Ino, ManualClock};

    use super::{FILES_MAX, Hot};

    #[test]
    fn nothing_is_noted_unless_somebody_looks() {
        let (hot, clock) = (Hot::default(), ManualClock::default());
        clock.advance(Duration::from_secs(100));
        hot.note(Ino(2), (4096, 0), clock.monotonic());
        assert_eq!(hot.hottest(10, &clock), []);
        hot.note(Ino(2), (4096, 0), clock.monotonic());
        assert_eq!(hot.hottest(10, &clock).len(), 1);
        clock.advance(Duration::from_mins(1));
        hot.note(Ino(2), (4096, 0), clock.monotonic());
        assert_eq!(hot.hottest(10, &clock), []);
    }

    #[test]
    fn the_hottest_come_first_and_the_table_is_bounded() {
        let (hot, clock) = (Hot::default(), ManualClock::default());
        clock.advance(Duration::from_secs(1));
        hot.hottest(1, &clock);
        for n in 0..4 * FILES_MAX as u64 {
            hot.note(Ino(n + 2), (1, 0), clock.monotonic());
            hot.note(Ino(1_000_000), (1 << 20, 0), clock.monotonic());
        }
        let found = hot.hottest(FILES_MAX * 2, &clock);
        assert_eq!(found[0].0, Ino(1_000_000));
        assert!(found.len() <= FILES_MAX, "{}", found.len());
    }

    #[test]
    fn what_was_hot_fades() {
        let (hot, clock) = (Hot::default(), ManualClock::default());
        clock.advance(Duration::from_secs(1));
        hot.hottest(1, &clock);
        hot.note(Ino(2), (1 << 20, 0), clock.monotonic());
        for _ in 0..60 {
            clock.advance(Duration::from_secs(1));
            hot.hottest(1, &clock);
        }
        assert_eq!(hot.hottest(1, &clock), []);
    }
}
