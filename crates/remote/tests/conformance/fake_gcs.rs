//! A real `fake-gcs-server` on loopback, for the length of a test.

use std::process::Command;
use std::sync::Arc;

use base::{Rng, SystemClock};
use quayfs_remote::{Gcs, GcsCredentials, GcsOptions};

use crate::process::{Process, free_port, tool};

/// A server that keeps its objects in memory; it is gone on drop.
pub(crate) struct Server {
    _process: Process,
    port: u16,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start() -> Server {
        let port = free_port();
        let mut command = Command::new(tool("QUAYFS_FAKE_GCS", "bin/fake-gcs-server"));
        command
            .args(["-scheme", "http", "-host", "127.0.0.1", "-port", &port.to_string()])
            .args(["-public-host", &format!("127.0.0.1:{port}")])
            .args(["-external-url", &format!("http://127.0.0.1:{port}")])
            .args(["-backend", "memory", "-log-level", "error"]);
        let process = Process::start(&mut command, port, "/_internal/healthcheck");
        Server { _process: process, port }
    }

    /// A fresh bucket.
    pub(crate) async fn bucket(&self, name: &str) -> Gcs {
        let gcs = connect(&self.options(name));
        gcs.create_bucket().await.unwrap();
        gcs
    }

    /// How to reach a bucket.
    pub(crate) fn options(&self, bucket: &str) -> GcsOptions {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        GcsOptions {
            endpoint: Some(endpoint),
            ..GcsOptions::new(bucket, GcsCredentials::Anonymous)
        }
    }
}

pub(crate) fn connect(options: &GcsOptions) -> Gcs {
    Gcs::connect(options, Arc::new(SystemClock::new()), Arc::new(Rng::from_entropy())).unwrap()
}
