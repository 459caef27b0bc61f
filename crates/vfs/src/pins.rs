//! Paths that are pinned: which files they mean, and that these are here and stay.
//!
//! A pin is a path, of a file or of a folder with all that is below it. It keeps the versions that the
//! files had when it was last looked at: when it was made, when the mount began, and now and then since.
//! A file that is changed in between is pinned again at the next look.

use std::sync::Arc;

use base::{ByteRange, Errno, FileKind, Ino, Name};
use futures::{StreamExt, stream};
use namespace::Content;
use store::{Held, Pins};

use crate::errno::{Error, Result};
use crate::vfs::Vfs;
use crate::warm::{Holding, Warmed, Warming};

/// A pin has no more files: they are walked through at each look.
const FILES_MAX: usize = 1_000_000;

/// Files that are fetched at a time.
const FILES_AT_A_TIME: usize = 32;

/// What came of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// It keeps so many files.
    Yes {
        /// How many.
        files: u64,
        /// Their bytes.
        bytes: u64,
        /// What was fetched.
        brought_bytes: u64,
        /// Why some are not here yet; the next look tries them again.
        failed: Vec<String>,
    },
    /// It would leave the cache too little; nothing is changed.
    TooLarge {
        /// What it would take.
        bytes: u64,
        /// What is pinned already.
        others_bytes: u64,
        /// What may be pinned altogether.
        limit_bytes: u64,
    },
}

/// How many reasons are told.
const FAILED_MAX: usize = 20;

impl Vfs {
    /// Pins `path`, which is in this volume, relative to its top: fetches its files whole and keeps them. Tells
    /// of bytes as they come, with those that the pin has altogether.
    pub async fn pin(
        self: &Arc<Self>,
        path: &[u8],
        tell: &(impl Fn(u64, u64) + Sync),
    ) -> Result<Pinned> {
        let hold = |pins: &Pins, versions: &[(Vec<u8>, u64)]| pins.hold(path, versions).map(Some);
        let pinned = self.pin_by(path, &hold, tell).await?;
        Ok(pinned.expect("a pin that is made is there"))
    }

    /// Pins what is below `path` by `hold`; `None` if that does not want it any more.
    async fn pin_by(
        self: &Arc<Self>,
        path: &[u8],
        hold: &(impl Fn(&Pins, &[(Vec<u8>, u64)]) -> store::Result<Option<Held>> + Sync),
        tell: &(impl Fn(u64, u64) + Sync),
    ) -> Result<Option<Pinned>> {
        let contents = self.contents_below(path).await?;
        let bytes = contents.iter().map(|content| content.size).sum();
        let versions: Vec<(Vec<u8>, u64)> = contents
            .iter()
            .filter_map(|content| Some((content.identity.clone()?, content.size)))
            .collect();
        match hold(&self.store.pins(&self.options.volume), &versions)? {
            Some(Held::TooLarge { bytes, others_bytes, limit_bytes }) => {
                return Ok(Some(Pinned::TooLarge { bytes, others_bytes, limit_bytes }));
            }
            Some(Held::Yes { .. }) => {}
            None => return Ok(None),
        }
        let files = contents.len() as u64;
        let tell_one = |more| tell(more, bytes);
        let (mut brought_bytes, mut failed) = (0, Vec::new());
        let warming = Warming::unbounded();
        let mut bringing = stream::iter(contents)
            .map(|content| self.bring_pinned(&warming, content, &tell_one))
            .buffer_unordered(FILES_AT_A_TIME);
        while let Some(brought) = bringing.next().await {
            match brought {
                Ok(warmed) => brought_bytes += warmed.brought_bytes,
                Err(error) if failed.len() < FAILED_MAX => failed.push(error.to_string()),
                Err(_) => {}
            }
        }
        Ok(Some(Pinned::Yes { files, bytes, brought_bytes, failed }))
    }

    /// Forgets the pin of `path`; returns whether there was one.
    pub fn unpin(&self, path: &[u8]) -> Result<bool> {
        Ok(self.store.pins(&self.options.volume).release(path)?)
    }

    /// Forgets all pins of this volume; returns how many there were.
    pub fn unpin_all(&self) -> Result<u64> {
        let pins = self.store.pins(&self.options.volume);
        let mut released = 0;
        for path in pins.paths()? {
            released += u64::from(pins.release(&path)?);
        }
        Ok(released)
    }

    /// Looks at all pins of this volume again.
    pub async fn look_at_pins(self: &Arc<Self>) {
        let paths = match self.store.pins(&self.options.volume).paths() {
            Ok(paths) => paths,
            Err(error) => {
                tracing::warn!(%error, "cannot read what is pinned");
                return;
            }
        };
        for path in paths {
            let shown = path.escape_ascii();
            let renew = |pins: &Pins, versions: &[(Vec<u8>, u64)]| pins.renew(&path, versions);
            match self.pin_by(&path, &renew, &|_, _| {}).await {
                // Somebody took it away meanwhile.
                Ok(None) => {}
                Ok(Some(Pinned::Yes { failed, .. })) if failed.is_empty() => {}
                Ok(Some(Pinned::Yes { failed, .. })) => {
                    tracing::warn!(path = %shown, reason = failed[0], "not all that is pinned is here");
                }
                Ok(Some(Pinned::TooLarge { bytes, limit_bytes, .. })) => {
                    tracing::warn!(path = %shown, bytes, limit_bytes, "what is pinned has grown too large");
                }
                // What it kept stays: it may come back.
                Err(error) => {
                    tracing::warn!(path = %shown, %error, "cannot look at what is pinned");
                }
            }
        }
    }

    async fn bring_pinned(
        self: &Arc<Self>,
        warming: &Warming,
        content: Content,
        tell: &(impl Fn(u64) + Sync),
    ) -> Result<Warmed> {
        let (Some(identity), Some(all)) = (content.identity, ByteRange::new(0, content.size))
        else {
            return Ok(Warmed::default());
        };
        let source = self.download(&identity, content.size, content.extents)?;
        warming.bring(self, &source, vec![all], tell).await
    }

    /// The contents of `path`, or of all files below it.
    async fn contents_below(self: &Arc<Self>, path: &[u8]) -> Result<Vec<Content>> {
        let mut contents = Vec::new();
        let mut top = None;
        let mut at = Ino::ROOT;
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        for name in names {
            let name = Name::new(name).map_err(|_| Error::Call(Errno::EINVAL))?;
            let attr = Arc::clone(self).lookup(at, name).await?;
            at = attr.ino;
            // The folder is held until what is in it is.
            top = Some(Holding::of(self, attr));
        }
        if top.as_ref().is_some_and(|top| top.attr().kind != FileKind::Directory) {
            contents.push(self.namespace.content_now(at)?);
            return Ok(contents);
        }
        let mut folders = vec![(at, top)];
        while let Some((folder, _held)) = folders.pop() {
            for listed in self.namespace.listing(folder).await?.all().await? {
                let Some(attr) = self.hand_out_listed(listed.ino) else { continue };
                let held = Holding::of(self, attr);
                if attr.kind == FileKind::Directory {
                    folders.push((attr.ino, Some(held)));
                } else if attr.kind == FileKind::File {
                    // Gone meanwhile is as good as not there.
                    contents.extend(self.namespace.content_now(attr.ino));
                }
                if FILES_MAX < contents.len() {
                    return Err(Error::Call(Errno::EFBIG));
                }
            }
        }
        Ok(contents)
    }
}
