//! All buckets at once: `s3/<bucket>`, `gs/<bucket>` and `az/<account>/<container>`, or `az/<container>` of one
//! account, each a volume that is attached when its name is first looked up.
//!
//! The folders above the buckets are of this module; all else goes to the volume that the inode number
//! belongs to, which knows nothing of others.

mod attach;
mod catalog;
mod folders;
mod left;
mod order;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Attr, Errno, FileKind, HandleId, Ino, Timestamp};
use fuse::{Answer, Caller, DirEntry, OpenReply, Reply, Request, Service, Statfs};
use futures::FutureExt as _;
use namespace::Owner;
use tokio::runtime::Handle;
use vfs::Next;

use self::attach::Attach;
use self::catalog::Catalog;
use self::folders::{Entry, Folder, Folders, Found};
use crate::assemble::Common;
use crate::config::{Buckets, Config};
use crate::kernel::Link;
use crate::tag::Tag;
use crate::volume::Volume;
use crate::volumes::Volumes;

/// All buckets as one file system.
#[derive(Debug)]
pub(crate) struct AllBuckets {
    volumes: Arc<Volumes>,
    folders: Arc<Folders>,
    attach: Arc<Attach>,
    catalog: Arc<Catalog>,
    /// For how long the kernel may believe names and attributes.
    ttl: Duration,
    owner: Owner,
    since: Timestamp,
}

impl AllBuckets {
    /// Nothing is attached yet, but for what an earlier mount has left to be finished.
    pub(crate) fn new(
        config: &Config,
        common: Common,
        volumes: Arc<Volumes>,
        (link, buckets): (Link, Arc<dyn Buckets>),
        runtime: &Handle,
    ) -> AllBuckets {
        let since = common.clock.wall();
        let left = left::locations(&common.store, &config.state_dir, buckets.as_ref());
        let catalog = Arc::new(Catalog::new(common.clone(), Arc::clone(&buckets)));
        let attach = Arc::new(Attach::new(
            (common, Arc::clone(&volumes)),
            (link, buckets),
            (config.authorities.clone(), runtime.clone()),
        ));
        let finishing = Arc::clone(&attach);
        runtime.spawn(async move {
            for location in left {
                // What comes of it is in the log.
                let _ = finishing.volume(&location).await;
            }
        });
        let owner = crate::assemble::owner(config);
        AllBuckets {
            volumes,
            folders: Arc::new(Folders::with_account(config.azure_account.clone())),
            attach,
            catalog,
            ttl: config.metadata_ttl,
            owner,
            since,
        }
    }

    /// Answers for a folder that buckets are in.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is refused, also what may come")]
    fn of_folder(&self, number: Ino, request: &Request<'_>) -> Result<Answer, Errno> {
        // What the kernel gives back was never counted.
        if let Request::Forget { .. } = request {
            return Ok(Answer::Now(Ok(Reply::Done)));
        }
        let folder = self.folders.with(number).ok_or(Errno::ESTALE)?;
        Ok(match request {
            Request::Lookup { name, .. } => self.lookup(&folder, name)?,
            Request::GetAttr { .. } => Answer::Now(Ok(Reply::Attr(self.attr(number), self.ttl))),
            // Each listing is made as it is asked for: there is nothing to keep in between.
            Request::OpenDir { .. } => {
                Answer::Now(Ok(Reply::Opened(HandleId(0), OpenReply::CachedAnew)))
            }
            Request::ReadDir { offset, plus, .. } => self.list(number, folder, *offset, *plus),
            Request::ReleaseDir { .. } => Answer::Now(Ok(Reply::Done)),
            Request::FsyncDir { .. } => self.sync(),
            Request::StatFs { .. } => Answer::Now(Ok(Reply::Statfs(statfs()))),
            Request::GetXattr { .. } => return Err(Errno::ENODATA),
            Request::ListXattr { .. } => Answer::Now(Ok(Reply::Data(Vec::new()))),
            // A bucket is not made or removed by who makes or removes a folder.
            _ => return Err(Errno::EPERM),
        })
    }

    fn lookup(&self, folder: &Folder, name: &[u8]) -> Result<Answer, Errno> {
        Ok(match self.folders.find(folder, name)? {
            Found::Nothing => Answer::Now(Ok(Reply::NoEntry(self.ttl))),
            Found::Folder(number) => Answer::Now(Ok(Reply::Entry(self.attr(number), self.ttl))),
            Found::Bucket(location) => {
                let (attach, ttl) = (Arc::clone(&self.attach), self.ttl);
                let entry = async move {
                    match attach.volume(&location).await {
                        Ok((tag, volume)) => Ok(Reply::Entry(root(tag, &volume).await?, ttl)),
                        Err(Errno::ENOENT) => Ok(Reply::NoEntry(ttl)),
                        Err(errno) => Err(errno),
                    }
                };
                Answer::Later(entry.boxed())
            }
        })
    }

