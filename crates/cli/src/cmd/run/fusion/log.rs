//! What a command says, to whoever listens to us and into a file, until it has ended.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What is in memory at a time of each of both outputs.
const PIECE_BYTES: usize = 64 << 10;

/// Both outputs of a command on their way.
#[derive(Debug)]
pub(super) struct Log {
    file: Arc<File>,
    pumps: Vec<JoinHandle<io::Result<()>>>,
    /// Dropped when the command has ended: what it left running may have its outputs for ever.
    running: PipeWriter,
}

impl Log {
    /// Begins with the outputs of `child`, which are pipes. The file has no descriptor that `child` could have
    /// got: a close of that would be one of the file.
    pub(super) fn begin(child: &mut Child, path: &Path) -> io::Result<Log> {
        let opened = File::options().append(true).create(true).open(path);
        let file = Arc::new(opened.map_err(|error| named(path, &error))?);
        let (ended, running) = io::pipe()?;
        let ended = Arc::new(ended);
        let mut log = Log { file, pumps: Vec::new(), running };
        if let Some(output) = child.stdout.take() {
            log.pump(output, io::stdout(), &ended);
        }
        if let Some(output) = child.stderr.take() {
            log.pump(output, io::stderr(), &ended);
        }
        Ok(log)
    }

    fn pump(
        &mut self,
        from: impl Read + AsFd + Send + 'static,
        to: impl Write + Send + 'static,
        ended: &Arc<PipeReader>,
    ) {
        let (file, ended) = (Arc::clone(&self.file), Arc::clone(ended));
        self.pumps.push(std::thread::spawn(move || pump(from, to, &file, &ended)));
    }

    /// Takes what the command said to its end.
    pub(super) fn end(self) -> io::Result<()> {
        let Log { file: _open, pumps, running } = self;
        drop(running);
        for pump in pumps {
            pump.join().map_err(|_| io::Error::other("what copies the output has failed"))??;
        }
        Ok(())
    }
}

/// What a pipe holds at most by default.
const PIPE_BYTES: usize = 64 << 10;

/// An error with the path that it is about.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Copies all of `from`, or, when `ended` is over, what is there: who is left may say more for ever. A full pipe must not stop the command, so
/// errors are told at the end.
fn pump(
    mut from: impl Read + AsFd,
    mut to: impl Write,
    mut file: &File,
    ended: &impl AsFd,
) -> io::Result<()> {
    let mut failed = Ok(());
    let mut piece = vec![0; PIECE_BYTES];
    rustix::io::ioctl_fionbio(&from, true)?;
    let mut is_over = false;
    let mut left_bytes = PIPE_BYTES;
    loop {
        match from.read(&mut piece) {
            Ok(0) => return failed,
            Ok(bytes) => {
                // Whoever listened may have gone.
                let _ = to.write_all(&piece[..bytes]).and_then(|()| to.flush());
                failed = failed.and(file.write_all(&piece[..bytes]));
                let mut over = [PollFd::new(ended, PollFlags::empty())];
                is_over = is_over
                    || poll(&mut over, Some(&Timespec::default())).is_ok_and(|ready| 0 < ready);
                if is_over {
                    left_bytes = left_bytes.saturating_sub(bytes);
                }
                if left_bytes == 0 {
                    return failed;
                }
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return failed.and(Err(error));
            }
            Err(_) if is_over => return failed,
            Err(_) => {}
        }
        let mut waiting =
            [PollFd::new(&from, PollFlags::IN), PollFd::new(ended, PollFlags::empty())];
        match poll(&mut waiting, None) {
            Ok(_) | Err(Errno::INTR) => is_over = !waiting[1].revents().is_empty(),
            Err(error) => return failed.and(Err(error.into())),
        }
    }
}
