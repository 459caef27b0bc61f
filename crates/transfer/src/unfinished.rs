//! Uploads in parts, begun and removed: none is left behind, whenever the process dies.

use futures::{StreamExt, stream};
use remote::{Key, PutOptions, UploadId};

use crate::upload_log::{Left, Which};
use crate::{Result, Uploader};

/// Unfinished uploads that are removed at a time.
const REMOVALS_MAX: usize = 64;

impl Uploader {
    /// Takes over what mounts of this volume that are dead have left, for
    /// [`remove_left`](Uploader::remove_left) to remove.
    pub fn adopt_left(&self) -> Result<()> {
        Ok(self.log.adopt()?)
    }

    /// Removes uploads that nobody completes; to be called now and then, for of a dead process a request
    /// may still be on its way, and what cannot be removed now may be removed later.
    pub async fn remove_left(&self) {
        let left = stream::iter(self.log.take_left());
        let removing = left.map(|left| async move {
            let removed = self.remove(&left).await;
            if let Err(error) = &removed {
                tracing::warn!(key = %left.key, %error, "parts of an upload could not be removed");
            }
            self.log.looked(left, matches!(removed, Ok(Looked::All)));
        });
        removing.buffer_unordered(REMOVALS_MAX).for_each(|()| async {}).await;
    }

    async fn remove(&self, left: &Left) -> Result<Looked> {
        let Left { key, which, .. } = left;
        match which {
            Which::Named(upload) => self.remote.upload_abort(key, upload).await?,
            Which::Between(..) if self.log.is_under_way(key) => return Ok(Looked::Some),
            Which::Between(since, until) => {
                let listed = self.remote.uploads(key).await?;
                // One that was begun from here meanwhile is among them.
                if self.log.is_under_way(key) {
                    return Ok(Looked::Some);
                }
                for unfinished in listed {
                    // Nobody here knew its name, and who has sent a part of one knows that.
                    if (since..=until).contains(&&unfinished.since) && !unfinished.has_parts {
                        self.remote.upload_abort(key, &unfinished.upload).await?;
                    }
                }
            }
        }
        Ok(Looked::All)
    }

    /// Begins an upload in parts.
    pub(crate) async fn create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        let beginning = self.log.begin(key);
        match self.remote.upload_create(key, options).await {
            Ok(upload) => {
                beginning.begun(&upload);
                Ok(upload)
            }
            Err(error) => {
                beginning.failed();
                Err(error.into())
            }
        }
    }

    /// Removes the parts of an upload. That this fails must not hide why it is done: then they are
    /// removed later.
    pub(crate) async fn clear(&self, key: &Key, upload: &UploadId) {
        match self.remote.upload_abort(key, upload).await {
            Ok(()) => self.log.over(key, upload),
            Err(error) => {
                tracing::warn!(%key, %error, "parts of an upload are to be removed later");
                self.log.stays(key, upload);
            }
        }
    }
}

/// How far one could look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// What was there is removed.
    All,
    /// It could not be told from what is under way.
    Some,
}
