//! What a mount has to tell when it begins, in words.

use base::printable;
use mount::Notice;

use crate::plain::shown;
use crate::units::show_plural;

/// One notice as a line.
pub(crate) fn explain(notice: &Notice) -> String {
    match notice {
        Notice::EmptyPrefix(location) => format!(
            "note: nothing is below {} yet; the first file that you write creates it",
            printable(&location.to_string())
        ),
        Notice::ReadOnly(reason) => {
            format!(
                "mounted read-only, because these credentials cannot write: {}",
                printable(reason)
            )
        }
        Notice::Unconditional => {
            "the store ignores conditions of writes: quayfs checks each object before it writes, and a write of \
             another client in that moment is replaced"
                .to_owned()
        }
        Notice::Resumed(files) => {
            format!("uploaded {} left over from an earlier mount", show_plural(*files, "file"))
        }
        Notice::Waiting(files) => format!(
            "could not upload {} left over from an earlier mount; they are safe in the state folder, and the \
             next mount tries again",
            show_plural(*files, "file")
        ),
        Notice::Renamed(changes) => {
            format!(
                "finished {} left over from an earlier mount",
                show_plural(*changes, "name change")
            )
        }
        Notice::Renaming(changes) => format!(
            "could not finish {} left over from an earlier mount; the next mount tries again",
            show_plural(*changes, "name change")
        ),
        Notice::HalfRenamed(changes) => format!(
            "{} left over from an earlier mount may show both names; the next mount that may write finishes them",
            show_plural(*changes, "rename")
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
