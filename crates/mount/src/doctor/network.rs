//! The way to the store: its name.

use std::net::ToSocketAddrs;
use std::sync::mpsc;
use std::time::Duration;

use super::finding::Finding;
use super::permission;
use crate::config::Config;
use crate::location::Location;

/// How long a name server may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn look(config: &Config, tell: &mut impl FnMut(Finding)) {
    if let Some(endpoint) = endpoint(config) {
        tell(name(&endpoint));
    }
}

/// Where the requests go, if they leave the machine.
fn endpoint(config: &Config) -> Option<String> {
    match &config.location {
        // Its own server is in no other zone, and known to the library only.
        Location::S3 { bucket, .. } if permission::is_directory(bucket) => {
            config.s3.endpoint.clone()
        }
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
    let subject = "DNS";
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

#[cfg(test)]
mod tests {
    use super::host_and_port;

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
}
