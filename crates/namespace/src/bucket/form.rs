//! What an object stands for besides bytes: a symbolic link, a pipe, a socket, a device.

use std::sync::Arc;

use base::FileKind;

use crate::Special;

/// What a file that is an object is to programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Bytes.
    Plain,
    /// A path to elsewhere; `None` if the object has yet to be read for it.
    Link(Option<Arc<Vec<u8>>>),
    /// A place where programs meet.
    Special(Special),
}

impl Form {
    /// What `stat` calls it.
    pub(super) fn kind(&self) -> FileKind {
        match self {
            Form::Plain => FileKind::File,
            Form::Link(_) => FileKind::Symlink,
            Form::Special(special) => special.kind,
        }
    }

    /// The device number.
    pub(super) fn rdev(&self) -> u32 {
        match self {
            Form::Plain | Form::Link(_) => 0,
            Form::Special(special) => special.rdev,
        }
    }

    /// Whether a node of this form may go on as one of the other: only what is known of a link's
    /// target may differ.
    pub(super) fn is_like(&self, other: &Form) -> bool {
        match (self, other) {
            (Form::Link(_), Form::Link(_)) => true,
            (Form::Plain | Form::Link(_) | Form::Special(_), _) => self == other,
        }
    }
}
