//! A real `MinIO` on loopback, for the length of a test.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quayfs_remote::{Credentials, ErrorKind, Key, Remote as _, S3, S3Options};

/// Starting takes a second or two; a busy machine gets more.
const START_TRIES_MAX: u32 = 600;

/// A server with a data folder of its own; both are gone on drop.
pub(crate) struct Server {
    process: Child,
    port: u16,
    data: tempfile::TempDir,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start() -> Server {
        let binary = binary();
        assert!(
            binary.is_file(),
            "no MinIO at {}: `make setup` installs it, QUAYFS_MINIO names another place",
            binary.display()
        );
        let data = tempfile::tempdir().unwrap();
        let port = free_port();
        let process = Command::new(binary)
            .args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")])
            .args(["--console-address", "127.0.0.1:0"])
            .arg(data.path())
            .env("MINIO_ROOT_USER", USER)
            .env("MINIO_ROOT_PASSWORD", PASSWORD)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { process, port, data };
        server.wait_until_live();
        server
    }

    /// A fresh bucket. `MinIO` takes a folder of its data for one.
    pub(crate) async fn bucket(&self, name: &str) -> S3 {
        std::fs::create_dir_all(self.data.path().join(name)).unwrap();
        let bucket = S3::connect(self.options(name)).await.unwrap();
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

    fn wait_until_live(&self) {
        for _ in 0..START_TRIES_MAX {
            if self.is_live() {
                return;
            }
            pause();
        }
        panic!("MinIO does not answer on port {}", self.port);
    }

    fn is_live(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let request = "GET /minio/health/live HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let mut answer = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains(" 200 ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Who may do everything.
pub(crate) const USER: &str = "quayfs-test";
const PASSWORD: &str = "quayfs-test-secret";

#[expect(clippy::disallowed_methods, reason = "another process has no clock of ours")]
fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

#[expect(clippy::disallowed_methods, reason = "where the tools of a developer are")]
fn binary() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    std::env::var_os("QUAYFS_MINIO")
        .map_or_else(|| home().join(".cache/quayfs-dev/bin/minio"), PathBuf::from)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
