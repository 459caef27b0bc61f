//! Bytes that are brought into the cache, or dropped from it, because somebody asked for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Attr, ByteRange, Errno, FileKind, Ino};
use futures::{StreamExt, TryStreamExt, stream};
use namespace::Content;
use store::Dropped;
use transfer::Download;

use crate::errno::{Error, Result};
use crate::file::Bytes;
use crate::vfs::Vfs;

/// Somebody's wish to have files here: what of the cache it has taken so far.
///
/// What is brought for it may take the place of what others read, but not of what it brought itself:
/// with more than the cache can hold it would never end.
#[derive(Debug)]
pub struct Warming {
    room_bytes: u64,
    taken_bytes: AtomicU64,
}

/// What came of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Bytes that were fetched.
    pub brought_bytes: u64,
    /// Bytes that were here already.
    pub here_bytes: u64,
}

/// What came of a wish to drop a file from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// So many bytes of the disk are free now.
    Freed(u64),
    /// Somebody has it open.
    InUse,
    /// The bucket does not have all of it yet.
    Dirty,
    /// It is pinned.
    Pinned,
}

/// How much is asked for at a time, and how often one file asks at a time. Who goes away meanwhile
/// leaves no more than that under way.
const PIECE_BYTES: u64 = 8 << 20;
const PIECES_AT_A_TIME: usize = 8;

/// The smallest file takes this much of the disk.
const BLOCK_BYTES: u64 = 4096;

impl Warming {
    /// A wish to have files here, of `vfs` and of what shares its store.
    pub fn new(vfs: &Vfs) -> Result<Warming> {
        let room_bytes = vfs.store.cacheable_bytes()?;
        Ok(Warming { room_bytes, taken_bytes: AtomicU64::new(0) })
    }

    /// A wish for what is known to fit.
    pub(crate) fn unbounded() -> Warming {
        Warming { room_bytes: u64::MAX, taken_bytes: AtomicU64::new(0) }
    }

    /// What the cache can take for it altogether.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Brings `ranges` of the file `ino` into the cache, all of it if none is given, and tells of the
    /// bytes of each piece that has come. Reads of others go first.
    ///
    /// Fails with what [is beyond the cache](Error::is_beyond_cache) where the cache has no room for it.
    pub async fn file(
        &self,
        vfs: &Arc<Vfs>,
        ino: Ino,
        ranges: &[ByteRange],
        tell: &(impl Fn(u64) + Sync),
    ) -> Result<Warmed> {
        let _held = vfs.held(ino)?;
        let Some(source) = vfs.source_of(ino).await? else {
            return Ok(Warmed { brought_bytes: 0, here_bytes: vfs.size_in_use(ino) });
        };
        let all = ByteRange::new(0, source.size());
        let ranges: Vec<ByteRange> = match ranges {
            [] => all.into_iter().collect(),
            some => some.iter().filter_map(|range| range.below(source.size())).collect(),
        };
        let lacks = |range: &ByteRange| source.lacks_bytes(*range).min(range.len());
        let lacks_bytes = ranges.iter().map(lacks).sum();
        if self.is_beyond(lacks_bytes) {
            // Before anything makes room for it: that would only drop what is here.
            return Err(Error::Call(Errno::ENOSPC));
        }
        self.bring(vfs, &source, ranges, tell).await
    }

    /// Whether the cache has no room for so many more bytes.
    fn is_beyond(&self, bytes: u64) -> bool {
        self.room_bytes < self.taken_bytes.load(Ordering::Relaxed).saturating_add(bytes)
    }

    /// Brings ranges of what `source` reads into the cache.
    pub(crate) async fn bring(
        &self,
        vfs: &Vfs,
        source: &Arc<Download>,
        ranges: Vec<ByteRange>,
        tell: &(impl Fn(u64) + Sync),
    ) -> Result<Warmed> {
        let shared = vfs.share(source);
        let pieces = ranges.into_iter().flat_map(|range| range.pieces(PIECE_BYTES));
        let warmed = stream::iter(pieces)
            .map(|piece| async move {
                let warmed = self.piece(vfs, source, piece).await?;
                tell(piece.len());
                Ok::<Warmed, Error>(warmed)
            })
            .buffer_unordered(PIECES_AT_A_TIME)
            .try_fold(Warmed::default(), |all, one| async move { Ok(all.and(one)) })
            .await;
        drop(shared);
        warmed
    }

    async fn piece(&self, vfs: &Vfs, source: &Arc<Download>, piece: ByteRange) -> Result<Warmed> {
        let takes_bytes = piece.len().next_multiple_of(BLOCK_BYTES);
        let taken_bytes = self.taken_bytes.fetch_add(takes_bytes, Ordering::Relaxed) + takes_bytes;
        let lacks_bytes = source.lacks_bytes(piece).min(piece.len());
        if lacks_bytes == 0 {
            return Ok(Warmed { brought_bytes: 0, here_bytes: piece.len() });
        }
        if self.room_bytes < taken_bytes {
            return Err(Error::Call(Errno::ENOSPC));
        }
        bring_piece(vfs, source, piece).await?;
        Ok(Warmed { brought_bytes: lacks_bytes, here_bytes: piece.len() - lacks_bytes })
    }
}

