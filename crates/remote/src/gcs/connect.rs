//! Which bucket, where, and as whom; the files in which Google's tools keep credentials.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::{Authorities, Key, Secret};

use super::federation::{self, Federation};
use super::file_error::CredentialsFileError;

/// Where Google's own service is.
const SERVICE: &str = "https://storage.googleapis.com";

/// Where Google hands out tokens.
const TOKENS: &str = "https://oauth2.googleapis.com/token";

/// Where a machine of Google's, or a pod of its clusters, asks who it is.
const MACHINE: &str = "http://metadata.google.internal";

/// The parts of unfinished uploads, in a bucket without a prefix.
const PARTS: &str = ".quayfs-parts/";

/// Which bucket, where, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcsOptions {
    /// The bucket's name.
    pub bucket: String,
    /// The server, such as `http://127.0.0.1:4443`, if it is not Google's.
    pub endpoint: Option<String>,
    /// As whom to ask.
    pub credentials: GcsCredentials,
    /// What the names of the parts of unfinished uploads begin with; ends in `/`. Listings do not
    /// show them. With a prefix that nothing outside of may be written, it lies below that. Where they are not
    /// taken, as by credentials for a folder, parts are in the folder that is.
    pub parts: Key,
    /// What all keys of the volume begin with; empty, or ends in `/`.
    pub prefix: Key,
    /// How long a connection, and then the beginning of an answer, may take; at most the limits
    /// that hold anyway, 5 s and 30 s.
    pub patience: Duration,
    /// Authorities that are believed besides the machine's own.
    pub authorities: Authorities,
}

impl GcsOptions {
    /// The bucket at Google's.
    pub fn new(bucket: impl Into<String>, credentials: GcsCredentials) -> GcsOptions {
        GcsOptions {
            bucket: bucket.into(),
            endpoint: None,
            credentials,
            parts: Key::from(PARTS),
            prefix: Key::from(""),
            patience: Duration::from_secs(30),
            authorities: Authorities::default(),
        }
    }

    /// The same, for a volume whose keys all begin with `prefix`.
    #[must_use]
    pub fn below(mut self, prefix: &Key) -> GcsOptions {
        self.parts = prefix.join(PARTS.as_bytes());
        self.prefix = prefix.clone();
        self
    }

    pub(super) fn service_url(&self) -> &str {
        self.endpoint.as_deref().unwrap_or(SERVICE).trim_end_matches('/')
    }
}

/// As whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcsCredentials {
    /// As no one.
    Anonymous,
    /// As a service account, by its key.
    ServiceAccount(ServiceAccount),
    /// As a person who has logged in.
    User(User),
    /// As whom another identity provider vouches for.
    Federated(Federation),
    /// As a service account, by somebody who may act for it.
    Impersonated {
        /// Who acts.
        by: Box<GcsCredentials>,
        /// Where the account's tokens are handed out.
        url: String,
    },
    /// As the service account of this machine or pod; the URL is that of its metadata service.
    Machine(String),
    /// With a token that somebody else looks after.
    Token(Secret),
}

/// A service account's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// The account.
    pub email: String,
    /// The key's name.
    pub key_id: Option<String>,
    /// The key: PKCS #8 in PEM.
    pub key: Secret,
    /// Where tokens are handed out.
    pub token_url: String,
}

/// A person's login.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The program that the person allowed to act.
    pub client_id: String,
    /// That program's password, which is no secret of the person's.
    pub client_secret: Secret,
    /// What tokens are asked for with.
    pub refresh_token: Secret,
    /// Where tokens are handed out.
    pub token_url: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// The file as it is written.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    kind: String,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    service_account_impersonation_url: Option<String>,
    source_credentials: Option<Box<File>>,
    #[serde(flatten)]
    federation: federation::File,
}

impl GcsCredentials {
    /// What a file says that `gcloud` or the console wrote. Files that it names are read by `read`,
    /// each time they are needed.
    pub fn from_file(
        text: &str,
        read: fn(&Path) -> std::io::Result<String>,
    ) -> Result<GcsCredentials, CredentialsFileError> {
        // The parser's own words would repeat a part of the text.
        let file: File = serde_json::from_str(text).map_err(|_| CredentialsFileError::NotJson)?;
        GcsCredentials::of(file, read)
    }

