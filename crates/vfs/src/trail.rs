//! Decides which small files of a folder to fetch before they are opened, from those that were; pure.
//!
//! What is read in order is opened ahead, too, where all of it is here: that is half of what an open takes.
//!
//! ```text
//!   opened one after the other, in the order of the names ─▶ the next 8, 16, ... 256 after them
//!   many of a folder that is not large, in any order      ─▶ all of it, once
//! ```

use base::{Ino, Name};

/// Names opened in order before those after them are fetched: two files beside one another, such as an
/// index and its data, are no trail.
const STEPS_MIN: u32 = 2;

/// The first window, and the largest: what a round trip of 100 ms needs for 2,500 files a second.
const WINDOW_MIN: usize = 8;
const WINDOW_MAX: usize = 256;

/// The largest window where nothing was missing yet: that many more are kept open than are in use.
const HERE_WINDOW_MAX: usize = 64;

/// A folder with more entries is never fetched as a whole.
const WHOLE_ENTRIES_MAX: usize = 4096;

/// It is fetched as a whole when one in so many of its files was opened, and no less than a few.
const WHOLE_ONE_IN: usize = 64;
const WHOLE_OPENS_MIN: usize = 8;

/// Folders whose files are followed.
const TRAILS_MAX: usize = 64;

/// What to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    Nothing,
    /// The next `files` after the name.
    After(Name, usize),
    /// All of the folder, that after the name first.
    All(Name),
}

/// Whether a file that is opened is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Here,
    Missing,
}

/// How one folder is read.
#[derive(Debug, Default)]
struct Trail {
    // How many opens found their file missing.
    missed: usize,
    // How many opens went on in order.
    steps: u32,
    last: Option<Name>,
    // Up to where files were fetched, and about how many of them were not opened yet.
    until: Option<Name>,
    ahead: usize,
    whole: bool,
}

/// The folders that are read file by file; the one that was last read comes last.
#[derive(Debug, Default)]
pub(crate) struct Trails {
    trails: Vec<(Ino, Trail)>,
}

impl Trails {
    /// The small file `name` was opened, in `folder` of which `entries` are known.
    pub(crate) fn opened(
        &mut self,
        folder: Ino,
        (name, found): (&Name, Found),
        entries: usize,
    ) -> Fetch {
        let trail = match self.trails.iter().position(|(ino, _)| *ino == folder) {
            Some(at) => self.trails.remove(at).1,
            None => Trail::default(),
        };
        if self.trails.len() == TRAILS_MAX {
            self.trails.remove(0);
        }
        self.trails.push((folder, trail));
        let (_, trail) = self.trails.last_mut().expect("just put there");
        trail.opened((name, found), entries)
    }

    /// `files` were found to fetch, the last of them `last`.
    pub(crate) fn fetched(&mut self, folder: Ino, last: &Name, files: usize) {
        if let Some((_, trail)) = self.trails.iter_mut().find(|(ino, _)| *ino == folder) {
            trail.until = Some(last.clone());
            trail.ahead += files;
        }
    }
}

impl Trail {
    fn opened(&mut self, (name, found): (&Name, Found), entries: usize) -> Fetch {
        if self.last.as_ref() == Some(name) {
            return Fetch::Nothing;
        }
        self.missed += usize::from(found == Found::Missing);
        if self.goes_on_at(name) {
            self.steps += 1;
            self.ahead = self.ahead.saturating_sub(1);
        } else {
            (self.steps, self.until, self.ahead) = (0, None, 0);
        }
        self.last = Some(name.clone());
        let many = (entries / WHOLE_ONE_IN).max(WHOLE_OPENS_MIN);
        // Who finds all that he opens misses nothing of it.
        if !self.whole
            && found == Found::Missing
            && many <= self.missed
            && entries <= WHOLE_ENTRIES_MAX
        {
            self.whole = true;
            return Fetch::All(name.clone());
        }
        if self.steps < STEPS_MIN {
            return Fetch::Nothing;
        }
        let doublings = (self.steps - STEPS_MIN).min(WINDOW_MAX.ilog2());
        // What was fetched ahead is here too.
        let window_max = if self.missed == 0 { HERE_WINDOW_MAX } else { WINDOW_MAX };
        let window = (WINDOW_MIN << doublings).min(window_max);
        let room = window.saturating_sub(self.ahead);
        // Several at a time: finding them costs more than one of them does.
        if room * 4 < window {
            return Fetch::Nothing;
        }
        Fetch::After(self.until.clone().unwrap_or_else(|| name.clone()), room)
    }

