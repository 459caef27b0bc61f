//! One file a command.

mod access;
pub(crate) mod mount;
pub(crate) mod status;
pub(crate) mod umount;
