//! The control socket of a mount, and its name.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tokio::runtime::Runtime;

use crate::error::Error;
use crate::runtime_dir::{self, Of};

/// A listening control socket.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    name: SocketName,
    of: Of,
}

/// The name of a control socket; it goes when this is dropped.
struct SocketName {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens for the mount at `dir`.
    pub(crate) fn bind(runtime: &Runtime, dir: &Path) -> Result<Socket, Error> {
        let device = fuse::our_mount(dir)?.device;
        let _entered = runtime.enter();
        let failed = |source| Error::System { what: "cannot make a control socket", source };
        Socket::bind_for(Of::Mount(device)).map_err(failed)
    }

    /// Listens for this process, whose mount is gone: it is asked what it still does.
    pub(crate) fn bind_process(runtime: &Runtime) -> io::Result<Socket> {
        let _entered = runtime.enter();
        Socket::bind_for(Of::Process(std::process::id()))
    }

    fn bind_for(of: Of) -> io::Result<Socket> {
        runtime_dir::make()?;
        let path = runtime_dir::socket(rustix::process::geteuid().as_raw(), of);
        // One of that name is of a mount, or a process, that is gone: the number is ours now.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let inode = fs::symlink_metadata(&path)?.ino();
        Ok(Socket { listener, name: SocketName { path, inode }, of })
    }

    /// Listens anew if the name is gone: the folder of a user's sockets goes when he logs out.
    pub(crate) fn renew(&mut self) {
        if !self.name.is_gone() {
            return;
        }
        match Socket::bind_for(self.of) {
            Ok(socket) => *self = socket,
            Err(error) => tracing::warn!(%error, "the control socket is gone"),
        }
    }
}

impl SocketName {
    fn is_gone(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }
}

impl Drop for SocketName {
    /// A daemon that still uploads after its unmount may find that a new mount has its device
    /// number, and so its socket this name.
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|now| now.ino() == self.inode);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "the control socket was gone already");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixListener;

    use super::SocketName;

    #[test]
    fn a_name_that_another_mount_has_taken_over_is_left_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0-41.sock");
        let old = UnixListener::bind(&path).unwrap();
        let inode = path.symlink_metadata().unwrap().ino();
        let name = SocketName { path: path.clone(), inode };
        std::fs::remove_file(&path).unwrap();
        let _new = UnixListener::bind(&path).unwrap();
        drop((name, old));
        assert!(path.exists());
        let inode = path.symlink_metadata().unwrap().ino();
        drop(SocketName { path: path.clone(), inode });
        assert!(!path.exists());
    }
}
