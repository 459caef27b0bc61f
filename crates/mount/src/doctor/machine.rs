//! The kernel, `/dev/fuse`, privileges and limits.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use fuse::{RING_SWITCH, RingSwitch};
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;

/// The first kernel with passthrough, and the first in which all else works that is used.
const PASSTHROUGH_SINCE: (u32, u32) = (6, 9);
const WORKS_SINCE: (u32, u32) = (5, 4);

/// Each cached file in use is an open file.
const FILES_GOOD: u64 = 65_536;
const FILES_MIN: u64 = 4_096;

pub(super) fn look(tell: &mut impl FnMut(Finding)) {
    let is_root = rustix::process::geteuid().is_root();
    tell(kernel());
    tell(device());
    tell(io_uring());
    tell(privileges(is_root));
    tell(helper(is_root));
    tell(allow_other(is_root));
    tell(open_files());
}

fn kernel() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim().to_owned();
    match version(&release) {
        Some(version) if PASSTHROUGH_SINCE <= version => Finding::ok("kernel", release),
        Some(version) if WORKS_SINCE <= version => Finding::warn(
            "kernel",
            release,
            "cached files are read through quayfs: Linux 6.9 and newer can read them itself",
        ),
        Some(_) => Finding::fail("kernel", release, "quayfs wants Linux 5.4 or newer"),
        None => Finding::warn("kernel", release, "its version is not understood"),
    }
}

/// `6.18.5-arch1` is 6.18.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn device() -> Finding {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::ok("/dev/fuse", "can be opened"),
        Err(error) if error.kind() == ErrorKind::NotFound => Finding::fail(
            "/dev/fuse",
            error.to_string(),
            "load the module with `modprobe fuse`; in a container pass --device /dev/fuse",
        ),
        Err(error) => Finding::fail(
            "/dev/fuse",
            error.to_string(),
            "as root: `chmod 666 /dev/fuse`; in a container pass --device /dev/fuse --cap-add SYS_ADMIN",
        ),
    }
}

/// Nothing is wrong without it: it is quicker, and root's choice for the whole machine.
fn io_uring() -> Finding {
    let seen = match fuse::ring_switch() {
        RingSwitch::On => "requests may come through it".to_owned(),
        RingSwitch::Off => {
            format!("off; for quicker small requests, as root: `echo 1 > {RING_SWITCH}`")
        }
        RingSwitch::Unknown => {
            "requests come by /dev/fuse; Linux 6.14 and newer have a quicker way".to_owned()
        }
    };
    Finding::ok("io_uring", seen)
}

fn privileges(is_root: bool) -> Finding {
    if !is_root {
        let seen = "an ordinary user: mounts through fusermount3, without passthrough";
        return Finding::warn("privileges", seen, "for passthrough and readahead mount as root");
    }
    let admin = rustix::thread::CapabilitySet::SYS_ADMIN;
    let has = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(admin));
    if has {
        return Finding::ok("privileges", "root");
    }
    Finding::fail(
        "privileges",
        "root without SYS_ADMIN",
        "start the container with --cap-add SYS_ADMIN",
    )
}

#[expect(clippy::disallowed_methods, reason = "where programs are is what is asked here")]
fn helper(is_root: bool) -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = places.iter().map(|place| place.join("fusermount3")).find(|path| path.is_file());
    match found {
        None if is_root => Finding::ok("fusermount3", "not installed, and not needed as root"),
        None => Finding::fail("fusermount3", "not found", "install the package fuse3"),
        Some(path) => {
            let mode = fs::metadata(&path).map_or(0, |metadata| metadata.permissions().mode());
            let seen = path.display().to_string();
            if is_root || mode & 0o4000 != 0 {
                return Finding::ok("fusermount3", seen);
            }
            let advice = format!("as root: `chmod u+s {seen}`");
            Finding::fail("fusermount3", format!("{seen} is not set-uid"), advice)
        }
    }
}

fn allow_other(is_root: bool) -> Finding {
    let text = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if text.lines().any(|line| line.trim() == "user_allow_other") {
        return Finding::ok("user_allow_other", "set in /etc/fuse.conf");
    }
    let seen = "not set in /etc/fuse.conf";
    if is_root {
        return Finding::ok("user_allow_other", format!("{seen}, and not needed as root"));
    }
    let advice = "for --allow-other by ordinary users, write `user_allow_other` there as root";
    Finding::warn("user_allow_other", seen, advice)
}

fn open_files() -> Finding {
    // None is as many as one likes.
    let maximum = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let seen = format!("at most {maximum}");
    let advice = "raise it with `ulimit -Hn 1048576`, or LimitNOFILE= of a unit";
    match maximum {
        FILES_GOOD.. => Finding::ok("open files", seen),
        FILES_MIN.. => Finding::warn("open files", seen, advice),
        _ => Finding::fail("open files", seen, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_begin_with_two_numbers() {
        for (release, want) in [
            ("6.18.5-arch1", Some((6, 18))),
            ("6.1-rc3", Some((6, 1))),
            ("5.15.0-1034-aws", Some((5, 15))),
            ("unknown", None),
        ] {
            assert_eq!(version(release), want);
        }
    }
}
