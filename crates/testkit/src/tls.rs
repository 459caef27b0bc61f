//! A server's door with TLS, whose certificate is signed by an authority that nobody else knows.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command::run;
use crate::minio::free_address;
use crate::place::{Scratch, python};
use crate::server::Server;
use crate::wait;

const READY_WITHIN: Duration = Duration::from_mins(1);

const COMMAND_WITHIN: Duration = Duration::from_mins(1);

/// Makes an authority, and a certificate of it for this machine.
const CERTIFICATES: &str = r#"
cd "$1"
curve='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 $curve -keyout authority.key -out authority.pem -days 2 -subj /CN=authority
openssl req $curve -keyout key.pem -out request.pem -subj /CN=localhost
echo 'subjectAltName = DNS:localhost, IP:127.0.0.1' >names
openssl x509 -req -in request.pem -CA authority.pem -CAkey authority.key -CAcreateserial \
    -days 2 -extfile names -out certificate.pem
"#;

/// The door; it closes with the test.
#[derive(Debug)]
pub struct Tls {
    address: SocketAddr,
    // The folder of the server; the keeper removes it.
    folder: PathBuf,
    _server: Server,
}

impl Tls {
    /// A door to `server`.
    pub fn before(server: SocketAddr) -> Tls {
        let found = (0..5).find_map(|_| Tls::try_start(free_address(), server));
        found.expect("five free ports were taken before TLS could have one")
    }

    /// The URL of what is behind it.
    pub fn endpoint(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// The certificate of its authority, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    fn try_start(address: SocketAddr, server: SocketAddr) -> Option<Tls> {
        let folder = Scratch::new().into_path();
        make_certificates(&folder);
        let mut command = Command::new(python());
        command.args(["-c", include_str!("tls.py"), &address.port().to_string()]);
        command.arg(folder.join("certificate.pem")).arg(folder.join("key.pem"));
        command.arg(server.to_string());
        let mut door = Server::new(&command, &folder);
        door.start();
        let is_open = || TcpStream::connect(address).is_ok();
        wait::until("TLS to be spoken", READY_WITHIN, || is_open() || !door.is_alive());
        door.is_alive().then_some(Tls { address, folder, _server: door })
    }
}

fn make_certificates(folder: &Path) {
    let mut shell = Command::new("sh");
    run(shell.args(["-euc", CERTIFICATES, "sh"]).arg(folder), COMMAND_WITHIN).ok();
}
