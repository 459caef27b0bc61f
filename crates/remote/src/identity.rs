//! As whom a store is asked: what may be shown of credentials. Never a secret, nor a part of one.

use std::fmt::Debug;

use async_trait::async_trait;
use base::Timestamp;

/// Whose credentials are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What tells them, such as `access key`.
    pub kind: &'static str,
    /// Who it is, shortened where the whole could be of use to others.
    pub name: String,
    /// When they end, if that is known.
    pub expires: Option<Timestamp>,
}

/// A store that knows as whom it is asked.
#[async_trait]
pub trait Identified: Debug + Send + Sync + 'static {
    /// As whom it is asked now; `None` if the credentials cannot be had.
    async fn identity(&self) -> Option<Identity>;
}

impl Identity {
    /// As no one.
    pub(crate) fn anonymous() -> Identity {
        Identity { kind: "anonymous", name: String::new(), expires: None }
    }
}

/// The first and the last four characters: enough to tell one's keys apart.
pub(crate) fn shortened(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() < 12 {
        return characters.iter().take(2).chain(&['…']).collect();
    }
    let last = &characters[characters.len() - 4..];
    characters[..4].iter().chain(&['…']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_shortened_name_never_is_the_whole() {
        for (text, want) in
            [("AKIAIOSFODNN7EXAMPLE", "AKIA…MPLE"), ("minio", "mi…"), ("", "…"), ("a", "a…")]
        {
            assert_eq!(shortened(text), want);
        }
    }
}
