//! Buckets become volumes when they are first asked for, each once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Errno, crc32c};
use parking_lot::Mutex;
use remote::{Authorities, Trouble};
use tokio::runtime::Handle;

use crate::assemble::{self, Common};
use crate::config::Buckets;
use crate::error::Error;
use crate::kernel::Link;
use crate::location::Location;
use crate::refused::Told;
use crate::tag::Tag;
use crate::volume::Volume;
use crate::volumes::Volumes;
use crate::writes::Company;

/// Names of buckets that are remembered, those that were not found among them.
const PLACES_MAX: usize = 4096;

/// A bucket that could not be attached is tried again so much later: long enough for a loop over a name
/// that is wrong, short for a person.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Attaches buckets.
#[derive(Debug)]
pub(super) struct Attach {
    common: Common,
    volumes: Arc<Volumes>,
    link: Link,
    buckets: Arc<dyn Buckets>,
    /// Those that most buckets share: certificates are most of what an idle bucket has in memory.
    authorities: Authorities,
    runtime: Handle,
    places: Mutex<HashMap<Location, Arc<Place>>>,
    /// Those that were attached, in this order.
    order: Mutex<Vec<(Location, Tag)>>,
}

/// One bucket, or what might be one. Whoever attaches it holds the lock; others for the same wait.
#[derive(Debug, Default)]
struct Place {
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Attached(Tag, Arc<Volume>),
    Failed {
        errno: Errno,
        at: Duration,
    },
}

/// Why a bucket cannot be attached: what a program is told, and what a person.
#[derive(Debug)]
struct Refusal {
    errno: Errno,
    reason: String,
}

impl Attach {
    pub(super) fn new(
        (common, volumes): (Common, Arc<Volumes>),
        (link, buckets): (Link, Arc<dyn Buckets>),
        (authorities, runtime): (Authorities, Handle),
    ) -> Attach {
        let (places, order) = (Mutex::default(), Mutex::default());
        Attach { common, volumes, link, buckets, authorities, runtime, places, order }
    }

    /// The volume of `location`, attached if it is not yet.
    pub(super) async fn volume(&self, location: &Location) -> Result<(Tag, Arc<Volume>), Errno> {
        let place = self.place(location)?;
        let mut state = place.state.lock().await;
        let now = self.common.clock.monotonic();
        match &*state {
            State::Attached(tag, volume) => return Ok((*tag, Arc::clone(volume))),
            State::Failed { errno, at } if now < *at + RETRY_DELAY => return Err(*errno),
            State::New | State::Failed { .. } => {}
        }
        match self.attach(location).await {
            Ok((tag, volume)) => {
                self.volumes.refused.remove(&volume.place);
                *state = State::Attached(tag, Arc::clone(&volume));
                Ok((tag, volume))
            }
            Err(Refusal { errno, reason }) => {
                let now = self.common.clock.monotonic();
                let told = if errno == Errno::ENOENT {
                    tracing::info!(%location, reason, "there is no such bucket");
                    Told::Briefly { now }
                } else {
                    tracing::warn!(%location, %errno, reason, "a bucket cannot be attached");
                    Told::Always
                };
                self.volumes.refused.add(location.place(), reason, told);
                *state = State::Failed { errno, at: now };
                Err(errno)
            }
        }
    }

    /// What is attached, in the order in which it came.
    pub(super) fn attached(&self) -> Vec<(Location, Tag, Arc<Volume>)> {
        let order = self.order.lock();
        let with = |(location, tag): &(Location, Tag)| {
            Some((location.clone(), *tag, self.volumes.with(*tag)?))
        };
        order.iter().filter_map(with).collect()
    }

    fn place(&self, location: &Location) -> Result<Arc<Place>, Errno> {
        let mut places = self.places.lock();
        if let Some(place) = places.get(location) {
            return Ok(Arc::clone(place));
        }
        if PLACES_MAX <= places.len() {
            // Who holds one may be just about to lock it.
            places.retain(|_, place| match place.state.try_lock() {
                Ok(state) => matches!(*state, State::Attached(..)) || 1 < Arc::strong_count(place),
                Err(_) => true,
            });
        }
        if PLACES_MAX <= places.len() {
            return Err(Errno::ENFILE);
        }
        Ok(Arc::clone(places.entry(location.clone()).or_default()))
    }

    async fn attach(&self, location: &Location) -> Result<(Tag, Arc<Volume>), Refusal> {
        // Before anything is asked of the bucket.
        self.free_tag(location)?;
        let denied = |reason| Refusal { errno: Errno::EACCES, reason };
        let mut config = self.buckets.config(location).map_err(denied)?;
        if config.authorities == self.authorities {
            config.authorities = self.authorities.clone();
        }
        let mut notices = Vec::new();
        let assembled =
            assemble::assemble((&config, Company::AllBuckets), self.common.clone(), &mut notices)
                .await;
        let assembled = assembled.map_err(|error| Refusal::of(&error))?;
        for notice in notices {
            tracing::warn!(%location, ?notice, "attached");
        }
        // Under one lock, so that nobody else takes the tag.
        let mut order = self.order.lock();
        let tag = self.free_tag(location)?;
        let kernel = self.link.kernel(tag);
        let volume = Arc::new(Volume::start(&config, assembled, kernel, &self.runtime));
        self.volumes.add(tag, Arc::clone(&volume));
        order.push((location.clone(), tag));
        tracing::info!(%location, "attached");
        Ok((tag, volume))
    }

    /// The tag that the name asks for, so that inode numbers are the same after a remount, or the next
    /// that is free.
    fn free_tag(&self, location: &Location) -> Result<Tag, Refusal> {
        let hash = crc32c(location.to_string().as_bytes());
        let free = Tag::free(hash, |tag| self.volumes.with(tag).is_some());
        free.ok_or_else(|| Refusal {
            errno: Errno::ENFILE,
            reason: format!("this mount has {} buckets, and takes no more", Tag::MAX),
        })
    }
}

impl Refusal {
    fn of(error: &Error) -> Refusal {
        let Error::Remote { advice, failed: source, .. } = error else {
            return Refusal { errno: Errno::EIO, reason: error.to_string() };
        };
        Refusal { errno: told(source.trouble()), reason: format!("{} ({source})", advice.line()) }
    }
}

/// What a program is told of a bucket that cannot be attached.
fn told(trouble: Trouble) -> Errno {
    match trouble {
        Trouble::NoBucket => Errno::ENOENT,
        Trouble::NoCredentials
        | Trouble::BadCredentials
        | Trouble::UnknownKey
        | Trouble::WrongSecret
        | Trouble::ExpiredToken
        | Trouble::WrongToken
        | Trouble::WrongClock
        | Trouble::Denied => Errno::EACCES,
        Trouble::WrongRegion
        | Trouble::Unreachable
        | Trouble::WebPage
        | Trouble::Archived
        | Trouble::Untrusted
        | Trouble::Busy
        | Trouble::NoEncryptionKey
        | Trouble::Other => Errno::EIO,
    }
}
