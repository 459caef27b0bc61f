//! The words every layer uses: numbers that must not be mixed up, names, ranges, attributes,
//! errno values, checksums, limits, time and chance. No I/O, and no other crate of ours.

mod affinity;
mod attr;
mod budget;
mod checksum;
mod clock;
mod errno;
mod histogram;
mod ids;
mod in_flight;
mod metrics;
mod name;
mod percent;
mod printable;
mod range;
mod rng;
mod share;
mod timing;
mod unheard;

pub use affinity::Affinity;
pub use attr::{Attr, FileKind, Timestamp};
pub use budget::{Budget, Permit};
pub use checksum::{crc32c, crc32c_append};
#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, SystemClock};
pub use errno::Errno;
pub use histogram::Times;
pub use ids::{HandleId, Ino};
pub use in_flight::{InFlight, Oldest, Place};
pub use metrics::{Counter, Metrics};
pub use name::{Name, NameError};
pub use percent::{percent_decode, percent_encode, spelled, units, unspelled};
pub use printable::printable;
pub use range::ByteRange;
pub use rng::Rng;
pub use share::{Share, Shares};
pub use timing::{Party, Timing};
pub use unheard::Unheard;
