//! The order in which locks are taken, written down.
//!
//! 1. `File::turn` (one change of what is published at a time; held across requests). Of two files,
//!    the one with the smaller inode number first: [`both`].
//! 2. `Files::table`
//! 3. `File::state`
//! 4. everything inside `store`, `namespace`, `Inodes`, `Handles`, `File::written`: leaves, never
//!    held while another of ours is taken.
//!
//! Only the first may be held across `.await`, which the compiler checks: the others' guards do
//! not go to another thread.

use std::sync::Arc;

use crate::file::{File, Turn};

/// Takes the turns of up to two files in the one order that cannot deadlock.
pub(crate) async fn both(
    one: Option<&Arc<File>>,
    other: Option<&Arc<File>>,
) -> (Option<Turn>, Option<Turn>) {
    let (Some(one), Some(other)) = (one, other) else {
        let only = match one.or(other) {
            Some(file) => Some(file.turn().await),
            None => None,
        };
        return (only, None);
    };
    if one.ino() == other.ino() {
        return (Some(one.turn().await), None);
    }
    let (first, second) = if one.ino() < other.ino() { (one, other) } else { (other, one) };
    let first = first.turn().await;
    let second = second.turn().await;
    (Some(first), Some(second))
}
