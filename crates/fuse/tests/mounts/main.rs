//! What the kernel sees, on real mounts. Needs root and `/dev/fuse`.

#![expect(clippy::unwrap_used, reason = "what cannot be set up is a failed test")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a file system for tests need not know every request"
)]

mod ends;
mod memory;
mod requests;
mod rig;
mod user;
