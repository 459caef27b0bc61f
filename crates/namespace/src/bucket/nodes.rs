//! What is remembered of one file or folder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Attr, FileKind, Ino, Name, Timestamp};
use remote::{Key, Original, Version};

use super::ask::Interest;
use super::attributes::item::Xattrs;
use super::form::Form;
use super::idle::Tick;
use super::looks::Looks;
use super::window::Windows;

/// One file or folder.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) looks: Looks,
    /// When the bucket was last asked about it, on the monotonic clock; `None` if what is
    /// remembered is not to be believed.
    pub(super) as_of: Option<Duration>,
    pub(super) hold: Hold,
    pub(super) xattrs: Option<Arc<Xattrs>>,
}

/// A folder that nobody may look into can be passed, and no more.
const MODE_ON_THE_WAY: u16 = 0o111;

/// What is told of a node by others than a listing.
#[derive(Clone, Debug)]
pub(super) struct Outfit {
    pub(super) looks: Looks,
    pub(super) form: Form,
    pub(super) xattrs: Option<Arc<Xattrs>>,
}

/// Where a node is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The mounted folder itself.
    Root,
    /// In a folder.
    Named {
        /// The folder.
        parent: Ino,
        /// Its name there.
        name: Name,
    },
    /// Nowhere: removed, or replaced, on this mount.
    Unlinked,
    /// Nowhere: removed or replaced by someone else.
    Replaced,
}

/// Who refers to a node by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The kernel, as far as we know.
    Held,
    /// Nobody; the tick is its place among those that may go.
    Idle(Tick),
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Kind {
    /// A file.
    File(File),
    /// A folder.
    Folder(Folder),
}

/// What is remembered of a file.
#[derive(Debug)]
pub(super) struct File {
    /// Its size as this mount has it.
    pub(super) size: u64,
    pub(super) bytes: Bytes,
    pub(super) form: Form,
    /// A version of the object, and when the store took it in, as far as somebody said so.
    pub(super) taken_in: Option<(Version, Timestamp)>,
}

/// Where the newest bytes of a file are.
///
/// ```text
///            publish           size noted
///   Local ───────────▶ Object ────────────▶ Edited
///                        ▲                    │
///                        └─ publish, abandon ─┘
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Only on this mount.
    Local {
        /// The object that still has the name in the bucket, if the file was moved over one.
        beneath: Option<Version>,
    },
    /// In the bucket.
    Object(Stored),
    /// On this mount; the bucket has what they were made from.
    Edited(Stored),
}

/// The object that holds a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// That of the file's place, and still known when it has none any more.
    pub(super) key: Key,
    pub(super) version: Version,
    pub(super) size: u64,
}

impl Stored {
    /// As what is to be copied.
    pub(super) fn original(&self) -> Original<'_> {
        Original { key: &self.key, version: &self.version, size: self.size }
    }
}

/// What is remembered of a folder.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// The nodes in it that are remembered, by name.
    pub(super) children: BTreeMap<Name, Ino>,
    /// How many of them are folders.
    pub(super) folders: u32,
    /// Whether the bucket has its marker, as far as we know.
    pub(super) marker: bool,
    /// Whether nobody may look into it, so that it is only a way to what is below it.
    pub(super) on_the_way: bool,
    /// What was told of its names.
    pub(super) windows: Windows,
    pub(super) interest: Interest,
}

impl Node {
    /// Whether the bucket lacks its newest bytes.
    pub(super) fn unpublished(&self) -> bool {
        match &self.kind {
            Kind::File(file) => file.unpublished(),
            Kind::Folder(_) => false,
        }
    }

    /// Takes over what was told of it.
    pub(super) fn put_on(&mut self, outfit: Outfit) {
        let Outfit { looks, form, xattrs } = outfit;
        self.looks = looks;
        self.xattrs = xattrs;
        if let Kind::File(file) = &mut self.kind {
            match (&file.form, form) {
                // The target is known already.
                (Form::Link(Some(_)), Form::Link(None)) => {}
                (_, form) => file.form = form,
            }
        }
    }

    /// Whether it was so at most `ttl` before `now`.
    pub(super) fn fresh(&self, now: Duration, ttl: Duration) -> bool {
        self.as_of.is_some_and(|as_of| now < as_of + ttl)
    }