    fn list(&self, number: Ino, folder: Folder, offset: u64, plus: bool) -> Answer {
        let (folders, attach) = (Arc::clone(&self.folders), Arc::clone(&self.attach));
        let (catalog, this, ttl) = (Arc::clone(&self.catalog), self.looks(), self.ttl);
        let listing = async move {
            let attached = attach.attached();
            let names = match folder.nameless() {
                Some(nameless) => {
                    let attached: Vec<String> =
                        folder.names(&attached).map(str::to_owned).collect();
                    catalog.names(&nameless, &attached).await
                }
                None => BTreeMap::new(),
            };
            let (mut listed, mut believed) = (Vec::new(), ttl);
            for (next_offset, entry) in folders.list(number, &folder, &attached, names) {
                if next_offset <= offset {
                    continue;
                }
                let (name, attr) = match entry {
                    Entry::Folder { name, number } => (name, this.attr(number)),
                    Entry::Bucket { name, tag, volume } => (name, root(tag, &volume).await?),
                    Entry::Told { name, number } => {
                        // Whoever enters it looks it up first, and so it is attached.
                        believed = Duration::ZERO;
                        (name, this.attr(number))
                    }
                };
                let (ino, kind) = (attr.ino, FileKind::Directory);
                let attr = plus.then_some(attr);
                listed.push(DirEntry { ino, kind, next_offset, name, attr });
            }
            Ok(Reply::Entries(listed, believed))
        };
        Answer::Later(listing.boxed())
    }

    /// `fsync` of a folder of buckets: of all of them.
    fn sync(&self) -> Answer {
        let volumes = Arc::clone(&self.volumes);
        let synced = async move {
            let unbrought = volumes.drain().await;
            unbrought.heard_without_words();
            let mut nexts = unbrought.all().map(|left| left.next);
            match nexts.next() {
                None => Ok(Reply::Done),
                Some(Next::Wait) if nexts.all(|next| next == Next::Wait) => Err(Errno::EBUSY),
                Some(_) => Err(Errno::EIO),
            }
        };
        Answer::Later(synced.boxed())
    }

    fn attr(&self, number: Ino) -> Attr {
        self.looks().attr(number)
    }

    fn looks(&self) -> Looks {
        Looks { owner: self.owner, since: self.since }
    }
}

impl Service for AllBuckets {
    fn serve(&self, caller: Caller, mut request: Request<'_>) -> Answer {
        let (node, other) = request.nodes_mut();
        let (tag, inner) = Tag::split(*node);
        *node = inner;
        if let Some(other) = other {
            let (to, inner) = Tag::split(*other);
            *other = inner;
            if to != tag {
                return Answer::Now(Err(Errno::EXDEV));
            }
        }
        if tag == Tag::NONE {
            return self.of_folder(inner, &request).unwrap_or_else(|errno| Answer::Now(Err(errno)));
        }
        match self.volumes.with(tag) {
            Some(volume) => through(&volume, tag, caller, request),
            None => Answer::Now(Err(Errno::ESTALE)),
        }
    }
}

/// The answer of a volume, with the numbers as the kernel knows them.
fn through(volume: &Volume, tag: Tag, caller: Caller, request: Request<'_>) -> Answer {
    // The volume holds its root itself, and counts nobody else's references to it.
    if let Request::Forget { ino: Ino::ROOT, .. } = request {
        return Answer::Now(Ok(Reply::Done));
    }
    if volume.read_only.is_some() && request.is_change() {
        return Answer::Now(Err(Errno::EROFS));
    }
    let outer = move |mut reply: Reply| {
        reply.each_node_mut(|ino| *ino = tag.outer(*ino));
        reply
    };
    match volume.dispatch.serve(caller, request) {
        Answer::Now(reply) => Answer::Now(reply.map(outer)),
        Answer::Later(work) => Answer::Later(work.map(move |reply| reply.map(outer)).boxed()),
    }
}

/// The attributes of the top of a volume.
async fn root(tag: Tag, volume: &Volume) -> Result<Attr, Errno> {
    let attr =
        Arc::clone(volume.vfs()).attr(Ino::ROOT).await.map_err(|error| vfs::errno(&error))?;
    Ok(Attr { ino: tag.outer(attr.ino), ..attr })
}

/// How folders of buckets look.
#[derive(Clone, Copy, Debug)]
struct Looks {
    owner: Owner,
    since: Timestamp,
}

impl Looks {
    fn attr(self, ino: Ino) -> Attr {
        let Owner { uid, gid } = self.owner;
        let time = self.since;
        Attr {
            ino,
            kind: FileKind::Directory,
            size: 0,
            mode: 0o755,
            uid,
            gid,
            nlink: 2,
            rdev: 0,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }
}

/// The room of all buckets, which has no limit that could be shown.
fn statfs() -> Statfs {
    crate::dispatch::statfs(vfs::Space::BUCKET)
}
