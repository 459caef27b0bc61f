//! The promises of closes that do not wait for the bucket.

#![expect(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod closes;
mod last;
mod next_life;
mod removed;
mod renamed;
mod rig;
mod times;
mod told;
mod versions;