/// How often a piece is tried that there is no room for while other mounts, which share the cache, let go of what they
/// do not use: about 3 s.
const ROOM_TRIES: usize = 30;
const ROOM_DELAY: Duration = Duration::from_millis(100);

async fn bring_piece(vfs: &Vfs, source: &Arc<Download>, piece: ByteRange) -> Result<()> {
    let mut tries = if vfs.store.has_company() { ROOM_TRIES } else { 0 };
    loop {
        match source.bring(piece).await.map_err(Error::from) {
            Err(error) if error.is_full() && 0 < tries => tries -= 1,
            done => return done,
        }
        vfs.store.clock().sleep(ROOM_DELAY).await;
    }
}

impl Warmed {
    fn and(self, other: Warmed) -> Warmed {
        Warmed {
            brought_bytes: self.brought_bytes + other.brought_bytes,
            here_bytes: self.here_bytes + other.here_bytes,
        }
    }
}

impl Vfs {
    /// Drops what is here of the file `ino`, if the bucket has all of it and nobody has it open.
    pub async fn evict(self: &Arc<Self>, ino: Ino) -> Result<Evicted> {
        let _held = self.held(ino)?;
        if let Some(file) = self.files.find(ino) {
            let is_clean = matches!(file.state.read().bytes, Bytes::Clean(_));
            if file.is_dirty() || !is_clean && !self.files.is_open(ino) {
                return Ok(Evicted::Dirty);
            }
            if self.files.is_open(ino) {
                return Ok(Evicted::InUse);
            }
            drop(file);
        }
        let Content { identity: Some(identity), size, .. } = self.namespace.content(ino).await?
        else {
            return Ok(Evicted::Dirty);
        };
        let (vfs, store) = (Arc::clone(self), self.store.clone());
        // The disk may take a moment to give up a large file.
        let dropping = vfs.runtime.spawn_blocking(move || store.drop_version(&identity, size));
        let dropped = dropping.await.map_err(|_| Error::Transfer(transfer::Error::Stopped))??;
        Ok(match dropped {
            Dropped::Freed(bytes) => Evicted::Freed(bytes),
            Dropped::InUse => Evicted::InUse,
            Dropped::Pinned => Evicted::Pinned,
        })
    }

    /// What the file `ino` is fetched from; `None` if it is here only.
    pub(crate) async fn source_of(self: &Arc<Self>, ino: Ino) -> Result<Option<Arc<Download>>> {
        if let Some(file) = self.files.find(ino) {
            return Ok(match &file.state.read().bytes {
                Bytes::Clean(source) | Bytes::Staged { base: Some(source), .. } => {
                    Some(Arc::clone(source))
                }
                Bytes::Staged { base: None, .. } => None,
            });
        }
        let Content { identity, size, extents } = self.namespace.content(ino).await?;
        identity.map(|identity| self.download(&identity, size, extents)).transpose()
    }

    fn size_in_use(&self, ino: Ino) -> u64 {
        self.files.find(ino).map_or(0, |file| file.size())
    }

    /// Who opens what `source` reads shares it, until what is returned is dropped.
    fn share(&self, source: &Arc<Download>) -> Shared<'_> {
        let is_ours = self.beside.begin(source.identity(), source);
        Shared { vfs: self, identity: is_ours.then(|| source.identity().to_vec()) }
    }

    /// One more reference to the file `ino`, which the kernel knows, until what is returned is dropped.
    pub(crate) fn held(&self, ino: Ino) -> Result<Holding<'_>> {
        let attr = self.hand_out_listed(ino).ok_or(Error::Call(Errno::ESTALE))?;
        let holding = Holding { vfs: self, attr };
        match attr.kind {
            FileKind::File => Ok(holding),
            FileKind::Directory => Err(Error::Call(Errno::EISDIR)),
            FileKind::Symlink
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => Err(Error::Call(Errno::EINVAL)),
        }
    }
}

/// A reference to an inode, given back on drop.
#[derive(Debug)]
pub(crate) struct Holding<'a> {
    vfs: &'a Vfs,
    attr: Attr,
}

impl<'a> Holding<'a> {
    /// Takes over the reference that came with `attr`.
    pub(crate) fn of(vfs: &'a Vfs, attr: Attr) -> Holding<'a> {
        Holding { vfs, attr }
    }

    /// What was known of it then.
    pub(crate) fn attr(&self) -> &Attr {
        &self.attr
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.vfs.give_back(self.attr.ino, 1);
    }
}

/// The end of sharing a download.
#[derive(Debug)]
struct Shared<'a> {
    vfs: &'a Vfs,
    /// `None` if somebody else began to.
    identity: Option<Vec<u8>>,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if let Some(identity) = &self.identity {
            self.vfs.beside.end(identity);
        }
    }
}
