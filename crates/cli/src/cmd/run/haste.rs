//! Once a command was told to end, the host may go soon: what it closes is uploaded at once.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::complain;

/// A file that is closed waits no longer than this.
const DELAY: Duration = Duration::from_secs(1);

/// Uploads without delay, until this is dropped.
#[derive(Debug)]
pub(super) struct Haste {
    _running: Sender<()>,
}

impl Haste {
    /// Begins, in the mount at `dir`.
    pub(super) fn begin(dir: &Path) -> Haste {
        let (running, ended) = mpsc::channel();
        let dir = dir.to_owned();
        std::thread::spawn(move || {
            loop {
                // The end of the command brings all of it, too.
                if let Err(error) = mount::hasten(&dir) {
                    complain(&format!("uploads wait for the end of the command: {error}"));
                    return;
                }
                match ended.recv_timeout(DELAY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Haste { _running: running }
    }
}
