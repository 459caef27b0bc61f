//! What all clients read: one bucket, the roads to it, and the same files on the local disk.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Bucket, Login, MinIo, Scratch, Shape, SlowLink, noise, run};

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

/// The store and everything in it.
pub(crate) struct Stage<'a> {
    pub(crate) bucket: Bucket<'a>,
    store: &'a MinIo,
    far: SlowLink,
    capped: SlowLink,
    local: Scratch,
    // Whether the store's files may have to be read from the disk again.
    is_forgotten: Cell<bool>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(store: &'a MinIo) -> Stage<'a> {
        let (far, capped) =
            (SlowLink::to(store.address(), FAR), SlowLink::to(store.address(), CAPPED));
        let (bucket, local) = (store.bucket(), Scratch::new());
        Stage { bucket, store, far, capped, local, is_forgotten: Cell::new(false) }
    }

    /// The folder of the same files on the local disk.
    pub(crate) fn local(&self) -> &Path {
        self.local.path()
    }

    /// The link of a road, if there is one.
    pub(crate) fn link(&self, road: Road) -> Option<&SlowLink> {
        match road {
            Road::Direct => None,
            Road::Far => Some(&self.far),
            Road::Capped => Some(&self.capped),
        }
    }

    /// The URL at which the store is reached by a road.
    pub(crate) fn endpoint(&self, road: Road) -> String {
        self.link(road).map_or_else(|| self.store.endpoint(), SlowLink::endpoint)
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

    fn made(&self, name: &str, make: impl FnOnce(&Path)) {
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

    /// Brings the store's files back into memory: its disk is none of what is measured.
    pub(crate) fn remember(&self) {
        if self.is_forgotten.replace(false) {
            let mut read = Command::new("sh");
            read.args(["-c", r#"find "$1" -type f -exec cat {} + >/dev/null"#, "sh"]);
            run(read.arg(self.store.data()), MADE_WITHIN).ok();
        }
    }

    /// The plain client, to be told what to do.
    pub(crate) fn raw(&self, road: Road) -> Command {
        let login = Login::root();
        let mut command = Command::new(beside("quayfs-bench-raw"));
        command.args([&self.endpoint(road), self.bucket.name()]);
        command.env("AWS_ACCESS_KEY_ID", login.user).env("AWS_SECRET_ACCESS_KEY", login.secret);
        command
    }
}

/// A program that was built together with this one.
pub(crate) fn beside(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name(name)
}
