//! What a provider said of a failure, and what a person can do about it.

use crate::{Error, ErrorKind};

/// What a person should look at when a store cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No credentials were found anywhere.
    NoCredentials,
    /// The store does not accept the credentials, and does not say why.
    BadCredentials,
    /// The store does not know the access key.
    UnknownKey,
    /// The secret key does not belong to the access key.
    WrongSecret,
    /// The session token has expired.
    ExpiredToken,
    /// The session token is malformed, or of another store.
    WrongToken,
    /// The clock of this machine and that of the store differ by too much.
    WrongClock,
    /// There is no bucket of that name.
    NoBucket,
    /// The bucket is in another region.
    WrongRegion,
    /// Nothing answers at the endpoint.
    Unreachable,
    /// A web page answers at the endpoint: a console, a proxy or a login page.
    WebPage,
    /// Who answers there has no certificate that is believed.
    Untrusted,
    /// The credentials are good, but not for this.
    Denied,
    /// The object is archived.
    Archived,
    /// The store is asked too often.
    Busy,
    /// The store has no key service, or not the key that objects should be encrypted with.
    NoEncryptionKey,
    /// Anything else.
    Other,
}

impl Trouble {
    /// Whether the store does not accept the credentials themselves.
    pub fn is_of_credentials(self) -> bool {
        match self {
            Trouble::NoCredentials
            | Trouble::BadCredentials
            | Trouble::UnknownKey
            | Trouble::WrongSecret
            | Trouble::ExpiredToken
            | Trouble::WrongToken
            | Trouble::WrongClock => true,
            Trouble::NoBucket
            | Trouble::WrongRegion
            | Trouble::Unreachable
            | Trouble::WebPage
            | Trouble::Untrusted
            | Trouble::Denied
            | Trouble::Archived
            | Trouble::Busy
            | Trouble::NoEncryptionKey
            | Trouble::Other => false,
        }
    }
}

/// The provider's own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}{}", request(request_id.as_deref()))]
pub struct ProviderError {
    /// The provider's name for the failure, or the HTTP status.
    pub code: String,
    /// What it said.
    pub message: String,
    /// Its name for the request, by which its staff can find it.
    pub request_id: Option<String>,
    /// What a person should look at.
    pub trouble: Trouble,
}

fn request(id: Option<&str>) -> String {
    id.map(|id| format!(" (request {id})")).unwrap_or_default()
}

impl Error {
    /// What a person should look at.
    pub fn trouble(&self) -> Trouble {
        self.provider_error().map_or(Trouble::Other, |error| error.trouble)
    }

    /// Whether the store does not let somebody do this whom it knows: it may let him do other things.
    pub fn is_refusal(&self) -> bool {
        self.kind == ErrorKind::Denied && !self.trouble().is_of_credentials()
    }

    /// The provider's own words, if it was a provider that failed.
    pub fn provider_error(&self) -> Option<&ProviderError> {
        self.cause()
    }

    /// The first cause of the type `T`.
    pub(crate) fn cause<T: std::error::Error + 'static>(&self) -> Option<&T> {
        let mut source: Option<&(dyn std::error::Error + 'static)> = match &self.source {
            Some(source) => Some(&**source),
            None => None,
        };
        while let Some(error) = source {
            if let Some(found) = error.downcast_ref::<T>() {
                return Some(found);
            }
            source = error.source();
        }
        None
    }
}