    fn of(
        file: File,
        read: fn(&Path) -> std::io::Result<String>,
    ) -> Result<GcsCredentials, CredentialsFileError> {
        let token_url = file.token_uri.unwrap_or_else(|| TOKENS.to_owned());
        let need = |field: Option<String>, name| field.ok_or(CredentialsFileError::Missing(name));
        match &file.kind[..] {
            "service_account" => Ok(GcsCredentials::ServiceAccount(ServiceAccount {
                email: need(file.client_email, "client_email")?,
                key_id: file.private_key_id,
                key: Secret::new(need(file.private_key, "private_key")?),
                token_url,
            })),
            "authorized_user" => Ok(GcsCredentials::User(User {
                client_id: need(file.client_id, "client_id")?,
                client_secret: Secret::new(need(file.client_secret, "client_secret")?),
                refresh_token: Secret::new(need(file.refresh_token, "refresh_token")?),
                token_url,
            })),
            "external_account" => {
                let federated = GcsCredentials::Federated(file.federation.federation(read)?);
                Ok(match file.service_account_impersonation_url {
                    Some(url) => GcsCredentials::Impersonated { by: Box::new(federated), url },
                    None => federated,
                })
            }
            "impersonated_service_account" => {
                let by = file.source_credentials;
                let by = by.ok_or(CredentialsFileError::Missing("source_credentials"))?;
                let url = file.service_account_impersonation_url;
                let url = need(url, "service_account_impersonation_url")?;
                Ok(GcsCredentials::Impersonated {
                    by: Box::new(GcsCredentials::of(*by, read)?),
                    url,
                })
            }
            _ => Err(CredentialsFileError::Kind(file.kind)),
        }
    }

    /// The project that such a file names.
    pub fn project_of_file(text: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct File {
            project_id: Option<String>,
            quota_project_id: Option<String>,
        }
        let file: File = serde_json::from_str(text).ok()?;
        file.project_id.or(file.quota_project_id)
    }

    /// As the service account of this machine or pod.
    pub fn machine() -> GcsCredentials {
        GcsCredentials::Machine(MACHINE.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{CredentialsFileError, GcsCredentials, GcsOptions};
    use crate::{Key, Secret};

    const ACCOUNT: &str = r#"{"type": "service_account", "client_email": "a@b", "private_key_id": "1",
        "private_key": "hush", "token_uri": "http://t/"}"#;
    const USER: &str = r#"{"type": "authorized_user", "client_id": "c", "client_secret": "hush",
        "refresh_token": "hush", "quota_project_id": "q"}"#;

    #[expect(clippy::unnecessary_wraps, reason = "files may be missing")]
    fn read(_: &Path) -> std::io::Result<String> {
        Ok("hush".to_owned())
    }

    #[test]
    fn the_files_of_googles_tools_are_read() {
        let account = GcsCredentials::from_file(ACCOUNT, read).unwrap();
        let GcsCredentials::ServiceAccount(account) = account else { panic!("{account:?}") };
        assert_eq!((&account.email[..], &account.token_url[..]), ("a@b", "http://t/"));
        assert_eq!(GcsCredentials::project_of_file(USER).as_deref(), Some("q"));
        assert_eq!(GcsCredentials::project_of_file(ACCOUNT), None);
        let user = GcsCredentials::from_file(USER, read).unwrap();
        let GcsCredentials::User(user) = user else { panic!("{user:?}") };
        assert_eq!(user.token_url, "https://oauth2.googleapis.com/token");
        let kind = r#"{"type": "gdch_service_account"}"#;
        let program = r#"{"type": "external_account", "audience": "a", "subject_token_type": "t",
            "credential_source": {"executable": {"command": "x"}}}"#;
        // As Google's tools write it: the URL in it is none of a token.
        let aws = r#"{"type": "external_account", "audience": "a", "subject_token_type": "t",
            "credential_source": {"environment_id": "aws1", "url": "http://169.254.169.254/role",
            "regional_cred_verification_url": "https://sts.{region}.amazonaws.com"}}"#;
        let no_aws = "external_account of AWS (environment_id \"aws1\")";
        let nothing = r#"{"type": "external_account", "audience": "a", "subject_token_type": "t",
            "credential_source": {}}"#;
        for (text, want) in [
            ("hush", CredentialsFileError::NotJson),
            (r#"{"type": "service_account"}"#, CredentialsFileError::Missing("client_email")),
            (kind, CredentialsFileError::Kind("gdch_service_account".to_owned())),
            (program, CredentialsFileError::Program),
            (aws, CredentialsFileError::Kind(no_aws.to_owned())),
            (nothing, CredentialsFileError::Source),
        ] {
            assert_eq!(GcsCredentials::from_file(text, read), Err(want));
        }
        for refusal in [CredentialsFileError::Program, CredentialsFileError::Source] {
            assert!(refusal.to_string().contains("CLOUDSDK_AUTH_ACCESS_TOKEN"), "what to do");
        }
    }

    #[test]
    fn a_secret_is_not_in_the_log() {
        for credentials in [
            GcsCredentials::from_file(ACCOUNT, read).unwrap(),
            GcsCredentials::from_file(USER, read).unwrap(),
            GcsCredentials::Token(Secret::new("hush")),
        ] {
            let text = format!("{:?}", GcsOptions::new("b", credentials));
            assert!(!text.contains("hush"), "{text}");
        }
        let error = GcsCredentials::from_file("{\"type\": \"hush\"", read).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"));
    }

    #[test]
    fn parts_lie_below_the_prefix() {
        let options = GcsOptions::new("b", GcsCredentials::Anonymous);
        assert_eq!(options.parts, Key::from(".quayfs-parts/"));
        assert_eq!(options.below(&Key::from("p/")).parts, Key::from("p/.quayfs-parts/"));
    }
}
