//! Files that may be opened again soon, as by the next tool of a pipeline.

use std::sync::Arc;
use std::time::Duration;

use base::Ino;

use crate::vfs::Vfs;

/// What was open for so long was worth more requests than this costs.
const OPEN_MIN: Duration = Duration::from_millis(500);

impl Vfs {
    /// Has the bucket asked about the file `ino`, which was read since `opened` and is closed, and what is above it: who
    /// opens it again within the time to live of names does not wait for that then.
    pub(crate) fn look_again(self: &Arc<Self>, ino: Ino, opened: Duration) {
        if self.clock.monotonic() < opened + OPEN_MIN || self.files.is_open(ino) {
            return;
        }
        // Where many are under way it is not worth waiting for.
        let Ok(turn) = Arc::clone(&self.again.turns).try_acquire_owned() else { return };
        let namespace = Arc::clone(&self.namespace);
        self.runtime.spawn(async move {
            if let Err(error) = namespace.look_again(ino).await {
                tracing::debug!(%ino, %error, "a closed file was not looked at again");
            }
            drop(turn);
        });
    }
}
