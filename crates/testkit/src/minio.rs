//! A real `MinIO` on a free port of this machine, with a client of its makers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::bucket::{Bucket, Client};
use crate::command::{Finished, run};
use crate::login::Login;
use crate::place::{Scratch, tool};
use crate::server::Server;
use crate::wait;

const READY_WITHIN: Duration = Duration::from_mins(1);
const COMMAND_WITHIN: Duration = Duration::from_mins(1);

const READS_ONLY: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
    "Action": ["s3:GetBucketLocation", "s3:ListBucket", "s3:GetObject"],
    "Resource": ["arn:aws:s3:::*"]}]}"#;

/// What institutes hand out: a prefix of a bucket that many share.
const OF_PREFIX: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::BUCKET"],
     "Condition": {"StringLike": {"s3:prefix": ["PREFIX/*"]}}},
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
     "Resource": ["arn:aws:s3:::BUCKET/PREFIX/*"]}]}"#;

/// A bucket that all may read, with a prefix for each who writes.
const WRITES_PREFIX: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::BUCKET"]},
    {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::BUCKET/*"]},
    {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
     "Resource": ["arn:aws:s3:::BUCKET/PREFIX/*"]}]}"#;

/// A running store.
#[derive(Debug)]
pub struct MinIo {
    address: SocketAddr,
    // The folder of the server; the keeper removes it.
    folder: PathBuf,
    server: Mutex<Server>,
    client: OnceLock<Client>,
}

impl MinIo {
    /// A store of the test's own, which it may stop and freeze.
    pub fn start() -> MinIo {
        // Somebody else may take a free port before the server does: then another one is tried.
        let found = (0..5).find_map(|_| MinIo::try_start(free_address()));
        found.expect("five free ports were taken before MinIO could have one")
    }

    /// A store at an address that somebody else must know.
    ///
    /// # Panics
    ///
    /// When the address is taken.
    pub fn start_at(address: SocketAddr) -> MinIo {
        MinIo::try_start(address).unwrap_or_else(|| panic!("{address} is taken"))
    }

    /// The store that all tests of this process share. Nobody stops it: it ends with the process.
    pub fn shared() -> &'static MinIo {
        static SHARED: OnceLock<MinIo> = OnceLock::new();
        SHARED.get_or_init(MinIo::start)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it keeps its objects.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The URL of its API.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A new empty bucket.
    pub fn bucket(&self) -> Bucket<'_> {
        let client = self.client.get_or_init(|| {
            Client::of_s3(&self.endpoint(), &Login::root(), self.folder.join("client"))
        });
        Bucket::create(client, self.endpoint())
    }

    /// Kills it.
    pub fn stop(&self) {
        self.server().stop();
    }

    /// Starts it again on the same port, with all it had.
    pub fn start_again(&self) {
        self.server().start();
        wait::until("the store to answer again", READY_WITHIN, || is_live(self.address));
    }

    /// Freezes it: connections stay open, and no answer comes.
    pub fn freeze(&self) {
        self.server().freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.server().thaw();
    }

    /// A login that may read everything and write nothing.
    pub fn reader(&self) -> Login {
        self.reader_called("quayfs-reader")
    }

    /// One of that name.
    pub fn reader_called(&self, name: &str) -> Login {
        // The server's own policy of that kind does not let its holder list a bucket.
        self.login(name, "reads-only", READS_ONLY)
    }

    /// A login that may list, read and write what is below `prefix` of the bucket `bucket`, and nothing else.
    pub fn of_prefix(&self, bucket: &str, prefix: &str) -> Login {
        let policy = OF_PREFIX.replace("BUCKET", bucket).replace("PREFIX", prefix);
        self.login(&format!("only-{bucket}"), &format!("only-{bucket}"), &policy)
    }

    /// A login that may list and read the bucket `bucket`, and write what is below `prefix` of it.
    pub fn writer_of_prefix(&self, bucket: &str, prefix: &str) -> Login {
        let policy = WRITES_PREFIX.replace("BUCKET", bucket).replace("PREFIX", prefix);
        self.login(&format!("writes-{bucket}"), &format!("writes-{bucket}"), &policy)
    }

    /// A login called `user` that may do what the policy called `policy` says.
    fn login(&self, user: &str, policy: &str, says: &str) -> Login {
        let login = Login { user: user.into(), secret: "quayfs-secret-of-tests".into() };
        self.mc(&["admin", "user", "add", "it", &login.user, &login.secret]).ok();
        let file = self.folder.join(format!("{policy}.json"));
        std::fs::write(&file, says).expect("the scratch disk takes a file");
        let file = file.to_str().expect("a plain path");
        self.mc(&["admin", "policy", "create", "it", policy, file]).ok();
        let attach = ["admin", "policy", "attach", "it", policy, "--user", &login.user];
        let attached = self.mc(&attach);
        // Another test of this process may have attached it.
        let attached_before = attached.stderr.contains("already");
        assert!(attached.status.success() || attached_before, "{}", attached.report());
        login
    }

    /// Does not know a login any more.
    pub fn forget(&self, login: &Login) {
        let removed = self.mc(&["admin", "user", "remove", "it", &login.user]);
        assert!(removed.status.success(), "{}", removed.report());
    }

    /// Runs the client of the server's makers; the server is called `it` there.
    pub fn mc(&self, arguments: &[&str]) -> Finished {
        let Login { user, secret } = Login::root();
        let mut command = Command::new(tool("mc"));
        command.arg("--quiet").arg("--config-dir").arg(self.folder.join("mc")).args(arguments);
        command.env("MC_HOST_it", format!("http://{user}:{secret}@{}", self.address));
        run(&mut command, COMMAND_WITHIN)
    }

    /// `None` when the server ended at once, since the port was taken.
    fn try_start(address: SocketAddr) -> Option<MinIo> {
        let folder = Scratch::of_store().into_path();
        let Login { user, secret } = Login::root();
        let mut command = Command::new(tool("minio"));
        command.args(["server", "--quiet", "--address", &address.to_string()]);
        command.arg(folder.join("data"));
        command.env("HOME", &folder).env("MINIO_ROOT_USER", user);
        command.env("MINIO_ROOT_PASSWORD", secret);
        command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
        let mut server = Server::new(&command, &folder);
        server.start();
        wait::until("MinIO to answer", READY_WITHIN, || is_live(address) || !server.is_alive());
        let server = server.is_alive().then_some(server)?;
        Some(MinIo { address, folder, server: Mutex::new(server), client: OnceLock::new() })
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MinIo {
    fn drop(&mut self) {
        // A frozen server takes no other signal than the one that kills it, which is what it gets.
        self.server().stop();
    }
}

/// An address of this machine that nobody listens at just now.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("a listener has an address")
}

fn is_live(address: SocketAddr) -> bool {
    answers(address, "/minio/health/cluster")
}

/// Whether a server there says of `path` that all is well.
pub(crate) fn answers(address: SocketAddr, path: &str) -> bool {
    says(address, path, "200")
}

/// Whether a server there answers for `path` with `status`.
pub(crate) fn says(address: SocketAddr, path: &str, status: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let host = format!("Host: {address}\r\nConnection: close\r\n\r\n");
        write!(stream, "GET {path} HTTP/1.1\r\n")?;
        stream.write_all(host.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with(&format!("HTTP/1.1 {status}")))
}

#[cfg(test)]
mod tests {
    use super::MinIo;

    #[test]
    fn a_store_keeps_its_objects_over_a_restart() {
        let store = MinIo::start();
        let bucket = store.bucket();
        bucket.put("a/b c", b"bytes");
        store.stop();
        store.start_again();
        assert_eq!(bucket.get("a/b c").as_deref(), Some(&b"bytes"[..]));
        assert_eq!(bucket.keys(), ["a/b c"]);
    }

    #[test]
    fn a_reader_may_not_write() {
        let store = MinIo::start();
        let bucket = store.bucket();
        bucket.put("seen", b"bytes");
        let client =
            super::Client::of_s3(&store.endpoint(), &store.reader(), store.folder.join("reader"));
        let seen = bucket.through(&client);
        assert_eq!(seen.get("seen").as_deref(), Some(&b"bytes"[..]));
        assert!(seen.try_put("unseen", b"bytes").is_err_and(|error| error == "AccessDenied"));
    }

    #[test]
    fn a_store_that_ends_leaves_no_folder() {
        let store = MinIo::start();
        let folder = store.folder.clone();
        assert!(folder.is_dir());
        drop(store);
        assert!(!folder.exists());
    }
}
