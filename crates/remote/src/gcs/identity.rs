//! Whose tokens Google Cloud Storage is asked with.

use super::connect::GcsCredentials;
use crate::identity::{Identity, shortened};

/// What may be told of `credentials`.
pub(super) fn identity(credentials: &GcsCredentials) -> Identity {
    let (kind, name) = match credentials {
        GcsCredentials::Anonymous => return Identity::anonymous(),
        GcsCredentials::ServiceAccount(account) => ("service account", account.email.clone()),
        GcsCredentials::User(user) => ("login through", shortened(&user.client_id)),
        GcsCredentials::Federated(federation) => ("federation", federation.audience.clone()),
        // …/serviceAccounts/NAME:generateAccessToken
        GcsCredentials::Impersonated { url, .. } => {
            let last = url.rsplit('/').next().unwrap_or_default();
            ("service account", last.split(':').next().unwrap_or_default().to_owned())
        }
        GcsCredentials::Machine(_) => ("service account", "of this machine".to_owned()),
        GcsCredentials::Token(_) => ("token", "from outside".to_owned()),
    };
    Identity { kind, name, expires: None }
}

#[cfg(test)]
mod tests {
    use super::identity;
    use crate::{GcsCredentials, Secret, ServiceAccount, User};

    #[test]
    fn people_and_accounts_are_named_and_secrets_are_not() {
        let account = ServiceAccount {
            email: "mount@project.iam.gserviceaccount.com".into(),
            key_id: Some("0123456789".into()),
            key: Secret::new("hush"),
            token_url: String::new(),
        };
        let user = User {
            client_id: "764086051850-6qr4p6gpi6hn506pt8ejuq83di341hur".into(),
            client_secret: Secret::new("hush"),
            refresh_token: Secret::new("hush"),
            token_url: String::new(),
        };
        for (credentials, want) in [
            (GcsCredentials::ServiceAccount(account), "mount@project.iam.gserviceaccount.com"),
            (GcsCredentials::User(user), "7640…1hur"),
            (GcsCredentials::Token(Secret::new("hush")), "from outside"),
            (GcsCredentials::Anonymous, ""),
            (
                GcsCredentials::Impersonated {
                    by: Box::new(GcsCredentials::machine()),
                    url: "https://iam/v1/serviceAccounts/lab@p.iam:generateAccessToken".to_owned(),
                },
                "lab@p.iam",
            ),
        ] {
            assert_eq!(identity(&credentials).name, want);
        }
    }
}
