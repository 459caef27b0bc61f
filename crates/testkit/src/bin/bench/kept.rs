//! What measurements leave on the disk, until all is measured.
//!
//! ext4 looks at every inode that was removed a moment ago before it makes a new one nearby, so who removes
//! what he measured slows down what comes next.

use testkit::{Mount, Plan, Scratch};

/// Removed when it goes.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    scratches: Vec<Scratch>,
    plans: Vec<Plan>,
}

impl Kept {
    pub(crate) fn scratch(&mut self) -> &Scratch {
        self.scratches.push(Scratch::new());
        self.scratches.last().expect("one was just added")
    }

    /// Unmounts; the state folder stays.
    pub(crate) fn umount(&mut self, mount: Mount) {
        self.plans.push(mount.umount());
    }
}
