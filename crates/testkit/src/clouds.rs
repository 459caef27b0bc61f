//! Emulators of other clouds than AWS, each with its cloud's own client.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::bucket::{Bucket, Client};
use crate::dialog::Dialog;
use crate::minio::{free_address, says};
use crate::mount::Plan;
use crate::place::{Scratch, dev_dir, tool};
use crate::server::Server;
use crate::wait;

const READY_WITHIN: Duration = Duration::from_mins(1);

/// The account that every emulator of Azure has, and its published key.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Which cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Google Cloud Storage, by `fake-gcs-server`.
    Google,
    /// Azure Blob Storage, by Azurite.
    Azure,
}

/// A running emulator.
#[derive(Debug)]
pub struct Emulator {
    cloud: Cloud,
    address: SocketAddr,
    client: Client,
    // Ends, and removes its folder, with us.
    _server: Server,
}

impl Emulator {
    /// An emulator of the test's own.
    pub fn start(cloud: Cloud) -> Emulator {
        // Somebody else may take a free port before the server does: then another one is tried.
        let found = (0..5).find_map(|_| Emulator::try_start(cloud, free_address()));
        found.expect("five free ports were taken before the emulator could have one")
    }

    /// A new empty bucket.
    pub fn bucket(&self) -> Bucket<'_> {
        let root = match self.cloud {
            Cloud::Google => "gs:/".to_owned(),
            Cloud::Azure => format!("az://{ACCOUNT}"),
        };
        Bucket::create_in(&self.client, endpoint(self.cloud, self.address), root)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A mount of `url`, which is a bucket of this emulator's or below one.
    pub fn plan(&self, url: &str) -> Plan {
        self.plan_at(self.address, url)
    }

    /// The same, by way of what listens at `address`.
    pub fn plan_at(&self, address: SocketAddr, url: &str) -> Plan {
        let plan = Plan::of_url(url);
        let endpoint = endpoint(self.cloud, address);
        match self.cloud {
            Cloud::Google => plan.env("STORAGE_EMULATOR_HOST", &endpoint),
            Cloud::Azure => {
                plan.env("AZURE_STORAGE_KEY", ACCOUNT_KEY).flags(["--endpoint", &endpoint])
            }
        }
    }

    /// What in the environment leads programs to it, and lets them in.
    pub fn env(&self) -> (&'static str, String) {
        let endpoint = endpoint(self.cloud, self.address);
        match self.cloud {
            Cloud::Google => ("STORAGE_EMULATOR_HOST", endpoint),
            Cloud::Azure => ("AZURE_STORAGE_CONNECTION_STRING", connection(&endpoint)),
        }
    }

    /// `None` when the server ended at once, since the port was taken.
    fn try_start(cloud: Cloud, address: SocketAddr) -> Option<Emulator> {
        let folder = Scratch::new().into_path();
        let mut server = Server::new(&command(cloud, address, &folder), &folder);
        server.start();
        let (path, status) = match cloud {
            Cloud::Google => ("/_internal/healthcheck", "200"),
            // A refusal: it tells nobody how it is.
            Cloud::Azure => ("/", "400"),
        };
        let live = || says(address, path, status);
        wait::until("the emulator to answer", READY_WITHIN, || live() || !server.is_alive());
        if !server.is_alive() {
            return None;
        }
        let client = Client::new(dialog(cloud, address), folder.join("client"));
        Some(Emulator { cloud, address, client, _server: server })
    }
}

fn endpoint(cloud: Cloud, address: SocketAddr) -> String {
    match cloud {
        Cloud::Google => format!("http://{address}"),
        Cloud::Azure => format!("http://{address}/{ACCOUNT}"),
    }
}

fn command(cloud: Cloud, address: SocketAddr, folder: &Path) -> Command {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = match cloud {
        Cloud::Google => {
            let mut command = Command::new(tool("fake-gcs-server"));
            command.args(["-scheme", "http", "-host", &host, "-port", &port, "-backend", "memory"]);
            command.args(["-public-host", &address.to_string(), "-log-level", "error"]);
            command.args(["-external-url", &endpoint(cloud, address)]);
            command
        }
        Cloud::Azure => {
            let program = "azurite/node_modules/azurite/dist/src/blob/main.js";
            let mut command = Command::new("node");
            command.arg(dev_dir().join(program));
            command.args(["--blobHost", &host, "--blobPort", &port, "--location"]).arg(folder);
            // Loose: it knows neither the checksums nor all the parameters of the service.
            command.args(["--silent", "--loose", "--skipApiVersionCheck", "--disableTelemetry"]);
            command
        }
    };
    command.env("HOME", folder);
    command
}

/// How Azure's tools are told of an account.
fn connection(endpoint: &str) -> String {
    format!(
        "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};\
         BlobEndpoint={endpoint};"
    )
}

/// The cloud's own client.
fn dialog(cloud: Cloud, address: SocketAddr) -> Command {
    let endpoint = endpoint(cloud, address);
    match cloud {
        Cloud::Google => {
            let mut command = Dialog::command("gcs_bucket.py");
            command.arg(endpoint);
            command
        }
        Cloud::Azure => {
            let mut command = Dialog::command("azure_bucket.py");
            command.arg(connection(&endpoint));
            command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cloud, Emulator};

    #[test]
    fn each_cloud_keeps_what_its_own_client_puts() {
        for cloud in [Cloud::Google, Cloud::Azure] {
            let emulator = Emulator::start(cloud);
            let bucket = emulator.bucket();
            bucket.put("a/b c", b"bytes");
            assert_eq!(bucket.get("a/b c").as_deref(), Some(&b"bytes"[..]), "{cloud:?}");
            assert_eq!(bucket.keys(), ["a/b c"], "{cloud:?}");
            assert_eq!(bucket.get("missing"), None, "{cloud:?}");
        }
    }
}
