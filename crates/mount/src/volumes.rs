//! The volumes of one mount.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Ino;
use futures::future;
use parking_lot::RwLock;
use remote::Identity;
use vfs::{Dirty, Pending, PendingFile, Unpublished};

use crate::knowledge;
use crate::refused::Refused;
use crate::status::StoreStatus;
use crate::tag::Tag;
use crate::volume::Volume;

/// What could not be brought into the bucket of each volume.
#[derive(Debug)]
pub(crate) struct Unbrought(Vec<(Arc<Volume>, Vec<Unpublished>)>);

/// The volumes of one mount. Those that were added stay.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    by_tag: RwLock<BTreeMap<Tag, Arc<Volume>>>,
    /// What might have been one.
    pub(crate) refused: Refused,
}

impl Volumes {
    /// Adds a volume under a tag that no other has.
    pub(crate) fn add(&self, tag: Tag, volume: Arc<Volume>) {
        let earlier = self.by_tag.write().insert(tag, volume);
        assert!(earlier.is_none(), "a tag is given once");
    }

    /// The volume with this tag.
    pub(crate) fn with(&self, tag: Tag) -> Option<Arc<Volume>> {
        self.by_tag.read().get(&tag).cloned()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Volume>> {
        self.by_tag.read().values().cloned().collect()
    }

    /// What the buckets do not have yet.
    pub(crate) fn pending(&self) -> Pending {
        let all = self.all();
        let mut sum = Pending::default();
        for volume in &all {
            let Pending { files, bytes, changes, attributes, failures } = volume.vfs().pending();
            sum.files += files;
            sum.bytes += bytes;
            sum.changes += changes;
            sum.attributes += attributes;
            sum.failures.extend(failures);
        }
        sum
    }

    /// The files that the buckets do not have yet, at most `files_max`, with their paths in the mount.
    pub(crate) fn pending_files(&self, files_max: usize) -> Vec<PendingFile> {
        let mut files = Vec::new();
        for (&tag, volume) in &*self.by_tag.read() {
            let pending = volume.vfs().pending_files(files_max - files.len()).into_iter();
            files.extend(pending.map(|file| PendingFile {
                path: file.path.map(|path| in_mount(tag, volume, path)),
                ..file
            }));
        }
        files
    }

    /// The path in the mount of what the kernel calls `ino`.
    pub(crate) fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        let (tag, inner) = Tag::split(ino);
        let volume = self.with(tag)?;
        volume.vfs().path(inner).map(|path| in_mount(tag, &volume, path))
    }

    /// Returns the volume of `ino`, a number of the kernel, and the number within the volume.
    pub(crate) fn owner(&self, ino: Ino) -> Option<(Arc<Volume>, Ino)> {
        let (tag, inner) = Tag::split(ino);
        Some((self.with(tag)?, inner))
    }

    /// The volume of what the kernel calls `ino`, and the path there.
    pub(crate) fn place(&self, ino: Ino) -> Option<(Arc<Volume>, Vec<u8>)> {
        let (tag, inner) = Tag::split(ino);
        let volume = self.with(tag)?;
        let path = volume.vfs().path(inner)?;
        Some((volume, path))
    }

