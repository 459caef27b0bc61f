//! What a file is opened for.

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether writes may come.
    pub fn writes(self) -> bool {
        match self {
            Access::Read => false,
            Access::Write | Access::ReadWrite => true,
        }
    }
}

/// The set-uid and set-gid bits of a mode.
pub(crate) const SET_ID: u16 = 0o6000;
