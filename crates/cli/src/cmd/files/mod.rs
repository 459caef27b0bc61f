//! Files as people name them: paths, folders, patterns, lists.

mod find;
mod glob;
mod progress;

pub(super) use find::{Listing, Meant, found};
pub(super) use progress::{Bar, rate};
