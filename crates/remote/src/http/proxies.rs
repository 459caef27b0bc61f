//! Which proxy the environment names for a server: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// Servers that only the machine itself can reach: they hand out its credentials.
const OF_MACHINE: [&str; 3] = ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

/// The proxies.
#[derive(Clone)]
pub(super) struct Proxies(Arc<Matcher>);

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Their URLs may have passwords.
        f.write_str("Proxies")
    }
}

impl Proxies {
    /// Those that the environment names.
    pub(super) fn of_environment() -> Proxies {
        Proxies(Arc::new(Matcher::from_env()))
    }

    /// The proxy on the way to `server`.
    pub(super) fn of(&self, server: &Uri) -> Option<Intercept> {
        if server.host().is_some_and(is_asked_straight) { None } else { self.0.intercept(server) }
    }

    /// What the proxy that passes on requests for `server` is shown with each. A tunnel is shown it
    /// once, and not what goes through it.
    pub(super) fn login(&self, server: &Uri) -> Option<HeaderValue> {
        if server.scheme() == Some(&Scheme::HTTPS) {
            return None;
        }
        self.of(server)?.basic_auth().cloned()
    }
}

/// Whether no proxy is asked for `host`, whatever the environment says.
pub(crate) fn is_asked_straight(host: &str) -> bool {
    OF_MACHINE.contains(&host) || is_loopback(host)
}

/// Whether this machine alone is meant, which no proxy reaches.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
impl From<Matcher> for Proxies {
    fn from(matcher: Matcher) -> Proxies {
        Proxies(Arc::new(matcher))
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::proxy::matcher::Matcher;

    use super::Proxies;

    #[test]
    fn a_proxy_is_used_and_shown_its_login_where_it_must_be() {
        let matcher = Matcher::builder()
            .http("http://name:hush@proxy:3128")
            .https("http://name:hush@proxy:3129")
            .no("near")
            .build();
        let proxies = Proxies::from(matcher);
        for (server, proxy, login) in [
            ("http://far/", Some(3128), true),
            ("https://far/", Some(3129), false),
            ("http://near/", None, false),
            ("http://127.0.0.1:9000/", None, false),
            ("http://[::1]:9000/", None, false),
            ("http://localhost:40342/", None, false),
            ("http://169.254.169.254/", None, false),
            ("http://metadata.google.internal/x", None, false),
        ] {
            let uri = server.parse().unwrap();
            let found = proxies.of(&uri).and_then(|proxy| proxy.uri().port_u16());
            assert_eq!(found, proxy, "{server}");
            assert_eq!(proxies.login(&uri).is_some(), login, "{server}");
        }
        assert!(!format!("{proxies:?}").contains("hush"));
    }
}