    /// Whether who opens `name` goes on where he was.
    fn goes_on_at(&self, name: &Name) -> bool {
        let is_after = self.last.as_ref().is_some_and(|last| last < name);
        is_after && self.until.as_ref().is_none_or(|until| name <= until)
    }
}

#[cfg(test)]
mod tests {
    use base::{Ino, Name};

    use super::{Fetch, Found, TRAILS_MAX, Trails, WINDOW_MAX};

    const FOLDER: Ino = Ino(7);
    const LARGE: usize = 100_000;

    fn name(number: usize) -> Name {
        Name::new(format!("f{number:06}").as_bytes()).unwrap()
    }

    /// Opens files of a folder of `entries`; what is asked for comes. How many were fetched ahead, and
    /// whether all of it was asked for.
    fn fetched(entries: usize, opens: impl IntoIterator<Item = usize>) -> (usize, bool) {
        fetched_of(Found::Missing, entries, opens)
    }

    fn fetched_of(
        found: Found,
        entries: usize,
        opens: impl IntoIterator<Item = usize>,
    ) -> (usize, bool) {
        let (mut trails, mut sum, mut until, mut whole) = (Trails::default(), 0, 0, false);
        for number in opens {
            match trails.opened(FOLDER, (&name(number), found), entries) {
                Fetch::Nothing => {}
                Fetch::After(after, files) => {
                    let from = if after == name(number) { number } else { until };
                    until = (from + files).min(entries - 1);
                    sum += until - from;
                    trails.fetched(FOLDER, &name(until), until - from);
                }
                Fetch::All(_) => whole = true,
            }
        }
        (sum, whole)
    }

    #[test]
    fn two_files_beside_one_another_are_no_trail() {
        assert_eq!(fetched(LARGE, [3, 4]), (0, false));
    }

    #[test]
    fn a_folder_read_in_order_is_fetched_ahead_and_not_too_far() {
        assert_eq!(fetched(LARGE, 0..3), (8, false));
        for opens in [10, 100, 1000] {
            let (files, whole) = fetched(LARGE, 0..opens);
            assert!(!whole);
            assert!(opens - 3 <= files, "{files} of {opens} were there before");
            assert!(files <= opens + WINDOW_MAX, "{files} of {opens}");
        }
    }

    #[test]
    fn files_opened_at_random_in_a_large_folder_fetch_next_to_nothing() {
        // A full cycle: each number once, in no order.
        let opens = (0..1000).map(|at| at * 37_619 % LARGE);
        let (files, whole) = fetched(LARGE, opens);
        assert!(!whole);
        assert!(files < 1000 * 4, "{files}");
    }

    #[test]
    fn a_folder_that_is_read_all_over_is_fetched_as_a_whole() {
        assert!(fetched(1000, (0..15).map(|at| at * 619 % 1000)).1);
        assert!(!fetched(1000, (0..7).map(|at| at * 619 % 1000)).1);
    }

    #[test]
    fn a_folder_that_is_here_is_followed_in_order_and_never_fetched_as_a_whole() {
        let (files, whole) = fetched_of(Found::Here, 1000, 0..900);
        assert!(890 <= files && !whole, "{files}");
        let (files, whole) = fetched_of(Found::Here, 1000, (0..900).map(|at| at * 619 % 1000));
        assert!(files < 900 * 4 && !whole, "{files}");
    }

    #[test]
    fn the_window_stays_large_while_what_was_fetched_ahead_is_found() {
        let mut trails = Trails::default();
        let (mut until, mut largest) = (0, 0);
        for number in 0..2000 {
            let found = if number < until { Found::Here } else { Found::Missing };
            if let Fetch::After(after, files) = trails.opened(FOLDER, (&name(number), found), LARGE)
            {
                let from = if after == name(number) { number } else { until };
                until = from + files;
                trails.fetched(FOLDER, &name(until), files);
            }
            largest = largest.max(until - number.min(until));
        }
        assert!(WINDOW_MAX - 8 <= largest, "{largest}");
    }

    #[test]
    fn who_opens_the_same_file_again_and_again_is_on_no_trail() {
        assert_eq!(fetched(1000, [5; 100]), (0, false));
    }

    #[test]
    fn no_more_folders_are_followed_than_are_allowed_to() {
        let mut trails = Trails::default();
        for folder in 0..1000 {
            trails.opened(Ino(folder), (&name(0), Found::Missing), LARGE);
            assert!(trails.trails.len() <= TRAILS_MAX);
        }
        let has = |folder| trails.trails.iter().any(|(ino, _)| *ino == Ino(folder));
        assert!(has(999) && !has(1));
    }
}
