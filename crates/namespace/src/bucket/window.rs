//! Which names of a folder an answer of the bucket was about.

use std::time::Duration;

use base::Name;

use super::keys;

/// A set of names about which everything was told: what was not mentioned is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// Every name.
    All,
    /// One name.
    One(Name),
    /// The names that a page in key order speaks of.
    Page {
        /// The lowest name.
        first: Option<Name>,
        /// What follows the folder's prefix in the page's last key; `None` if no page follows.
        last: Option<Vec<u8>>,
    },
}

impl Range {
    /// Whether the answer was about `name`, as a file and as a folder.
    pub(super) fn covers(&self, name: &Name) -> bool {
        match self {
            Range::All => true,
            Range::One(one) => one == name,
            // Pages are in the order of keys, which is not quite that of names.
            Range::Page { first, last } => {
                let begins = |first| keys::first_of(first) <= keys::first_of(name);
                first.as_ref().is_none_or(begins)
                    && last.as_ref().is_none_or(|last| keys::reaches(last, name).is_ge())
            }
        }
    }
}

/// A range of names, and the time at which the bucket was asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The names.
    pub(super) range: Range,
    /// On the monotonic clock.
    pub(super) as_of: Duration,
}

/// How many windows are remembered of one folder.
const WINDOWS_MAX: usize = 8;

/// What was lately told of one folder's names. Only absence is read from here: a name that a window
/// covers and that the folder does not have is not there.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Window>);

impl Windows {
    /// Adds what was told; of too many windows the oldest goes.
    pub(super) fn add(&mut self, window: Window) {
        if window.range == Range::All {
            self.0.retain(|other| window.as_of < other.as_of);
        }
        self.0.retain(|other| other.range != window.range || window.as_of < other.as_of);
        if self.0.len() == WINDOWS_MAX {
            self.0.remove(0);
        }
        self.0.push(window);
    }

    /// The youngest window that covers `name`.
    pub(super) fn covering(&self, name: &Name) -> Option<&Window> {
        self.0.iter().filter(|window| window.range.covers(name)).max_by_key(|window| window.as_of)
    }

    /// The youngest window that covers every name.
    pub(super) fn all(&self) -> Option<&Window> {
        self.0.iter().filter(|window| window.range == Range::All).max_by_key(|window| window.as_of)
    }

    /// Forgets what was told of `name`, and with it all that was told together with it.
    pub(super) fn forget(&mut self, name: &Name) {
        self.0.retain(|window| !window.range.covers(name));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Name;

    use super::{Range, WINDOWS_MAX, Window, Windows};

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn page(first: &str, last: &str) -> Range {
        let first = Name::new(first.as_bytes()).ok();
        Range::Page { first, last: Some(last.as_bytes().to_vec()) }
    }

    #[test]
    fn a_page_is_about_the_names_that_fit_in_it_both_as_file_and_as_folder() {
        for (range, text, want) in [
            (page("", "c"), "a", true),
            (page("", "c"), "c", false),
            (page("", "c/"), "c", true),
            (page("", "a.txt"), "a", false),
            (page("", "a/"), "a.txt", true),
            (page("b", "d"), "a", false),
            (page("b", "d"), "b", true),
            (page("", ".z"), "%%.", true),
            (page("", "a"), "%%=a", false),
            (page("", "a/"), "%%=a", true),
            (page("", "lon"), "%%~long", false),
            (page("", "longest"), "%%~long", false),
            (page("", "lonh"), "%%~long", true),
            (page("b", "d"), "%%=a", false),
            (page("b", "d"), "%%=b", true),
            (Range::All, "zzz", true),
            (Range::One(name("x")), "x", true),
            (Range::One(name("x")), "y", false),
        ] {
            assert_eq!(range.covers(&name(text)), want, "{range:?} {text}");
        }
    }

    #[test]
    fn the_youngest_word_on_a_name_counts_and_the_number_of_windows_is_bounded() {
        let mut windows = Windows::default();
        for second in 0..20 {
            let range = Range::One(name(&format!("n{second}")));
            windows.add(Window { range, as_of: Duration::from_secs(second) });
        }
        assert_eq!(windows.0.len(), WINDOWS_MAX);
        windows.add(Window { range: Range::All, as_of: Duration::from_secs(30) });
        assert_eq!(windows.0.len(), 1, "a whole listing replaces what is older");
        assert_eq!(windows.covering(&name("n19")).unwrap().as_of, Duration::from_secs(30));
        windows.forget(&name("n19"));
        assert_eq!(windows.covering(&name("n1")), None);
    }
}
