//! Holes in a staged file: made, filled with room, and found.

use base::ByteRange;

use crate::backing::BackingFile;
use crate::body::Body;
use crate::error::{Error, ErrorKind, Result};
use crate::granule;
use crate::staged::{Outcome, Staged};

/// Whether a file grows to hold what room is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// To the end of it, by zeros.
    Grows,
    /// Not at all: the room is for later.
    Stays,
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// A byte that may be something else than zero.
    Data,
    /// A zero that takes no space. One is thought to follow the end of the file.
    Hole,
}

impl Staged {
    /// Makes what of `range` is below the size zeros, and gives back its space.
    ///
    /// Of the base only the granules at the ends of the range are asked for.
    pub fn punch(&self, range: ByteRange) -> Result<Outcome> {
        let mut guard = self.guard("punch")?;
        let body = guard.body();
        let Some(range) = range.below(body.size) else { return Ok(Outcome::Done) };
        if let Some(needs) = self.draw_edges(body, range)? {
            return Ok(Outcome::Needs(needs));
        }
        self.will_change(body, Some(range))?;
        body.will_differ(range);
        body.extents.will_punch(range, body.now);
        body.file.punch(range).map_err(|error| self.io("punch", error))?;
        // Zeros of our own from here on, where the base would show through.
        for granule in range.below(body.visible()).into_iter().flat_map(granule::touched) {
            body.extents.insert(granule);
        }
        self.count(body);
        Ok(Outcome::Done)
    }

    /// Takes room on the disk for `range`, so that no write to it fails for the lack of it.
    pub fn allocate(&self, range: ByteRange, growth: Growth) -> Result<()> {
        let mut guard = self.guard("allocate")?;
        let body = guard.body();
        self.take_room(body, range)?;
        if growth == Growth::Grows && body.size < range.end() {
            self.will_change(body, None)?;
            body.file.set_len(range.end()).map_err(|error| self.io("allocate", error))?;
            body.size = range.end();
        }
        Ok(())
    }

    /// The first place at or after `from` and below the size that is what is looked for; `None` if
    /// `from` is not below the size, or only a hole follows.
    ///
    /// What must still be taken from the base is data.
    pub fn seek(&self, seek: Seek, from: u64) -> Result<Option<u64>> {
        let found = self.look(|body| match seek {
            Seek::Data => first_data(body, from),
            Seek::Hole => first_hole(body, from),
        });
        let found = found.ok_or_else(|| self.error(ErrorKind::Gone, "seek"))?;
        found.map_err(|error| self.io("seek", error))
    }

    fn take_room(&self, body: &Body, range: ByteRange) -> Result<()> {
        let space = &self.ground().space;
        let io = |error| self.io("allocate", error);
        let wanted = hole_bytes(&body.file, range).map_err(io)?;
        space.make_way(wanted);
        // Asked first: a disk takes what it can before it finds that it cannot take all.
        let lacking = wanted.saturating_sub(space.room()?.free_bytes);
        if 0 < lacking && !space.relieve(lacking) {
            return Err(self.error(ErrorKind::Full, "allocate"));
        }
        if space.room()?.free_bytes < wanted {
            return Err(self.error(ErrorKind::Full, "allocate"));
        }
        let mut result = body.file.allocate(range);
        if let Err(error) = &result
            && Error::is_full(error)
            && space.relieve(wanted)
        {
            result = body.file.allocate(range);
        }
        result.map_err(|error| {
            if let Err(error) = body.file.set_len(body.size) {
                tracing::warn!(%error, "room that is not needed could not be given back");
            }
            io(error)
        })
    }
}

impl BackingFile {
    /// The first place at or after `from` and below `size` that is what is looked for.
    pub fn seek(&self, seek: Seek, from: u64, size: u64) -> std::io::Result<Option<u64>> {
        let Some(rest) = ByteRange::new(from, size) else { return Ok(None) };
        match seek {
            Seek::Data => Ok(self.data(rest)?.map(ByteRange::start)),
            Seek::Hole => {
                let mut at = from;
                while let Some(rest) = ByteRange::new(at, size) {
                    match self.data(rest)? {
                        Some(data) if data.start() == at => at = data.end(),
                        Some(_) | None => break,
                    }
                }
                Ok(Some(at))
            }
        }
    }
}

fn first_data(body: &Body, from: u64) -> std::io::Result<Option<u64>> {
    let Some(rest) = ByteRange::new(from, body.size) else { return Ok(None) };
    let ours = body.file.data(rest)?.map(ByteRange::start);
    let bases = body.missing(rest).map(|missing| missing.start().max(from));
    Ok(ours.into_iter().chain(bases).min())
}

fn first_hole(body: &Body, from: u64) -> std::io::Result<Option<u64>> {
    if body.size <= from {
        return Ok(None);
    }
    let mut at = from;
    while let Some(rest) = ByteRange::new(at, body.size) {
        let ours = body.file.data(rest)?.filter(|data| data.start() == at);
        let bases = body.missing(rest).filter(|missing| missing.start() <= at);
        let Some(end) = ours.into_iter().chain(bases).map(ByteRange::end).max() else { break };
        at = end;
    }
    Ok(Some(at.min(body.size)))
}

/// How much of `range` takes no space yet.
fn hole_bytes(file: &BackingFile, range: ByteRange) -> std::io::Result<u64> {
    let mut holes = range.len();
    let mut at = range.start();
    while let Some(rest) = ByteRange::new(at, range.end()) {
        let Some(data) = file.data(rest)? else { break };
        holes -= data.len();
        at = data.end();
    }
    Ok(holes)
}
