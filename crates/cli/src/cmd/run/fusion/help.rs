//! What the launcher says of itself.

use std::ffi::OsStr;

/// What is said to who asks the program under the name `fusion` for help.
pub(in super::super) const HELP: &str = "\
fusion: the launcher of quayfs, which Nextflow starts tasks with; it is `quayfs run --fusion -- COMMAND`

Usage: fusion COMMAND [ARGUMENTS]

All buckets are mounted at /fusion, or where QUAYFS_FUSION_AT says, as s3/BUCKET, gs/BUCKET and az/ACCOUNT/CONTAINER, for
as long as COMMAND runs. FUSION_WORK names the folder of the task. The status is that of COMMAND, or 174 if the
launcher fails. `quayfs run --help` says more, and which variables there are.";

/// Whether the first word of a command asks for help: no program has such a name.
pub(in super::super) fn is_asked_for(word: Option<&OsStr>) -> bool {
    word.is_some_and(|word| word == "--help" || word == "-h")
}
