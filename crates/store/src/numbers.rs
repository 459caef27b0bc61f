//! Inode numbers that are not what their paths say, by volume.

use std::sync::Arc;

use base::Ino;

use crate::error::Result;
use crate::ground::Ground;

/// Such numbers of one volume.
#[derive(Clone, Debug)]
pub struct Numbers {
    ground: Arc<Ground>,
    volume: String,
}

impl Numbers {
    /// How many are kept of one volume; of more the oldest are dropped.
    pub const ROWS_MAX: u32 = 1 << 18;

    /// Those of `volume`.
    pub(crate) fn new(ground: &Arc<Ground>, volume: &str) -> Numbers {
        Numbers { ground: Arc::clone(ground), volume: volume.to_owned() }
    }

    /// All of them with their paths, oldest first.
    pub fn all(&self) -> Result<Vec<(Vec<u8>, Ino)>> {
        self.ground.db.numbers(&self.volume, Numbers::ROWS_MAX)
    }

    /// Notes numbers, or that there are none any more, in order and in one transaction.
    pub fn set(&self, changes: &[(Vec<u8>, Option<Ino>)]) -> Result<()> {
        self.ground.db.set_numbers(&self.volume, changes)
    }
}
