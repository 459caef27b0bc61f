//! Makes room for writers: what can be brought into the bucket is brought there, and its bytes may then
//! be dropped.
//!
//! ```text
//!   too much is dirty, or the disk is full
//!      │
//!      ├─▶ what is clean of files that are open: its bytes go   (only if the disk is full)
//!      ├─▶ files that are closed, or whose upload is under way: they are waited for
//!      ├─▶ large files that are being written: published as they are, their bytes go, and what is
//!      │   written next is an edit
//!      └─▶ nothing: the limit yields, and a full disk is ENOSPC
//! ```
//!
//! One at a time makes room, the others then find that there is some.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::ByteRange;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::aimed::Upto;
use crate::errno::{Error, Result};
use crate::file::{Bytes, File, Mapped, Named};
use crate::vfs::Vfs;
use crate::victims::{Need, Weight, choose};

/// Files that are brought into the bucket at a time to make room.
const FILES_MAX: usize = 64;

/// What came of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relieved {
    /// There is some more.
    Some,
    /// Nothing can be freed, or the object store does not take it.
    Not,
}

/// What can be done about a file with bytes that the bucket does not have.
enum Standing {
    /// It is being brought there.
    Busy,
    /// Nobody writes it, or what a close was told is safe is not there yet.
    Closed,
    /// Somebody writes it.
    Open(Weight),
}

/// What the bucket does not have, and how much that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// What it takes of the local disk.
    pub bytes: u64,
    /// With so much, writers wait.
    pub limit_bytes: u64,
}

impl Vfs {
    /// Whether writers may go on at once.
    pub fn has_room(&self) -> bool {
        let room_bytes = || self.store.room_bytes().ok();
        self.relief.allowance.admits(self.store.dirty_bytes(), room_bytes)
    }

    /// Waits until writers may go on: who has written more than the bucket takes in waits here, before
    /// it is told that its bytes are written.
    pub async fn wait_for_room(self: &Arc<Self>) {
        while !self.has_room() {
            let _turn = self.relief.turn.lock().await;
            if !self.has_room() && self.relieve(Need::Limit).await == Relieved::Not {
                self.relief.allowance.yields(self.store.dirty_bytes());
            }
        }
    }

    /// What the bucket does not have, and how much that may be.
    pub fn dirty(&self) -> Result<Dirty> {
        let limit_bytes = self.relief.allowance.limit_bytes(self.store.room_bytes()?);
        Ok(Dirty { bytes: self.store.dirty_bytes(), limit_bytes })
    }

    /// Makes room on the disk if it was full, which is what `error` says; gives the error back if that
    /// is not so, or if there is nothing that could go.
    pub(crate) async fn relieve_disk(self: &Arc<Self>, error: Error) -> Result<()> {
        if !error.is_full() {
            return Err(error);
        }
        let times = self.relief.times.load(Ordering::Relaxed);
        let _turn = self.relief.turn.lock().await;
        let has_been_relieved = times != self.relief.times.load(Ordering::Relaxed);
        if has_been_relieved || self.relieve(Need::Disk).await == Relieved::Some {
            return Ok(());
        }
        let files: Vec<_> = self.files.dirty().iter().filter_map(weight).collect();
        let (dirty_bytes, room_bytes) = (self.store.dirty_bytes(), self.store.room_bytes().ok());
        tracing::warn!(dirty_bytes, room_bytes, ?files, "the disk is full, and nothing can go");
        Err(error)
    }

    async fn relieve(self: &Arc<Self>, need: Need) -> Relieved {
        let relieved = self.relieve_once(need).await;
        if relieved == Relieved::Some {
            self.relief.times.fetch_add(1, Ordering::Relaxed);
        }
        relieved
    }

    async fn relieve_once(self: &Arc<Self>, need: Need) -> Relieved {
        let before = self.store.dirty_bytes();
        let (mut ending, mut is_any_busy) = (Vec::new(), false);
        if need == Need::Disk {
            let (freed_bytes, busy) = self.let_go_of_open_files();
            if 0 < freed_bytes {
                return Relieved::Some;
            }
            // What it has can go the next time.
            if let Some(file) = busy {
                ended(file).await;
                return Relieved::Some;
            }
        }
        let (mut files, mut weights) = (Vec::new(), Vec::new());
        for file in self.files.dirty() {
            match self.standing(&file) {
                Some(Standing::Open(weight)) => {
                    files.push(file);
                    weights.push(weight);
                }
                Some(Standing::Busy) => {
                    is_any_busy = true;
                    ending.push(ended(file).boxed());
                }
                Some(Standing::Closed) => ending.push(self.brought(file)),
                None => {}
            }
        }
        // Who was at it when we looked may have made room just before we counted.
        if self.wait_for_one_of(ending, need, before).await == Relieved::Some || is_any_busy {
            return Relieved::Some;
        }
        for at in choose(need, &weights, self.stream_from) {
            let publishing = self.runtime.spawn(Arc::clone(self).spill(Arc::clone(&files[at])));
            let freed = match publishing.await {
                Ok(Ok(freed)) => freed,
                Ok(Err(error)) => {
                    tracing::warn!(ino = %files[at].ino(), %error, "no room could be made");
                    0
                }
                // The runtime is ending, or it panicked, which was told.
                Err(_) => return Relieved::Not,
            };
            if 0 < freed || self.store.dirty_bytes() < before {
                return Relieved::Some;
            }
        }
        Relieved::Not
    }

