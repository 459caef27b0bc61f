//! Log lines as fields for the journal of systemd, by its own protocol: a datagram a line.
//!
//! ```text
//!   NAME=value\n                              where the value is one line
//!   NAME\n, its length as 8 bytes, value \n   where it has more
//! ```

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tracing::Level;

use super::record::{Record, Sink};

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Longer messages are cut: a datagram has to fit into the socket's buffer.
const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// The way to the journal.
pub(super) struct Journal {
    socket: UnixDatagram,
}

impl Journal {
    /// The journal of this machine.
    pub(super) fn connect() -> io::Result<Journal> {
        Journal::at(Path::new(SOCKET)).map_err(|error| {
            let text = format!("there is no journal at {SOCKET}: use --log-format text ({error})");
            io::Error::new(error.kind(), text)
        })
    }

    fn at(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Journal { socket })
    }
}

impl Sink for Journal {
    fn write(&self, record: &Record) {
        let _ = self.socket.send(&datagram(record));
    }
}

fn datagram(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, "MESSAGE", &message(record));
    put(&mut bytes, "PRIORITY", priority(record.level));
    put(&mut bytes, "SYSLOG_IDENTIFIER", "quayfs");
    put(&mut bytes, "TARGET", &record.target);
    for (name, value) in &record.fields.0 {
        put(&mut bytes, &format!("QUAYFS_{}", upper(name)), &value.to_string());
    }
    bytes
}

/// The message with its fields, as people read it in the journal.
fn message(record: &Record) -> String {
    let fields = record.fields.0.iter().map(|(name, value)| format!(" {name}={value}"));
    let mut text = record.message.clone() + &fields.collect::<String>();
    let end = text.floor_char_boundary(MESSAGE_BYTES_MAX);
    text.truncate(end);
    text
}

/// The name of a field: capital letters, digits and underscores.
fn upper(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(fits).collect()
}

fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend((value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend(value.as_bytes());
    bytes.push(b'\n');
}

/// As syslog counts.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use tracing::Level;

    use super::super::record::{Fields, Record, Sink as _, Value};
    use super::Journal;

    #[test]
    fn the_journal_gets_a_datagram_with_each_field() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journald = UnixDatagram::bind(&path).unwrap();
        let fields =
            Fields(vec![("request", Value::Number(7)), ("path", Value::Text("two\nlines".into()))]);
        let (level, target) = (Level::WARN, "slow".to_owned());
        let record = Record { level, target, message: "a slow call".into(), fields };
        Journal::at(&path).unwrap().write(&record);

        let mut buffer = [0; 4096];
        let length = journald.recv(&mut buffer).unwrap();
        let mut want = b"MESSAGE\n".to_vec();
        let message = b"a slow call request=7 path=two\nlines";
        want.extend((message.len() as u64).to_le_bytes());
        want.extend(message);
        want.extend(b"\nPRIORITY=4\nSYSLOG_IDENTIFIER=quayfs\nTARGET=slow\nQUAYFS_REQUEST=7\n");
        want.extend(b"QUAYFS_PATH\n");
        want.extend(9_u64.to_le_bytes());
        want.extend(b"two\nlines\n");
        assert_eq!(&buffer[..length], want);
    }

    #[test]
    fn without_a_journal_it_is_said() {
        let error = Journal::at(std::path::Path::new("/nowhere/socket")).err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
