//! A server that gives prepared answers, in turn, and keeps what it was asked.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A running server.
pub(crate) struct Recording {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method, path and query.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    /// A header's value; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut headers = self.headers.iter();
        headers.find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

impl Recording {
    /// Starts a server that gives these answers: status and headers as HTTP spells them, an empty
    /// line, and the body.
    pub(crate) async fn start(answers: &[&str]) -> Recording {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let keeping = Arc::clone(&asked);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                keeping.lock().push(request);
                let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
                let head = format!("HTTP/1.1 {head}\r\nconnection: close");
                let text = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(text.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        Recording { url, asked }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Asked {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap_or((line, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Asked { line, headers, body: String::from_utf8(body).unwrap() }
}
