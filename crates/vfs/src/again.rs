//! Files that may be opened again soon, as by the next tool of a pipeline: the bucket is asked about them before it is
//! time for that, so that nobody waits. Which of them have a turn, [`Again`](crate::reopened::Again) says.

use std::sync::Arc;
use std::time::Duration;

use base::Ino;

use crate::vfs::Vfs;

/// What was open for so long was worth a few requests more.
const OPEN_MIN: Duration = Duration::from_millis(500);

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
        if !self.namespace.is_aging(ino) {
            return;
        }
        let Some(turn) = self.again.begin(ino) else { return };
        // Does not keep the file system.
        let namespace = Arc::clone(&self.namespace);
        self.runtime.spawn(async move {
            if let Err(error) = namespace.look_again(ino).await {
                tracing::debug!(%ino, %error, "a file in use was not looked at again");
            }
            drop(turn);
        });
    }
}
