//! The files in use: one [`File`] for each inode that is open or not yet published.

use std::collections::HashMap;
use std::sync::Arc;

use base::Ino;
use parking_lot::Mutex;

use crate::errno::Result;
use crate::file::{File, Named};

/// The table of files in use.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Invariant: a file that has handles, or staged bytes and a name, is in it.
    table: Mutex<HashMap<Ino, Arc<File>>>,
}

impl Files {
    pub(crate) fn find(&self, ino: Ino) -> Option<Arc<File>> {
        self.table.lock().get(&ino).cloned()
    }

    /// The file `ino` with one more handle; made by `make` if it is not in use.
    pub(crate) fn enter(
        &self,
        ino: Ino,
        make: impl FnOnce() -> Result<File>,
    ) -> Result<(Arc<File>, Entered)> {
        let mut table = self.table.lock();
        let (file, entered) = match table.get(&ino) {
            Some(file) => (Arc::clone(file), Entered::InUse),
            None => (Arc::new(make()?), Entered::Made),
        };
        file.state.write().handles += 1;
        table.insert(ino, Arc::clone(&file));
        Ok((file, entered))
    }

    /// Gives back a handle.
    pub(crate) fn leave(&self, file: &File) {
        let _table = self.table.lock();
        let mut state = file.state.write();
        assert!(0 < state.handles, "a handle was closed twice");
        state.handles -= 1;
    }

    /// Forgets a file that is no longer in use; returns it if so.
    pub(crate) fn retire(&self, file: &Arc<File>) -> Option<Arc<File>> {
        let mut table = self.table.lock();
        let state = file.state.read();
        let idle = state.is_spent();
        drop(state);
        let ours = table.get(&file.ino()).is_some_and(|other| Arc::ptr_eq(other, file));
        if idle && ours { table.remove(&file.ino()) } else { None }
    }

    /// Every file in use that has bytes to publish.
    pub(crate) fn dirty(&self) -> Vec<Arc<File>> {
        let table = self.table.lock();
        table.values().filter(|file| file.is_dirty()).map(Arc::clone).collect()
    }

    /// Every file in use that has a staged file, to which the kernel may have written unseen.
    pub(crate) fn staged(&self) -> Vec<Arc<File>> {
        let table = self.table.lock();
        table.values().filter(|file| file.staged().is_some()).map(Arc::clone).collect()
    }

    /// Marks `ino` as nameless, if it is in use.
    pub(crate) fn unname(&self, ino: Ino) -> Option<Arc<File>> {
        let file = self.find(ino)?;
        file.state.write().name = Named::No;
        Some(file)
    }
}

/// Whether [`Files::enter`] found the file or made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    InUse,
    Made,
}
