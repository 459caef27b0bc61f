//! Which names of a folder an answer of the bucket was about.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use base::{Ino, Name};

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
    /// The names whose folder key, the name with a slash behind it, lies between two keys, both
    /// without the folder's prefix. Parts that follow one another share no name and leave none out.
    Part {
        /// The key before the part; empty before the first.
        after: Vec<u8>,
        /// The last key of the part; `None` for the last part.
        upto: Option<Vec<u8>>,
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
            Range::Part { after, upto } => {
                !ends_by(name.as_bytes(), after)
                    && upto.as_ref().is_none_or(|upto| ends_by(name.as_bytes(), upto))
            }
        }
    }

    /// Those of `names` that it covers; of a part without a look at many others.
    pub(super) fn within<'a>(&self, names: &'a BTreeMap<Name, Ino>) -> Vec<(&'a Name, Ino)> {
        let Range::Part { after, upto } = self else {
            let covered = names.iter().filter(|(name, _)| self.covers(name));
            return covered.map(|(name, &ino)| (name, ino)).collect();
        };
        // A name that begins the key before a part may be the part's: `a/` comes after `a.txt`.
        let begun = straddling(after).filter_map(|name| names.get_key_value(name));
        let above = names.range::<[u8], _>((Bound::Excluded(&after[..]), Bound::Unbounded));
        let below = |name: &Name| upto.as_ref().is_none_or(|upto| name.as_bytes() <= &upto[..]);
        let inside = above.take_while(|(name, _)| below(name));
        let covered = begun.chain(inside).filter(|(name, _)| self.covers(name));
        covered.map(|(name, &ino)| (name, ino)).collect()
    }
}

/// Whether all keys of `name`, as a file and as a folder, are at most `key`.
pub(super) fn ends_by(name: &[u8], key: &[u8]) -> bool {
    name.iter().chain(b"/").le(key)
}

/// The names of which `key` lies between the key of the file and the prefix of the folder.
pub(super) fn straddling(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    (1..=key.len().min(Name::BYTES_MAX))
        .filter(|&len| key.get(len).is_none_or(|&next| next < b'/'))
        .map(|len| &key[..len])
        .filter(|name| !name.contains(&b'/'))
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

/// What a listing told is believed for so many times as long as it took, at most for so long: it takes
/// longer than the time to live where a folder is large, and who looks at all that it told would ask again
/// for each name.
const BELIEF_FACTOR: u32 = 3;
const BELIEF_MAX: Duration = Duration::from_mins(1);

/// A listing of a whole folder that came to its end.
#[derive(Clone, Copy, Debug)]
struct Listed {
    began: Duration,
    believed_until: Duration,
}

/// What was lately told of one folder's names. Only absence is read from here: a name that a window
/// covers and that the folder does not have is not there.
#[derive(Debug, Default)]
pub(super) struct Windows(Box<Lately>);

// In a box of its own: a node, of which there may be millions, is no larger for it.
#[derive(Debug, Default)]
struct Lately {
    told: Vec<Window>,
    listed: Option<Listed>,
    forgets: u64,
}

impl Windows {
    /// Adds what was told; of too many windows the oldest goes, and the one on all names last: it alone says
    /// that no name is missing.
    pub(super) fn add(&mut self, window: Window) {
        if window.range == Range::All {
            self.0.told.retain(|other| window.as_of < other.as_of);
        }
        self.0.told.retain(|other| other.range != window.range || window.as_of < other.as_of);
        if self.0.told.len() == WINDOWS_MAX {
            let of_some = self.0.told.iter().position(|window| window.range != Range::All);
            self.0.told.remove(of_some.unwrap_or(0));
        }
        self.0.told.push(window);
    }

    /// The folder was listed as a whole.
    pub(super) fn was_listed(&mut self, began: Duration, ended: Duration) {
        let took = ended.saturating_sub(began);
        let believed_until = began + (took * BELIEF_FACTOR).min(BELIEF_MAX.max(took));
        self.0.listed = Some(Listed { began, believed_until });
    }

    /// Whether what was told at `as_of` is believed at `now`, because it takes long to be told all.
    pub(super) fn believes(&self, as_of: Duration, now: Duration) -> bool {
        self.0.listed.is_some_and(|listed| listed.began <= as_of && now < listed.believed_until)
    }

    /// The youngest window that covers `name`.
    pub(super) fn covering(&self, name: &Name) -> Option<&Window> {
        self.0
            .told
            .iter()
            .filter(|window| window.range.covers(name))
            .max_by_key(|window| window.as_of)
    }

    /// The youngest window that covers every name.
    pub(super) fn all(&self) -> Option<&Window> {
        self.0
            .told
            .iter()
            .filter(|window| window.range == Range::All)
            .max_by_key(|window| window.as_of)
    }

    /// How often something was forgotten: what came in by then may not be all there any more.
    pub(super) fn forgets(&self) -> u64 {
        self.0.forgets
    }

    /// Forgets what was told of `name`, and with it all that was told together with it.
    pub(super) fn forget(&mut self, name: &Name) {
        self.0.forgets += 1;
        self.0.told.retain(|window| !window.range.covers(name));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use base::{Ino, Name};
    use proptest::prelude::{prop, proptest};

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
            (page("", ".z"), "%%:.", true),
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
        assert_eq!(windows.0.told.len(), WINDOWS_MAX);
        windows.add(Window { range: Range::All, as_of: Duration::from_secs(30) });
        assert_eq!(windows.0.told.len(), 1, "a whole listing replaces what is older");
        assert_eq!(windows.covering(&name("n19")).unwrap().as_of, Duration::from_secs(30));
        for second in 40..60 {
            let range = Range::One(name(&format!("n{second}")));
            windows.add(Window { range, as_of: Duration::from_secs(second) });
        }
        assert_eq!(windows.0.told.len(), WINDOWS_MAX);
        assert!(windows.all().is_some(), "a whole listing is not forgotten for single names");
        windows.forget(&name("n19"));
        assert_eq!(windows.covering(&name("n1")), None);
    }

    proptest! {
        #[test]
        fn parts_that_follow_one_another_have_every_name_once(
            names in prop::collection::btree_set("[a-c.~-]{1,4}", 0..40),
            ends in prop::collection::btree_set("[a-c.~/-]{1,4}", 0..6),
        ) {
            let children: BTreeMap<Name, Ino> = names
                .iter()
                .filter_map(|text| Name::new(text.as_bytes()).ok())
                .zip(1..)
                .map(|(name, number)| (name, Ino(number)))
                .collect();
            let mut after = Vec::new();
            let mut found = Vec::new();
            for end in ends.iter().map(|end| Some(end.as_bytes().to_vec())).chain([None]) {
                let part = Range::Part { after: after.clone(), upto: end.clone() };
                let within = part.within(&children);
                let covered = children.keys().filter(|name| part.covers(name)).count();
                assert_eq!(within.len(), covered, "{part:?}");
                found.extend(within.into_iter().map(|(name, _)| name.clone()));
                after = end.unwrap_or_default();
            }
            found.sort();
            assert_eq!(found, children.keys().cloned().collect::<Vec<_>>());
        }
    }
}
