//! A real `MinIO` on loopback, for the length of a test.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base::SystemClock;
use quayfs_remote::{
    Authorities, CaBundle, Credentials, Error, ErrorKind, Key, Remote as _, S3, S3Options,
};

use crate::process::{Process, START_TRIES_MAX, free_port, pause, tool};

/// A server with a data folder of its own; both are gone on drop.
pub(crate) struct Server {
    _process: Process,
    port: u16,
    data: tempfile::TempDir,
    /// Who vouches for it, if it speaks TLS.
    ca_bundle: Option<CaBundle>,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn start() -> Server {
        Server::start_so(None)
    }

    /// As [`Server::start`], with TLS, and a key service with one key.
    pub(crate) fn start_with_tls() -> Server {
        Server::start_so(Some(Certificate::make()))
    }

    fn start_so(certificate: Option<Certificate>) -> Server {
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
        let ca_bundle = certificate.as_ref().map(|certificate| {
            command.arg("--certs-dir").arg(certificate.folder.path());
            command.env("MINIO_KMS_SECRET_KEY", format!("{KMS_KEY}:{KMS_SECRET}"));
            certificate.bundle()
        });
        let process = Process::start(&mut command, port, "/minio/health/live");
        // It has read them.
        drop(certificate);
        Server { _process: process, port, data, ca_bundle }
    }

    /// Whether `bytes` are in a file of its disk below `path`.
    pub(crate) fn has_on_disk(&self, path: &str, bytes: &[u8]) -> bool {
        has(&self.data.path().join(path), bytes)
    }

    /// A fresh bucket. `MinIO` takes a folder of its data for one.
    pub(crate) async fn bucket(&self, name: &str) -> S3 {
        std::fs::create_dir_all(self.data.path().join(name)).unwrap();
        let connect = |options| S3::connect(options, Arc::new(SystemClock::new()));
        // It says that it lives before it knows its disks, and serves its root before it knows who
        // its other users are.
        let nobody = Credentials::Static {
            access_key_id: "nobody".to_owned(),
            secret_access_key: "nothing".to_owned(),
            session_token: None,
        };
        let nobody =
            connect(S3Options { credentials: nobody, ..self.options(name) }).await.unwrap();
        let bucket = connect(self.options(name)).await.unwrap();
        for _ in 0..START_TRIES_MAX {
            let missing = Key::from("missing");
            let answers = [nobody.head(&missing).await, bucket.head(&missing).await];
            let is_unready = |answer: &Result<_, Error>| {
                answer.as_ref().is_err_and(|e| matches!(e.kind, ErrorKind::Transient { .. }))
            };
            if !answers.iter().any(is_unready) {
                return bucket;
            }
            pause();
        }
        panic!("MinIO does not get ready on port {}", self.port);
    }

    /// The tags of an object, as `MinIO`'s own client tells them.
    pub(crate) fn tags(&self, path: &str) -> String {
        let host = format!("http://{USER}:{PASSWORD}@127.0.0.1:{}", self.port);
        let mut command = Command::new(tool("QUAYFS_MC", "bin/mc"));
        command.arg("--config-dir").arg(self.data.path().join(".mc"));
        command.args(["tag", "list", "--json", &format!("there/{path}")]);
        let told = command.env("MC_HOST_there", host).output().unwrap();
        String::from_utf8(told.stdout).unwrap()
    }

    /// How to reach a bucket.
    pub(crate) fn options(&self, bucket: &str) -> S3Options {
        S3Options {
            endpoint: Some(match self.ca_bundle {
                Some(_) => format!("https://127.0.0.1:{}", self.port),
                None => format!("http://127.0.0.1:{}", self.port),
            }),
            authorities: Authorities::with(self.ca_bundle.clone()),
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

/// The key that a server with a key service has.
pub(crate) const KMS_KEY: &str = "lab-key";
const KMS_SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";

/// A certificate that vouches for itself, and its key, as `MinIO` wants them.
struct Certificate {
    folder: tempfile::TempDir,
}

impl Certificate {
    fn make() -> Certificate {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1"])
            // Only so the certificate may vouch for itself and be a server's as well.
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(folder.path().join("private.key"))
            .arg("-out")
            .arg(folder.path().join("public.crt"));
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Certificate { folder }
    }

    fn bundle(&self) -> CaBundle {
        CaBundle::from_pem(std::fs::read(self.folder.path().join("public.crt")).unwrap()).unwrap()
    }
}

fn has(path: &Path, bytes: &[u8]) -> bool {
    if path.is_dir() {
        let mut entries = std::fs::read_dir(path).unwrap();
        return entries.any(|entry| has(&entry.unwrap().path(), bytes));
    }
    std::fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes)
}
