//! fallocate: room for bytes to come, and zeros for those that were there.

use std::sync::Arc;

use base::{ByteRange, Errno, HandleId};
use namespace::SetAttr;
use store::{Growth, Outcome, Staged};

use crate::errno::{Error, Result};
use crate::file::{Bytes, File, Named};
use crate::vfs::Vfs;

/// What is to become of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// No write to it may fail for want of room.
    Allocate(Growth),
    /// It is zeros, and takes no room.
    Punch,
    /// It is zeros, and no write to it may fail for want of room.
    Zero(Growth),
}

/// What came of a try.
enum Here {
    Done(Change),
    /// The file must be [prepared](Vfs::prepare) for writes first.
    Unprepared,
    /// This must be taken from the base first.
    Needs(ByteRange),
}

/// What a call changed of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Bytes or size.
    Content,
    /// Only the room that it has.
    Room,
}

impl Vfs {
    /// Does `what` to `range`. Nothing is fetched for it but what it leaves of the granules at the
    /// ends of the range.
    pub async fn fallocate(
        self: Arc<Self>,
        handle: HandleId,
        range: ByteRange,
        what: Fallocate,
    ) -> Result<()> {
        let handle = self.handles.file(handle)?;
        if !handle.access.writes() {
            return Err(Error::Call(Errno::EBADF));
        }
        let file = &handle.file;
        if what != Fallocate::Punch && self.options.file_bytes_max < range.end() {
            return Err(Error::Call(Errno::EFBIG));
        }
        loop {
            match self.fallocate_here(file, range, what)? {
                Here::Done(Change::Content) => return Ok(()),
                Here::Done(Change::Room) => return self.note_room(file).await,
                Here::Unprepared => self.prepare(file).await?,
                Here::Needs(range) => self.fill(file, range).await?,
            }
        }
    }

    fn fallocate_here(&self, file: &File, range: ByteRange, what: Fallocate) -> Result<Here> {
        let state = file.state.read();
        let staged = match &state.bytes {
            Bytes::Staged { staged, .. } if file.is_announced() => staged,
            Bytes::Staged { .. } | Bytes::Clean(_) => return Ok(Here::Unprepared),
        };
        let size = staged.size();
        match apply(staged, range, what)? {
            Outcome::Needs(range) => return Ok(Here::Needs(range)),
            Outcome::Done => {}
        }
        // Still under the guard: bytes are not published with an earlier time.
        let grows = match what {
            Fallocate::Allocate(growth) | Fallocate::Zero(growth) => growth == Growth::Grows,
            Fallocate::Punch => false,
        };
        if grows {
            file.reaches(range.end());
        }
        let is_zeroed = range.start() < size && !matches!(what, Fallocate::Allocate(_));
        if is_zeroed || (grows && size < range.end()) {
            file.touch(self.clock.wall());
            return Ok(Here::Done(Change::Content));
        }
        Ok(Here::Done(Change::Room))
    }

    /// The bytes are as they were, but local disks count it as a change all the same.
    async fn note_room(&self, file: &File) -> Result<()> {
        let now = self.clock.wall();
        let name = file.state.read().name;
        match name {
            Named::Yes => self.say_time(file.ino(), now).await,
            Named::No => {
                let change = SetAttr { mtime: Some(now), ..SetAttr::default() };
                file.attributes_changed(&change, now);
                Ok(())
            }
        }
    }
}

fn apply(staged: &Staged, range: ByteRange, what: Fallocate) -> Result<Outcome> {
    let growth = match what {
        Fallocate::Punch => return Ok(staged.punch(range)?),
        Fallocate::Zero(growth) => {
            if let Outcome::Needs(range) = staged.punch(range)? {
                return Ok(Outcome::Needs(range));
            }
            growth
        }
        Fallocate::Allocate(growth) => growth,
    };
    staged.allocate(range, growth)?;
    Ok(Outcome::Done)
}
