//! Changes of the records that nobody waits for. They are made in one transaction with the next change
//! that somebody waits for: what a commit costs is paid once for all of them.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Error, ErrorCode, Transaction};

use super::row::NewRow;

type Change = dyn Fn(&Transaction<'_>) -> rusqlite::Result<()> + Send;

/// Such a change, and what is to be done once it is made.
pub(super) struct Later {
    change: Box<Change>,
    then: Box<dyn FnOnce() + Send>,
    // The staged file that it records.
    staged: Option<Arc<NewRow>>,
    // The record of it in the file of seals.
    record: Option<u64>,
}

/// How it went with all of them.
pub(super) enum Outcome {
    Written,
    /// They may be written when the disk is better.
    Failed(Error),
    /// This one can never be written.
    Impossible(usize, Error),
}

impl Later {
    /// A change and no more.
    pub(super) fn new(
        change: impl Fn(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> Later {
        Later { change: Box::new(change), then: Box::new(|| ()), staged: None, record: None }
    }

    /// Records a new staged file.
    pub(super) fn insert(row: NewRow) -> Later {
        let row = Arc::new(row);
        let insert = Arc::clone(&row);
        let change = move |transaction: &Transaction<'_>| insert.insert(transaction);
        Later { staged: Some(row), ..Later::new(change) }
    }

    /// Records a sealed file that survives our death already, by the record of that number.
    pub(super) fn insert_recorded(row: NewRow, record: u64) -> Later {
        Later { record: Some(record), ..Later::insert(row) }
    }

    /// The number of the record by which it survives our death, if there is one.
    pub(super) fn record(&self) -> Option<u64> {
        self.record
    }

    /// The staged file that it records, if it is such a change.
    pub(super) fn staged(&self) -> Option<&Arc<NewRow>> {
        self.staged.as_ref()
    }

    /// With what is to be done when it is made, before anybody reads or writes again.
    pub(super) fn then(self, then: impl FnOnce() + Send + 'static) -> Later {
        Later { then: Box::new(then), ..self }
    }

    /// It is made.
    pub(super) fn done(self) {
        (self.then)();
    }
}

/// Makes the changes, in order.
pub(super) fn write(all: &[Later], transaction: &Transaction<'_>) -> Outcome {
    for (at, later) in all.iter().enumerate() {
        match (later.change)(transaction) {
            Ok(()) => {}
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                return Outcome::Impossible(at, error);
            }
            Err(error) => return Outcome::Failed(error),
        }
    }
    Outcome::Written
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Transaction;
    use tempfile::tempdir;

    use super::Later;
    use crate::state::Db;

    fn insert(id: i64) -> Later {
        Later::new(move |transaction: &Transaction<'_>| {
            transaction.execute(
                "INSERT INTO journal (id, owner, kind, payload) VALUES (?1, 1, 1, x'')",
                [id],
            )?;
            Ok(())
        })
    }

    fn ids(db: &Db) -> Vec<u64> {
        db.ops_after(0, 1000).unwrap().iter().map(|row| row.id).collect()
    }

    #[test]
    fn what_waits_is_written_first_and_what_follows_it_is_done_then() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        let (done, told) = std::sync::mpsc::channel();
        db.write_later("test", insert(7).then(move || done.send(()).unwrap())).unwrap();
        assert!(told.try_recv().is_err());
        let (_, seen) = db.inherit_ops(0, 10, &|_| false, &mut |_| false).unwrap();
        assert_eq!(seen, Some(7));
        told.try_recv().unwrap();
    }

    #[test]
    fn what_waits_is_kept_when_the_change_that_is_waited_for_fails() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        db.write_later("test", insert(7)).unwrap();
        let failed = db.write("test", |transaction| transaction.execute("nonsense", []));
        failed.unwrap_err();
        assert_eq!(ids(&db), [7]);
    }

    #[test]
    fn what_can_never_be_written_is_left_out_and_the_rest_is_not() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        for id in [7, 7, 8] {
            db.write_later("test", insert(id)).unwrap();
        }
        assert_eq!(ids(&db), [7, 8]);
    }

    #[test]
    fn no_more_wait_than_are_allowed_to() {
        let dir = tempdir().unwrap();
        let db = Db::of_test(dir.path());
        for id in 1..=1000 {
            db.write_later("test", insert(id)).unwrap();
            assert!(db.later.lock().len() <= super::super::LATER_MAX);
        }
        assert_eq!(ids(&db).len(), 1000);
    }
}
