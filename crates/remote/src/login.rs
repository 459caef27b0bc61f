//! Reasons why a login that the user configured gives no credentials.
//!
//! The libraries of the clouds report them in chains of errors that name neither the profile nor the remedy.

use std::fmt;

use crate::{Error, ProviderError};

/// A configured login that gives no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// The configuration files have no such profile.
    NoProfile {
        /// The profile that was asked for.
        profile: String,
        /// The configuration file, as a user writes it.
        file: String,
        /// The profiles that there are, in order of their names.
        others: Vec<String>,
    },
    /// The profile has neither keys nor another way to log in.
    EmptyProfile {
        /// The profile.
        profile: String,
        /// The configuration file, as a user writes it.
        file: String,
    },
    /// The single sign-on session has ended, or never began.
    SessionEnded {
        /// The profile that the session is for.
        profile: String,
    },
    /// The program of `credential_process` failed.
    ProcessFailed {
        /// The profile that names the program.
        profile: String,
        /// How it ended, such as `exit status: 1`.
        status: String,
    },
}

/// A failed login as the cause of a failed request.
#[derive(Clone, Debug)]
pub(crate) struct FailedLogin {
    pub(crate) login: Login,
    /// The library's own words.
    pub(crate) said: ProviderError,
}

impl fmt::Display for FailedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.said.fmt(f)
    }
}

impl std::error::Error for FailedLogin {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.said)
    }
}

impl Error {
    /// The configured login that failed, if that is the cause.
    pub fn login(&self) -> Option<&Login> {
        self.cause::<FailedLogin>().map(|failed| &failed.login)
    }

    /// The same error with a failed login as its cause, as providers report it.
    #[must_use]
    pub fn because_of_login(self, login: Login, said: ProviderError) -> Error {
        self.because(FailedLogin { login, said })
    }
}
