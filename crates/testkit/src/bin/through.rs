//! The least that a file system over the same FUSE library can do: its files are those of another folder, and
//! what is said of them is not kept. What a benchmark of small files compares with.
//!
//! `quayfs-bench-through FOLDER DIR` shows FOLDER at DIR, says so, and ends when it is unmounted. It takes
//! requests the way that the mounts take them which it is compared with.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Attr, Errno, FileKind, HandleId, Ino, Metrics, Timestamp};
use fuse::{Answer, Caller, MountOptions, OpenReply, Reply, Request, Service, Session};

/// As long as quayfs lets the kernel believe names and attributes.
const TTL: Duration = Duration::from_secs(1);

/// As many as quayfs has.
const THREADS: usize = 4;

#[derive(Debug)]
struct Through {
    folder: PathBuf,
    state: Mutex<State>,
    last: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    paths: HashMap<Ino, PathBuf>,
    open: HashMap<HandleId, Arc<File>>,
}

impl Service for Through {
    fn serve(&self, _: Caller, request: Request<'_>) -> Answer {
        Answer::Now(self.answer(&request).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                Errno::ENOENT
            } else if error.kind() == ErrorKind::Unsupported {
                Errno::EOPNOTSUPP
            } else {
                Errno::EIO
            }
        }))
    }
}

impl Through {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only what a benchmark asks is here")]
    fn answer(&self, request: &Request<'_>) -> std::io::Result<Reply> {
        Ok(match *request {
            Request::Lookup { parent, name } => {
                let path = self.path_of(parent, name);
                match path.symlink_metadata() {
                    Ok(found) => Reply::Entry(self.know(&path, &found), TTL),
                    Err(error) if error.kind() == ErrorKind::NotFound => Reply::NoEntry(TTL),
                    Err(error) => return Err(error),
                }
            }
            Request::GetAttr { ino, .. } => {
                Reply::Attr(attr(&self.path(ino).symlink_metadata()?, ino), TTL)
            }
            // Takes it and forgets it.
            Request::SetAttr { ino, .. } => {
                Reply::Attr(attr(&self.path(ino).symlink_metadata()?, ino), TTL)
            }
            Request::Create { parent, name, mode, .. } => {
                let path = self.path_of(parent, name);
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                let file = options.mode(mode & 0o7777).open(&path)?;
                let attr = self.know(&path, &file.metadata()?);
                Reply::Created(attr, TTL, self.keep(file), OpenReply::CachedKeep)
            }
            Request::MkDir { parent, name, .. } => {
                let path = self.path_of(parent, name);
                std::fs::create_dir(&path)?;
                Reply::Entry(self.know(&path, &path.symlink_metadata()?), TTL)
            }
            Request::Open { ino, .. } => {
                let file = OpenOptions::new().read(true).write(true).open(self.path(ino))?;
                Reply::Opened(self.keep(file), OpenReply::CachedKeep)
            }
            Request::Read { fh, offset, size, .. } => {
                let mut bytes = vec![0; size as usize];
                let read = self.file(fh)?.read_at(&mut bytes, offset)?;
                bytes.truncate(read);
                Reply::Data(bytes)
            }
            Request::Write { fh, offset, data, .. } => {
                self.file(fh)?.write_all_at(data, offset)?;
                Reply::Written(u32::try_from(data.len()).unwrap_or(u32::MAX))
            }
            Request::Release { fh, .. } => {
                self.state().open.remove(&fh);
                Reply::Done
            }
            Request::Forget { ino, .. } => {
                self.state().paths.remove(&ino);
                Reply::Done
            }
            Request::Unlink { parent, name } => {
                std::fs::remove_file(self.path_of(parent, name))?;
                Reply::Done
            }
            Request::OpenDir { .. } => Reply::Opened(HandleId(0), OpenReply::CachedAnew),
            Request::ReadDir { .. } => Reply::Entries(Vec::new(), TTL),
            Request::Flush { .. } | Request::ReleaseDir { .. } | Request::FsyncDir { .. } => {
                Reply::Done
            }
            _ => return Err(ErrorKind::Unsupported.into()),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path_of(&self, parent: Ino, name: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.path(parent).join(std::ffi::OsStr::from_bytes(name))
    }

    fn path(&self, ino: Ino) -> PathBuf {
        self.state().paths.get(&ino).unwrap_or(&self.folder).clone()
    }

    fn file(&self, fh: HandleId) -> std::io::Result<Arc<File>> {
        let file = self.state().open.get(&fh).cloned();
        file.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn keep(&self, file: File) -> HandleId {
        let handle = HandleId(1 + self.last.fetch_add(1, Ordering::Relaxed));
        self.state().open.insert(handle, Arc::new(file));
        handle
    }

    fn know(&self, path: &Path, found: &Metadata) -> Attr {
        // The number 1 is that of the mounted folder.
        let ino = Ino(found.ino() + 1);
        self.state().paths.insert(ino, path.to_owned());
        attr(found, ino)
    }
}

fn attr(found: &Metadata, ino: Ino) -> Attr {
    let time = |secs, nanos: i64| Timestamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) };
    Attr {
        ino,
        kind: if found.is_dir() { FileKind::Directory } else { FileKind::File },
        size: found.size(),
        mode: u16::try_from(found.mode() & 0o7777).unwrap_or(0),
        uid: found.uid(),
        gid: found.gid(),
        nlink: u32::try_from(found.nlink()).unwrap_or(1),
        rdev: 0,
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, dir] = arguments.as_slice() else { return ExitCode::FAILURE };
    match show(Path::new(folder), Path::new(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            say(&text);
            ExitCode::FAILURE
        }
    }
}

fn show(folder: &Path, dir: &Path) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let subtype = "through";
    let rings = testkit::ring_wish();
    let options = MountOptions { subtype, threads: THREADS, rings, ..MountOptions::new(subtype) };
    let metrics = Arc::new(Metrics::new());
    let mounted = Session::mount(dir, &options, runtime.handle().clone(), metrics)
        .map_err(|error| error.to_string())?;
    let through =
        Through { folder: folder.to_owned(), state: Mutex::default(), last: AtomicU64::new(0) };
    let session = mounted.serve(Arc::new(through)).map_err(|error| error.to_string())?;
    say("mounted");
    session.wait().map_err(|error| error.to_string())
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    // Whoever started this may have stopped listening.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
