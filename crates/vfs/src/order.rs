//! The order in which locks are taken, written down.
//!
//! 0. `Relief::turn` (one makes room at a time), then `File::gate` (held by who publishes a file for
//!    that; a writer holds it shared, for no longer than its write); both held across requests.
//! 1. `File::turn` (one commit of a file at a time; held across requests).
//! 2. What `Namespace::settle` gives (the file keeps its name; held across requests). Nobody waits
//!    for a turn while a name is changed: unlink and rename wait for commits inside the namespace.
//! 3. `Files::table`
//! 4. `File::state`
//! 5. everything inside `store`, `namespace`, `Inodes`, `Handles`, `File::written`: leaves, never
//!    held while another of ours is taken.
//!
//! Only these, up to the second, may be held across `.await`, which the compiler checks: the others' guards do
//! not go to another thread.
