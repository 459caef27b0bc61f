//! Moves of one file or directory that are about to be made.

use crate::RecordId;

/// The moves of a file or directory that are about to be made.
#[derive(Debug, Default)]
pub(super) struct Departing {
    /// How many there are.
    pub(super) count: u32,
    /// The last of them, if the journal has it.
    pub(super) of: Option<RecordId>,
    /// What the journal was told of bytes that were sealed since.
    pub(super) noted: Vec<RecordId>,
}
