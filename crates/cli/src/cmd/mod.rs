//! One file a command.

pub(crate) mod mount;
pub(crate) mod status;
pub(crate) mod umount;
