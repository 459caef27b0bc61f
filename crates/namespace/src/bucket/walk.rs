//! Whether somebody walks over folders, so that one request may tell of many of them. Pure.
//!
//! A page of all keys from a folder on, folded nowhere, tells of that folder and of the ones that
//! follow it in key order, as far as it goes: in a tree of small folders it saves dozens of
//! listings. It is a bet on who lists one folder after another, and costs one request where the
//! folder is larger than the page. Each bet lost in a row doubles the number of folders that are
//! listed without one.

use std::collections::VecDeque;
use std::time::Duration;

use remote::Key;

/// How many folders listed lately are remembered: several may walk at the same time.
const LISTED_MAX: usize = 8;

/// How many listings at most a lost bet keeps others from being made.
const PAUSE_MAX: u32 = 64;

/// How a folder is to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// By its own pages.
    Alone,
    /// With those that follow it, if it fits in one page.
    WithFollowing,
}

/// Which folders were listed lately, and how bets went.
#[derive(Debug)]
pub(super) struct Walk {
    listed: VecDeque<(Key, Duration)>,
    /// How many listings the next lost bet keeps others from being made.
    price: u32,
    /// How many listings are to be made without a bet.
    pause: u32,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk { listed: VecDeque::with_capacity(LISTED_MAX), price: 1, pause: 0 }
    }
}

impl Walk {
    /// How to list `folder` at `now`, if listings within `soon` belong together.
    pub(super) fn list(&mut self, folder: &Key, now: Duration, soon: Duration) -> How {
        let mut lately = self.listed.iter().filter(|(_, at)| now < *at + soon);
        let walks = lately.any(|(other, _)| other < folder);
        self.remember(folder, now);
        if !walks {
            return How::Alone;
        }
        if 0 < self.pause {
            self.pause -= 1;
            return How::Alone;
        }
        How::WithFollowing
    }

    /// `folder` was listed without a request.
    pub(super) fn answered(&mut self, folder: &Key, now: Duration) {
        self.remember(folder, now);
    }

    /// A bet was won: the folder fitted in the page.
    pub(super) fn won(&mut self) {
        self.price = 1;
    }

    /// A bet was lost.
    pub(super) fn lost(&mut self) {
        self.pause = self.price;
        self.price = (self.price * 2).min(PAUSE_MAX);
    }

    fn remember(&mut self, folder: &Key, now: Duration) {
        self.listed.retain(|(other, _)| other != folder);
        if self.listed.len() == LISTED_MAX {
            self.listed.pop_front();
        }
        self.listed.push_back((folder.clone(), now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use remote::Key;

    use super::{How, PAUSE_MAX, Walk};

    const SOON: Duration = Duration::from_secs(1);

    fn list(walk: &mut Walk, folder: &str, at_ms: u64) -> How {
        walk.list(&Key::from(folder), Duration::from_millis(at_ms), SOON)
    }

    #[test]
    fn the_second_folder_soon_after_one_before_it_begins_a_walk() {
        let mut walk = Walk::default();
        assert_eq!(list(&mut walk, "b/", 0), How::Alone);
        assert_eq!(list(&mut walk, "b/", 10), How::Alone, "the same folder again");
        assert_eq!(list(&mut walk, "a/", 20), How::Alone, "backwards a page is of no use");
        assert_eq!(list(&mut walk, "b/c/", 30), How::WithFollowing);
        assert_eq!(list(&mut walk, "c/", 1500), How::Alone, "too late to belong together");
        walk.answered(&Key::from("d/"), Duration::from_secs(3));
        assert_eq!(list(&mut walk, "e/", 3100), How::WithFollowing, "what cost nothing counts");
    }

    #[test]
    fn lost_bets_are_made_more_and_more_seldom() {
        let mut walk = Walk::default();
        let mut bets = 0;
        for folder in 0..1000 {
            if list(&mut walk, &format!("{folder:04}/"), folder) == How::WithFollowing {
                walk.lost();
                bets += 1;
            }
        }
        assert!(bets <= 8 + 1000 / PAUSE_MAX, "{bets} bets");
        walk.pause = 0;
        walk.won();
        assert_eq!(list(&mut walk, "x/", 1000), How::WithFollowing);
        walk.lost();
        assert_eq!(list(&mut walk, "y/", 1001), How::Alone);
        assert_eq!(list(&mut walk, "z/", 1002), How::WithFollowing);
    }
}
