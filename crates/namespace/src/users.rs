//! `Users`: who has files open, as a namespace sees them; and the right not to be disturbed.

use std::any::Any;
use std::fmt;

use base::Ino;

use crate::Content;

/// Whether and how a file is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nobody has it open, and it has no bytes here that the bucket lacks.
    No,
    /// Its users need nothing from the bucket: all its bytes are on this host, and stay.
    Whole,
    /// Its users read what they need from its object.
    Partly,
}

/// Those who have files open. Called with no lock of the namespace held; must not wait.
pub trait Users: fmt::Debug + Send + Sync + 'static {
    /// How the file `ino` is in use now.
    fn in_use(&self, ino: Ino) -> Use;

    /// The bytes of the file `ino`, which is in use, are in other objects from now on, or are to be
    /// uploaded to another one: the old ones go when this returns.
    fn moved(&self, ino: Ino, content: Content);

    /// As [`Users::moved`] of a file that has its name still and is about to lose it: what there is to be
    /// uploaded belongs under that name until then.
    fn put_aside(&self, ino: Ino, content: Content) {
        self.moved(ino, content);
    }

    /// The ids of the uploads of the file `ino` that are under way, or that somebody was promised, as they are
    /// noted for who finds its bytes after a crash.
    fn promised(&self, ino: Ino) -> Vec<String> {
        let _ = ino;
        Vec::new()
    }
}

/// While it is held, a file keeps the name it has, or stays without one.
pub struct NameGuard {
    held: Option<Box<dyn Any + Send + Sync>>,
}

impl NameGuard {
    /// Holds what keeps others from changing the name.
    pub fn new(held: impl Any + Send + Sync) -> NameGuard {
        NameGuard { held: Some(Box::new(held)) }
    }

    /// For names that nobody changes.
    pub fn none() -> NameGuard {
        NameGuard { held: None }
    }

    /// What it holds, if it is that.
    pub(crate) fn held<T: Any>(&self) -> Option<&T> {
        self.held.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for NameGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameGuard").finish_non_exhaustive()
    }
}
