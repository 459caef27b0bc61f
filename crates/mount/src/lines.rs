//! Lines over the control socket: read with a limit, and written as JSON.

use std::io;

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt};

/// Lines of `reader`, none longer than a limit. Who stops waiting for one loses nothing.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    // What has come of the next line.
    begun: Vec<u8>,
    bytes_max: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, bytes_max: usize) -> Lines<R> {
        Lines { reader, begun: Vec::new(), bytes_max }
    }

    /// The next line, without its end; `None` when there are no more. A line that was begun and not
    /// ended is none.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let there = self.reader.fill_buf().await?;
            if there.is_empty() {
                return Ok(None);
            }
            let end = there.iter().position(|&byte| byte == b'\n');
            let taken = end.unwrap_or(there.len());
            if self.bytes_max < self.begun.len() + taken {
                return Err(io::Error::other("a line is too long"));
            }
            self.begun.extend_from_slice(&there[..taken]);
            self.reader.consume(end.map_or(taken, |end| end + 1));
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.begun)));
            }
        }
    }
}

/// Writes one line.
pub(crate) async fn say(
    to: &mut (impl AsyncWriteExt + Unpin),
    line: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    to.write_all(&line).await
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[tokio::test]
    async fn lines_come_one_by_one_and_a_long_one_is_refused() {
        let mut lines = Lines::new(&b"one\n\nthree\nfourteen letters\n"[..], 8);
        for want in ["one", "", "three"] {
            assert_eq!(lines.next().await.unwrap().as_deref(), Some(want.as_bytes()));
        }
        assert!(lines.next().await.is_err());
        assert_eq!(Lines::new(&b"cut off"[..], 8).next().await.unwrap(), None);
    }
}
