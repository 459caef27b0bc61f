//! A real `MinIO` on loopback, for the length of a test.

use std::process::Command;
use std::sync::Arc;

use base::SystemClock;
use quayfs_remote::{Credentials, ErrorKind, Key, Remote as _, S3, S3Options};

use crate::process::{Process, START_TRIES_MAX, free_port, pause, tool};

/// A server with a data folder of its own; both are gone on drop.
pub(crate) struct Server {
    _process: Process,
    port: u16,
    data: tempfile::TempDir,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start() -> Server {
        let binary = tool("QUAYFS_MINIO", "bin/minio");
        let data = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut command = Command::new(binary);
        command
            .args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")])
            .args(["--console-address", "127.0.0.1:0"])
            .arg(data.path())
            .env("MINIO_ROOT_USER", USER)
            .env("MINIO_ROOT_PASSWORD", PASSWORD)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off");
        let process = Process::start(&mut command, port, "/minio/health/live");
        Server { _process: process, port, data }
    }

    /// A fresh bucket. `MinIO` takes a folder of its data for one.
    pub(crate) async fn bucket(&self, name: &str) -> S3 {
        std::fs::create_dir_all(self.data.path().join(name)).unwrap();
        let bucket = S3::connect(self.options(name), Arc::new(SystemClock::new())).await.unwrap();
        // It says that it lives before it knows its users and its disks.
        for _ in 0..START_TRIES_MAX {
            match bucket.head(&Key::from("missing")).await {
                Err(error) if matches!(error.kind, ErrorKind::Transient { .. }) => pause(),
                _ => return bucket,
            }
        }
        panic!("MinIO does not get ready on port {}", self.port);
    }

    /// How to reach a bucket.
    pub(crate) fn options(&self, bucket: &str) -> S3Options {
        S3Options {
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            region: Some("us-east-1".to_owned()),
            credentials: Credentials::Static {
                access_key_id: USER.to_owned(),
                secret_access_key: PASSWORD.to_owned(),
                session_token: None,
            },
            ..S3Options::new(bucket)
        }
    }
}

/// Who may do everything.
pub(crate) const USER: &str = "quayfs-test";
const PASSWORD: &str = "quayfs-test-secret";