    /// The volume that `path` of the mount is in, and the path there.
    pub(crate) fn at<'a>(&self, path: &'a [u8]) -> Option<(Arc<Volume>, &'a [u8])> {
        let by_tag = self.by_tag.read();
        let mut all = by_tag.iter();
        all.find_map(|(&tag, volume)| {
            Some((Arc::clone(volume), in_volume(tag, &volume.place, path)?))
        })
    }

    /// Requests that there may be at a time, of the bucket that bears the fewest.
    pub(crate) fn requests_at_a_time(&self) -> u64 {
        self.all().iter().map(|volume| volume.limit.requests() as u64).min().unwrap_or_default()
    }

    /// How large the parts of an upload are that begins now, of the bucket with the largest; `None` where there is
    /// no bucket yet.
    pub(crate) fn part_bytes(&self) -> Option<u64> {
        self.all().iter().map(|volume| volume.parts.bytes()).max()
    }

    /// Small files that are uploaded at a time, of the bucket that bears the most.
    pub(crate) fn small_uploads_at_a_time(&self) -> u64 {
        let all = self.all();
        let paces = all.iter().map(|volume| volume.vfs().small_uploads_at_a_time());
        paces.max().unwrap_or_default().into()
    }

    /// What the stores of the buckets can do, and which could not be attached, as is told `now`.
    pub(crate) fn stores(&self, now: Duration) -> Vec<StoreStatus> {
        let all = self.all();
        let of = |volume: &Arc<Volume>| StoreStatus {
            read_only: volume.takes_no_changes(),
            ..knowledge::status(&volume.place, volume.knowledge.learned())
        };
        all.iter().map(of).chain(self.refused.stores(now)).collect()
    }

    /// As whom the buckets are asked, each once.
    pub(crate) async fn identities(&self) -> Vec<Identity> {
        let all = self.all();
        let identified = all.iter().filter_map(|volume| volume.cloud.as_ref());
        let identities = future::join_all(identified.map(|store| store.identity())).await;
        let mut told: Vec<Identity> = Vec::new();
        for identity in identities.into_iter().flatten() {
            if !told.contains(&identity) {
                told.push(identity);
            }
        }
        told
    }

    /// Bytes that the buckets do not have, and how many of them there may be.
    pub(crate) fn dirty(&self) -> vfs::Result<Dirty> {
        // They share the state folder, so any of them knows it of all.
        let any = self.all().into_iter().next();
        any.map_or(Ok(Dirty { bytes: 0, limit_bytes: 0 }), |volume| volume.vfs().dirty())
    }

    /// Brings everything into the buckets.
    pub(crate) async fn drain(&self) -> Unbrought {
        let all = self.all();
        let drained = future::join_all(all.iter().map(|volume| volume.drain())).await;
        Unbrought(all.into_iter().zip(drained).collect())
    }

    /// Brings into the buckets what is at or below `top`, as the kernel calls it.
    pub(crate) async fn sync(&self, top: Ino) -> Unbrought {
        let (tag, inner) = Tag::split(top);
        match self.with(tag) {
            Some(volume) => {
                let left = volume.sync(inner).await;
                Unbrought(vec![(volume, left)])
            }
            // A folder that volumes are in.
            None => self.drain().await,
        }
    }

    /// What was closed waits for no upload delay.
    pub(crate) fn hasten(&self) {
        for volume in self.all() {
            volume.vfs().hasten();
        }
    }

    /// Ends what is done in the background: the mount is gone.
    pub(crate) fn stop(&self) {
        self.all().iter().for_each(|volume| volume.stop());
    }

    /// Records what the next mount wants to know, after the last drain.
    pub(crate) fn settle(&self) {
        self.all().iter().for_each(|volume| volume.settle());
    }

    /// Attributes that the last drain could not bring into a bucket.
    pub(crate) fn attributes_left(&self) -> impl Iterator<Item = Unpublished> {
        self.all().into_iter().filter_map(|volume| volume.vfs().attributes_left())
    }

    /// Why attributes could not be brought into a bucket by the last drain.
    pub(crate) fn left_for_the_next_mount(&self) -> Option<String> {
        self.all().iter().find_map(|volume| volume.vfs().left_for_the_next_mount())
    }
}

impl Unbrought {
    /// All of it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Unpublished> {
        self.0.iter().flat_map(|(_, left)| left)
    }

    /// All of it, by itself.
    pub(crate) fn into_all(self) -> Vec<Unpublished> {
        self.0.into_iter().flat_map(|(_, left)| left).collect()
    }

    /// Somebody has heard of it.
    pub(crate) fn heard(&self) {
        self.0.iter().for_each(|(volume, left)| volume.vfs().heard(left));
    }

    /// Somebody was told by an error that there is some.
    pub(crate) fn heard_without_words(&self) {
        self.0.iter().for_each(|(volume, left)| volume.vfs().heard_without_words(left));
    }
}

/// Where `path` of a volume is in a mount.
fn in_mount(tag: Tag, volume: &Volume, path: Vec<u8>) -> Vec<u8> {
    match (tag, path.is_empty()) {
        (Tag::NONE, _) => path,
        (_, true) => volume.place.clone().into_bytes(),
        (_, false) => [volume.place.as_bytes(), b"/", &path].concat(),
    }
}

/// Where `path` of a mount is in the volume at `place`, if it is in there.
fn in_volume<'a>(tag: Tag, place: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    if tag == Tag::NONE {
        return Some(path);
    }
    match path.strip_prefix(place.as_bytes())? {
        [] => Some(&[]),
        below => below.strip_prefix(b"/"),
    }
}

#[cfg(test)]
mod tests {
    use super::in_volume;
    use crate::tag::Tag;

    #[test]
    fn a_path_is_in_the_volume_that_it_goes_through() {
        let other = Tag::new(7).unwrap();
        for (tag, path, want) in [
            (Tag::NONE, "s3/bucket/a", Some("s3/bucket/a")),
            (other, "s3/bucket", Some("")),
            (other, "s3/bucket/a/b", Some("a/b")),
            (other, "s3/buckets/a", None),
            (other, "s3", None),
            (other, "gs/bucket/a", None),
        ] {
            let inner = in_volume(tag, "s3/bucket", path.as_bytes());
            assert_eq!(inner, want.map(str::as_bytes), "{path}");
        }
    }
}
