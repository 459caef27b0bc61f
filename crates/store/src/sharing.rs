//! Several processes, one cache: each byte of a version is fetched by one of them.
//!
//! ```text
//!   this process                              another one
//!   turn at granules (a lock of the kernel)
//!   fetches, fills                            wants the same granules: no turn yet
//!   records what is here
//!   gives the turn back ────────────────────▶ turn; learns what is recorded, and fetches the rest
//! ```
//!
//! The lock goes with its process, however that ends: what it had not recorded is fetched again.

use base::ByteRange;

use crate::backing::FetchTurn;
use crate::cached::Cached;
use crate::error::{Error, Result};
use crate::granule;
use crate::presence::Standing;
use crate::store::Store;

impl Store {
    /// Whether other processes have the state folder open just now. Who cannot tell has none.
    pub fn has_company(&self) -> bool {
        self.owners().has_company().unwrap_or(false)
    }

    /// The right to fetch `range` of a version among processes; `None` if one of them is at part of it.
    pub fn fetch_turn(&self, cached: &Cached, range: ByteRange) -> Result<Option<FetchTurn>> {
        let body = cached.here("take turn")?;
        let turn = body.file.take_turn(granule::touched(range));
        turn.map_err(|error| Error::io("take turn", &cached.path(), error))
    }

    /// Takes over what other processes have recorded of `range` of a version.
    pub fn learn(&self, cached: &Cached, range: ByteRange) -> Result<()> {
        let granules = granule::touched(range);
        let first = granule::place(granules.start).0;
        let last = granule::place(granules.end.saturating_sub(1)).0;
        // Whoever drops some of it waits: what a row says after that is not so any more.
        let body = cached.here("learn")?;
        let Some(row) = self.ground().db.pieces(cached.name(), first..=last)? else {
            return Ok(());
        };
        if row.inode != body.file.inode() {
            // It is of another file of that name.
            return Ok(());
        }
        let mut added = 0;
        for (piece, map, standing) in &row.pieces {
            if *standing == Standing::Here {
                added += body.presence.learn(*piece, map, &granules);
            }
        }
        drop(body);
        self.ground().space.learned(added);
        Ok(())
    }
}
