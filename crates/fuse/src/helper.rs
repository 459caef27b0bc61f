//! `fusermount3`, the set-uid program through which an ordinary user mounts and unmounts.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::error::{MountError, MountErrorKind};

const PROGRAM: &str = "fusermount3";

/// What `fusermount3` said before it gave up.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Mounts at `path` with `options` and returns the device's descriptor, which the program sends
/// over the socket that it finds as its standard input.
pub(crate) fn mount(path: &Path, options: &str) -> Result<OwnedFd, MountError> {
    let other = |error: io::Error| MountError::with_source(MountErrorKind::Other, path, error);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| other(error.into()))?;

    let mut command = Command::new(PROGRAM);
    command.arg("-o").arg(options).arg("--").arg(path);
    command.env("_FUSE_COMMFD", "0").env("LC_ALL", "C");
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| not_started(path, error))?;
    // The command holds our copy of the other end, without which a failing program is an end of
    // file here.
    drop(command);

    let device = receive(&ours);
    drop(ours);
    let output = child.wait_with_output().map_err(other)?;
    match device {
        Ok(Some(device)) if output.status.success() => Ok(device),
        Ok(_) => Err(refused(path, &output)),
        Err(error) => Err(other(error)),
    }
}

/// Unmounts `path`; `arguments` say how.
pub(crate) fn unmount(path: &Path, arguments: &[&str]) -> Result<(), MountError> {
    let output = Command::new(PROGRAM)
        .args(arguments)
        .arg("--")
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_started(path, error))?;
    if output.status.success() { Ok(()) } else { Err(refused(path, &output)) }
}

/// The descriptor that comes with the one byte sent; none if the other end closed without.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8];
    rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut device = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            device = descriptors.last().or(device);
        }
    }
    Ok(device)
}

fn not_started(path: &Path, error: io::Error) -> MountError {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let kind = if missing { MountErrorKind::NoHelper } else { MountErrorKind::Other };
    MountError::with_source(kind, path, error)
}

fn refused(path: &Path, output: &Output) -> MountError {
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    MountError::with_source(kind_of(&words), path, Refusal(words))
}

/// The program has one exit code for everything; its words, in the C locale, are all there is.
fn kind_of(words: &str) -> MountErrorKind {
    const TABLE: &[(&str, MountErrorKind)] = &[
        ("user_allow_other", MountErrorKind::AllowOtherDenied),
        ("/dev/fuse", MountErrorKind::NoDevice),
        ("fuse device not found", MountErrorKind::NoDevice),
        ("Device or resource busy", MountErrorKind::Busy),
        ("not found in", MountErrorKind::NotMounted),
        ("Transport endpoint is not connected", MountErrorKind::DeadMount),
        ("not permitted", MountErrorKind::Denied),
        ("Permission denied", MountErrorKind::Denied),
        ("no write access", MountErrorKind::Denied),
        ("could not determine username", MountErrorKind::NoUserName),
        ("not owned by", MountErrorKind::Denied),
    ];
    TABLE
        .iter()
        .find(|(part, _)| words.contains(part))
        .map_or(MountErrorKind::Other, |&(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::kind_of;
    use crate::error::MountErrorKind;

    #[test]
    fn the_words_of_the_program_say_what_to_do() {
        for (words, want) in [
            (
                "fusermount3: option allow_other only allowed if 'user_allow_other' is set in \
                 /etc/fuse.conf",
                MountErrorKind::AllowOtherDenied,
            ),
            ("fusermount3: failed to open /dev/fuse: Permission denied", MountErrorKind::NoDevice),
            ("fusermount3: failed to unmount /mnt: Device or resource busy", MountErrorKind::Busy),
            ("fusermount3: could not determine username", MountErrorKind::NoUserName),
            ("fusermount3: entry for /mnt not found in /etc/mtab", MountErrorKind::NotMounted),
            ("fusermount3: mount failed: Operation not permitted", MountErrorKind::Denied),
            ("fusermount3: user has no write access to mountpoint /mnt", MountErrorKind::Denied),
            ("fusermount3: too many FUSE filesystems mounted", MountErrorKind::Other),
        ] {
            assert_eq!(kind_of(words), want, "{words}");
        }
    }
}
