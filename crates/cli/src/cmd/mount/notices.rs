//! What a mount has to tell when it begins, in words.

use base::printable;
use mount::Notice;

use crate::plain::shown;

/// One notice as a line.
pub(crate) fn explain(notice: &Notice) -> String {
    match notice {
        Notice::ReadOnly(reason) => {
            format!(
                "mounted read-only, because these credentials cannot write: {}",
                printable(reason)
            )
        }
        Notice::Unconditional => {
            "the store does not keep to conditions: each object is looked at before \
             it is written, and what others write to it in that very moment is replaced"
                .to_owned()
        }
        Notice::Resumed(files) => {
            format!("{files} file(s) that an earlier mount had not finished are uploaded now")
        }
        Notice::Waiting(files) => format!(
            "{files} file(s) that an earlier mount had not finished could not be uploaded now; they \
             are safe in the state folder, and the next mount tries again"
        ),
        Notice::Renamed(changes) => {
            format!(
                "{changes} change(s) of names that an earlier mount had not finished are complete now"
            )
        }
        Notice::Renaming(changes) => format!(
            "{changes} change(s) of names that an earlier mount had not finished could not be finished \
             now; the next mount tries again"
        ),
        Notice::HalfRenamed(changes) => format!(
            "{changes} rename(s) that an earlier mount had not finished may show both names; the next \
             mount that may write finishes them"
        ),
        Notice::Damaged(path) => format!(
            "the database of the state folder is damaged and is kept in {}; bytes that were not in \
             the bucket yet are beside it",
            shown(path)
        ),
        Notice::Kept(path) => format!(
            "an earlier mount ended before these bytes were in the bucket; they are kept in {}",
            shown(path)
        ),
    }
}
