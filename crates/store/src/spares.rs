//! Empty staged files, made before somebody wants them: the disk takes its time over a new file, most of
//! all while others make and remove some, and a program waits for its `open`.
//!
//! For who wants but a few none is made. For others some lie ready, made by a thread that goes on when half of
//! them are left, and ends when nobody has wanted any for a while.

use std::sync::Arc;
use std::time::Duration;
use std::{io, mem, thread};

use base::Affinity;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::backing::BackingFile;
use crate::disk::Disk;
use crate::layout::Layout;
use crate::lock::Mode;

/// So many lie ready. Each is an open file of this process.
const READY_MAX: usize = 32;

/// So many are made when they are wanted.
const FEW: u32 = 16;

/// For so long the thread waits for who wants more.
const LINGER: Duration = Duration::from_secs(1);

/// A staged file that is nobody's yet: ours alone, and not recorded. What a dead process leaves of them is
/// swept at the next start, as all that is not recorded.
#[derive(Debug)]
pub(crate) struct Spare {
    /// The name of its backing file.
    pub(crate) file_name: String,
    /// The file.
    pub(crate) file: Arc<BackingFile>,
}

/// Those that lie ready, and what makes them.
#[derive(Debug)]
pub(crate) struct Spares {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    layout: Layout,
    disk: Arc<Disk>,
    /// The number of this opening of the state folder.
    owner: u64,
    /// Of who opened it: who wants a spare may be bound to a processor, which has enough to do.
    anywhere: Affinity,
    // A leaf: no other lock is taken under it.
    inner: Mutex<Inner>,
    /// Half of them are left, or nobody wants any more.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// The number of the last staged file.
    last: u64,
    /// How many were wanted, up to a few.
    wanted: u32,
    ready: Vec<Spare>,
    making: Making,
}

/// Whether a thread makes some, or waits until it is to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Making {
    #[default]
    No,
    Yes,
    /// Nobody wants one any more.
    Never,
}

/// The name of staged file `number` of opening `owner` of the state folder. Longer than it must be: a disk looks
/// through a block of names for each new one, and of long ones a block has few (ext4, 4,000 files: 14 us each, and
/// 19 us with the shortest names).
fn name_of(owner: u64, number: u64) -> String {
    format!("{owner:016x}-{number:016x}")
}

/// Whether a staged file may have been given `name` by one of our processes; earlier versions gave short ones.
pub(crate) fn is_name(name: &str) -> bool {
    let is_number = |digits: &str| {
        let number = u64::from_str_radix(digits, 16).ok();
        let names = number.map(|number| [format!("{number:016x}"), format!("{number:x}")]);
        names.is_some_and(|names| names.iter().any(|name| name == digits))
    };
    name.split_once('-').is_some_and(|(owner, number)| is_number(owner) && is_number(number))
}

impl Spares {
    /// None yet, for the opening number `owner` of the state folder.
    pub(crate) fn new(layout: Layout, disk: Arc<Disk>, owner: u64) -> Spares {
        let (anywhere, inner) = (Affinity::of_this_thread(), Mutex::default());
        let changed = Condvar::new();
        Spares { shared: Arc::new(Shared { layout, disk, owner, anywhere, inner, changed }) }
    }

    /// A name for a staged file that no process ever had before.
    pub(crate) fn name(&self) -> String {
        self.shared.name()
    }

    /// A new staged file.
    pub(crate) fn take(&self) -> io::Result<Spare> {
        self.take_ready().map_or_else(|| self.shared.make(), Ok)
    }

    /// What was taken is of no use after all.
    pub(crate) fn discard(&self, spare: &Spare) {
        self.shared.remove(spare);
    }

    fn take_ready(&self) -> Option<Spare> {
        let mut inner = self.shared.inner.lock();
        if inner.wanted < FEW {
            inner.wanted += 1;
            return None;
        }
        let spare = inner.ready.pop();
        if inner.has_enough() {
            return spare;
        }
        match inner.making {
            Making::No => {
                inner.making = Making::Yes;
                drop(inner);
                self.start();
            }
            Making::Yes => {
                self.shared.changed.notify_one();
            }
            Making::Never => {}
        }
        spare
    }

    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        let filler = thread::Builder::new().name("quayfs-spares".into());
        if filler.spawn(move || shared.fill()).is_err() {
            self.shared.inner.lock().making = Making::No;
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let mut inner = self.shared.inner.lock();
        inner.making = Making::Never;
        self.shared.changed.notify_one();
        let ready = mem::take(&mut inner.ready);
        drop(inner);
        for spare in &ready {
            self.shared.remove(spare);
        }
    }
}

impl Inner {
    fn has_enough(&self) -> bool {
        READY_MAX <= self.ready.len() * 2
    }
}

impl Shared {
    fn name(&self) -> String {
        let mut inner = self.inner.lock();
        let number = inner.last;
        inner.last += 1;
        name_of(self.owner, number)
    }

    fn fill(&self) {
        self.anywhere.restore();
        loop {
            // Who wants one and finds none tells what is wrong.
            let made = self.make();
            let mut inner = self.inner.lock();
            match (made, inner.making) {
                (Ok(spare), Making::Never) => return self.remove(&spare),
                (Ok(spare), Making::No | Making::Yes) => inner.ready.push(spare),
                (Err(_), Making::Never) => return,
                // Not at once again.
                (Err(_), Making::No | Making::Yes) => {
                    (inner.wanted, inner.making) = (0, Making::No);
                    return;
                }
            }
            if READY_MAX <= inner.ready.len() && !self.wait_for_more(&mut inner) {
                return;
            }
        }
    }

    /// Whether there is more to make; that nothing makes any is noted otherwise.
    fn wait_for_more(&self, inner: &mut MutexGuard<'_, Inner>) -> bool {
        let is_well = |inner: &mut Inner| inner.making == Making::Yes && inner.has_enough();
        self.changed.wait_while_for(inner, is_well, LINGER);
        if is_well(inner) {
            inner.making = Making::No;
        }
        inner.making == Making::Yes
    }

    fn make(&self) -> io::Result<Spare> {
        let file_name = self.name();
        let path = self.layout.staged(&file_name);
        let file = self.disk.create(&path)?;
        let file = Arc::new(BackingFile::new(file, Arc::clone(&self.disk))?);
        let is_claimed = file.claim(Mode::Exclusive)?;
        assert!(is_claimed, "nobody else knows the new file {}", path.display());
        Ok(Spare { file_name, file })
    }

    fn remove(&self, spare: &Spare) {
        // What stays is swept at the next start.
        let _ = self.disk.unlink(&self.layout.staged(&spare.file_name));
    }
}
