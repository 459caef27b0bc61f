//! What was promised and what was under way, as a journal tells it; pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What is about to become of some paths, all or none: a sum, or nothing.
type Changes = BTreeMap<String, Option<String>>;

/// What a move that was cut short may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// The old names, or the new ones.
    AreWhole,
    /// Names of both: nothing is lost, but it may be there twice.
    MayBeCopies,
}

/// What a writer may count on.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Sums of all files that there must be.
    promised: BTreeMap<String, String>,
    /// What each worker was doing when it ended.
    pending: BTreeMap<String, Changes>,
    /// What should not have happened at all.
    complaints: Vec<String>,
    /// How many promises were made.
    count: usize,
    /// What was read last.
    journal: String,
}

impl Account {
    /// The sums of all files that there must be.
    pub fn promised(&self) -> &BTreeMap<String, String> {
        &self.promised
    }

    /// How many promises were made.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What was read last, for people.
    pub fn journal(&self) -> &str {
        &self.journal
    }

    /// Takes in what a writer wrote down.
    ///
    /// # Panics
    ///
    /// When that is not what a writer writes.
    pub fn read(&mut self, journal: &str) {
        journal.clone_into(&mut self.journal);
        for line in journal.lines() {
            let line: Value = serde_json::from_str(line).expect("the writer was not killed");
            let worker = line["worker"].as_str().expect("each line is a worker's").to_owned();
            if let Some(changes) = line["will"].as_object() {
                let changes = changes
                    .iter()
                    .map(|(path, sum)| (path.clone(), sum.as_str().map(str::to_owned)));
                self.pending.insert(worker, changes.collect());
            } else if line["did"].is_boolean() {
                let changes = self.pending.remove(&worker).expect("it said what it would do");
                self.apply(changes);
                self.count += 1;
            } else if let Some(error) = line["failed"].as_str() {
                // Of a mount that is gone programs get nothing else.
                if line["alive"] != false {
                    self.complaints.push(format!("{worker}: {error}"));
                }
            } else {
                self.complaints.push(format!("{worker}: {}", line["wrong"]));
            }
        }
    }

    /// What is wrong with a bucket that holds `found` right after the end of a mount that keeps its
    /// promises at once. What was under way may be half done.
    pub fn judge_settled(&self, found: &BTreeMap<String, String>) -> Vec<String> {
        let moving: BTreeSet<&String> = self.pending.values().flat_map(BTreeMap::keys).collect();
        let mut complaints = self.complaints.clone();
        complaints.extend(differences(&self.promised, found, &moving));
        complaints
    }

    /// What is wrong with a bucket that holds `found` when all is done that a next mount does; what
    /// it holds is promised from then on.
    pub fn settle(&mut self, found: &BTreeMap<String, String>, moves: Moves) -> Vec<String> {
        let mut complaints = std::mem::take(&mut self.complaints);
        for (worker, changes) in std::mem::take(&mut self.pending) {
            let is_done = |(path, sum): (&String, &Option<String>)| found.get(path) == sum.as_ref();
            let is_undone = |path: &String| found.get(path) == self.promised.get(path);
            // Gone from one place, and so it must be where it went to.
            let has_moved = |path: &String| {
                let gone = self.promised.get(path);
                changes.iter().any(|to| is_done(to) && to.1.as_ref() == gone)
            };
            let is_kept = |change: (&String, &Option<String>)| {
                is_done(change) && (change.1.is_some() || has_moved(change.0))
            };
            if changes.iter().all(is_done) {
                self.apply(changes);
            } else if changes.keys().all(is_undone) {
                // Nothing came of it.
            } else if moves == Moves::MayBeCopies
                && changes.iter().all(|change| is_undone(change.0) || is_kept(change))
            {
                let as_found = |path: String| {
                    let sum = found.get(&path).cloned();
                    (path, sum)
                };
                self.apply(changes.into_keys().map(as_found).collect());
            } else {
                complaints.push(format!("{worker}: half done: {changes:?}"));
            }
        }
        complaints.extend(differences(&self.promised, found, &BTreeSet::new()));
        self.promised.clone_from(found);
        complaints
    }

    fn apply(&mut self, changes: Changes) {
        for (path, sum) in changes {
            match sum {
                Some(sum) => self.promised.insert(path, sum),
                None => self.promised.remove(&path),
            };
        }
    }
}

