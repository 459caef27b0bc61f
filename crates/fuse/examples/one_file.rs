//! The smallest file system: one folder with one file, `hello`.
//!
//! `one_file mount private|shared DIR` serves it until it is unmounted, and says when it is
//! mounted; `one_file unmount normal|lazy DIR` unmounts it.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use base::{Attr, Errno, FileKind, HandleId, Ino, Metrics, Timestamp};
use quayfs_fuse::{
    Answer, Caller, DirEntry, MountOptions, OpenReply, Reply, Request, Service, Session, Unmount,
};

const TTL: Duration = Duration::from_mins(1);
const FILE: Ino = Ino(2);
const TEXT: &[u8] = b"hello\n";

#[derive(Debug)]
struct OneFile;

impl Service for OneFile {
    fn serve(&self, _: Caller, request: Request<'_>) -> Answer {
        Answer::Now(answer(&request))
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a read-only file system is asked for little")]
fn answer(request: &Request<'_>) -> Result<Reply, Errno> {
    match *request {
        Request::Lookup { name: b"hello", .. } => Ok(Reply::Entry(attr(FILE), TTL)),
        Request::Lookup { .. } => Err(Errno::ENOENT),
        Request::GetAttr { ino, .. } => Ok(Reply::Attr(attr(ino), TTL)),
        Request::Open { .. } | Request::OpenDir { .. } => {
            Ok(Reply::Opened(HandleId(0), OpenReply::CachedKeep))
        }
        Request::Read { offset, .. } => {
            let rest = usize::try_from(offset).ok().and_then(|from| TEXT.get(from..));
            Ok(Reply::Data(rest.unwrap_or_default().to_vec()))
        }
        Request::ReadDir { offset: 0, .. } => {
            let (kind, name) = (FileKind::File, b"hello".to_vec());
            let entry = DirEntry { ino: FILE, kind, next_offset: 1, name, attr: Some(attr(FILE)) };
            Ok(Reply::Entries(vec![entry], TTL))
        }
        Request::ReadDir { .. } => Ok(Reply::Entries(Vec::new(), TTL)),
        Request::Forget { .. }
        | Request::Flush { .. }
        | Request::Release { .. }
        | Request::ReleaseDir { .. } => Ok(Reply::Done),
        _ => Err(Errno::ENOSYS),
    }
}

fn attr(ino: Ino) -> Attr {
    let (kind, mode, size) = if ino == FILE {
        (FileKind::File, 0o444, TEXT.len() as u64)
    } else {
        (FileKind::Directory, 0o555, 0)
    };
    let time = Timestamp::default();
    let (uid, gid) = (0, 0);
    Attr {
        ino,
        kind,
        size,
        mode,
        uid,
        gid,
        nlink: 1,
        rdev: 0,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["mount", how, dir] => mount(Path::new(dir), how),
        ["unmount", how, dir] => {
            let how = if how == "lazy" { Unmount::Lazy } else { Unmount::Normal };
            quayfs_fuse::unmount_path(Path::new(dir), how)
                .map_err(|error| format!("{:?}: {error}", error.kind))
        }
        _ => Err("mount private|shared DIR, or unmount normal|lazy DIR".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            say(&text);
            ExitCode::FAILURE
        }
    }
}

fn mount(dir: &Path, how: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut options = MountOptions::new("one,file\\");
    options.allow_other = how == "shared";
    let metrics = Arc::new(Metrics::new());
    let mounted = Session::mount(dir, &options, runtime.handle().clone(), metrics)
        .map_err(|error| format!("{:?}: {error}: {:?}", error.kind, error.source))?;
    let with = if mounted.passthrough().is_some() { "with" } else { "without" };
    let session = mounted.serve(Arc::new(OneFile)).map_err(|error| error.to_string())?;
    say(&format!("mounted {with} passthrough"));
    session.wait().map_err(|error| error.to_string())
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    // Whoever started this may have stopped listening.
    let _ = writeln!(out, "{}", text.replace('\n', " ")).and_then(|()| out.flush());
}
