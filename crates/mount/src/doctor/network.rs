//! The way to the store: its name, and as whom we come.

use std::net::ToSocketAddrs;
use std::sync::mpsc;
use std::time::Duration;

use remote::{AzureCredentials, Credentials, GcsCredentials};

use super::finding::Finding;
use crate::config::Config;
use crate::location::Location;

/// How long a name server may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn look(config: &Config, tell: &mut impl FnMut(Finding)) {
    if let Some(endpoint) = endpoint(config) {
        tell(name(&endpoint));
    }
    tell(credentials(config));
}

/// Where the requests go, if they leave the machine.
fn endpoint(config: &Config) -> Option<String> {
    match &config.location {
        Location::S3 { .. } => Some(config.s3.endpoint.clone().unwrap_or_else(|| {
            let region = config.s3.region.as_deref().unwrap_or("us-east-1");
            format!("https://s3.{region}.amazonaws.com")
        })),
        Location::Gcs { .. } => Some(
            config
                .gcs
                .endpoint
                .clone()
                .unwrap_or_else(|| "https://storage.googleapis.com".to_owned()),
        ),
        Location::Azure { account, .. } => Some(
            config
                .azure
                .endpoint
                .clone()
                .unwrap_or_else(|| format!("https://{account}.blob.core.windows.net")),
        ),
        Location::Folder(_) | Location::All => None,
    }
}

fn name(endpoint: &str) -> Finding {
    let subject = "name of the store";
    let Some((host, port)) = host_and_port(endpoint) else {
        let advice = "it should be like https://host or http://host:9000";
        return Finding::fail(subject, format!("{endpoint} is no URL"), advice);
    };
    let (send, found) = mpsc::channel();
    let asked = host.clone();
    std::thread::spawn(move || {
        let addresses = (asked.as_str(), port).to_socket_addrs();
        let _ = send.send(addresses.map(|all| all.map(|address| address.ip()).collect::<Vec<_>>()));
    });
    match found.recv_timeout(PATIENCE) {
        Ok(Ok(addresses)) if !addresses.is_empty() => {
            let more = if 1 < addresses.len() { ", …" } else { "" };
            Finding::ok(subject, format!("{host} is {}{more}", addresses[0]))
        }
        Ok(Ok(_)) => Finding::fail(subject, format!("{host} has no address"), "check the endpoint"),
        Ok(Err(error)) => Finding::fail(
            subject,
            format!("{host}: {error}"),
            "check the endpoint, /etc/resolv.conf and the network",
        ),
        Err(_) => Finding::fail(
            subject,
            format!("{host}: no name server answers"),
            "check /etc/resolv.conf and the network",
        ),
    }
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    if let Some((inner, after)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    {
        let port = after.strip_prefix(':').map_or(Some(port), |text| text.parse().ok())?;
        return Some((inner.to_owned(), port));
    }
    match authority.rsplit_once(':') {
        Some((host, text)) => Some((host.to_owned(), text.parse().ok()?)),
        None if authority.is_empty() => None,
        None => Some((authority.to_owned(), port)),
    }
}

/// Never a secret: names of keys are shortened.
fn credentials(config: &Config) -> Finding {
    let seen = match &config.location {
        Location::S3 { .. } | Location::All => of_s3(&config.s3.credentials),
        Location::Gcs { .. } => of_google(&config.gcs.credentials),
        Location::Azure { account, .. } => of_azure(account, &config.azure.credentials),
        Location::Folder(_) => "none are needed for a folder".to_owned(),
    };
    Finding::ok("credentials", seen)
}

#[expect(clippy::disallowed_methods, reason = "whose credentials are found is what is asked here")]
fn of_s3(credentials: &Credentials) -> String {
    match credentials {
        Credentials::Anonymous => "none, as --anonymous says".to_owned(),
        Credentials::Profile(name) => format!("those of the AWS profile {name}"),
        Credentials::Static { access_key_id, .. } => {
            format!("the access key {}", short(access_key_id))
        }
        Credentials::Default => match std::env::var("AWS_ACCESS_KEY_ID") {
            Ok(id) => format!("the access key {} of AWS_ACCESS_KEY_ID", short(&id)),
            Err(_) => {
                "what the AWS configuration, a web identity or the machine's role gives".to_owned()
            }
        },
    }
}

fn of_google(credentials: &GcsCredentials) -> String {
    match credentials {
        GcsCredentials::Anonymous => "none".to_owned(),
        GcsCredentials::Token(_) => "a token of CLOUDSDK_AUTH_ACCESS_TOKEN".to_owned(),
        GcsCredentials::Machine(_) => "those of the machine's service account".to_owned(),
        GcsCredentials::ServiceAccount(_) | GcsCredentials::User(_) => {
            "those of a file of Google's tools".to_owned()
        }
    }
}

fn of_azure(account: &str, credentials: &AzureCredentials) -> String {
    match credentials {
        AzureCredentials::Anonymous => "none".to_owned(),
        AzureCredentials::SharedKey(_) => format!("the key of the account {account}"),
        AzureCredentials::Sas(_) => format!("a shared access signature for the account {account}"),
    }
}

/// The first and last four characters.
fn short(id: &str) -> String {
    let (first, last): (String, String) = (
        id.chars().take(4).collect(),
        id.chars().skip(id.chars().count().saturating_sub(4)).collect(),
    );
    if id.chars().count() <= 8 { format!("{first}…") } else { format!("{first}…{last}") }
}

#[cfg(test)]
mod tests {
    use super::{host_and_port, short};

    #[test]
    fn an_endpoint_has_a_host_and_a_port() {
        for (url, want) in [
            ("http://127.0.0.1:9000", Some(("127.0.0.1", 9000))),
            ("https://s3.eu-west-1.amazonaws.com/", Some(("s3.eu-west-1.amazonaws.com", 443))),
            ("http://[::1]:9000/x", Some(("::1", 9000))),
            ("https://[::1]", Some(("::1", 443))),
            ("127.0.0.1:9000", None),
            ("http://", None),
        ] {
            let got = host_and_port(url);
            assert_eq!(got.as_ref().map(|(host, port)| (host.as_str(), *port)), want, "{url}");
        }
    }

    #[test]
    fn a_key_is_named_by_its_ends() {
        assert_eq!(short("AKIAIOSFODNN7EXAMPLE"), "AKIA…MPLE");
        assert_eq!(short("minio"), "mini…");
    }
}
