//! What a daemon is asked to do with files, in lines of JSON.
//!
//! ```text
//!   {"warm":{"at_a_time":16}}            ──▶ for each line that follows, such as
//!   {"id":1,"ino":7,"ranges":[[0,9]]}        some `came`, then one `warmed`, `full` or `failed`
//!   {"evict":{}}                         ──▶ for each line that follows one `evicted`, `kept` or `failed`
//!   {"pin":{"path":[97]}}                ──▶ some `came`, then one `pinned`, `too_large` or `failed`
//!   {"unpin":{"path":[97]}}              ──▶ one `unpinned` or `failed`
//!   {"unpin_all":{}}                     ──▶ one `unpinned` or `failed`
//!   {"copy_over_link":{"link":7,"file":8}} ──▶ one `copied` or `failed`
//!   {"measure":{"ino":1,"bytes":9}}      ──▶ one `measured` or `failed`; who goes away ends it
//! ```

use serde::{Deserialize, Serialize};

use crate::figures::Figures;

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Keep what is at or below a path of the mount.
    Pin {
        /// Relative to the top of the mount.
        path: Vec<u8>,
    },
    /// Do not keep it any longer.
    Unpin {
        /// As it was pinned.
        path: Vec<u8>,
    },
    /// Keep nothing of the mounted buckets any longer.
    UnpinAll {},
    /// Have the store put a copy of a file in the place of a link to it.
    CopyOverLink {
        /// The link.
        link: u64,
        /// The file.
        file: u64,
    },
    /// Measure a bucket by requests alone.
    Measure {
        /// A file or folder in it.
        ino: u64,
        /// How large an object is to be made for it.
        bytes: u64,
    },
    /// With each file that is named after it.
    #[serde(untagged)]
    Files(Chore),
}

/// What is to be done with many files.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chore {
    /// Bring them into the cache.
    Warm {
        /// How many files at a time.
        at_a_time: usize,
    },
    /// Drop them from it.
    Evict {},
}

/// One file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// How the answers name it.
    pub(crate) id: u64,
    /// Which file.
    pub(crate) ino: u64,
    /// Beginnings and ends of what is wanted of it; all of it if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// What came of a wish.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Which wish; 0 where there is only one.
    pub(crate) id: u64,
    /// What came of it.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// What came of a wish, or, if it is [`Outcome::Came`], has come so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// So many more bytes are here, of so many if that is known.
    Came {
        /// Since the last time.
        bytes: u64,
        /// Altogether, of all that was asked for; 0 if who asked knows.
        of_bytes: u64,
    },
    /// It is here.
    Warmed {
        /// What was fetched.
        brought_bytes: u64,
        /// What was here before.
        here_bytes: u64,
    },
    /// The cache has no room for it.
    Full {
        /// What it has for files of one wish.
        room_bytes: u64,
    },
    /// It is not here any more.
    Evicted {
        /// What that freed.
        bytes: u64,
    },
    /// It stays.
    Kept {
        /// Why.
        reason: String,
    },
    /// It is kept.
    Pinned {
        /// Files below the path.
        files: u64,
        /// Their bytes.
        bytes: u64,
        /// What of them was fetched.
        brought_bytes: u64,
        /// Why some are not here yet.
        failed: Vec<String>,
    },
    /// It is not kept: there is too much of it.
    TooLarge {
        /// What it would take.
        bytes: u64,
        /// What is pinned already.
        others_bytes: u64,
        /// What may be pinned altogether.
        limit_bytes: u64,
    },
    /// It is not kept any longer.
    Unpinned {
        /// Whether it was.
        was_pinned: bool,
    },
    /// The copy is in the bucket.
    Copied {},
    /// What was measured.
    Measured(Figures),
    /// It could not be done.
    Failed {
        /// Why.
        reason: String,
    },
}

impl Answer {
    /// What was asked for alone could not be done.
    pub(crate) fn failed(reason: &str) -> Answer {
        Answer { id: 0, outcome: Outcome::Failed { reason: reason.to_owned() } }
    }
}

impl Outcome {
    /// Why it could not be done, if it says so.
    pub fn reason(&self) -> String {
        if let Outcome::Failed { reason } | Outcome::Kept { reason } = self {
            return reason.clone();
        }
        format!("the daemon says {self:?}: it is of another version; mount again")
    }

    /// Whether more is to come of the same wish.
    pub(crate) fn is_last(&self) -> bool {
        !matches!(self, Outcome::Came { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Chore, Outcome, Task};

    #[test]
    fn tasks_and_answers_are_lines_that_others_can_write_too() {
        let line = |task: &Task| serde_json::to_string(task).unwrap();
        assert_eq!(line(&Task::Files(Chore::Warm { at_a_time: 9 })), r#"{"warm":{"at_a_time":9}}"#);
        assert_eq!(line(&Task::Files(Chore::Evict {})), r#"{"evict":{}}"#);
        assert_eq!(line(&Task::UnpinAll {}), r#"{"unpin_all":{}}"#);
        assert_eq!(line(&Task::Unpin { path: b"a".to_vec() }), r#"{"unpin":{"path":[97]}}"#);
        let copy = Task::CopyOverLink { link: 7, file: 8 };
        assert_eq!(line(&copy), r#"{"copy_over_link":{"link":7,"file":8}}"#);
        for text in [r#"{"warm":{"at_a_time":9}}"#, r#"{"evict":{}}"#, r#"{"pin":{"path":[97]}}"#] {
            assert_eq!(line(&serde_json::from_str(text).unwrap()), text);
        }
        let answer = Answer { id: 3, outcome: Outcome::Evicted { bytes: 7 } };
        let text = r#"{"id":3,"evicted":{"bytes":7}}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        let read: Answer = serde_json::from_str(text).unwrap();
        assert_eq!((read.id, read.outcome), (3, Outcome::Evicted { bytes: 7 }));
    }
}
