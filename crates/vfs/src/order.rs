//! The order in which locks are taken, written down.
//!
//! 1. `File::turn` (one commit of a file at a time; held across requests).
//! 2. What `Namespace::settle` gives (the file keeps its name; held across requests). Nobody waits
//!    for a turn while a name is changed: unlink and rename wait for commits inside the namespace.
//! 3. `Files::table`
//! 4. `File::state`
//! 5. everything inside `store`, `namespace`, `Inodes`, `Handles`, `File::written`: leaves, never
//!    held while another of ours is taken.
//!
//! Only the first two may be held across `.await`, which the compiler checks: the others' guards do
//! not go to another thread.
