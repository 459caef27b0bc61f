//! Sessions: as whom a directory bucket is asked ([CreateSession]). It gives credentials for itself alone, for
//! five minutes, to whoever asks with those of an account.
//!
//! [CreateSession]: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateSession.html

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};
use base::Clock;

use super::direct::{Call, Direct};
use super::fault;
use super::keys::{system_time, system_time_of};
use super::terms::Header;
use crate::there::There;
use crate::xml::{self, Element};
use crate::{Error, ErrorKind, Key, Result};

const OP: &str = "create session";

/// An answer fits into this: its token is a KiB or two.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Begins sessions with one bucket.
pub(super) struct Sessions {
    /// With the credentials of an account.
    pub(super) account: Direct,
    /// How what is written in them is encrypted.
    pub(super) encryption: Vec<Header>,
    pub(super) there: Arc<There>,
    pub(super) here: Arc<dyn Clock>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Sessions {
    async fn begin(&self) -> std::result::Result<Credentials, CredentialsError> {
        // So that whoever asks later finds the reason.
        self.ask().await.map_err(CredentialsError::provider_error)
    }

    async fn ask(&self) -> Result<Credentials> {
        let bucket = Key::from("");
        // Without a mode the session may do all that the account may.
        let call = Call::of_bucket(OP, &bucket, Vec::new())
            .resource("session")
            .terms(self.encryption.clone());
        let answer = self.account.send(call).await?;
        let document = answer.bytes(ANSWER_BYTES_MAX).await;
        let document = document.map_err(|failure| failure.into_error(OP, &bucket))?;
        let root = xml::parse(&document).filter(|root| root.name == "CreateSessionResult");
        let granted = root.as_ref().and_then(granted);
        let garbled = || Error::new(ErrorKind::Corrupt, OP, &bucket).because("no session in it");
        // One that was cut off on the way comes whole the next time.
        let granted = granted.ok_or_else(|| fault::in_passing(garbled()))?;
        let Granted { id, secret, token, end } = granted;
        let left = end.duration_since(system_time_of(self.there.wall())).unwrap_or_default();
        // By the clock that it is compared with.
        let end = system_time(self.here.as_ref()) + left;
        Ok(Credentials::new(id, secret, Some(token), Some(end), "session"))
    }
}

impl ProvideCredentials for Sessions {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        Providing::new(self.begin())
    }
}

/// What an answer grants.
struct Granted {
    id: String,
    secret: String,
    token: String,
    /// By the clock there.
    end: SystemTime,
}

fn granted(root: &Element) -> Option<Granted> {
    let credentials = root.child("Credentials")?;
    let text = |name| {
        let text = credentials.text_of(name).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let end = DateTime::from_str(&text("Expiration")?, DateTimeFormat::DateTime).ok()?;
    Some(Granted {
        id: text("AccessKeyId")?,
        secret: text("SecretAccessKey")?,
        token: text("SessionToken")?,
        end: UNIX_EPOCH + Duration::from_secs(u64::try_from(end.secs()).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::granted;
    use crate::xml;

    const ANSWER: &str = "<CreateSessionResult><Credentials><SessionToken>to</SessionToken>\
        <SecretAccessKey>se</SecretAccessKey><AccessKeyId>id</AccessKeyId>\
        <Expiration>2023-11-14T22:13:20Z</Expiration></Credentials></CreateSessionResult>";

    #[test]
    fn a_session_has_keys_a_token_and_an_end() {
        let granted = granted(&xml::parse(ANSWER.as_bytes()).unwrap()).unwrap();
        assert_eq!((&granted.id[..], &granted.secret[..], &granted.token[..]), ("id", "se", "to"));
        assert_eq!(granted.end, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    }

    #[test]
    fn what_lacks_something_is_no_session() {
        for (part, instead) in [
            ("<SessionToken>to</SessionToken>", ""),
            ("<SecretAccessKey>se", "<SecretAccessKey>"),
            ("<AccessKeyId>id</AccessKeyId>", ""),
            ("2023-11-14T22:13:20Z", "soon"),
            ("2023-", "-2023-"),
        ] {
            let answer = ANSWER.replace(part, instead);
            let root = xml::parse(answer.as_bytes()).unwrap();
            assert!(super::granted(&root).is_none(), "{part} became {instead}");
        }
    }
}
