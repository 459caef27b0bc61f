//! write and truncate.

use std::sync::Arc;

use base::{ByteRange, Errno, HandleId};
use namespace::SetAttr;
use store::Outcome;

use crate::errno::{Error, Result};
use crate::file::{Announced, Bytes, File, Named, Overwrite};
use crate::kernel::PageRange;
use crate::ops::copy::Place;
use crate::page_cache::{InodeLock, PageCache, WriteMode};
use crate::vfs::Vfs;

/// What came of a write.
enum Here {
    Written,
    /// The file must be [prepared](Vfs::prepare) for writes first.
    Unprepared,
    /// This must be taken from the base first.
    Needs(ByteRange),
    /// The file is published to make room: writers wait for that.
    Held,
    /// The page cache may hold old bytes of it after the write, which then have to be dropped.
    Beside,
}

/// Whether pages can be dropped after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// They cannot: that takes waiting.
    Stay,
    /// They will be.
    WillGo,
}

/// What came of a truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It was cut, or has grown.
    Changed,
    /// It had that size.
    Unchanged,
}

/// Others may take the room that was made, or clean the file, before it is written, but not for ever.
const WRITE_TRIES_MAX: usize = 1000;

impl Vfs {
    /// Writes `bytes` at `offset` if that takes no waiting; `None` if it does: then
    /// [`Vfs::write`] is to be called with a copy.
    ///
    /// Who has written is to [wait](Vfs::wait_for_room) if there is [no room](Vfs::has_room) for more.
    pub fn try_write(&self, to: Place, bytes: &[u8], mode: WriteMode) -> Option<Result<u32>> {
        let (handle, offset) = to;
        let handle = match self.handles.file(handle) {
            Ok(handle) if handle.access.writes() => handle,
            Ok(_) => return Some(Err(Error::Call(Errno::EBADF))),
            Err(error) => return Some(Err(error)),
        };
        handle.goes_on();
        handle.wrote((offset, bytes.len()), mode);
        match self.write_here(&handle.file, (offset, bytes), (mode, Pages::Stay)) {
            Ok(Here::Written) => Some(Ok(written(bytes))),
            Ok(Here::Unprepared | Here::Needs(_) | Here::Held | Here::Beside) => None,
            // Uploads may make room.
            Err(error) if error.is_full() => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Writes `bytes` at `offset`, all of them.
    pub async fn write(self: Arc<Self>, to: Place, bytes: Vec<u8>, mode: WriteMode) -> Result<u32> {
        let (handle, offset) = to;
        let handle = self.handles.file(handle)?;
        handle.goes_on();
        handle.wrote((offset, bytes.len()), mode);
        let file = Arc::clone(&handle.file);
        let _pages = (mode == WriteMode::Buffered).then(|| file.page_locks.hold());
        for _ in 0..WRITE_TRIES_MAX {
            let step = match self.write_here(&file, (offset, &bytes), (mode, Pages::WillGo)) {
                Ok(wrote @ (Here::Written | Here::Beside)) => {
                    let written = written(&bytes);
                    let range = ByteRange::at(offset, u64::from(written));
                    if let (Here::Beside, Some(range)) = (wrote, range) {
                        self.drop_pages(&file, PageRange::Of(range), InodeLock::Free).await;
                    }
                    // Who waits holds no memory.
                    drop(bytes);
                    self.wait_for_room().await;
                    return Ok(written);
                }
                Ok(Here::Unprepared) => self.prepare(&file).await,
                Ok(Here::Needs(range)) => self.fill(&file, range).await,
                Ok(Here::Held) => {
                    drop(file.gate.read().await);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                self.relieve_disk(error).await?;
            }
        }
        Err(Error::Call(Errno::ENOSPC))
    }

    /// Waits for room for more, after a write through `handle` that is not answered yet.
    pub async fn wait_for_room_after(self: &Arc<Self>, handle: HandleId, mode: WriteMode) {
        let handle = self.handles.file(handle).ok();
        let buffered = handle.as_ref().filter(|_| mode == WriteMode::Buffered);
        // The kernel holds pages until the answer.
        let _pages = buffered.map(|handle| handle.file.page_locks.hold());
        self.wait_for_room().await;
    }

    /// Makes sure that writes have a staged file to go to, and that the names know of them: from
    /// then on the file is the one here, whatever others do to its object.
    pub(crate) async fn prepare(&self, file: &File) -> Result<()> {
        self.stage(file)?;
        if file.is_announced() {
            return Ok(());
        }
        // One after the other: who tells the names late must not find them believing others again.
        let _timing = file.timing.lock().await;
        if !file.is_announced() {
            let change = SetAttr { size: Some(file.size()), ..SetAttr::default() };
            let named = file.state.read().name;
            self.check_writable(file, named)?;
            if named == Named::Yes {
                self.namespace.set_attr(file.ino(), change).await?;
            }
            let state = file.state.read();
            // If it has lost its name just now, that is looked at again.
            if state.name == named {
                file.announce(Announced::Yes);
            }
        }
        Ok(())
    }

    /// Cuts or grows a file that is in use.
    pub(crate) async fn truncate_file(&self, file: &File, size: u64) -> Result<Cut> {
        loop {
            if let Some(cut) = self.truncate_here(file, size)? {
                return Ok(cut);
            }
            // Someone's close may make it a clean file again before it is cut.
            self.prepare(file).await?;
        }
    }

    /// `None` if the file must be [prepared](Vfs::prepare) first.
    fn truncate_here(&self, file: &File, size: u64) -> Result<Option<Cut>> {
        let mut state = file.state.write();
        let staged = match &state.bytes {
            Bytes::Staged { staged, .. } if file.is_announced() => staged,
            Bytes::Staged { .. } | Bytes::Clean(_) => return Ok(None),
        };
        let cut = if staged.size() == size { Cut::Unchanged } else { Cut::Changed };
        staged.truncate(size)?;
        file.resized(size);
        if size == 0 {
            // Nothing of what was there remains: the file is written whole from here on.
            state.overwrite = Overwrite::Wins;
            file.stream.restart();
        }
        drop(state);
        if cut == Cut::Changed {
            file.touch(self.clock.wall());
        }
        Ok(Some(cut))
    }

    /// Writes if nothing is in the way; the state's guard keeps the bytes from becoming clean ones
    /// meanwhile, and readers from opening it before they can be told of pages that have become old.
    fn write_here(
        &self,
        file: &Arc<File>,
        (offset, bytes): (u64, &[u8]),
        (mode, pages): (WriteMode, Pages),
    ) -> Result<Here> {
        self.check_size(offset, bytes.len())?;
        file.goes_on();
        let Ok(_in) = file.gate.try_read() else { return Ok(Here::Held) };
        let state = file.state.read();
        let staged = match &state.bytes {
            Bytes::Staged { staged, .. } if file.is_announced() => staged,
            Bytes::Staged { .. } | Bytes::Clean(_) => return Ok(Here::Unprepared),
        };
        let is_beside = mode == WriteMode::Direct && state.io.fills_pages_beside_a_writer();
        if is_beside && pages == Pages::Stay {
            return Ok(Here::Beside);
        }
        match staged.write(offset, bytes)? {
            Outcome::Needs(range) => Ok(Here::Needs(range)),
            Outcome::Done => {
                // Still under the guard: bytes are not published with an earlier time.
                file.reaches(offset + bytes.len() as u64);
                file.touch(self.clock.wall());
                self.grew(file, offset + bytes.len() as u64);
                if mode == WriteMode::Direct && state.io.is_cached() {
                    self.inodes.with_page_cache(file.ino(), PageCache::pass);
                }
                Ok(if is_beside { Here::Beside } else { Here::Written })
            }
        }
    }

    fn check_size(&self, offset: u64, len: usize) -> Result<()> {
        let end = offset.checked_add(len as u64);
        let fits = end.is_some_and(|end| end <= self.options.file_bytes_max);
        if fits { Ok(()) } else { Err(Error::Call(Errno::EFBIG)) }
    }
}

fn written(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("the kernel writes less than 4 GiB at once")
}
