//! The same operations on two trees: made at random ([`Op`]), carried out on a folder ([`Player`]), and
//! looked at ([`tree`]).

mod ops;
mod play;
mod tree;

pub use ops::{Op, Verb, beginning, ops};
pub use play::{Outcome, Player};
pub use tree::{Seen, difference, tree};
