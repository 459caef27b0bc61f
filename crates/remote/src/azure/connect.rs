//! Which container, where, and as whom; connection strings.

use std::fmt;
use std::time::Duration;

use aws_smithy_types::base64;

use crate::{Authorities, Secret};

use super::entra::Entra;

/// The account that every emulator has, and its published key.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";

/// Which container, where, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureOptions {
    /// The storage account.
    pub account: String,
    /// The container's name.
    pub container: String,
    /// The blob service, such as `http://127.0.0.1:10000/devstoreaccount1`, if it is not the
    /// account's at Azure's.
    pub endpoint: Option<String>,
    /// As whom to ask.
    pub credentials: AzureCredentials,
    /// How long a connection, and then the beginning of an answer, may take; at most the limits
    /// that hold anyway, 5 s and 30 s.
    pub patience: Duration,
    /// Authorities that are believed besides the machine's own.
    pub authorities: Authorities,
}

/// As whom to ask.
#[derive(Clone, PartialEq, Eq)]
pub enum AzureCredentials {
    /// As no one.
    Anonymous,
    /// As the account itself, with one of its two keys in base64.
    SharedKey(Secret),
    /// As whom a shared access signature names: its text as in a URL, `sv=…&sig=…`.
    Sas(Secret),
    /// As whom Microsoft Entra ID knows.
    Entra(Entra),
}

impl fmt::Debug for AzureCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AzureCredentials::Anonymous => f.write_str("Anonymous"),
            AzureCredentials::SharedKey(_) => f.write_str("SharedKey(…)"),
            AzureCredentials::Sas(_) => f.write_str("Sas(…)"),
            AzureCredentials::Entra(entra) => entra.fmt(f),
        }
    }
}

/// Why a text is no connection string. It does not repeat the text, which holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionStringError {
    /// A part is not `Name=value`.
    #[error("a part of the connection string is not Name=value")]
    Part,
    /// It names neither an account nor a blob endpoint.
    #[error("the connection string has neither AccountName nor BlobEndpoint")]
    NoAccount,
    /// A protocol that is neither of the two.
    #[error("the connection string's DefaultEndpointsProtocol is neither http nor https")]
    Protocol,
}

impl AzureOptions {
    /// The container at Azure's.
    pub fn new(
        account: impl Into<String>,
        container: impl Into<String>,
        credentials: AzureCredentials,
    ) -> AzureOptions {
        AzureOptions {
            account: account.into(),
            container: container.into(),
            endpoint: None,
            credentials,
            patience: Duration::from_secs(30),
            authorities: Authorities::default(),
        }
    }

    /// The container of the account that a connection string describes.
    pub fn from_connection_string(
        text: &str,
        container: impl Into<String>,
    ) -> Result<AzureOptions, ConnectionStringError> {
        let parts = Parts::parse(text)?;
        if parts.is_emulator {
            let key = AzureCredentials::SharedKey(Secret::new(EMULATOR_KEY));
            let endpoint = Some(EMULATOR_ENDPOINT.to_owned());
            return Ok(AzureOptions {
                endpoint,
                ..AzureOptions::new(EMULATOR_ACCOUNT, container, key)
            });
        }
        let credentials = match (parts.key, parts.sas) {
            (Some(key), _) => AzureCredentials::SharedKey(Secret::new(key)),
            (None, Some(sas)) => AzureCredentials::Sas(Secret::new(sas.trim_start_matches('?'))),
            (None, None) => AzureCredentials::Anonymous,
        };
        let endpoint = parts.endpoint.map(|url| url.trim_end_matches('/').to_owned());
        let account = match (parts.account, &endpoint) {
            (Some(account), _) => account.to_owned(),
            (None, Some(url)) => account_of(url).ok_or(ConnectionStringError::NoAccount)?,
            (None, None) => return Err(ConnectionStringError::NoAccount),
        };
        let endpoint = match (endpoint, parts.suffix, parts.protocol) {
            (Some(endpoint), _, _) => Some(endpoint),
            (None, None, None | Some("https")) => None,
            (None, suffix, protocol @ (None | Some("http" | "https"))) => Some(format!(
                "{}://{account}.blob.{}",
                protocol.unwrap_or("https"),
                suffix.unwrap_or(SUFFIX),
            )),
            (None, _, Some(_)) => return Err(ConnectionStringError::Protocol),
        };
        Ok(AzureOptions { endpoint, ..AzureOptions::new(account, container, credentials) })
    }

