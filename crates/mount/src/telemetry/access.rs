//! Access log: one line for each request to the store, written by a thread of its own.
//!
//! ```text
//!   requests ──▶ queue of QUEUE_MAX lines ──▶ thread ──▶ file
//!                  └─ full: the line is dropped and counted; a later line tells how many
//! ```
//!
//! A request never waits for the disk of the log.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use base::printable;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::capped::CappedFile;

/// Lines that wait for the thread.
const QUEUE_MAX: usize = 4096;

/// Characters of a name that a line has.
const NAME_CHARS_MAX: usize = 1024;

/// The log of requests of a mount. Clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    queue: SyncSender<String>,
    dropped: Arc<AtomicU64>,
    file: Arc<CappedFile>,
}

/// A request that was answered, or that no caller waits for any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    pub(crate) method: &'static str,
    /// `ok`, the kind of the failure, or `cancelled`.
    pub(crate) status: &'static str,
    /// Bytes of the body, in either direction.
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// Bucket and key.
    pub(crate) name: &'a str,
}

impl AccessLog {
    /// A log in the file at `path`.
    pub(crate) fn open(path: PathBuf) -> io::Result<AccessLog> {
        let file = Arc::new(CappedFile::open(path)?);
        let (queue, lines) = sync_channel(QUEUE_MAX);
        let log = AccessLog { queue, dropped: Arc::default(), file };
        let (file, dropped) = (Arc::clone(&log.file), Arc::clone(&log.dropped));
        // Ends with the last sender.
        let work = move || write(&lines, &file, &dropped);
        std::thread::Builder::new().name("access log".to_owned()).spawn(work)?;
        Ok(log)
    }

    /// Queues a line, or drops it if the queue is full.
    pub(crate) fn note(&self, access: Access<'_>) {
        let mut time = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        if self.queue.try_send(line(&time, access)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file again if another program has renamed or removed it.
    pub(crate) fn reopen(&self) {
        if let Err(error) = self.file.reopen() {
            let path = self.file.path().display();
            tracing::warn!(%path, %error, "the access log cannot be opened again: the old one stays in use");
        }
    }
}

/// Writes lines until all senders are gone. A write that fails costs its line: a log has nowhere to complain.
fn write(lines: &Receiver<String>, file: &CappedFile, dropped: &AtomicU64) {
    for line in lines {
        let missing = dropped.swap(0, Ordering::Relaxed);
        if 0 < missing {
            let _ = (&*file).write_all(format!("# {missing} lines are missing here\n").as_bytes());
        }
        let _ = (&*file).write_all(line.as_bytes());
    }
}

/// `2026-11-29T08:49:27.929550Z get ok 131072 12.3 s3://lab/a.bam`.
fn line(time: &str, access: Access<'_>) -> String {
    let Access { method, status, bytes, took, name } = access;
    let ms = took.as_secs_f64() * 1e3;
    let mut name = printable(name).into_owned();
    if let Some((end, _)) = name.char_indices().nth(NAME_CHARS_MAX) {
        name.truncate(end);
        name.push('…');
    }
    format!("{time} {method} {status} {bytes} {ms:.1} {name}\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::super::capped::CappedFile;
    use super::{Access, AccessLog, NAME_CHARS_MAX, line, write};

    fn access(name: &str) -> Access<'_> {
        let took = Duration::from_micros(12_340);
        Access { method: "get", status: "ok", bytes: 7, took, name }
    }

    #[test]
    fn line_is_one_line_of_bounded_length() {
        assert_eq!(line("T", access("s3://lab/a b")), "T get ok 7 12.3 s3://lab/a b\n");
        assert_eq!(
            line("T", access("a\nT put ok\u{1b}[2J")),
            "T get ok 7 12.3 a\\nT put ok\\u{1b}[2J\n"
        );
        let long = line("T", access(&"ä".repeat(5000)));
        assert_eq!(long.chars().count(), "T get ok 7 12.3 ".len() + NAME_CHARS_MAX + 2);
        assert!(long.ends_with("ä…\n"));
    }

    #[test]
    fn full_queue_drops_lines_and_tells_how_many() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let (queue, lines) = sync_channel(2);
        let file = Arc::new(CappedFile::open(path.clone()).unwrap());
        let log =
            AccessLog { queue, dropped: Arc::new(AtomicU64::new(0)), file: Arc::clone(&file) };
        for number in 0..5 {
            log.note(access(&number.to_string()));
        }
        let dropped = Arc::clone(&log.dropped);
        drop(log);
        write(&lines, &file, &dropped);
        let written = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines.len(), 3, "{written}");
        assert_eq!(lines[0], "# 3 lines are missing here");
        assert!(lines[1].ends_with(" 0") && lines[2].ends_with(" 1"), "{written}");
    }
}
