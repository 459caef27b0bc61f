//! As whom requests are signed: asked for once, and again before it is too late.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use base::{Clock, Timestamp};
use futures::future::{Either, select};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::fault;
use crate::{Error, ErrorKind};

/// So long before they end, credentials are asked for again.
const EARLY: Duration = Duration::from_mins(5);

/// Likewise those of sessions, which last five minutes.
const EARLY_IN_SESSION: Duration = Duration::from_mins(1);

/// How long credentials are used that do not say when they end: files may have others then.
const ENDLESS_MAX: Duration = Duration::from_mins(15);

/// How long credentials are used at least before they are asked for again: who gives them out may have no
/// others before they end.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How long an answer may take: programs that are asked may hang.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Credentials, and where they are from.
#[derive(Debug)]
pub(super) struct Keys {
    provider: SharedCredentialsProvider,
    clock: Arc<dyn Clock>,
    /// So long before they end they are asked for again.
    early: Duration,
    known: RwLock<Option<Known>>,
    /// Held by who asks for them: others wait for the answer.
    asking: Mutex<()>,
}

#[derive(Clone, Debug)]
struct Known {
    credentials: Credentials,
    /// When somebody asked last, be it in vain.
    asked: Duration,
    /// They are not asked for again before this, if the store takes them.
    until: Duration,
}

impl Keys {
    /// Those of `provider`.
    pub(super) fn new(provider: SharedCredentialsProvider, clock: Arc<dyn Clock>) -> Keys {
        Keys { provider, clock, early: EARLY, known: RwLock::default(), asking: Mutex::default() }
    }

    /// Those of sessions, which `provider` begins.
    pub(super) fn of_sessions(provider: SharedCredentialsProvider, clock: Arc<dyn Clock>) -> Keys {
        Keys { early: EARLY_IN_SESSION, ..Keys::new(provider, clock) }
    }

    /// The credentials of now.
    pub(super) async fn now(&self) -> Result<Credentials, CredentialsError> {
        if let Some(credentials) = self.fresh() {
            return Ok(credentials);
        }
        let _asking = self.asking.lock().await;
        if let Some(credentials) = self.fresh() {
            return Ok(credentials);
        }
        match self.ask().await {
            Ok(credentials) => {
                self.know(&credentials, self.use_for(&credentials));
                Ok(credentials)
            }
            Err(error) => match self.usable() {
                // Whoever gives them out may be back before they end.
                Some(credentials) => {
                    tracing::warn!(%error, "no new credentials: the old ones have to do");
                    self.know(&credentials, AGAIN_AFTER);
                    Ok(credentials)
                }
                None => Err(error),
            },
        }
    }

    /// The store does not take `refused`. Whether there are others now: who gives them out is asked, but
    /// not all the time.
    async fn renewed(&self, refused: &Credentials) -> bool {
        let _asking = self.asking.lock().await;
        let known = self.known.read().clone();
        if let Some(known) = known {
            if !is_same(&known.credentials, refused) {
                return true;
            }
            if self.clock.monotonic() < known.asked + AGAIN_AFTER {
                return false;
            }
        }
        match self.ask().await {
            Ok(credentials) => {
                self.know(&credentials, self.use_for(&credentials));
                !is_same(&credentials, refused)
            }
            Err(error) => {
                tracing::warn!(%error, "the store does not take these credentials, and there are no others");
                self.know(refused, AGAIN_AFTER);
                false
            }
        }
    }

    /// As `error`, or in passing if the store has refused `used`, and there are others now.
    pub(super) async fn put_right(&self, used: Option<&Credentials>, error: Error) -> Error {
        let is_refused = error.kind == ErrorKind::Denied && error.trouble().is_of_credentials();
        match used {
            Some(used) if is_refused && self.renewed(used).await => fault::in_passing(error),
            Some(_) | None => error,
        }
    }

    async fn ask(&self) -> Result<Credentials, CredentialsError> {
        let asking = std::pin::pin!(self.provider.provide_credentials());
        match select(asking, self.clock.sleep(ANSWER_MAX)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(CredentialsError::provider_timed_out(ANSWER_MAX)),
        }
    }

    fn know(&self, credentials: &Credentials, time: Duration) {
        let asked = self.clock.monotonic();
        let until = asked + time;
        *self.known.write() = Some(Known { credentials: credentials.clone(), asked, until });
    }

    fn fresh(&self) -> Option<Credentials> {
        let known = self.known.read().clone();
        let known = known.filter(|known| self.clock.monotonic() < known.until)?;
        self.has_not_ended(&known.credentials).then_some(known.credentials)
    }

    fn usable(&self) -> Option<Credentials> {
        let known = self.known.read().clone()?;
        self.has_not_ended(&known.credentials).then_some(known.credentials)
    }

    /// By the time of day: a machine that sleeps does not count its seconds.
    fn has_not_ended(&self, credentials: &Credentials) -> bool {
        credentials.expiry().is_none_or(|end| self.wall() < end)
    }

    /// How long new credentials are used.
    fn use_for(&self, credentials: &Credentials) -> Duration {
        let Some(end) = credentials.expiry() else { return ENDLESS_MAX };
        let left = end.duration_since(self.wall()).unwrap_or_default();
        left.saturating_sub(self.early).max(AGAIN_AFTER)
    }

    fn wall(&self) -> SystemTime {
        system_time(self.clock.as_ref())
    }
}

/// The same credentials for the library, which is to keep none itself: it would not notice that the store
/// takes them no more.
#[derive(Clone, Debug)]
pub(super) struct ForLibrary(pub(super) Arc<Keys>);

