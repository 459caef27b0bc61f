//! The local file store: cache and write staging in the same sparse backing files.
//!
//! A file version's bytes are in one sparse file on the local disk, at their own offsets. While the
//! bucket has them, the file is a [`Cached`]: parts of it may be here or not, and may be dropped.
//! While it does not, the file is a [`Staged`]: all of it stays until the bucket has it. An upload
//! turns the second into the first, and a write the first into the second, by rename.
//!
//! `docs/format.md` describes what is on the disk and what each part of it means after a crash.

mod backing;
mod body;
mod books;
mod cached;
mod check;
mod collect;
mod damaged;
mod dirty;
mod disk;
mod error;
mod evict;
mod extent;
mod facts;
#[cfg(feature = "testing")]
mod faulty_disk;
mod frozen;
mod granule;
mod granule_set;
mod ground;
mod holes;
mod journal;
mod journaled;
mod kept;
mod kept_note;
mod layout;
mod lending;
mod lock;
mod look;
mod moves;
mod numbers;
mod orphan;
mod owners;
mod ownership;
mod piece;
mod pins;
mod presence;
mod quota;
mod recovery;
mod repair;
mod residency;
mod sealed;
mod sharing;
mod space;
mod spares;
mod staged;
mod state;
mod store;
mod strangers;
mod sums;
mod table;
mod trusted_path;
mod waiting;

pub use backing::{BackingFile, FetchTurn};
pub use cached::{Cached, InUse};
pub use check::{Flaw, Weight, check};
pub use collect::Dropped;
pub use error::{Error, ErrorKind, Result};
pub use extent::Moment;
pub use facts::Facts;
#[cfg(feature = "testing")]
pub use faulty_disk::Faults;
pub use granule::GRANULE_BYTES;
pub use granule_set::GranuleSet;
pub use holes::{Growth, Seek};
pub use journal::{Journal, Op, OpId, OpKind, Replayed};
pub use journaled::{Journaled, journaled};
pub use kept::{Discarded, Kept, KeptFile, KeptOpened, discard_kept, kept, kept_path, open_kept};
pub use moves::{Adopted, Base};
pub use numbers::Numbers;
pub use orphan::{Orphan, OrphanState};
pub use ownership::{Unsafe, check_ownership};
pub use pins::{Pins, pins};
pub use recovery::{Keeping, Rest};
pub use repair::repair;
pub use sealed::{Earlier, Sealed};
pub use space::CacheLimit;
pub use staged::{Outcome, Staged};
pub use state::pins::{Held, Pin};
#[cfg(feature = "testing")]
pub use store::World;
pub use store::{Options, Store, Usage};
pub use trusted_path::{create_trusted, resolve_trusted};
pub use waiting::{StagedFiles, Waiting, WaitingKind, waiting};
