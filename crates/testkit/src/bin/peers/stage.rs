//! What all clients read: one bucket, the roads to it, and the same files on the local disk.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Bucket, Emulator, Login, MinIo, Scratch, Shape, SlowLink, noise, run};

use crate::client::Client;

pub(crate) const MIB: u64 = 1 << 20;

const FAR: Shape = Shape {
    latency: Duration::from_millis(20),
    connection_rate: Some(80_000_000),
    total_rate: None,
};
const CAPPED: Shape = Shape { total_rate: Some(400_000_000), ..FAR };
const MADE_WITHIN: Duration = Duration::from_mins(20);

/// How a client reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// On this machine.
    Direct,
    /// 20 ms to the first byte of each answer, 80 MB/s on each connection.
    Far,
    /// The same, and 400 MB/s on all of them together.
    Capped,
}

impl Road {
    /// As the report calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Road::Direct => "on loopback",
            Road::Far => "20 ms, 80 MB/s a connection",
            Road::Capped => "20 ms, 80 MB/s a connection, 400 MB/s in all",
        }
    }
}

/// A server and the roads to it.
struct Roads {
    direct: String,
    far: SlowLink,
    capped: SlowLink,
}

impl Roads {
    fn to(server: SocketAddr) -> Roads {
        let (far, capped) = (SlowLink::to(server, FAR), SlowLink::to(server, CAPPED));
        Roads { direct: format!("http://{server}"), far, capped }
    }

    fn link(&self, road: Road) -> Option<&SlowLink> {
        match road {
            Road::Direct => None,
            Road::Far => Some(&self.far),
            Road::Capped => Some(&self.capped),
        }
    }
}

/// The stores and everything in them.
pub(crate) struct Stage<'a> {
    store: &'a MinIo,
    bucket: Bucket<'a>,
    roads: Roads,
    /// For who cannot read the other one.
    google: Option<(Bucket<'a>, Roads)>,
    local: Scratch,
    /// What the clients of this chapter read.
    in_use: RefCell<BTreeSet<String>>,
    // Whether the store's files may have to be read from the disk again.
    is_forgotten: Cell<bool>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(store: &'a MinIo, google: Option<&'a Emulator>) -> Stage<'a> {
        let google = google.map(|google| (google.bucket(), Roads::to(google.address())));
        let (bucket, roads) = (store.bucket(), Roads::to(store.address()));
        let (local, in_use) = (Scratch::new(), RefCell::default());
        Stage { store, bucket, roads, google, local, in_use, is_forgotten: Cell::new(false) }
    }

    /// What was read until now is of no use any more.
    pub(crate) fn begin_chapter(&self) {
        self.in_use.borrow_mut().clear();
    }

    /// The folder of the same files on the local disk.
    pub(crate) fn local(&self) -> &Path {
        self.local.path()
    }

    /// The bucket that a client reads.
    pub(crate) fn bucket(&self, client: Client) -> &Bucket<'a> {
        match &self.google {
            Some((bucket, _)) if client == Client::Gcsfuse => bucket,
            _ => &self.bucket,
        }
    }

    /// The link of a road, if there is one.
    pub(crate) fn link(&self, client: Client, road: Road) -> Option<&SlowLink> {
        self.roads(client).link(road)
    }

    /// The URL at which a client reaches its store by a road.
    pub(crate) fn endpoint(&self, client: Client, road: Road) -> String {
        let roads = self.roads(client);
        roads.link(road).map_or_else(|| roads.direct.clone(), SlowLink::endpoint)
    }

    fn roads(&self, client: Client) -> &Roads {
        match &self.google {
            Some((_, roads)) if client == Client::Gcsfuse => roads,
            _ => &self.roads,
        }
    }

    /// Makes the file and the object `name`, once, of bytes that nobody can compress.
    pub(crate) fn noise(&self, name: &str, len: u64) {
        self.made(name, |path| {
            let mut file = File::create(path).expect("the scratch disk takes the file");
            for mib in 0..len.div_ceil(MIB) {
                let some = usize::try_from(MIB.min(len - mib * MIB)).expect("small");
                file.write_all(&noise(mib, some)).expect("the scratch disk takes the file");
            }
        });
    }

    /// Makes the file and the object `name`, once, from a file that somebody else made.
    pub(crate) fn copy(&self, name: &str, from: &Path) {
        self.made(name, |path| {
            fs::copy(from, path).expect("the scratch disk takes the file");
        });
    }

    /// Makes a folder of `count` small files, here and in the bucket, once.
    pub(crate) fn small_files(&self, folder: &str, count: usize, len: usize) {
        self.in_use.borrow_mut().insert(folder.to_owned());
        let local = self.local().join(folder);
        if local.is_dir() {
            return;
        }
        fs::create_dir(&local).expect("the scratch disk takes a folder");
        let text = "x".repeat(len);
        for number in 0..count {
            let path = local.join(format!("file-{number:05}"));
            fs::write(path, &text).expect("the scratch disk takes a file");
        }
        self.bucket.put_many(&format!("{folder}/file-"), count, &text);
    }

    /// Makes what is at `name` known to the other store, too.
    pub(crate) fn also_to_google(&self, name: &str) {
        let Some((bucket, _)) = &self.google else { return };
        let path = self.local().join(name);
        if bucket.keys().iter().any(|key| Path::new(key).starts_with(name)) {
            return;
        }
        if path.is_file() {
            return bucket.put_file(name, &path);
        }
        for entry in fs::read_dir(path).expect("made before").flatten() {
            let key = Path::new(name).join(entry.file_name());
            bucket.put_file(key.to_str().expect("plain names"), &entry.path());
        }
    }

    fn made(&self, name: &str, make: impl FnOnce(&Path)) {
        self.in_use.borrow_mut().insert(name.to_owned());
        let path = self.local().join(name);
        if path.is_file() {
            return;
        }
        make(&path);
        self.bucket.put_file(name, &path);
    }

    /// Makes the kernel forget every clean page.
    pub(crate) fn forget(&self) {
        run(&mut Command::new("sync"), MADE_WITHIN).ok();
        fs::write("/proc/sys/vm/drop_caches", "3").expect("the benchmark is run by root");
        self.is_forgotten.set(true);
    }

    /// Brings the store's files that are in use back into memory: its disk is none of what is measured.
    pub(crate) fn remember(&self) {
        if self.is_forgotten.replace(false) {
            let mut read = Command::new("sh");
            read.args(["-c", r#"find "$@" -type f -exec cat {} + >/dev/null"#, "sh"]);
            let bucket = self.store.data().join(self.bucket.name());
            read.args(self.in_use.borrow().iter().map(|name| bucket.join(name)));
            run(&mut read, MADE_WITHIN).ok();
        }
    }

    /// The plain client, to be told what to do.
    pub(crate) fn raw(&self, road: Road) -> Command {
        let login = Login::root();
        let mut command = Command::new(beside("quayfs-bench-raw"));
        command.args([&self.endpoint(Client::Raw, road), self.bucket.name()]);
        command.env("AWS_ACCESS_KEY_ID", login.user).env("AWS_SECRET_ACCESS_KEY", login.secret);
        command
    }
}

/// A program that was built together with this one.
pub(crate) fn beside(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name(name)
}