impl ProvideCredentials for ForLibrary {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        Providing::new(self.0.now())
    }
}

fn is_same(a: &Credentials, b: &Credentials) -> bool {
    let of = |credentials: &Credentials| {
        let token = credentials.session_token().map(str::to_owned);
        (credentials.access_key_id().to_owned(), token)
    };
    of(a) == of(b) && a.secret_access_key() == b.secret_access_key()
}

/// Now, as the library says it.
pub(super) fn system_time(clock: &dyn Clock) -> SystemTime {
    system_time_of(clock.wall())
}

/// A moment, likewise.
pub(super) fn system_time_of(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::new(u64::try_from(time.secs).unwrap_or(0), time.nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use aws_credential_types::Credentials;
    use aws_credential_types::provider::error::CredentialsError;
    use aws_credential_types::provider::future::ProvideCredentials as Providing;
    use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
    use base::ManualClock;

    use super::{AGAIN_AFTER, Keys, system_time};

    const HOUR: Duration = Duration::from_hours(1);

    /// Gives out credentials for an hour, the number of the call as their name, but for the third.
    #[derive(Clone, Debug)]
    struct Giver {
        clock: Arc<ManualClock>,
        calls: Arc<AtomicU64>,
        is_endless: bool,
    }

    impl ProvideCredentials for Giver {
        fn provide_credentials<'a>(&'a self) -> Providing<'a>
        where
            Self: 'a,
        {
            let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let end = (!self.is_endless).then(|| system_time(self.clock.as_ref()) + HOUR);
            let name = call.to_string();
            Providing::ready(match call {
                3 => Err(CredentialsError::provider_error("down")),
                _ => Ok(Credentials::new(name, "hush", None, end, "test")),
            })
        }
    }

    /// Gives no answer.
    #[derive(Debug)]
    struct Silent;

    impl ProvideCredentials for Silent {
        fn provide_credentials<'a>(&'a self) -> Providing<'a>
        where
            Self: 'a,
        {
            Providing::new(std::future::pending())
        }
    }

    fn keys(is_endless: bool) -> (Keys, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        let giver = Giver { clock: Arc::clone(&clock), calls: Arc::default(), is_endless };
        (Keys::new(SharedCredentialsProvider::new(giver), Arc::clone(&clock) as _), clock)
    }

    async fn name(keys: &Keys) -> String {
        keys.now()
            .await
            .map_or_else(|error| error.to_string(), |now| now.access_key_id().to_owned())
    }

    #[tokio::test]
    async fn credentials_are_asked_for_again_before_they_end_and_used_until_then() {
        let (keys, clock) = keys(false);
        assert_eq!(name(&keys).await, "1");
        clock.advance(Duration::from_mins(54));
        assert_eq!(name(&keys).await, "1");
        clock.advance(Duration::from_mins(2));
        assert_eq!(name(&keys).await, "2");
        clock.advance(Duration::from_mins(56));
        for _ in 0..2 {
            assert_eq!(name(&keys).await, "2", "nobody gives others");
        }
        clock.advance(AGAIN_AFTER);
        assert_eq!(name(&keys).await, "4");
    }

    #[tokio::test]
    async fn who_gives_no_others_is_not_asked_for_each_request() {
        let (keys, clock) = keys(false);
        assert_eq!(name(&keys).await, "1");
        clock.advance(Duration::from_mins(56));
        assert_eq!(name(&keys).await, "2");
        clock.advance(Duration::from_mins(59));
        assert_eq!(name(&keys).await, "2", "nobody gives others");
        assert_eq!(name(&keys).await, "2", "nor is anybody asked");
        clock.advance(Duration::from_mins(1));
        assert_eq!(name(&keys).await, "4", "the old ones have ended");
    }

    #[tokio::test]
    async fn who_hangs_is_not_waited_for() {
        let (keys, clock) = keys(false);
        assert_eq!(name(&keys).await, "1");
        let silent = Keys::new(SharedCredentialsProvider::new(Silent), Arc::clone(&clock) as _);
        assert!(silent.now().await.is_err());
    }

    #[tokio::test]
    async fn credentials_that_have_ended_are_not_used() {
        let (keys, clock) = keys(false);
        for want in ["1", "2"] {
            assert_eq!(name(&keys).await, want);
            clock.advance(HOUR);
        }
        assert!(!["2", "3"].contains(&&name(&keys).await[..]));
        assert_eq!(name(&keys).await, "4");
    }

    #[tokio::test]
    async fn credentials_that_do_not_end_are_looked_for_now_and_then() {
        let (keys, clock) = keys(true);
        assert_eq!(name(&keys).await, "1");
        assert_eq!(name(&keys).await, "1");
        clock.advance(HOUR);
        assert_eq!(name(&keys).await, "2");
        clock.advance(HOUR);
        assert_eq!(name(&keys).await, "2", "nobody gives others");
        clock.advance(AGAIN_AFTER);
        assert_eq!(name(&keys).await, "4");
    }

    #[tokio::test]
    async fn what_the_store_does_not_take_is_asked_for_again_and_not_all_the_time() {
        let (keys, clock) = keys(true);
        let first = keys.now().await.unwrap();
        assert!(!keys.renewed(&first).await, "they were asked for just now");
        clock.advance(AGAIN_AFTER);
        assert!(keys.renewed(&first).await);
        assert_eq!(name(&keys).await, "2");
        assert!(keys.renewed(&first).await, "somebody else has asked");
        let second = keys.now().await.unwrap();
        clock.advance(AGAIN_AFTER);
        assert!(!keys.renewed(&second).await, "nobody gives others");
        assert_eq!(name(&keys).await, "2");
    }
}
