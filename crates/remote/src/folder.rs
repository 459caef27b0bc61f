//! A local folder as an object store: each key is the file of that path.
//!
//! People find the objects as ordinary files, and ordinary files are objects. What cannot be a
//! plain file (`a//b`, `x` beside `x/y`, names of over 255 bytes) lives in `.quayfs` inside the
//! folder; [`place`] says where. A folder without anything in it is the object `folder/`.
//! Symbolic links and special files are neither shown nor followed nor replaced.

mod below;
mod disk;
mod fault;
mod find;
mod levels;
mod list;
mod names;
mod place;
mod read;
mod source;
mod stamp;
mod tree;
mod upload;
mod write;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use base::ByteRange;
use bytes::Bytes;
use futures::StreamExt as _;

use crate::{
    Body, Capability, Condition, Error, Fresh, KEY_BYTES_MAX, Key, ListRequest, Meta, Naming,
    Original, Page, PartCopies, PartNumber, PartNumbers, PartTag, Personality, PutOptions, Remote,
    Result, Unfinished, UploadId, Version, metadata,
};
use disk::Disk;
use fault::{Fault, Outcome};

/// A local folder as an object store.
#[derive(Clone, Debug)]
pub struct Folder {
    disk: Arc<Disk>,
}

impl Folder {
    /// What every folder can do.
    pub const HAS: [Capability; 6] = [
        Capability::PutIfAbsent,
        Capability::PutIfMatch,
        Capability::CompleteIfAbsent,
        Capability::CompleteIfMatch,
        Capability::PartCopy,
        Capability::SortedLists,
    ];

    /// Opens the folder at `path`, which must be there. Nothing is written to it before the first
    /// object is.
    pub fn open(path: &Path) -> Result<Folder> {
        use std::os::unix::ffi::OsStrExt as _;
        let key = Key::from(path.as_os_str().as_bytes());
        let disk = Disk::open(path).map_err(|fault| fault.of_call("open folder", &key))?;
        Ok(Folder { disk: Arc::new(disk) })
    }

    /// Runs file calls where they may block.
    async fn run<T: Send + 'static>(
        &self,
        op: &'static str,
        key: &Key,
        call: impl FnOnce(&Disk) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let disk = Arc::clone(&self.disk);
        let outcome = blocking(move || call(&disk)).await;
        outcome.map_err(|fault| fault.of_call(op, key))
    }
}

async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(call).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[async_trait]
impl Remote for Folder {
    fn personality(&self) -> Personality {
        Personality {
            part_bytes_min: 1,
            part_bytes_max: 5 << 30,
            parts_max: 10_000,
            object_bytes_max: 8 << 40,
            // With every byte escaped it still is a path that the kernel takes.
            key_bytes_max: KEY_BYTES_MAX,
            conditional_writes: true,
            part_copies: PartCopies::AnyRange { bytes_max: 5 << 30 },
            part_numbers: PartNumbers::Rising,
            naming: Naming::OF_KEYS,
        }
    }

    async fn head(&self, key: &Key) -> Result<Meta> {
        let wanted = key.clone();
        self.run("head", key, move |disk| disk.head(&wanted)).await
    }

    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body> {
        let (wanted, version) = (key.clone(), version.cloned());
        let reading = self
            .run("get", key, move |disk| disk.open_range(&wanted, range, version.as_ref()))
            .await?;
        let key = key.clone();
        let pieces = futures::stream::try_unfold(reading, move |reading| {
            let key = key.clone();
            async move {
                let next = blocking(move || reading.next()).await;
                next.map_err(|fault| fault.of_call("get", &key))
            }
        });
        Ok(pieces.boxed())
    }

    async fn get_whole(
        &self,
        key: &Key,
        unless: Option<&Version>,
        bytes_max: u64,
    ) -> Result<Fresh> {
        let (wanted, unless) = (key.clone(), unless.cloned());
        let call = move |disk: &Disk| disk.read_whole(&wanted, unless.as_ref(), bytes_max);
        self.run("get whole", key, call).await
    }

    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version> {
        check_put("put", key, options)?;
        let (wanted, options) = (key.clone(), options.clone());
        self.run("put", key, move |disk| disk.put(&wanted, &bytes, &options)).await
    }

    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId> {
        check_put("upload create", key, options)?;
        let (wanted, options) = (key.clone(), options.clone());
        self.run("upload create", key, move |disk| disk.upload_create(&wanted, &options)).await
    }

    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag> {
        let (wanted, upload) = (key.clone(), upload.clone());
        let call = move |disk: &Disk| disk.upload_part(&wanted, &upload, part, &bytes);
        self.run("upload part", key, call).await
    }

    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag> {
        let (wanted, upload) = (key.clone(), upload.clone());
        let (from, version) = (original.key.clone(), original.version.clone());
        let call = move |disk: &Disk| {
            disk.upload_part_copy((&wanted, &upload, part), (&from, &version), range)
        };
        self.run("upload part copy", key, call).await
    }

    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version> {
        let (wanted, upload) = (key.clone(), upload.clone());
        let (parts, condition) = (parts.to_vec(), condition.clone());
        let call = move |disk: &Disk| disk.upload_complete(&wanted, &upload, &parts, &condition);
        self.run("upload complete", key, call).await
    }

    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let (wanted, upload) = (key.clone(), upload.clone());
        self.run("upload abort", key, move |disk| disk.upload_abort(&wanted, &upload)).await
    }

    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>> {
        let wanted = key.clone();
        self.run("uploads", key, move |disk| disk.uploads(&wanted)).await
    }

    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version> {
        check_key("copy", to)?;
        let (source, version) = (original.key.clone(), original.version.clone());
        let (target, condition) = (to.clone(), condition.clone());
        let call = move |disk: &Disk| copy(disk, &source, &version, &target, &condition);
        self.run("copy", original.key, call).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let wanted = key.clone();
        self.run("delete", key, move |disk| disk.delete(&wanted)).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Page> {
        let wanted = request.clone();
        self.run("list", &request.prefix, move |disk| disk.list(&wanted)).await
    }
}

fn check_key(op: &'static str, key: &Key) -> Result<()> {
    let refused = match key.as_bytes().len() {
        0 => "an object needs a name",
        1..=KEY_BYTES_MAX => return Ok(()),
        _ => "the key is longer than 1,024 bytes",
    };
    Err(Fault::new(crate::ErrorKind::Unsupported, refused).of_call(op, key))
}

fn check_put(op: &'static str, key: &Key, options: &PutOptions) -> Result<()> {
    check_key(op, key)?;
    metadata::check_names(&options.metadata)
        .map_err(|words| Error::new(crate::ErrorKind::Unsupported, op, key).because(words))
}

fn copy(
    disk: &Disk,
    from: &Key,
    version: &Version,
    to: &Key,
    condition: &Condition,
) -> Outcome<Version> {
    let meta = disk.head(from)?;
    if meta.version != *version {
        return Err(Fault::changed());
    }
    let options = PutOptions { condition: condition.clone(), metadata: meta.metadata };
    let Some(whole) = ByteRange::new(0, meta.size) else {
        return disk.put(to, b"", &options);
    };
    let mut source = disk.open_source(from, version)?;
    let mut draft = disk.draft()?;
    source.copy(whole, &mut draft.file)?;
    disk.publish(to, draft, &options.metadata, condition)
}