    /// Waits until enough of `ending` are over; so many at a time are begun. Those under way go on, for
    /// an upload is not to be broken off in the middle.
    async fn wait_for_one_of(
        &self,
        ending: Vec<BoxFuture<'static, ()>>,
        need: Need,
        before: u64,
    ) -> Relieved {
        let mut left = ending.into_iter();
        let mut under_way: FuturesUnordered<_> = left.by_ref().take(FILES_MAX).collect();
        while let Some(()) = under_way.next().await {
            let is_enough = match need {
                Need::Limit => self.has_room(),
                Need::Disk => self.store.dirty_bytes() < before,
            };
            if is_enough {
                return Relieved::Some;
            }
            under_way.extend(left.next());
        }
        if self.store.dirty_bytes() < before { Relieved::Some } else { Relieved::Not }
    }

    fn standing(&self, file: &Arc<File>) -> Option<Standing> {
        let weight = weight(file)?;
        if file.is_committing() {
            Some(Standing::Busy)
        } else if !self.handles.is_written(file) || file.acknowledged.lock().is_some() {
            Some(Standing::Closed)
        } else if self.uploader.copies_parts() && !file.is_mapped() && !self.comes_last(file) {
            Some(Standing::Open(weight))
        } else {
            None
        }
    }

    /// Until a file that nobody writes is in the bucket, or has failed to get there, or has to wait for others. Does
    /// not end early when it is dropped.
    fn brought(self: &Arc<Self>, file: Arc<File>) -> BoxFuture<'static, ()> {
        let vfs = Arc::clone(self);
        async move {
            let runtime = vfs.runtime.clone();
            let bringing = runtime.spawn(async move {
                if let Err(error) = vfs.commit_in_its_turn(&file).await {
                    tracing::warn!(ino = %file.ino(), %error, "an upload to make room failed");
                }
            });
            // An end of the runtime is the end of who waits, too.
            let _ = bringing.await;
        }
        .boxed()
    }

    /// Publishes a file that is being written as it is, and drops its bytes; returns how many went. Its
    /// writers wait meanwhile.
    async fn spill(self: Arc<Self>, file: Arc<File>) -> Result<u64> {
        let _held = file.gate.write().await;
        // Not in the way of those who change its name.
        drop(self.namespace.settle(file.ino()).await?);
        let turn = file.turn().await;
        self.commit_in_turn(&file, &turn, Upto::Unasked).await?;
        // The part in which the next bytes are is sent again with them.
        let kept = self.uploader.grid().part_of(file.size()).map_or(0, ByteRange::start);
        Ok(self.let_go(&file, kept))
    }

    /// Drops what is here of the first `below` bytes of the version in the bucket, unless somebody reads it
    /// past us; returns how many bytes that freed.
    fn let_go(&self, file: &File, below: u64) -> u64 {
        // Nobody begins to write or opens it meanwhile.
        let state = file.state.write();
        let download = match (&state.bytes, state.name, state.mapped) {
            (
                Bytes::Clean(download) | Bytes::Staged { base: Some(download), .. },
                Named::Yes,
                Mapped::Never,
            ) => download,
            (Bytes::Clean(_) | Bytes::Staged { .. }, Named::Yes | Named::No, _) => return 0,
        };
        let Some(cached) = download.cached() else { return 0 };
        // Another file that has lost its name may find these bytes nowhere else.
        if state.io.is_passthrough() || cached.is_shared() {
            return 0;
        }
        self.store.let_go(cached, below).unwrap_or_else(|error| {
            tracing::warn!(ino = %file.ino(), %error, "cannot drop what is in the bucket");
            0
        })
    }

    /// Of files that are open not everything is evicted otherwise. Returns how many bytes went, and a
    /// file whose turn has to be over before its bytes can.
    fn let_go_of_open_files(&self) -> (u64, Option<Arc<File>>) {
        let (mut freed_bytes, mut busy) = (0, None);
        for file in self.files.all() {
            // Whoever was about to write it holds all of it in staging, and has written nothing yet.
            let is_clean = file.staged().is_some() && !file.is_dirty();
            let is_busy = is_clean && file.is_committing();
            if is_clean
                && !is_busy
                && let Err(error) = self.restore(&file)
            {
                tracing::warn!(ino = %file.ino(), %error, "cannot drop what is in the bucket");
            }
            freed_bytes += self.let_go(&file, u64::MAX);
            if is_busy {
                busy = Some(file);
            }
        }
        (freed_bytes, busy)
    }
}

/// Until whoever has the turn of the file is done.
async fn ended(file: Arc<File>) {
    drop(file.turn().await);
}

/// What is known of a file with bytes that the bucket does not have.
fn weight(file: &Arc<File>) -> Option<Weight> {
    let staged = file.staged()?;
    let bytes = staged.size();
    Some(Weight {
        bytes,
        dirty_bytes: staged.dirty_bytes(),
        grown_bytes: bytes.saturating_sub(staged.origin_bytes()),
        disk_bytes: staged.disk_bytes(),
    })
}
