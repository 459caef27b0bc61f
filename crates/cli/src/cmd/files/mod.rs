//! Files as people name them: paths, folders, patterns, lists.

mod filter;
mod find;
mod glob;
mod progress;

pub(super) use filter::Filter;
pub(super) use find::{Listing, Meant, found};
pub(super) use progress::{Bar, rate};
