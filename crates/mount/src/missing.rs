//! What could not be brought into the bucket, and what people can do about it.

use std::path::Path;

use base::printable;
use serde::{Deserialize, Serialize};
use vfs::{Next, Unpublished};

use crate::recover_list::recover_list;

/// What the bucket lacks after somebody waited for all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// One line for each file and change of a name.
    failed: Vec<String>,
    /// How many of these lost to others.
    #[serde(default)]
    lost: usize,
    /// How many of these are changes of names that are undone.
    #[serde(default)]
    undone: usize,
    /// How many of these others hold back.
    #[serde(default)]
    held: usize,
    /// How many of these the store refuses for good.
    #[serde(default)]
    refused: usize,
    /// The command that lists the bytes of those that lost.
    #[serde(default)]
    list_command: Option<String>,
}

impl Missing {
    /// All that could not be published.
    pub(crate) fn of<'a>(unpublished: impl IntoIterator<Item = &'a Unpublished>) -> Missing {
        let unpublished: Vec<_> = unpublished.into_iter().collect();
        let many = |next| unpublished.iter().filter(|one| one.next == next).count();
        let (lost, undone, held) = (many(Next::Lost), many(Next::MakeAgain), many(Next::Wait));
        let refused = many(Next::Refused);
        let failed = unpublished.into_iter().map(|one| one.reason.clone()).collect();
        Missing { failed, lost, undone, held, refused, list_command: None }
    }

    /// The same, of a mount with the state folder `dir`.
    #[must_use]
    pub(crate) fn kept_in(self, dir: &Path) -> Missing {
        Missing { list_command: Some(recover_list(dir)), ..self }
    }

    /// Replaces each reason, which may name files that the caller may not see.
    #[must_use]
    pub(crate) fn without_names(self) -> Missing {
        const LINE: &str = "a file or a change of a name; the user that mounted can see which";
        let failed = self.failed.iter().map(|_| LINE.to_owned()).collect();
        Missing { failed, ..self }
    }

    /// Keeps reasons of `bytes_max` in all, and counts the rest in one line.
    #[must_use]
    pub(crate) fn within(self, bytes_max: usize) -> Missing {
        let (mut failed, mut bytes) = (self.failed, 0);
        let fitting = failed.iter().take_while(|reason| {
            bytes += reason.len();
            bytes <= bytes_max
        });
        let (kept, all) = (fitting.count(), failed.len());
        if kept < all {
            failed.truncate(kept);
            failed.push(format!("and {} more", all - kept));
        }
        Missing { failed, ..self }
    }

    /// Nothing was tried, for `reason`.
    pub(crate) fn untried(reason: &str) -> Missing {
        Missing { failed: vec![reason.to_owned()], ..Missing::default() }
    }

    /// Whether the bucket has everything.
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }

    /// Whether the bucket has everything but for what others hold back.
    pub fn is_held(&self) -> bool {
        self.failed.len() == self.held
    }

    /// Whether trying again does not help some of it.
    pub fn is_for_good(&self) -> bool {
        0 < self.lost + self.undone
    }

    /// Each reason in a line of its own, whatever names are in it.
    pub fn lines(&self) -> String {
        let lines: Vec<String> =
            self.failed.iter().map(|reason| format!("  {}", printable(reason))).collect();
        lines.join("\n")
    }

    /// What can be done about it; of what may go well another time, `again`.
    pub fn advice(&self, again: &str) -> String {
        let others = self.lost + self.undone + self.held + self.refused;
        let pending = self.failed.len().saturating_sub(others);
        let list = self.list_command.as_deref().unwrap_or("quayfs recover --list");
        let parts = [
            (pending, format!("the bytes are safe on the local disk: {again}")),
            (
                self.refused,
                "the store refuses some for good, and trying again does not help: rename or remove these files, or \
                 have the store take them; the bytes are safe on the local disk"
                    .to_owned(),
            ),
            (
                self.lost,
                format!(
                    "where others were first, trying again does not help: these bytes are in the recovery folder, as \
                     `{list}` tells"
                ),
            ),
            (self.undone, "names whose change was given up are as they were before".to_owned()),
            (self.held, "what is held back follows by itself when it is let go".to_owned()),
        ];
        let told = parts.into_iter().filter(|(count, _)| 0 < *count).map(|(_, words)| words);
        told.collect::<Vec<_>>().join(";\n  ")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vfs::{Next, Unpublished};

    use super::Missing;

    #[test]
    fn advice_names_the_state_folder() {
        let lost = Unpublished { reason: "a".to_owned(), next: Next::Lost, news: None };
        let missing = Missing::of([&lost]).kept_in(Path::new("/c"));
        let advice = missing.advice("try again");
        assert!(advice.contains("`quayfs recover --list --cache-dir /c` tells"), "{advice}");
    }

    #[test]
    fn reasons_without_names_are_as_many() {
        let failed = |reason: &str| Unpublished {
            reason: reason.to_owned(),
            next: Next::TryAgain,
            news: None,
        };
        let missing = Missing::of(&[failed("secret/a: denied"), failed("secret/b: denied")]);
        let lines = missing.without_names().lines();
        assert!(lines.lines().count() == 2 && !lines.contains("secret"), "{lines}");
    }

    #[test]
    fn long_lists_of_reasons_are_cut() {
        let failed = |reason: &str| Unpublished {
            reason: reason.to_owned(),
            next: Next::TryAgain,
            news: None,
        };
        let missing = Missing::of(&[failed("aaaa"), failed("bbbb"), failed("cccc")]);
        assert_eq!(missing.clone().within(12), missing);
        assert_eq!(missing.within(11).lines(), "  aaaa\n  bbbb\n  and 1 more");
    }

    #[test]
    fn the_advice_is_for_what_there_is() {
        let all = [
            (Next::TryAgain, "safe on the local disk: try again"),
            (Next::Lost, "recovery folder"),
            (Next::MakeAgain, "as they were before"),
            (Next::Wait, "follows by itself"),
            (Next::Refused, "rename or remove these files"),
        ];
        for chosen in 1_usize..32 {
            let is_chosen = |at: usize| chosen & 1 << at != 0;
            let some = (0..5).filter(|at| is_chosen(*at));
            let some = some.map(|at| Unpublished {
                reason: format!("line {at}"),
                next: all[at].0,
                news: None,
            });
            let missing = Missing::of(&some.collect::<Vec<_>>());
            assert_eq!(missing.failed.len(), missing.lines().lines().count());
            let advice = missing.advice("try again");
            for (at, (_, words)) in all.iter().enumerate() {
                assert_eq!(advice.contains(words), is_chosen(at), "{advice}");
            }
            assert_eq!(missing.is_held(), chosen == 0b0_1000);
            assert_eq!(missing.is_for_good(), is_chosen(1) || is_chosen(2));
        }
    }
}
