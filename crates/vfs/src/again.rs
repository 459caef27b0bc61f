//! Files that may be opened again soon, as by the next tool of a pipeline: the bucket is asked about them before it is
//! time for that, so that nobody waits.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::Ino;
use parking_lot::Mutex;

use crate::vfs::Vfs;

/// What was open for so long was worth a few requests more.
const OPEN_MIN: Duration = Duration::from_millis(500);

/// Files that are looked at again at a time.
const LOOKS_MAX: usize = 8;

/// Files of which it is known that they were opened before.
const LAST_MAX: usize = 64;

/// What those share who look at files again.
#[derive(Debug, Default)]
pub(crate) struct Again(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Being looked at.
    looking: HashSet<Ino>,
    /// Those opened last, the last one at the end.
    last: VecDeque<Ino>,
}

impl Again {
    /// Whether `ino`, which is opened, was so lately.
    fn was_open(&self, ino: Ino) -> bool {
        let last = &mut self.0.lock().last;
        if last.contains(&ino) {
            return true;
        }
        if last.len() == LAST_MAX {
            last.pop_front();
        }
        last.push_back(ino);
        false
    }

    /// Whether there is a turn for `ino`. Where many are under way it is not worth waiting for.
    fn begin(&self, ino: Ino) -> bool {
        let looking = &mut self.0.lock().looking;
        looking.len() < LOOKS_MAX && looking.insert(ino)
    }

    fn end(&self, ino: Ino) {
        self.0.lock().looking.remove(&ino);
    }
}

impl Vfs {
    /// `ino` was opened for reading. Who opens it again and again does not wait in between.
    pub(crate) fn looks_while_used(self: &Arc<Self>, ino: Ino) {
        if self.again.was_open(ino) {
            self.look_again(ino);
        }
    }

    /// `ino`, which was read since `opened`, is closed. Who opens it next does not wait.
    pub(crate) fn looks_after_use(self: &Arc<Self>, ino: Ino, opened: Duration) {
        if opened + OPEN_MIN <= self.clock.monotonic() && !self.files.is_open(ino) {
            self.look_again(ino);
        }
    }

    /// Has the bucket asked about the file `ino`, and what is above it, if what is known of it is not to be believed for
    /// long any more.
    fn look_again(self: &Arc<Self>, ino: Ino) {
        if !self.namespace.is_aging(ino) || !self.again.begin(ino) {
            return;
        }
        let vfs = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Err(error) = vfs.namespace.look_again(ino).await {
                tracing::debug!(%ino, %error, "a file in use was not looked at again");
            }
            vfs.again.end(ino);
        });
    }
}