/// In words, but for what is at the paths `except`.
fn differences(
    want: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
    except: &BTreeSet<&String>,
) -> Vec<String> {
    let paths: BTreeSet<&String> = want.keys().chain(found.keys()).collect();
    let differs = paths.into_iter().filter(|path| !except.contains(path));
    let words = differs.filter_map(|path| match (want.get(path), found.get(path)) {
        (Some(want), Some(found)) if want == found => None,
        (Some(_), Some(found)) => {
            Some(format!("{path} is not what was promised last, but {found}"))
        }
        (Some(_), None) => Some(format!("{path} is lost")),
        (None, _) => Some(format!("{path} should not be there")),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Account, Moves};

    const MADE: &str = r#"{"worker": "w", "will": {"w/a": "1"}}
        {"worker": "w", "did": true}"#;
    const REPLACING: &str = r#"{"worker": "w", "will": {"w/a": "2"}}
        {"worker": "w", "failed": "gone", "alive": false}"#;
    const MOVING: &str = r#"{"worker": "w", "will": {"w/a": null, "w/b": "1"}}"#;

    #[test]
    fn what_was_promised_must_be_there_and_nothing_else() {
        check(&[MADE], &[("w/a", "1")], &[]);
        check(&[MADE], &[], &["w/a is lost"]);
        check(&[MADE], &[("w/a", "3")], &["w/a is not what was promised last, but 3"]);
        check(&[MADE], &[("w/a", "1"), ("x", "1")], &["x should not be there"]);
    }

    #[test]
    fn what_was_under_way_is_there_as_it_was_or_as_it_was_to_be() {
        check(&[MADE, REPLACING], &[("w/a", "1")], &[]);
        check(&[MADE, REPLACING], &[("w/a", "2")], &[]);
        let half = r#"w: half done: {"w/a": Some("2")}"#;
        check(
            &[MADE, REPLACING],
            &[("w/a", "3")],
            &[half, "w/a is not what was promised last, but 3"],
        );
    }

    #[test]
    fn a_move_is_done_at_both_ends_or_at_none() {
        check(&[MADE, MOVING], &[("w/a", "1")], &[]);
        check(&[MADE, MOVING], &[("w/b", "1")], &[]);
        let half = r#"w: half done: {"w/a": None, "w/b": Some("1")}"#;
        check(&[MADE, MOVING], &[("w/a", "1"), ("w/b", "1")], &[half, "w/b should not be there"]);
        check(&[MADE, MOVING], &[], &[half, "w/a is lost"]);
    }

    #[test]
    fn a_move_may_leave_copies_but_lose_nothing_where_that_is_allowed() {
        for (found, is_fine) in [
            (&[("w/a", "1")][..], true),
            (&[("w/b", "1")], true),
            (&[("w/a", "1"), ("w/b", "1")], true),
            (&[], false),
            (&[("w/b", "2")], false),
            (&[("w/a", "1"), ("w/b", "2")], false),
        ] {
            let mut account = Account::default();
            account.read(MADE);
            account.read(MOVING);
            let complaints = account.settle(&sums(found), Moves::MayBeCopies);
            assert_eq!(complaints.is_empty(), is_fine, "{found:?}: {complaints:?}");
        }
    }

    #[test]
    fn what_is_promised_at_once_is_judged_without_what_is_under_way() {
        let mut account = Account::default();
        account.read(MADE);
        account.read(MOVING);
        assert_eq!(account.judge_settled(&sums(&[])), Vec::<String>::new());
        assert_eq!(account.judge_settled(&sums(&[("x", "1")])), ["x should not be there"]);
    }

    #[test]
    fn an_error_of_a_mount_that_lives_is_no_excuse() {
        let failed = r#"{"worker": "w", "failed": "[Errno 5]", "alive": true}"#;
        check(&[failed], &[], &["w: [Errno 5]"]);
    }

    fn check(journals: &[&str], found: &[(&str, &str)], want: &[&str]) {
        let mut account = Account::default();
        for journal in journals {
            account.read(journal);
        }
        assert_eq!(account.settle(&sums(found), Moves::AreWhole), want);
    }

    fn sums(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(path, sum)| ((*path).to_owned(), (*sum).to_owned())).collect()
    }
}
