//! The words every layer uses: numbers that must not be mixed up, names, ranges, attributes,
//! errno values, checksums, limits, time and chance. No I/O, and no other crate of ours.

mod attr;
mod budget;
mod checksum;
mod clock;
mod errno;
mod histogram;
mod ids;
mod metrics;
mod name;
mod range;
mod rng;
mod timing;

pub use attr::{Attr, FileKind, Timestamp};
pub use budget::{Budget, Permit};
pub use checksum::{crc32c, crc32c_append};
#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock};
pub use errno::Errno;
pub use histogram::Times;
pub use ids::{HandleId, Ino};
pub use metrics::{Counter, Metrics};
pub use name::{Name, NameError};
pub use range::ByteRange;
pub use rng::Rng;
pub use timing::{Party, Timing};
