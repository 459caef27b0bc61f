//! The way to a bucket: the library's client and the calls that go straight, both to one place. It changes when
//! the store says that the bucket is in another region.

use std::fmt;
use std::sync::Arc;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::IdentityCache;
use base::Clock;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::direct::{Asker, Direct};
use super::keys::{ForLibrary, Keys};
use super::place::Place;
use super::session::Sessions;
use super::sign::{Scope, Signer};
use super::terms::{Header, Purpose};
use super::there::Listening;
use super::{connect, fault};
use crate::{Error, Result};

/// How the bucket is asked.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) client: Client,
    pub(super) direct: Direct,
    /// As whom; `None` is no one. Of a directory bucket these are those of its sessions.
    pub(super) keys: Option<Arc<Keys>>,
    /// Those of the account.
    account: Option<Arc<Keys>>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("direct", &self.direct).finish_non_exhaustive()
    }
}

/// What stays the same wherever the bucket turns out to be.
pub(super) struct Start {
    pub(super) bucket: String,
    /// As the account, or as no one.
    pub(super) asker: Asker,
    pub(super) here: Arc<dyn Clock>,
    /// What is said of encryption when a session begins.
    pub(super) encryption: Vec<Header>,
}

impl Way {
    /// The way to `place`, where `client` finds the bucket.
    fn to(start: &Start, client: &Client, place: Place) -> Way {
        let account = start.asker.keys.as_ref().map(|(_, keys)| Arc::clone(keys));
        let config = client.config().to_builder();
        // The keys know when they are to be renewed.
        let config = config.identity_cache(IdentityCache::no_cache());
        // Both ways ask as the same one, whatever the environment says of sessions.
        let config = config.disable_s3_express_session_auth(false);
        let config = match &account {
            Some(keys) => config.credentials_provider(ForLibrary(Arc::clone(keys))),
            None => config,
        };
        let direct = Direct::new(start.asker.clone(), place.clone());
        if !matches!(place.scope, Scope::Express(_)) || account.is_none() {
            let client = Client::from_conf(config.build());
            return Way { client, direct, keys: account.clone(), account };
        }
        let sessions = SharedCredentialsProvider::new(Sessions {
            account: direct,
            encryption: start.encryption.clone(),
            there: Arc::clone(&start.asker.there),
            here: Arc::clone(&start.here),
        });
        let keys = Arc::new(Keys::of_sessions(sessions, Arc::clone(&start.here)));
        let config = config.express_credentials_provider(ForLibrary(Arc::clone(&keys)));
        let session = Some((Signer::Session, Arc::clone(&keys)));
        let asker = Asker { keys: session, ..start.asker.clone() };
        let client = Client::from_conf(config.build());
        Way { client, direct: Direct::new(asker, place), keys: Some(keys), account }
    }

    /// As whom the library asks: copies are no business of a session (`CopyObject` and `UploadPartCopy` of the
    /// S3 API reference).
    pub(super) fn keys_for(&self, purpose: Purpose<'_>) -> Option<&Arc<Keys>> {
        match purpose {
            Purpose::Copy { .. } | Purpose::PartCopy => self.account.as_ref(),
            Purpose::Read
            | Purpose::New(_)
            | Purpose::Part
            | Purpose::CopyInParts
            | Purpose::Other => self.keys.as_ref(),
        }
    }
}

/// The way of now.
pub(super) struct Ways {
    start: Start,
    now: RwLock<Arc<Way>>,
    /// Held by who looks for another one: others wait for it.
    correcting: Mutex<Corrected>,
}

/// Whether the region has been put right: a store that names one after the other is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Corrected {
    No,
    Yes,
}

impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ways").field(&self.now.read()).finish()
    }
}

impl Ways {
    /// The way to `place`, where `client` finds the bucket.
    pub(super) fn begin(start: Start, client: &Client, place: Place) -> Ways {
        let listening = Listening(Arc::clone(&start.asker.there));
        let client = Client::from_conf(client.config().to_builder().interceptor(listening).build());
        let now = RwLock::new(Arc::new(Way::to(&start, &client, place)));
        Ways { start, now, correcting: Mutex::new(Corrected::No) }
    }

    /// The way as far as it is known.
    pub(super) fn now(&self) -> Arc<Way> {
        Arc::clone(&self.now.read())
    }

    /// As whom the account's own calls are asked.
    pub(super) fn account(&self) -> Option<&Arc<Keys>> {
        self.start.asker.keys.as_ref().map(|(_, keys)| keys)
    }

    /// As `error`, or in passing if `tried` led to the wrong region, and the right one is known now.
    pub(super) async fn put_right(&self, tried: &Arc<Way>, error: Error) -> Error {
        let Some(region) = fault::region_told(&error).map(str::to_owned) else { return error };
        let corrected = self.correct(tried, &region).await;
        match corrected {
            Ok(Corrected::Yes) => fault::in_passing(error),
            Ok(Corrected::No) => error,
            Err(refused) => {
                tracing::warn!(%refused, region, "the bucket is in another region");
                error
            }
        }
    }

    async fn correct(&self, tried: &Arc<Way>, region: &str) -> Result<Corrected> {
        let mut corrected = self.correcting.lock().await;
        if !Arc::ptr_eq(tried, &self.now()) {
            return Ok(Corrected::Yes);
        }
        let is_known = tried.client.config().region().is_some_and(|known| known.as_ref() == region);
        if *corrected == Corrected::Yes || is_known {
            return Ok(Corrected::No);
        }
        *corrected = Corrected::Yes;
        let client = connect::in_region(&tried.client, region);
        let place = Place::of(&client, &self.start.bucket).await?;
        if place == *tried.direct.place() {
            return Ok(Corrected::No);
        }
        tracing::info!(region, "the bucket is in another region than was thought");
        *self.now.write() = Arc::new(Way::to(&self.start, &client, place));
        Ok(Corrected::Yes)
    }
}
