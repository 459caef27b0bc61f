//! The promises of the file system, over a bucket in memory, a store on the real disk, and a kernel
//! that only takes notes.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod again;
mod crashes;
mod names;
mod pages;
mod replaced;
mod rig;
mod times;
mod writing;
