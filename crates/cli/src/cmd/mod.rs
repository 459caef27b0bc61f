//! One file a command.

pub(crate) mod bench;
mod buckets;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod evict;
mod files;
pub(crate) mod fsck;
pub(crate) mod fstab;
mod in_flight;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod log_level;
pub(crate) mod man;
pub(crate) mod mount;
pub(crate) mod pin;
pub(crate) mod recover;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod share;
pub(crate) mod status;
pub(crate) mod sync;
mod this_program;
pub(crate) mod top;
pub(crate) mod umount;
pub(crate) mod warm;
