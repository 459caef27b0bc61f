//! Folders that are there without a key below them: because an empty object of their name says so, or
//! because they are things of their own.

use remote::{Folders, Key, Result};

use super::carry::there;
use super::foreign;
use super::shared::Shared;

impl Shared {
    /// Whether folders are there until somebody removes them, also when nothing is in them.
    pub(super) fn has_real_folders(&self) -> bool {
        self.remote.personality().naming.folders == Folders::Real
    }

    /// The object by which other programs say that the folder `prefix` is there, if they do so and there
    /// is one.
    pub(super) async fn stub(&self, prefix: &Key) -> Option<Result<Key>> {
        if self.remote.personality().naming.folders != Folders::Stubs {
            return None;
        }
        let key = Key::from(prefix.as_bytes().strip_suffix(b"/")?);
        if key.as_bytes().is_empty() {
            return None;
        }
        let found = match there(self.remote.head(&key).await) {
            Ok(found) => found?,
            Err(error) => return Some(Err(error)),
        };
        (found.size == 0 && foreign::is_stub(&found.metadata)).then_some(Ok(key))
    }

    /// Removes the object by which other programs say that the folder `prefix` is there.
    pub(super) async fn remove_stub(&self, prefix: &Key) -> Result<()> {
        match self.stub(prefix).await {
            Some(stub) => self.remote.delete(&stub?).await,
            None => Ok(()),
        }
    }
}
