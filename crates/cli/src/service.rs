//! What a service manager is told: that a service is up, what it does, that it ends. One datagram each, to
//! the socket that it names in `NOTIFY_SOCKET`; see `sd_notify(3)`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Time that a start asks for. It asks again each 30 s, so that one lost message ends nothing.
const EXTENSION: Duration = Duration::from_mins(2);

/// Whoever started us and waits to hear that we are up; perhaps nobody.
#[derive(Debug)]
pub(crate) struct Manager {
    socket: Option<UnixDatagram>,
}

impl Manager {
    /// The one that the environment names.
    #[expect(clippy::disallowed_methods, reason = "configuration enters here")]
    pub(crate) fn ours() -> Manager {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let socket = name.and_then(|name| connected(name.as_bytes()).ok());
        Manager { socket }
    }

    /// The service is up.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}\n", one_line(status)));
    }

    /// The service is not up yet, and needs more time than the manager gives it.
    pub(crate) fn starting(&self, status: &str) {
        let extension = EXTENSION.as_micros();
        self.tell(&format!("EXTEND_TIMEOUT_USEC={extension}\nSTATUS={}\n", one_line(status)));
    }

    /// The service ends, and how far that is.
    pub(crate) fn stopping(&self, status: &str) {
        self.tell(&format!("STOPPING=1\nSTATUS={}\n", one_line(status)));
    }

    fn tell(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // Nobody can be told of it, and a mount that works is worth more than one that is known to.
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// A path, or after an `@` a name that is in no folder.
fn connected(name: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match name.strip_prefix(b"@") {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(std::ffi::OsStr::from_bytes(name))?,
    }
    Ok(socket)
}

/// A line end would begin another field.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}
