//! A flat file system in memory that counts what it is asked and can be told to misbehave.

use std::collections::{BTreeMap, HashMap};
use std::panic::panic_any;
use std::sync::Arc;
use std::time::Duration;

use base::{Attr, Errno, FileKind, HandleId, Ino, Timestamp};
use parking_lot::{Condvar, Mutex};
use quayfs_fuse::{Answer, Caller, DirEntry, OpenReply, Reply, Request, Service, SetTime, Statfs};
use tokio::sync::Semaphore;

/// Long enough that the kernel asks again only when it is told to.
const TTL: Duration = Duration::from_hours(1);

/// How a file answers reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// At once.
    Quick,
    /// When the gate opens.
    Gated,
    /// With a panic.
    Panics,
    /// With a panic of the work.
    PanicsLater,
    /// With a reply that fits another request.
    Confused,
}

/// A flat file system in memory.
#[derive(Debug)]
pub(crate) struct Memory {
    state: Mutex<State>,
    changed: Condvar,
    /// One permit for each gated read that may go on.
    pub(crate) gate: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<Vec<u8>, Ino>,
    files: HashMap<Ino, File>,
    /// References that the kernel should have, by node.
    references: HashMap<Ino, i64>,
    asked: HashMap<&'static str, u64>,
    /// Reads that wait at the gate.
    waiting: usize,
}

#[derive(Debug)]
struct File {
    attr: Attr,
    bytes: Vec<u8>,
    manner: Manner,
    open: OpenReply,
}

impl Memory {
    pub(crate) fn new() -> Arc<Memory> {
        Arc::new(Memory {
            state: Mutex::default(),
            changed: Condvar::new(),
            gate: Arc::new(Semaphore::new(0)),
        })
    }

    pub(crate) fn add(&self, name: &str, bytes: &[u8], manner: Manner) -> Ino {
        let mut state = self.state.lock();
        let ino = state.add(name.as_bytes(), 0o644);
        let file = state.file(ino);
        file.bytes = bytes.to_vec();
        file.attr.size = bytes.len() as u64;
        file.manner = manner;
        ino
    }

    /// Changes a file behind the kernel's back.
    pub(crate) fn replace(&self, ino: Ino, bytes: &[u8]) {
        let mut state = self.state.lock();
        let file = state.file(ino);
        file.bytes = bytes.to_vec();
        file.attr.size = bytes.len() as u64;
    }

    /// How further opens of a file are answered.
    pub(crate) fn open_as(&self, ino: Ino, how: OpenReply) {
        self.state.lock().file(ino).open = how;
    }

    pub(crate) fn bytes(&self, ino: Ino) -> Vec<u8> {
        self.state.lock().file(ino).bytes.clone()
    }

    pub(crate) fn asked(&self, op: &'static str) -> u64 {
        self.state.lock().asked.get(op).copied().unwrap_or(0)
    }

    /// Waits until so many reads wait at the gate.
    pub(crate) fn wait_for_gated(&self, count: usize) {
        let mut state = self.state.lock();
        let timeout = Duration::from_secs(20);
        let late = self.changed.wait_while_for(&mut state, |state| state.waiting < count, timeout);
        assert!(!late.timed_out(), "only {} reads came to the gate", state.waiting);
    }

    /// Waits until the kernel has given back every reference.
    pub(crate) fn wait_for_no_references(&self) {
        let mut state = self.state.lock();
        let held = |state: &mut State| state.references.values().any(|&count| count != 0);
        let late = self.changed.wait_while_for(&mut state, held, Duration::from_secs(20));
        assert!(!late.timed_out(), "not balanced: {:?}", state.references);
    }

    fn read(self: &Arc<Memory>, ino: Ino, offset: u64, size: u32) -> Answer {
        let mut state = self.state.lock();
        let file = state.file(ino);
        let bytes = &file.bytes;
        let from = bytes.len().min(usize::try_from(offset).unwrap());
        let to = bytes.len().min(from + size as usize);
        let data = bytes[from..to].to_vec();
        match file.manner {
            Manner::Quick => Answer::Now(Ok(Reply::Data(data))),
            Manner::Confused => Answer::Now(Ok(Reply::Written(1))),
            Manner::Panics => {
                drop(state);
                panic!("this read panics");
            }
            Manner::PanicsLater => Answer::Later(Box::pin(async { panic_any("later") })),
            Manner::Gated => {
                state.waiting += 1;
                self.changed.notify_all();
                let gate = Arc::clone(&self.gate);
                Answer::Later(Box::pin(async move {
                    gate.acquire().await.expect("the gate is never closed").forget();
                    Ok(Reply::Data(data))
                }))
            }
        }
    }
}

/// What tests hand to the session: the service needs the `Arc` for its work.
#[derive(Debug)]
pub(crate) struct Served(pub(crate) Arc<Memory>);

impl Service for Served {
    fn serve(&self, _: Caller, request: Request<'_>) -> Answer {
        if let Request::Read { ino, offset, size, .. } = request {
            self.0.state.lock().count("read");
            return self.0.read(ino, offset, size);
        }
        let answer = self.0.state.lock().serve(&request);
        self.0.changed.notify_all();
        Answer::Now(answer)
    }
}

impl State {
    fn count(&mut self, op: &'static str) {
        *self.asked.entry(op).or_default() += 1;
    }

    fn file(&mut self, ino: Ino) -> &mut File {
        self.files.get_mut(&ino).expect("the kernel asks only for what it was told of")
    }

