//! Checks on our own source: which crate may use which, no circle among the modules of a crate,
//! and the things that must not appear where they do not belong.
//!
//! What the compiler refuses (a circle of crates) is not checked again. What is read is the source
//! text: paths as written, with comments, strings and test modules left out. A path made by a macro
//! is not seen.

mod absence;
mod edges;
mod graph;
mod modules;
mod packages;
mod tokens;

pub use absence::{Absence, check_absences};
pub use edges::{Edges, check_edges};
pub use modules::{Source, circles, sources};
pub use packages::{Package, packages};
