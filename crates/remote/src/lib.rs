//! Object stores behind a few calls.
//!
//! [`Remote`] is the waist: everything above speaks of keys, versions and conditions, everything
//! below is one provider each. Decorators (`retry`, `limit`, `meter`) are `Remote`s around a
//! `Remote`. The promises of the trait are the checks in `conformance`.

mod azure;
mod backoff;
mod behind;
mod capabilities;
mod cloud_store;
#[cfg(feature = "testing")]
pub mod conformance;
mod error;
#[cfg(feature = "testing")]
pub mod fake;
mod folder;
mod gcs;
mod glob;
mod hedge;
mod http;
mod identity;
mod key;
mod limit;
mod login;
mod metadata;
mod meter;
mod naming;
mod object;
mod patience;
mod prefix;
mod probe;
#[cfg(test)]
mod recorded_clocks;
mod retry;
mod s3;
mod secret;
mod shelf;
mod sorting;
mod suited;
mod there;
mod throttle;
mod token;
mod traffic;
mod trouble;
mod turning;
mod upload_id;
mod xml;

pub use azure::{Azure, AzureCredentials, AzureOptions, ConnectionStringError, Entra, Proof};
pub use backoff::RetryOptions;
pub use capabilities::{Capability, Has, Learned};
pub use cloud_store::{CloudStore, Details, SHARED_MAX, SharedUrl};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "testing")]
pub use fake::Fake;
pub use folder::Folder;
pub use gcs::{
    CredentialsFileError, Federation, Gcs, GcsCredentials, GcsOptions, ServiceAccount, Subject,
    SubjectFormat, User,
};
pub use hedge::Hedge;
pub use http::{Authorities, CaBundle, CaBundleError};
pub use identity::{Identified, Identity};
pub use key::Key;
pub use limit::Limit;
pub use login::Login;
pub use meter::Meter;
pub use naming::{Folders, ListOrder, Moves, Naming};
use object::{BUCKET_PAGES_MAX, KEY_BYTES_MAX, UNFINISHED_MAX};
pub use object::{
    Body, Condition, Entry, Extent, Fresh, ListRequest, Meta, Metadata, Original, Page, PartCopies,
    PartNumber, PartNumbers, PartTag, Personality, PutOptions, UPLOAD_ID, Unfinished, UploadId,
    Version,
};
pub use prefix::{Prefixed, prefixed};
pub use probe::probe;
pub use retry::Retry;
pub use s3::{
    Addressing, Credentials, CustomerKey, CustomerKeyError, Encryption, Endpoints, Payer, S3,
    S3Options, S3Terms, Tags, TagsError,
};
pub use secret::Secret;
pub use sorting::in_order;
pub use suited::Suited;
pub use token::TokenFile;
pub use traffic::{Asked, Failure, Refusal, Traffic};
pub use trouble::{ProviderError, Trouble};

use std::fmt::Debug;

use async_trait::async_trait;
use base::ByteRange;
use bytes::Bytes;

/// An object store, or a part of one: all keys are within one bucket.
///
/// Writes are atomic: who reads a key sees one whole object, the old or the new.
#[async_trait]
pub trait Remote: Debug + Send + Sync + 'static {
    /// What this store can do, and within which limits.
    fn personality(&self) -> Personality;

    /// What is known of the object `key` without its bytes.
    async fn head(&self, key: &Key) -> Result<Meta>;

    /// The bytes `range` of `key`, streamed in order; `Changed` if `version` is named and is no
    /// longer the object's, `Unsupported` if the range does not lie within the object. The stream
    /// ends early only with an error: never short, never longer.
    async fn get(&self, key: &Key, range: ByteRange, version: Option<&Version>) -> Result<Body>;

    /// The object `key` with all its bytes, unless it still is the version `unless`; `Unsupported`
    /// if it has more than `bytes_max` bytes. For small objects that are read again and again.
    async fn get_whole(&self, key: &Key, unless: Option<&Version>, bytes_max: u64)
    -> Result<Fresh>;

    /// Makes `bytes` the object `key`, under the condition in `options`.
    async fn put(&self, key: &Key, bytes: Bytes, options: &PutOptions) -> Result<Version>;

    /// Begins an upload of `key` in parts. Its condition is checked by [`Remote::upload_complete`].
    async fn upload_create(&self, key: &Key, options: &PutOptions) -> Result<UploadId>;

    /// Sends one part. Parts may be sent in any order, concurrently, and again.
    async fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: Bytes,
    ) -> Result<PartTag>;

    /// Makes the bytes `range` of `original` a part, inside the store. `Changed` if it is not the
    /// named version any more (some stores say so only at the end of the upload); `Unsupported` if the range does not lie within the object, or if the
    /// store cannot copy it (see [`Personality::part_copies`]): then the bytes have to be sent.
    async fn upload_part_copy(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        original: Original<'_>,
        range: ByteRange,
    ) -> Result<PartTag>;

    /// Makes the parts, in order of their numbers, the object `key`.
    async fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Result<Version>;

    /// Forgets an upload and its parts. Aborting what is not there is no error.
    async fn upload_abort(&self, key: &Key, upload: &UploadId) -> Result<()>;

    /// Uploads of exactly `key` that are neither complete nor aborted, oldest first; a thousand at
    /// most. Empty where the store forgets such uploads by itself and names none.
    async fn uploads(&self, key: &Key) -> Result<Vec<Unfinished>>;

    /// Copies `original` to `to` inside the store, metadata included; `Changed` if it is not the
    /// named version any more or `condition` does not hold of `to` (as far as the store can check
    /// it).
    async fn copy(
        &self,
        original: Original<'_>,
        to: &Key,
        condition: &Condition,
    ) -> Result<Version>;

    /// Gives `original` the key `to` in one step, metadata included, and says which version it is there.
    /// `Changed` if it is not the named version any more or `condition` does not hold of `to`, `NotFound`
    /// if it is gone, `Unsupported` where the store does not do this (see [`Moves`]).
    async fn rename(
        &self,
        original: Original<'_>,
        _to: &Key,
        _condition: &Condition,
    ) -> Result<Version> {
        Err(Error::new(ErrorKind::Unsupported, "rename", original.key))
    }

    /// Gives all that begins with `from` the beginning `to` in one step, each object in the version that it
    /// is; both end in `/`. `Changed` if there is a folder `to`, `NotFound` if there is none `from`,
    /// `Unsupported` where the store does not do this (see [`Folders`]).
    async fn rename_folder(&self, from: &Key, _to: &Key) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "rename folder", from))
    }

    /// Removes `key`. Removing what is not there is no error.
    async fn delete(&self, key: &Key) -> Result<()>;

    /// One page of keys, in byte order as far as [`ListOrder`] says.
    async fn list(&self, request: &ListRequest) -> Result<Page>;
}