    /// The folder, if it is one.
    pub(super) fn as_folder(&self) -> Option<&Folder> {
        match &self.kind {
            Kind::Folder(folder) => Some(folder),
            Kind::File(_) => None,
        }
    }

    /// What `stat` says.
    pub(super) fn attr(&self, ino: Ino) -> Attr {
        let (kind, size, links, rdev) = match &self.kind {
            Kind::File(file) => (file.form.kind(), file.shown_size(), 1, file.form.rdev()),
            // Its name, its `.`, and the `..` of each folder in it, as far as they are known.
            Kind::Folder(folder) => (FileKind::Directory, 0, 2 + folder.folders, 0),
        };
        let nlink = match self.place {
            Place::Root | Place::Named { .. } => links,
            Place::Unlinked | Place::Replaced => 0,
        };
        let Looks { mode: said, owner, atime, mtime, ctime, source: _, said: _, is_timed: _ } =
            self.looks;
        let mode = if self.as_folder().is_some_and(|folder| folder.on_the_way) {
            MODE_ON_THE_WAY
        } else {
            said
        };
        Attr {
            ino,
            kind,
            size,
            mode,
            uid: owner.uid,
            gid: owner.gid,
            nlink,
            rdev,
            atime,
            mtime,
            ctime,
        }
    }
}

impl Folder {
    /// `name`, which is free, is a node from now on; `is_folder` tells what it is.
    pub(super) fn enter(&mut self, name: Name, ino: Ino, is_folder: bool) {
        let before = self.children.insert(name, ino);
        assert!(before.is_none(), "a name names one node");
        self.folders += u32::from(is_folder);
    }

    /// `name` is free from now on.
    pub(super) fn leave(&mut self, name: &Name, is_folder: bool) {
        if self.children.remove(name).is_some() {
            self.folders -= u32::from(is_folder);
        }
    }
}

impl File {
    /// A file whose bytes are in the bucket.
    pub(super) fn stored(stored: Stored) -> File {
        let (size, bytes) = (stored.size, Bytes::Object(stored));
        File { size, bytes, form: Form::Plain, taken_in: None }
    }

    /// A file that so far exists only here; `beneath` is the object that has its key.
    pub(super) fn local(beneath: Option<Version>) -> File {
        let bytes = Bytes::Local { beneath };
        File { size: 0, bytes, form: Form::Plain, taken_in: None }
    }

    /// When the store took in the object that has the file's name, if that is known.
    pub(super) fn modified(&self) -> Option<Timestamp> {
        let (version, time) = self.taken_in.as_ref()?;
        (Some(version) == self.in_bucket()).then_some(*time)
    }

    /// The length of a link is that of its target, wherever that stands.
    fn shown_size(&self) -> u64 {
        match &self.form {
            Form::Link(Some(target)) => target.len() as u64,
            Form::Plain | Form::Link(None) | Form::Special(_) => self.size,
        }
    }

    /// Whether the bucket lacks its newest bytes.
    pub(super) fn unpublished(&self) -> bool {
        match self.bytes {
            Bytes::Local { .. } | Bytes::Edited(_) => true,
            Bytes::Object(_) => false,
        }
    }

    /// The object that has the file's name in the bucket.
    pub(super) fn in_bucket(&self) -> Option<&Version> {
        match &self.bytes {
            Bytes::Local { beneath } => beneath.as_ref(),
            Bytes::Object(stored) | Bytes::Edited(stored) => Some(&stored.version),
        }
    }

    /// The object that has bytes of the file, perhaps old ones.
    pub(super) fn stored_bytes(&self) -> Option<&Stored> {
        match &self.bytes {
            Bytes::Local { .. } => None,
            Bytes::Object(stored) | Bytes::Edited(stored) => Some(stored),
        }
    }

    /// The same bytes, or those they are made from, are in another object now.
    pub(super) fn follow(&mut self, moved: Stored) {
        match &mut self.bytes {
            Bytes::Object(stored) | Bytes::Edited(stored) => *stored = moved,
            Bytes::Local { beneath } => *beneath = Some(moved.version),
        }
    }

    /// Notes that the bytes were changed here.
    pub(super) fn edit(&mut self, size: u64) {
        self.size = size;
        if let Bytes::Object(stored) = &self.bytes {
            self.bytes = Bytes::Edited(stored.clone());
        }
    }
}