    /// The URL of the account's blob service, without a slash at its end.
    pub(super) fn service_url(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => format!("https://{}.blob.{SUFFIX}", self.account),
        }
    }
}

/// Where the accounts of the public cloud are.
const SUFFIX: &str = "core.windows.net";

/// The account that a URL such as `https://account.blob.core.windows.net` speaks of.
fn account_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (account, _) = rest.split_once(".blob.")?;
    (!account.is_empty() && !account.contains('/')).then(|| account.to_owned())
}

/// What of a connection string concerns blobs.
#[derive(Default)]
struct Parts<'a> {
    account: Option<&'a str>,
    key: Option<&'a str>,
    sas: Option<&'a str>,
    endpoint: Option<&'a str>,
    suffix: Option<&'a str>,
    protocol: Option<&'a str>,
    is_emulator: bool,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Result<Parts<'a>, ConnectionStringError> {
        let mut parts = Parts::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or(ConnectionStringError::Part)?;
            let value = value.trim();
            match &name.trim().to_ascii_lowercase()[..] {
                "accountname" => parts.account = Some(value),
                "accountkey" => parts.key = Some(value),
                "sharedaccesssignature" => parts.sas = Some(value),
                "blobendpoint" => parts.endpoint = Some(value),
                "endpointsuffix" => parts.suffix = Some(value),
                "defaultendpointsprotocol" => parts.protocol = Some(value),
                "usedevelopmentstorage" => parts.is_emulator = value.eq_ignore_ascii_case("true"),
                // Queues, tables and files have parts of their own.
                _ => {}
            }
        }
        Ok(parts)
    }
}

/// The bytes of an account's key.
pub(super) fn key_bytes(key: &Secret) -> Option<Vec<u8>> {
    base64::decode(key.reveal().trim()).ok().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{AzureCredentials, AzureOptions, ConnectionStringError};
    use crate::Secret;

    #[test]
    fn connection_strings_name_account_place_and_credentials() {
        let key = || AzureCredentials::SharedKey(Secret::new("aHVzaA=="));
        for (text, account, url, credentials) in [
            (
                "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aHVzaA==;EndpointSuffix=core.windows.net",
                "a",
                "https://a.blob.core.windows.net",
                key(),
            ),
            ("AccountName=a;AccountKey=aHVzaA==", "a", "https://a.blob.core.windows.net", key()),
            (
                "BlobEndpoint=https://b.blob.core.chinacloudapi.cn/;SharedAccessSignature=?sv=1&sig=x%3D",
                "b",
                "https://b.blob.core.chinacloudapi.cn",
                AzureCredentials::Sas(Secret::new("sv=1&sig=x%3D")),
            ),
            (
                "BlobEndpoint=http://127.0.0.1:10000/x;AccountName=x;QueueEndpoint=http://q/;",
                "x",
                "http://127.0.0.1:10000/x",
                AzureCredentials::Anonymous,
            ),
        ] {
            let options = AzureOptions::from_connection_string(text, "c").unwrap();
            assert_eq!((&options.account[..], &options.service_url()[..]), (account, url));
            assert_eq!((&options.container[..], &options.credentials), ("c", &credentials));
        }
        let emulator = AzureOptions::from_connection_string("UseDevelopmentStorage=true", "c");
        assert_eq!(emulator.unwrap().service_url(), "http://127.0.0.1:10000/devstoreaccount1");
    }

    #[test]
    fn a_broken_connection_string_is_refused_without_its_words() {
        for (text, want) in [
            ("hush", ConnectionStringError::Part),
            ("AccountKey=hush", ConnectionStringError::NoAccount),
            ("DefaultEndpointsProtocol=ftp;AccountName=a", ConnectionStringError::Protocol),
        ] {
            let error = AzureOptions::from_connection_string(text, "c").unwrap_err();
            assert_eq!(error, want, "{text}");
            assert!(!error.to_string().contains("hush"));
        }
    }

    #[test]
    fn a_secret_is_not_in_the_log() {
        for credentials in [
            AzureCredentials::SharedKey(Secret::new("hush")),
            AzureCredentials::Sas(Secret::new("hush")),
        ] {
            let text = format!("{:?}", AzureOptions::new("a", "c", credentials));
            assert!(!text.contains("hush"), "{text}");
        }
    }
}
