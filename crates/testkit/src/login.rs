//! Who talks to a store.

/// A name and a secret that a store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The access key.
    pub user: String,
    /// The secret key.
    pub secret: String,
}

impl Login {
    /// Who owns every server the tests start.
    pub fn root() -> Login {
        Login { user: "quayfs-root".into(), secret: "quayfs-secret".into() }
    }
}
