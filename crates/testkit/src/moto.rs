//! `moto`, a store that takes every key there is, on a free port of this machine.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::bucket::{Bucket, Client};
use crate::login::Login;
use crate::minio::{answers, free_address};
use crate::place::{Scratch, python};
use crate::server::Server;
use crate::wait;

const READY_WITHIN: Duration = Duration::from_mins(1);

/// A running store, in memory. It knows no permissions.
#[derive(Debug)]
pub struct Moto {
    address: SocketAddr,
    client: Client,
    // Ends, and removes its folder, with us.
    _server: Server,
}

impl Moto {
    /// A store of the test's own.
    pub fn start() -> Moto {
        // Somebody else may take a free port before the server does: then another one is tried.
        let found = (0..5).find_map(|_| Moto::try_start(free_address()));
        found.expect("five free ports were taken before moto could have one")
    }

    /// The URL of its API.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A new empty bucket.
    pub fn bucket(&self) -> Bucket<'_> {
        Bucket::create(&self.client, self.endpoint())
    }

    /// `None` when the server ended at once, since the port was taken.
    fn try_start(address: SocketAddr) -> Option<Moto> {
        let folder = Scratch::new().into_path();
        let mut command = Command::new(python());
        command.args(["-m", "moto.server", "-H", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string()]);
        command.env("HOME", &folder);
        let mut server = Server::new(&command, &folder);
        server.start();
        let live = || answers(address, "/moto-api/");
        wait::until("moto to answer", READY_WITHIN, || live() || !server.is_alive());
        if !server.is_alive() {
            return None;
        }
        let login = Login::root();
        let client = Client::of_s3(&format!("http://{address}"), &login, folder.join("client"));
        Some(Moto { address, client, _server: server })
    }
}

#[cfg(test)]
mod tests {
    use super::Moto;

    #[test]
    fn every_key_is_taken_and_listed() {
        let store = Moto::start();
        let bucket = store.bucket();
        let keys = ["../z", "./y", "/lead", "a/\u{1}", "a//b", "a/b", "dir/"];
        for key in keys {
            bucket.put(key, key.as_bytes());
        }
        assert_eq!(bucket.keys(), keys);
        assert_eq!(bucket.get("a//b").as_deref(), Some(&b"a//b"[..]));
    }
}