    fn add(&mut self, name: &[u8], mode: u16) -> Ino {
        let ino = Ino(self.files.len() as u64 + 2);
        let attr = Attr { ino, mode, ..root() };
        let attr = Attr { kind: FileKind::File, nlink: 1, ..attr };
        let file =
            File { attr, bytes: Vec::new(), manner: Manner::Quick, open: OpenReply::CachedKeep };
        self.files.insert(ino, file);
        self.names.insert(name.to_vec(), ino);
        ino
    }

    fn attr(&mut self, ino: Ino) -> Attr {
        if ino == Ino::ROOT { root() } else { self.file(ino).attr }
    }

    fn serve(&mut self, request: &Request<'_>) -> Result<Reply, Errno> {
        match *request {
            Request::Lookup { name, .. } => Ok(self.lookup(name)),
            Request::Forget { ino, count } => {
                *self.references.entry(ino).or_default() -= i64::try_from(count).unwrap();
                Ok(Reply::Done)
            }
            Request::GetAttr { ino, .. } => {
                self.count("getattr");
                Ok(Reply::Attr(self.attr(ino), TTL))
            }
            Request::SetAttr { ino, size, mtime, .. } => Ok(self.set_attr(ino, size, mtime)),
            Request::Create { name, mode, .. } => {
                let ino = self.add(name, u16::try_from(mode & 0o7777).unwrap());
                *self.references.entry(ino).or_default() += 1;
                let attr = self.attr(ino);
                Ok(Reply::Created(attr, TTL, HandleId(7), OpenReply::CachedKeep))
            }
            Request::Unlink { name, .. } => {
                self.names.remove(name).map(|_| Reply::Done).ok_or(Errno::ENOENT)
            }
            Request::Open { ino, .. } => {
                self.count("open");
                Ok(Reply::Opened(HandleId(7), self.file(ino).open))
            }
            Request::OpenDir { .. } => Ok(Reply::Opened(HandleId(8), OpenReply::CachedAnew)),
            Request::Write { ino, offset, data, .. } => Ok(self.write(ino, offset, data)),
            Request::ReadDir { offset, size, plus, .. } => Ok(self.list(offset, size, plus)),
            Request::GetXattr { name: b"user.note", .. } => Ok(Reply::Data(b"hello".to_vec())),
            Request::StatFs { .. } => Ok(Reply::Statfs(Statfs {
                block_bytes: 4096,
                blocks: 100,
                blocks_free: 50,
                files: 10,
                files_free: 5,
                name_bytes_max: 255,
            })),
            Request::Flush { .. } => {
                self.count("flush");
                Ok(Reply::Done)
            }
            Request::Release { .. }
            | Request::ReleaseDir { .. }
            | Request::Fsync { .. }
            | Request::FsyncDir { .. } => Ok(Reply::Done),
            Request::GetXattr { .. } => {
                self.count("getxattr");
                Err(Errno::EOPNOTSUPP)
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn lookup(&mut self, name: &[u8]) -> Reply {
        self.count("lookup");
        let Some(&ino) = self.names.get(name) else { return Reply::NoEntry(TTL) };
        *self.references.entry(ino).or_default() += 1;
        Reply::Entry(self.attr(ino), TTL)
    }

    fn set_attr(&mut self, ino: Ino, size: Option<u64>, mtime: Option<SetTime>) -> Reply {
        let file = self.file(ino);
        if let Some(size) = size {
            file.bytes.resize(usize::try_from(size).unwrap(), 0);
            file.attr.size = size;
        }
        if let Some(SetTime::At(time)) = mtime {
            file.attr.mtime = time;
        }
        Reply::Attr(file.attr, TTL)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Reply {
        self.count("write");
        let file = self.file(ino);
        let from = usize::try_from(offset).unwrap();
        let end = from + data.len();
        if file.bytes.len() < end {
            file.bytes.resize(end, 0);
        }
        file.bytes[from..end].copy_from_slice(data);
        file.attr.size = file.bytes.len() as u64;
        Reply::Written(u32::try_from(data.len()).unwrap())
    }

    /// Twice as much as was asked for: the rest must be asked for again.
    fn list(&mut self, offset: u64, size: u32, plus: bool) -> Reply {
        self.count(if plus { "readdirplus" } else { "readdir" });
        let most = size as usize * 2 / 32;
        let mut entries: Vec<DirEntry> = [b".".to_vec(), b"..".to_vec()]
            .into_iter()
            .map(|name| (name, Ino::ROOT, FileKind::Directory))
            .chain(self.names.iter().map(|(name, &ino)| (name.clone(), ino, FileKind::File)))
            .enumerate()
            .skip(usize::try_from(offset).unwrap())
            .take(most)
            .map(|(index, (name, ino, kind))| DirEntry {
                ino,
                kind,
                next_offset: index as u64 + 1,
                name,
                attr: None,
            })
            .collect();
        for entry in entries.iter_mut().filter(|entry| plus && entry.ino != Ino::ROOT) {
            entry.attr = Some(self.files[&entry.ino].attr);
            *self.references.entry(entry.ino).or_default() += 1;
        }
        Reply::Entries(entries, TTL)
    }
}

fn root() -> Attr {
    let time = Timestamp { secs: 1_000_000_000, nanos: 0 };
    Attr {
        ino: Ino::ROOT,
        kind: FileKind::Directory,
        size: 0,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: 2,
        rdev: 0,
        atime: time,
        mtime: time,
        ctime: time,
    }
}
