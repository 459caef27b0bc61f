//! What is never dropped from the cache: paths that people pinned, and the versions that these keep.
//!
//! The store knows no paths: a pin is a name that its caller gives to a set of versions. Who pins
//! a path again, because other files are there now, replaces the set.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::granule;
use crate::ground::Ground;
use crate::layout::{Layout, VersionName};
use crate::state::pins::{Held, Pin, Wanted, pin_rows};

/// The pins of one volume.
#[derive(Clone, Debug)]
pub struct Pins {
    ground: Arc<Ground>,
    volume: String,
}

/// So much of the cache may be pinned: the rest is for all that is not.
const PINNED_PERCENT_MAX: u64 = 90;

impl Pins {
    /// Those of `volume`.
    pub(crate) fn new(ground: &Arc<Ground>, volume: &str) -> Pins {
        Pins { ground: Arc::clone(ground), volume: volume.to_owned() }
    }

    /// The paths that are pinned.
    pub fn paths(&self) -> Result<Vec<Vec<u8>>> {
        self.ground.db.pinned_paths(&self.volume)
    }

    /// The pin `path` keeps just these versions, identities and sizes, from now on.
    pub fn hold(&self, path: &[u8], versions: &[(Vec<u8>, u64)]) -> Result<Held> {
        self.ground.db.pin((&self.volume, path), &wanted(versions), self.limit_bytes())
    }

    /// As [`Pins::hold`], if there is such a pin still: somebody may have taken it away while its files
    /// were looked for.
    pub fn renew(&self, path: &[u8], versions: &[(Vec<u8>, u64)]) -> Result<Option<Held>> {
        self.ground.db.renew_pin((&self.volume, path), &wanted(versions), self.limit_bytes())
    }

    fn limit_bytes(&self) -> u64 {
        self.ground.space.capacity_bytes() / 100 * PINNED_PERCENT_MAX
    }

    /// Forgets the pin `path`; returns whether there was one.
    pub fn release(&self, path: &[u8]) -> Result<bool> {
        self.ground.db.unpin(&self.volume, path)
    }
}

fn wanted(versions: &[(Vec<u8>, u64)]) -> Vec<Wanted> {
    let of = |(identity, size): &(Vec<u8>, u64)| {
        (VersionName::of(identity, *size), granule::on_disk(*size))
    };
    versions.iter().map(of).collect()
}

/// The pins of all volumes of the state folder `dir`. Needs no open store, so it works beside mounts and
/// without.
pub fn pins(dir: &Path) -> Result<Vec<Pin>> {
    let database = Layout::new(dir.to_owned()).database();
    if !database.exists() {
        return Ok(Vec::new());
    }
    let connection = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let rows = connection.and_then(|connection| {
        // A folder that an older program made, and that no newer one has opened since, has none.
        let has_pins = "SELECT 1 FROM sqlite_schema WHERE name = 'pins'";
        if connection.prepare(has_pins)?.exists([])? {
            pin_rows(&connection)
        } else {
            Ok(Vec::new())
        }
    });
    rows.map_err(|error| Error::db("list pins", &database, error))
}
