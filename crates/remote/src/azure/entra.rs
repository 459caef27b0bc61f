//! Tokens of Microsoft Entra ID, for an application or for the machine itself.

use std::sync::Arc;

use base::Clock;
use futures::future::{BoxFuture, FutureExt as _};
use http::Method;

use crate::Secret;
use crate::http::{Http, Request, encode};
use crate::there::There;
use crate::token::{Giver, Outcome, Refused, Source, TokenFile, Tokens, asked, form, granted};

/// What a token is for.
const RESOURCE: &str = "https://storage.azure.com/";
const SCOPE: &str = "https://storage.azure.com/.default";

/// Where the public cloud's Entra ID is.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// Where a machine of Azure's asks who it is.
const MACHINE: &str = "http://169.254.169.254";

/// Whom Entra ID knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entra {
    /// An application.
    Application {
        /// The directory that it is in.
        tenant: String,
        /// Its id.
        client_id: String,
        /// Where tokens are handed out, such as `https://login.microsoftonline.com`.
        authority: String,
        /// By what it is known.
        proof: Proof,
    },
    /// This machine, by the service that machines have.
    Machine {
        /// Which of its identities; the only one if `None`.
        client_id: Option<String>,
        /// The service's URL, such as `http://169.254.169.254`.
        url: String,
    },
    /// This program, by the service that app services, functions and container apps have.
    App {
        /// Which of its identities; the system's if `None`.
        client_id: Option<String>,
        /// The service's URL.
        url: String,
        /// What shows that it is this program that asks.
        secret: Secret,
    },
}

/// By what an application is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Its password.
    Secret(Secret),
    /// A token of somebody whom the directory believes, such as a cluster.
    Federated(TokenFile),
}

impl Entra {
    /// Where tokens are handed out in the public cloud.
    pub fn authority() -> String {
        AUTHORITY.to_owned()
    }

    /// Where machines ask who they are.
    pub fn machine_url() -> String {
        MACHINE.to_owned()
    }

    pub(super) fn tokens(&self, http: Http, clock: Arc<dyn Clock>) -> Tokens {
        let there = There::new(Arc::clone(&clock));
        let asker = Asker { http, clock: Arc::clone(&clock), there, whom: self.clone() };
        Tokens::new(Arc::new(asker), clock)
    }
}

struct Asker {
    http: Http,
    clock: Arc<dyn Clock>,
    there: There,
    whom: Entra,
}

impl Source for Asker {
    fn ask(self: Arc<Self>) -> BoxFuture<'static, Outcome> {
        async move {
            let now_secs = self.clock.wall().secs;
            let (request, giver) = match &self.whom {
                Entra::Application { tenant, client_id, authority, proof } => {
                    let url = format!(
                        "{}/{}/oauth2/v2.0/token",
                        authority.trim_end_matches('/'),
                        encode(tenant.as_bytes()),
                    );
                    (of_application(&url, client_id, proof).await?, Giver::Server)
                }
                Entra::Machine { client_id, url } => {
                    let url = url.trim_end_matches('/');
                    let url =
                        format!("{url}/metadata/identity/oauth2/token?api-version=2018-02-01");
                    let request = of_identity(&url, client_id.as_deref());
                    (request.header("metadata", "true"), Giver::Machine)
                }
                Entra::App { client_id, url, secret } => {
                    let url = format!("{url}?api-version=2019-08-01");
                    let request = of_identity(&url, client_id.as_deref());
                    (request.header("x-identity-header", secret.reveal()), Giver::Machine)
                }
            };
            let body = asked((&self.http, &self.there), request, giver).await?;
            granted(&body, now_secs)
        }
        .boxed()
    }
}

async fn of_application(url: &str, client_id: &str, proof: &Proof) -> Result<Request, Refused> {
    let common = [("grant_type", "client_credentials"), ("client_id", client_id), ("scope", SCOPE)];
    let read;
    let proof = match proof {
        Proof::Secret(secret) => vec![("client_secret", secret.reveal())],
        Proof::Federated(file) => {
            read = file.text().await?;
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            vec![("client_assertion_type", kind), ("client_assertion", read.trim())]
        }
    };
    Ok(form(url, &[&common[..], &proof].concat()))
}

fn of_identity(url: &str, client_id: Option<&str>) -> Request {
    let mut url = format!("{url}&resource={}", encode(RESOURCE.as_bytes()));
    if let Some(id) = client_id {
        url.push_str("&client_id=");
        url.push_str(&encode(id.as_bytes()));
    }
    Request::new(Method::GET, url)
}
