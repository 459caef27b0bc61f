//! A real `Azurite` on loopback, for the length of a test.

use std::process::Command;
use std::sync::Arc;

use base::{Rng, SystemClock};
use quayfs_remote::{Azure, AzureOptions};

use crate::process::{Process, free_port, tool};

/// A server with a data folder of its own; both are gone on drop.
pub(crate) struct Server {
    _process: Process,
    port: u16,
    _data: tempfile::TempDir,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start() -> Server {
        let program = tool("QUAYFS_AZURITE", "azurite/node_modules/azurite/dist/src/blob/main.js");
        let data = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut command = Command::new("node");
        command
            .arg(program)
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--location"])
            .arg(data.path())
            // Loose: it knows neither the checksums nor all the parameters of the service.
            .args(["--silent", "--loose", "--skipApiVersionCheck", "--disableTelemetry"]);
        let process = Process::start(&mut command, port, "/");
        Server { _process: process, port, _data: data }
    }

    /// A fresh container.
    pub(crate) async fn container(&self, name: &str) -> Azure {
        let azure = connect(&self.options(name));
        azure.create_container().await.unwrap();
        azure
    }

    /// How to reach a container, with the account's key.
    pub(crate) fn options(&self, container: &str) -> AzureOptions {
        let emulator =
            AzureOptions::from_connection_string("UseDevelopmentStorage=true", container).unwrap();
        let endpoint = format!("http://127.0.0.1:{}/{}", self.port, emulator.account);
        AzureOptions { endpoint: Some(endpoint), ..emulator }
    }
}

pub(crate) fn connect(options: &AzureOptions) -> Azure {
    Azure::connect(options, Arc::new(SystemClock::new()), Arc::new(Rng::from_entropy())).unwrap()
}
