//! Three suites on every store, with one request in twenty failing on the way: programs see no
//! difference, and the bucket has what was written.

use std::fs;
use std::net::SocketAddr;

use testkit::{Bucket, Cloud, Emulator, Faults, MinIo, Mount, Plan, Weather, is_long};

use crate::exercise::exercise;
use crate::model::{self, Commit};
use crate::posix;

/// A server of a test's own.
enum Server {
    MinIo(MinIo),
    Emulator(Emulator),
}

/// A server, and what fails on the way to it.
struct Chaos {
    server: Server,
    proxy: Faults,
}

impl Server {
    fn address(&self) -> SocketAddr {
        match self {
            Server::MinIo(minio) => minio.address(),
            Server::Emulator(emulator) => emulator.address(),
        }
    }

    fn bucket(&self) -> Bucket<'_> {
        match self {
            Server::MinIo(minio) => minio.bucket(),
            Server::Emulator(emulator) => emulator.bucket(),
        }
    }
}

impl Chaos {
    fn minio(seed: u64) -> Chaos {
        Chaos::before(Server::MinIo(MinIo::start()), seed)
    }

    fn of(cloud: Cloud, seed: u64) -> Chaos {
        Chaos::before(Server::Emulator(Emulator::start(cloud)), seed)
    }

    fn before(server: Server, seed: u64) -> Chaos {
        // A stall takes long, and says what one test of its own says.
        let stalls_max = if is_long() { 20 } else { 0 };
        let weather = Weather { stalls_max, ..Weather::rough(seed) };
        let proxy = Faults::before(server.address(), weather);
        Chaos { server, proxy }
    }

    /// A mount of a new bucket, by way of the proxy.
    fn mounted(&self, flags: &[&str]) -> (Bucket<'_>, Mount) {
        let bucket = self.server.bucket();
        let plan = match &self.server {
            Server::MinIo(_) => Plan::of(&bucket).instead("--endpoint", &self.proxy.endpoint()),
            Server::Emulator(emulator) => emulator.plan_at(self.proxy.address(), &bucket.url()),
        };
        let mount = plan.flags(flags).mount();
        (bucket, mount)
    }

    /// That it was as rough as it should.
    fn check(self) {
        let met: u64 = self.proxy.met().values().sum();
        let requests = self.proxy.requests();
        println!("{met} faults in {requests} requests");
        assert!(requests < met * 40, "{met} faults in {requests} requests");
    }

    fn posix(self) {
        let (bucket, mount) = self.mounted(&["--allow-other"]);
        posix::check(&mount);
        mount.umount();
        drop(bucket);
        self.check();
    }

    fn exercised(self) {
        let (bucket, mount) = self.mounted(&["--cache-size", "1MiB"]);
        let artifacts = mount.plan().folder("artifacts");
        exercise(&mount, 0, if is_long() { 20_000 } else { 1_000 }, &artifacts);
        let here = fs::read(mount.join("file-0")).unwrap();
        mount.umount();
        assert!(bucket.get("file-0").unwrap() == here);
        assert_eq!(bucket.keys(), ["file-0"]);
        match self.server {
            Server::MinIo(_) => assert_eq!(bucket.unfinished_uploads(), 0),
            // These keep no such things in sight.
            Server::Emulator(_) => {}
        }
        drop(bucket);
        self.check();
    }

    fn stays_alike(self) {
        let cases = if is_long() { 30 } else { 10 };
        model::stay_alike(&|| self.mounted(&model::FLAGS), Commit::Close, cases);
        self.check();
    }
}

#[test]
fn the_posix_suite_passes_over_faults() {
    Chaos::minio(11).posix();
}

#[test]
fn the_posix_suite_passes_over_faults_of_google() {
    Chaos::of(Cloud::Google, 12).posix();
}

#[test]
fn the_posix_suite_passes_over_faults_of_azure() {
    Chaos::of(Cloud::Azure, 13).posix();
}

#[test]
fn files_hold_what_was_written_over_faults() {
    Chaos::minio(6).exercised();
}

#[test]
fn files_hold_what_was_written_over_faults_of_google() {
    Chaos::of(Cloud::Google, 7).exercised();
}

#[test]
fn files_hold_what_was_written_over_faults_of_azure() {
    Chaos::of(Cloud::Azure, 8).exercised();
}

#[test]
fn a_mount_and_a_local_folder_are_alike_over_faults() {
    Chaos::minio(14).stays_alike();
}

#[test]
fn they_are_alike_over_faults_of_google() {
    Chaos::of(Cloud::Google, 15).stays_alike();
}

#[test]
fn they_are_alike_over_faults_of_azure() {
    Chaos::of(Cloud::Azure, 16).stays_alike();
}
