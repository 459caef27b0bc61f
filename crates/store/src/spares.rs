//! Empty staged files, made before somebody wants them: the disk takes its time over a new file, most of
//! all while others make and remove some, and a program waits for its `open`.
//!
//! For who wants but a few none is made. Of others as many lie ready as were wanted faster than they were
//! made: twice as many each time that there was none.

use std::io;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::backing::BackingFile;
use crate::ground::Ground;
use crate::lock::Mode;

/// Each is an open file of this process.
const SPARES_MAX: usize = 64;

/// So many are made when they are wanted.
const FEW: u32 = 16;

/// A staged file that is nobody's yet: ours alone, and not recorded. What a dead process leaves of them is
/// swept at the next start, as all that is not recorded.
#[derive(Debug)]
pub(crate) struct Spare {
    /// The name of its backing file.
    pub(crate) file_name: String,
    /// The file.
    pub(crate) file: Arc<BackingFile>,
}

/// Those that lie ready.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    // A leaf: no other lock is taken under it.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// How many were, up to a few.
    wanted: u32,
    ready: Vec<Spare>,
    /// So many are to lie ready.
    goal: usize,
    making: Making,
}

/// Whether a thread makes some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Making {
    #[default]
    No,
    Yes,
}

/// A new staged file.
pub(crate) fn take(ground: &Arc<Ground>) -> io::Result<Spare> {
    take_ready(ground).map_or_else(|| make(ground), Ok)
}

/// Removes those that lie ready: nobody comes any more.
pub(crate) fn remove_all(ground: &Ground) {
    for Spare { file_name, file } in std::mem::take(&mut ground.spares.inner.lock().ready) {
        // What stays is swept at the next start.
        let _ = ground.disk.unlink(&ground.layout.staged(&file_name));
        drop(file);
    }
}

fn take_ready(ground: &Arc<Ground>) -> Option<Spare> {
    let mut inner = ground.spares.inner.lock();
    if inner.wanted < FEW {
        inner.wanted += 1;
        return None;
    }
    let spare = inner.ready.pop();
    if spare.is_none() {
        inner.goal = (inner.goal * 2).clamp(1, SPARES_MAX);
    }
    if inner.ready.len() * 2 < inner.goal && inner.making == Making::No {
        inner.making = Making::Yes;
        drop(inner);
        let filling = Arc::clone(ground);
        let filler = thread::Builder::new().name("quayfs-spares".into());
        if filler.spawn(move || fill(&filling)).is_err() {
            ground.spares.inner.lock().making = Making::No;
        }
    }
    spare
}

fn fill(ground: &Arc<Ground>) {
    loop {
        // Who wants one and finds none tells what is wrong.
        let made = make(ground);
        let mut inner = ground.spares.inner.lock();
        let is_made = made.is_ok();
        inner.ready.extend(made);
        if !is_made || inner.goal <= inner.ready.len() {
            inner.making = Making::No;
            return;
        }
    }
}

fn make(ground: &Ground) -> io::Result<Spare> {
    let file_name = ground.staged_name();
    let path = ground.layout.staged(&file_name);
    let file = ground.disk.create(&path)?;
    let file = Arc::new(BackingFile::new(file, Arc::clone(&ground.disk))?);
    let is_claimed = file.claim(Mode::Exclusive)?;
    assert!(is_claimed, "nobody else knows the new file {}", path.display());
    Ok(Spare { file_name, file })
}
