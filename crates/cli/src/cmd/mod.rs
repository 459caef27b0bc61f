//! One file a command.

mod access;
mod buckets;
pub(crate) mod mount;
pub(crate) mod recover;
pub(crate) mod status;
pub(crate) mod sync;
pub(crate) mod umount;
