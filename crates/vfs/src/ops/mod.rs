//! The operations, one file a family.

pub(crate) mod dir;
mod entry;
mod lookup;
pub(crate) mod open;
mod read;
pub(crate) mod statfs;
mod sync;
mod write;
