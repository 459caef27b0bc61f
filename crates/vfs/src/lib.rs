//! The file system: inodes, handles, locks, operations; no wire format, no provider, no database.
//!
//! [`Vfs`] has one method an operation of the kernel's. Each is an `async fn` that does not wait
//! where the answer is known; see `ARCHITECTURE.md` for the life of a read and of a write.

mod access;
mod acknowledge;
mod again;
mod ahead;
mod aimed;
mod backlog;
mod beside;
mod commit;
mod dir;
mod drop_pages;
mod errno;
mod failures;
mod file;
mod files;
mod fill;
mod give_up;
mod handles;
mod hope;
mod in_order;
mod inodes;
mod io_mode;
mod kernel;
mod last;
mod later;
mod limit;
mod moved;
mod neighbours;
mod note;
mod noting;
mod ops;
mod order;
mod origin;
mod pace;
mod page_cache;
mod page_locks;
mod pending;
mod pins;
mod publishing;
mod put_back;
mod recover;
mod relief;
mod reopened;
mod restore;
mod set_id;
mod source;
mod stream;
mod trail;
mod vfs;
mod victims;
mod waiting;
mod warm;
mod xattr_names;

pub use access::Access;
pub use errno::{Error, Result, errno};
pub use give_up::give_up;
pub use limit::DirtyLimit;

pub use kernel::{Backing, Kernel, PageRange};
pub use last::Last;
pub use note::{Destination, destination, leaves_nothing};
pub use ops::copy::Place;
pub use ops::dir::{DirEntry, DirPage, Plus};
pub use ops::fallocate::Fallocate;
pub use ops::inspect::Inspection;
pub use ops::open::{Opened, Pages};
pub use ops::statfs::Space;
pub use ops::xattr::Privilege;
pub use page_cache::WriteMode;
pub use pending::{PendingFile, Stage};
pub use pins::Pinned;
pub use put_back::{NotPutBack, PutBackTo};
pub use recover::Recovered;
pub use relief::Dirty;
pub use store::{Growth, Seek};
pub use vfs::{
    Commit, News, Next, PENDING_FILES, Pending, UPLOAD_DELAY, Unpublished, Vfs, VfsOptions,
};
pub use waiting::PendingLimit;
pub use warm::{Evicted, Warmed, Warming};
pub use xattr_names::TrustedXattrs;
