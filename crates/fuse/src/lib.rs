//! The kernel's side; knows nothing of files' meaning.
//!
//! A [`Service`] answers [`Request`]s with [`Reply`]s. Everything else, the wire, threads, panics,
//! counters, mounting, is here. Messages come and go in one of two ways, `/dev/fuse` (`channel`) and
//! `io_uring` (`ring`), and mean the same in both (`wire`, `decode`, `reply`).
//!
//! ```text
//!   Session::mount ──▶ Mounted ──serve(service)──▶ Session ──wait──▶ unmounted
//!                        │ notifier, passthrough: what a service may need to be built
//! ```

mod answer;
mod channel;
mod cpus;
mod decode;
mod error;
mod helper;
mod init;
mod mount;
mod notify;
mod passthrough;
mod reply;
mod ring;
mod service;
mod session;
mod table;
mod ticket;
mod wire;

pub use error::{MountError, MountErrorKind};
pub use init::SetIdBits;
pub use mount::{
    MountOptions, Trust, Unmount, check_mount_point, is_dead, may_trust, mount_above, mount_of,
    mounts_above, our_mount, unmount_path,
};
pub use notify::Notifier;
pub use passthrough::{Backing, Passthrough, PassthroughWish};
pub use ring::{RING_SWITCH, RingSwitch, RingWish, Transport, ring_switch};
pub use service::{
    Access, Answer, Caller, DirEntry, OpenReply, Reply, Request, Service, SetTime, Statfs,
};
pub use session::{Mounted, Session, Unmounter};
pub use table::{
    Device, MountEntry, mounted_at, mounted_below, mounts, resolve, where_mounted, would_be_kept,
};
