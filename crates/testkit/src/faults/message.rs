//! HTTP/1.1 messages on a connection, as far as one who passes them on must understand them.

use std::io::{self, Read, Write};
use std::net::TcpStream;

const HEAD_BYTES_MAX: usize = 128 << 10;
const CHUNK_BYTES: usize = 64 << 10;

/// A connection of which more may have been read than was asked for.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    ahead: Vec<u8>,
}

/// The first lines of a message, with the empty one that ends them.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
}

/// How long what follows a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Bytes(u64),
    Chunks,
    /// To the end of the connection.
    Rest,
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Line {
        Line { stream, ahead: Vec::new() }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next head; `None` at the end of the connection.
    pub(super) fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(at) = find(&self.ahead, b"\r\n\r\n") {
                let rest = self.ahead.split_off(at + 4);
                let bytes = std::mem::replace(&mut self.ahead, rest);
                return Ok(Some(Head { bytes }));
            }
            if HEAD_BYTES_MAX < self.ahead.len() {
                return Err(io::Error::other("a head without end"));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Hands what follows a head to `each`, in pieces, until that fails.
    pub(super) fn body(
        &mut self,
        length: Length,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match length {
            Length::Bytes(bytes) => self.exactly(bytes, each),
            Length::Rest => loop {
                if self.ahead.is_empty() && self.fill()? == 0 {
                    return Ok(());
                }
                each(&std::mem::take(&mut self.ahead))?;
            },
            Length::Chunks => loop {
                let line = self.line()?;
                each(&line)?;
                let size = std::str::from_utf8(&line).unwrap_or("").trim();
                let size = size.split(';').next().unwrap_or("");
                let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
                // What follows the last chunk is taken for an empty line: nobody sends more.
                self.exactly(size + 2, each)?;
                if size == 0 {
                    return Ok(());
                }
            },
        }
    }

    fn exactly(
        &mut self,
        bytes: u64,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut left = bytes;
        while 0 < left {
            if self.ahead.is_empty() && self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let take = self.ahead.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let rest = self.ahead.split_off(take);
            each(&std::mem::replace(&mut self.ahead, rest))?;
            left -= take as u64;
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = find(&self.ahead, b"\r\n") {
                let rest = self.ahead.split_off(at + 2);
                return Ok(std::mem::replace(&mut self.ahead, rest));
            }
            if HEAD_BYTES_MAX < self.ahead.len() || self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let len = self.stream.read(&mut chunk)?;
        self.ahead.extend_from_slice(&chunk[..len]);
        Ok(len)
    }
}

impl Head {
    /// Method and target of a request, or the status of an answer.
    pub(super) fn first_line(&self) -> &str {
        let end = find(&self.bytes, b"\r\n").unwrap_or(0);
        std::str::from_utf8(&self.bytes[..end]).unwrap_or("")
    }

    /// The method of a request.
    pub(super) fn method(&self) -> &str {
        self.first_line().split(' ').next().unwrap_or("")
    }

    fn status(&self) -> u16 {
        self.first_line().split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Whether another head follows this one, of the answer proper.
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.bytes).ok()?;
        text.split("\r\n").skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// Of what follows a request.
    pub(super) fn request_length(&self) -> Length {
        self.said_length().unwrap_or(Length::Bytes(0))
    }

    /// Of what follows the answer to a request with this method.
    pub(super) fn answer_length(&self, method: &str) -> Length {
        if method == "HEAD" || matches!(self.status(), 204 | 304) {
            return Length::Bytes(0);
        }
        self.said_length().unwrap_or(Length::Rest)
    }

    fn said_length(&self) -> Option<Length> {
        if self.header("transfer-encoding").is_some() {
            return Some(Length::Chunks);
        }
        let said = self.header("content-length")?;
        said.parse().ok().map(Length::Bytes)
    }
}

fn find(bytes: &[u8], words: &[u8]) -> Option<usize> {
    bytes.windows(words.len()).position(|window| window == words)
}
