//! What a bucket is told to be like when it is opened.

use std::time::Duration;

use base::Share;

use crate::Owner;

/// What a bucket's files are like, and how much of them is remembered.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// Endpoint and bucket, and whatever else tells this store's keys from another's.
    pub store_identity: String,
    /// For how long the bucket's word on names and attributes is believed.
    pub metadata_ttl: Duration,
    /// Whose the files are that nobody says anything else of.
    pub owner: Owner,
    /// Permission bits of such files.
    pub file_mode: u16,
    /// Permission bits of such folders.
    pub folder_mode: u16,
    /// Whether attributes that deviate are kept in hidden objects.
    pub attributes: Attributes,
    /// When a change of names returns.
    pub returns: Returns,
    /// Whether more is asked than is needed.
    pub foresight: Foresight,
    /// How many nodes are remembered that the kernel does not hold.
    pub nodes: Share,
    /// Makes the names of hidden objects others than those of other mounts.
    pub seed: u64,
    /// What may be asked of the mounted folder itself.
    pub top: Top,
}

/// What may be asked of the mounted folder itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// What is in it.
    Listed,
    /// Nothing: it is only on the way to what is below it.
    OnTheWay,
}

/// When a change of names returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// When the bucket has it.
    InBucket,
    /// When it is made here and in the journal, where that is possible; the bucket follows.
    Journaled,
}

/// Whether attributes that deviate are kept in hidden objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// They are, one for each folder that has any.
    Kept,
    /// They are read, and what an earlier mount noted is shown; none is written: for mounts that
    /// only read.
    Shown,
    /// Neither read nor written: attributes live as long as the mount, and in the metadata of what
    /// is uploaded.
    Off,
}

/// Whether the bucket is asked for what nobody waits for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// Nothing that is not needed.
    None,
    /// Names beside those that are wanted, for as long as they are wanted mostly.
    Names,
}

impl BucketOptions {
    /// Whether more is asked than is needed: what is believed for no time cannot be told ahead.
    pub(super) fn foresight(&self) -> Foresight {
        if self.metadata_ttl.is_zero() { Foresight::None } else { self.foresight }
    }
}

impl Default for BucketOptions {
    fn default() -> BucketOptions {
        BucketOptions {
            store_identity: String::new(),
            metadata_ttl: Duration::from_secs(1),
            owner: Owner { uid: 0, gid: 0 },
            file_mode: 0o644,
            folder_mode: 0o755,
            attributes: Attributes::Kept,
            returns: Returns::InBucket,
            foresight: Foresight::None,
            nodes: Share::whole(1_000_000),
            seed: 0,
            top: Top::Listed,
        }
    }
}
