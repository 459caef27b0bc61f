//! A server process for the length of a test.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starting takes a second or two; a busy machine gets more.
pub(crate) const START_TRIES_MAX: u32 = 600;

/// A process that is killed on drop.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a server and waits until it answers a request for `path`, whatever it says.
    pub(crate) fn start(command: &mut Command, port: u16, path: &str) -> Process {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process(command.spawn().unwrap());
        for _ in 0..START_TRIES_MAX {
            if answers(port, path) {
                return process;
            }
            pause();
        }
        panic!("{} does not answer on port {port}", command.get_program().display());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answers(port: u16, path: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let mut answer = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.")
        && !answer.contains(" 503 ")
}

#[expect(clippy::disallowed_methods, reason = "another process has no clock of ours")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

/// A tool of a developer: where `variable` says, else where `make setup` puts it.
#[expect(clippy::disallowed_methods, reason = "where the tools of a developer are")]
pub(crate) fn tool(variable: &str, path: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let dev_dir = || {
        let named = std::env::var_os("QUAYFS_DEV_DIR").map(PathBuf::from);
        named.unwrap_or_else(|| home().join(".cache/quayfs-dev"))
    };
    let tool = std::env::var_os(variable).map_or_else(|| dev_dir().join(path), PathBuf::from);
    assert!(
        tool.is_file(),
        "nothing at {}: `make setup` installs it, {variable} names another place",
        tool.display()
    );
    tool
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
