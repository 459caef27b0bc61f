//! A server that says the same to everybody, such as one that hands out tokens.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Who says nothing for so long has said all.
const SILENCE: Duration = Duration::from_secs(10);

/// The server. It answers until the test process ends.
#[derive(Debug)]
pub struct Parrot {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Parrot {
    /// Says this, and calls it JSON.
    pub fn saying(text: &str) -> Parrot {
        Parrot::answering("200 OK", "application/json", text)
    }

    /// Answers each request with this status, content type and body.
    pub fn answering(status: &str, content_type: &str, body: &str) -> Parrot {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let length = body.len();
        let answer_to_all = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: \
             close\r\n\r\n{body}"
        );
        let keeping = Arc::clone(&heard);
        let answering = move || {
            for stream in listener.incoming().flatten() {
                // Who hangs up early has asked all the same.
                if let Ok(request) = answer(stream, &answer_to_all) {
                    keeping.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                }
            }
        };
        Builder::new().name("parrot".into()).spawn(answering).expect("there is a thread");
        Parrot { address, heard }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far, whole requests.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(mut stream: TcpStream, answer: &str) -> std::io::Result<String> {
    stream.set_read_timeout(Some(SILENCE))?;
    let mut asked = Vec::new();
    let end = loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk)?;
        asked.extend_from_slice(&chunk[..read]);
        match asked.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(end) => break end,
            None if read == 0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    };
    let head = String::from_utf8_lossy(&asked[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut rest = vec![0; (end + 4 + length).saturating_sub(asked.len())];
    stream.read_exact(&mut rest)?;
    stream.write_all(answer.as_bytes())?;
    asked.append(&mut rest);
    Ok(String::from_utf8_lossy(&asked).into_owned())
}
