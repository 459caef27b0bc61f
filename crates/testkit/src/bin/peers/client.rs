//! The clients that are measured, and how each is started.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Login, dev_dir, quayfs, tool};

use crate::stage::{Road, beside};

const THROUGH: &str = "quayfs-bench-through";

/// Somebody who reads a bucket, or whom those are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// The same files on the local disk.
    Local,
    /// A plain client of the store that no program can read files through.
    Raw,
    /// The same files through a file system that does nothing: what FUSE itself takes.
    Through,
    Quayfs,
    S3fs,
    Rclone,
    Mountpoint,
    /// The same with its cache on the disk, which it does not have by default.
    MountpointCache,
    /// Of another server than all others: it speaks to Google's store only.
    Gcsfuse,
}

/// Where a client is to mount what.
pub(crate) struct Site<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) dir: &'a Path,
    /// Where the files of the local disk are.
    pub(crate) local: &'a Path,
    /// Its own, for whatever it keeps.
    pub(crate) state: &'a Path,
    pub(crate) home: &'a Path,
}

impl Client {
    pub(crate) const ALL: [Client; 9] = [
        Client::Local,
        Client::Raw,
        Client::Through,
        Client::Quayfs,
        Client::S3fs,
        Client::Rclone,
        Client::Mountpoint,
        Client::MountpointCache,
        Client::Gcsfuse,
    ];

    /// Other people's file systems.
    pub(crate) const PEERS: [Client; 5] = [
        Client::S3fs,
        Client::Rclone,
        Client::Mountpoint,
        Client::MountpointCache,
        Client::Gcsfuse,
    ];

    /// All who read the store and can be compared by a road, but `others`. What gcsfuse reads comes from an emulator, which is no
    /// slower than the link, but slower than what others read without one.
    pub(crate) fn all_but(road: Road, others: &[Client]) -> Vec<Client> {
        let is_fair = |client: Client| client != Client::Gcsfuse || road != Road::Direct;
        let reads_store = |client: Client| client != Client::Through;
        let is_wanted =
            |client: &Client| !others.contains(client) && reads_store(*client) && is_fair(*client);
        Client::ALL.into_iter().filter(is_wanted).collect()
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Client> {
        Client::ALL.into_iter().find(|client| client.name() == name)
    }

    /// As the head of its column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Local => "local disk",
            Client::Raw => "raw client",
            Client::Through => "least FUSE",
            Client::Quayfs => "quayfs",
            Client::S3fs => "s3fs",
            Client::Rclone => "rclone",
            Client::Mountpoint => "Mountpoint",
            Client::MountpointCache => "Mountpoint, cache",
            Client::Gcsfuse => "gcsfuse",
        }
    }

    /// Whether it is somebody else's file system.
    pub(crate) fn is_peer(self) -> bool {
        Client::PEERS.contains(&self)
    }

    /// Whether what it measures is a mount.
    pub(crate) fn mounts(self) -> bool {
        self.is_peer() || [Client::Through, Client::Quayfs].contains(&self)
    }

    /// The program that mounts and stays in the foreground; `None` for who mounts nothing.
    pub(crate) fn command(self, site: &Site<'_>) -> Option<Command> {
        let mut command = match self {
            Client::Local | Client::Raw => return None,
            Client::Through => through_command(site),
            Client::Quayfs => quayfs_command(site),
            Client::S3fs => s3fs_command(site),
            Client::Rclone => rclone_command(site),
            Client::Mountpoint => mountpoint_command(site),
            Client::MountpointCache => {
                let mut command = mountpoint_command(site);
                command.arg(site.state);
                command
            }
            Client::Gcsfuse => gcsfuse_command(site),
        };
        let login = Login::root();
        command.env("AWS_ACCESS_KEY_ID", &login.user).env("AWS_SECRET_ACCESS_KEY", &login.secret);
        command.env("HOME", site.home).env("XDG_RUNTIME_DIR", site.home);
        // The metadata service of a cloud's machines: none here, and asking takes seconds.
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        Some(command)
    }

    /// Where its program is, for a message when it is not there.
    pub(crate) fn program(self) -> Option<PathBuf> {
        match self {
            Client::Local | Client::Raw => None,
            Client::Through => Some(beside(THROUGH)),
            Client::Quayfs => Some(quayfs()),
            Client::S3fs => Some("/usr/bin/s3fs".into()),
            Client::Rclone => Some(dev_dir().join("bin/rclone")),
            Client::Mountpoint | Client::MountpointCache => {
                Some(dev_dir().join("bin/quayfs-bench-mountpoint"))
            }
            Client::Gcsfuse => Some(dev_dir().join("bin/gcsfuse")),
        }
    }
}

fn through_command(site: &Site<'_>) -> Command {
    let mut command = Command::new(beside(THROUGH));
    command.arg(site.local).arg(site.dir);
    command
}

fn quayfs_command(site: &Site<'_>) -> Command {
    let mut command = Command::new(quayfs());
    command.arg("mount").arg(format!("s3://{}", site.bucket)).arg(site.dir);
    command.args(["--foreground", "--path-style", "--region", "us-east-1"]);
    command.args(["--endpoint", site.endpoint, "--memory-limit", "128MiB"]);
    command.arg("--cache-dir").arg(site.state).arg("--log-file").arg(site.home.join("log"));
    command
}

fn s3fs_command(site: &Site<'_>) -> Command {
    let mut command = Command::new("s3fs");
    command.arg(site.bucket).arg(site.dir).arg("-f");
    command.args(["-o", "use_path_request_style", "-o", "endpoint=us-east-1"]);
    command.args(["-o", &format!("url={}", site.endpoint)]);
    command.args(["-o", &format!("use_cache={}", site.state.display())]);
    command
}

fn rclone_command(site: &Site<'_>) -> Command {
    let mut command = Command::new(tool("rclone"));
    command.arg("mount").arg(format!(":s3:{}", site.bucket)).arg(site.dir);
    command.args(["--vfs-cache-mode", "full"]).arg("--cache-dir").arg(site.state);
    // Otherwise it asks for each listed object alone, which nobody would want who reads a bucket.
    command.arg("--use-server-modtime");
    command.env("RCLONE_CONFIG", site.home.join("rclone.conf"));
    command.env("RCLONE_S3_PROVIDER", "Minio").env("RCLONE_S3_ENV_AUTH", "true");
    command.env("RCLONE_S3_ENDPOINT", site.endpoint).env("RCLONE_S3_REGION", "us-east-1");
    command
}

fn mountpoint_command(site: &Site<'_>) -> Command {
    let mut command = Command::new(tool("quayfs-bench-mountpoint"));
    command.args([site.endpoint, site.bucket]).arg(site.dir);
    command
}

fn gcsfuse_command(site: &Site<'_>) -> Command {
    let mut command = Command::new(tool("gcsfuse"));
    command.args(["--foreground", "--anonymous-access"]);
    // By the paths of its other interface the emulator only answers at its own address, not at a link to it.
    command.arg("--experimental-enable-json-read");
    // It knows nothing of folders that are more than a part of a name.
    command.arg("--enable-hns=false");
    // Without it there are no folders but those that have an object of their own.
    command.arg("--implicit-dirs");
    command.arg(format!("--custom-endpoint={}/storage/v1/", site.endpoint));
    command.arg(format!("--cache-dir={}", site.state.display())).arg("--file-cache-max-size-mb=-1");
    command.arg(site.bucket).arg(site.dir);
    command
}
