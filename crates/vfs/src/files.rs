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
    /// Invariant: a file that has handles, or staged bytes and a name, is in it. Only looked into
    /// and changed under the lock: a file's own locks may be held for as long as the disk works.
    table: Mutex<HashMap<Ino, InUse>>,
}

/// A file in use, and by how many.
#[derive(Debug)]
struct InUse {
    file: Arc<File>,
    handles: u32,
    /// How often it was entered: who looks at the file between two looks at the table sees whether
    /// somebody else was there meanwhile.
    entered: u64,
}

impl Files {
    pub(crate) fn find(&self, ino: Ino) -> Option<Arc<File>> {
        self.table.lock().get(&ino).map(|in_use| Arc::clone(&in_use.file))
    }

    /// Whether anyone has `ino` open.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.table.lock().get(&ino).is_some_and(|in_use| 0 < in_use.handles)
    }

    /// The file `ino` with one more handle; made by `make` if it is not in use.
    pub(crate) fn enter(
        &self,
        ino: Ino,
        make: impl FnOnce() -> Result<File>,
    ) -> Result<(Arc<File>, Entered)> {
        let mut table = self.table.lock();
        if let Some(in_use) = table.get_mut(&ino) {
            in_use.handles += 1;
            in_use.entered += 1;
            return Ok((Arc::clone(&in_use.file), Entered::InUse));
        }
        let file = Arc::new(make()?);
        table.insert(ino, InUse { file: Arc::clone(&file), handles: 1, entered: 1 });
        Ok((file, Entered::Made))
    }

    /// Gives back a handle.
    pub(crate) fn leave(&self, file: &File) {
        let mut table = self.table.lock();
        let in_use = table.get_mut(&file.ino()).expect("a file with a handle is in the table");
        assert!(0 < in_use.handles, "a handle was closed twice");
        in_use.handles -= 1;
    }

    /// Forgets a file that is no longer in use; returns it if so. Until its upload is over its number is
    /// not another's, who would be taken for what was uploaded.
    pub(crate) fn retire(&self, file: &Arc<File>) -> Option<Arc<File>> {
        let before = self.idle_since(file)?;
        if !file.is_spent() || file.is_publishing() {
            return None;
        }
        let mut table = self.table.lock();
        let now = table.get(&file.ino())?;
        let untouched = now.handles == 0 && now.entered == before && Arc::ptr_eq(&now.file, file);
        if untouched { table.remove(&file.ino()).map(|in_use| in_use.file) } else { None }
    }

    /// How often `file` was entered, if nobody has it open.
    fn idle_since(&self, file: &Arc<File>) -> Option<u64> {
        let table = self.table.lock();
        let in_use = table.get(&file.ino())?;
        (in_use.handles == 0 && Arc::ptr_eq(&in_use.file, file)).then_some(in_use.entered)
    }

    /// Every file in use that has bytes to publish.
    pub(crate) fn dirty(&self) -> Vec<Arc<File>> {
        self.all().into_iter().filter(|file| file.is_dirty()).collect()
    }

    /// Every file in use that has a staged file, to which the kernel may have written unseen.
    pub(crate) fn staged(&self) -> Vec<Arc<File>> {
        self.all().into_iter().filter(|file| file.staged().is_some()).collect()
    }

    /// Every file in use.
    pub(crate) fn all(&self) -> Vec<Arc<File>> {
        self.table.lock().values().map(|in_use| Arc::clone(&in_use.file)).collect()
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
