//! The operations, one file a family.

mod below;
pub(crate) mod copy;
pub(crate) mod dir;
mod entry;
pub(crate) mod fallocate;
pub(crate) mod inspect;
mod link;
mod lookup;
pub(crate) mod open;
mod read;
mod seek;
mod stand_in;
pub(crate) mod statfs;
mod sync;
mod write;
pub(crate) mod xattr;
