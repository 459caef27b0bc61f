//! Does what a daemon was asked to do with files, while whoever asked listens.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::{ByteRange, Clock, Ino};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncBufRead, AsyncWriteExt};
use tokio::sync::mpsc;
use vfs::{Evicted, Pinned, Vfs, Warmed, Warming};

use crate::figures::Stop;
use crate::lines::{Lines, say};
use crate::raw;
use crate::tag::Tag;
use crate::task::{Answer, Chore, Outcome, Task, Wish};
use crate::volumes::Volumes;

/// Files that one wish may want at a time.
const AT_A_TIME_MAX: usize = 256;

/// Files that are dropped at a time: more only wait for the database.
const EVICTED_AT_A_TIME: usize = 4;

/// The largest object that is made to measure with.
const MEASURED_BYTES_MAX: u64 = 16 << 30;

/// Words about what has come that wait to be said; more are not said.
const WORDS_MAX: usize = 1024;

/// What is done with each file that is named.
#[derive(Debug)]
struct Job {
    volumes: Arc<Volumes>,
    errand: Errand,
}

#[derive(Debug)]
enum Errand {
    Warm {
        room: Warming,
        words: mpsc::Sender<Answer>,
    },
    Evict {
        clock: Arc<dyn Clock>,
        /// How often a file that is in use may still be tried again.
        tries: AtomicU32,
    },
}

/// A file that was just read is in use for a moment: it is tried again so often, after so long,
const EVICT_TRIES: u32 = 75;
const EVICT_DELAY: Duration = Duration::from_millis(20);

/// and all files together so often: most that are in use stay so.
const EVICT_TRIES_MAX: u32 = 200;

/// Does `task`, and says what comes of it. Who goes away ends it.
pub(crate) async fn attend(
    task: Task,
    lines: &mut Lines<impl AsyncBufRead + Unpin>,
    to: &mut (impl AsyncWriteExt + Unpin),
    (volumes, clock): (&Arc<Volumes>, &Arc<dyn Clock>),
) -> io::Result<()> {
    let (words, mut said) = mpsc::channel(WORDS_MAX);
    let (errand, at_a_time) = match task {
        Task::Files(Chore::Warm { at_a_time }) => {
            let Some(first) = volumes.all().into_iter().next() else { return Ok(()) };
            // All volumes share one store, so any of them knows what room there is.
            let room = Warming::new(first.vfs()).map_err(io::Error::other)?;
            (Errand::Warm { room, words }, at_a_time.clamp(1, AT_A_TIME_MAX))
        }
        Task::Files(Chore::Evict {}) => {
            let (clock, tries) = (Arc::clone(clock), AtomicU32::new(EVICT_TRIES_MAX));
            (Errand::Evict { clock, tries }, EVICTED_AT_A_TIME)
        }
        Task::Measure { ino, bytes } => return measure((ino, bytes), lines, to, volumes).await,
        Task::CopyOverLink { link, file } => {
            let copied = copy_over_link(volumes, link, file).await.map(|()| Outcome::Copied {});
            return say(to, &answer(0, copied)).await;
        }
        Task::Pin { path } => return pin(&path, to, volumes).await,
        Task::UnpinAll {} => {
            let unpinned = volumes.all().into_iter().try_fold(0, |sum, volume| {
                volume.vfs().unpin_all().map(|count| sum + count).map_err(|error| error.to_string())
            });
            let unpinned = unpinned.map(|count| Outcome::Unpinned { was_pinned: 0 < count });
            return say(to, &answer(0, unpinned)).await;
        }
        Task::Unpin { path } => {
            let unpinned = at(volumes, &path).and_then(|(vfs, path)| {
                let was_pinned = vfs.unpin(path).map_err(|error| error.to_string())?;
                Ok(Outcome::Unpinned { was_pinned })
            });
            return say(to, &answer(0, unpinned)).await;
        }
    };
    let job = Arc::new(Job { volumes: Arc::clone(volumes), errand });
    each(&job, at_a_time, (lines, to), &mut said).await
}

/// Carries out each wish that comes in, so many at a time, and says what came of it.
async fn each(
    job: &Arc<Job>,
    at_a_time: usize,
    (lines, to): (&mut Lines<impl AsyncBufRead + Unpin>, &mut (impl AsyncWriteExt + Unpin)),
    said: &mut mpsc::Receiver<Answer>,
) -> io::Result<()> {
    let mut running: FuturesUnordered<BoxFuture<'static, Answer>> = FuturesUnordered::new();
    let mut is_more = true;
    while is_more || !running.is_empty() {
        tokio::select! {
            line = lines.next(), if is_more && running.len() < at_a_time => match line? {
                Some(line) => {
                    let wish: Wish = serde_json::from_slice(&line)?;
                    running.push(Arc::clone(job).carry_out(wish).boxed());
                }
                None => is_more = false,
            },
            Some(word) = said.recv() => say(to, &word).await?,
            Some(done) = running.next(), if !running.is_empty() => say(to, &done).await?,
        }
    }
    Ok(())
}

impl Job {
    async fn carry_out(self: Arc<Self>, wish: Wish) -> Answer {
        let outcome = match &self.errand {
            Errand::Warm { room, words } => self.warm(room, words, &wish).await,
            Errand::Evict { clock, tries } => self.evict((clock.as_ref(), tries), &wish).await,
        };
        answer(wish.id, outcome)
    }

    async fn warm(
        &self,
        room: &Warming,
        words: &mpsc::Sender<Answer>,
        wish: &Wish,
    ) -> Result<Outcome, String> {
        let (vfs, ino) = owner(&self.volumes, wish.ino)?;
        let ranges: Vec<ByteRange> =
            wish.ranges.iter().filter_map(|&(start, end)| ByteRange::new(start, end)).collect();
        let tell = |bytes| {
            let outcome = Outcome::Came { bytes, of_bytes: 0 };
            // Whoever listens too slowly hears the sum at the end.
            let _ = words.try_send(Answer { id: wish.id, outcome });
        };
        match room.file(&vfs, ino, &ranges, &tell).await {
            Ok(Warmed { brought_bytes, here_bytes }) => {
                Ok(Outcome::Warmed { brought_bytes, here_bytes })
            }
            Err(error) if error.is_beyond_cache() => {
                Ok(Outcome::Full { room_bytes: room.room_bytes() })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn evict(
        &self,
        (clock, tries): (&dyn Clock, &AtomicU32),
        wish: &Wish,
    ) -> Result<Outcome, String> {
        let (vfs, ino) = owner(&self.volumes, wish.ino)?;
        let try_once = || async { vfs.evict(ino).await.map_err(|error| error.to_string()) };
        let mut evicted = try_once().await?;
        for _ in 0..EVICT_TRIES {
            let left = |tries: u32| tries.checked_sub(1);
            if evicted != Evicted::InUse || tries.fetch_update(Relaxed, Relaxed, left).is_err() {
                break;
            }
            clock.sleep(EVICT_DELAY).await;
            evicted = try_once().await?;
        }
        let reason = match evicted {
            Evicted::Freed(bytes) => return Ok(Outcome::Evicted { bytes }),
            Evicted::InUse => "in use",
            Evicted::Dirty => "not in the bucket yet",
            Evicted::Pinned => "pinned",
        };
        Ok(Outcome::Kept { reason: reason.to_owned() })
    }
}

async fn copy_over_link(volumes: &Volumes, link: u64, file: u64) -> Result<(), String> {
    let ((vfs, link), (other, file)) = (owner(volumes, link)?, owner(volumes, file)?);
    if !Arc::ptr_eq(&vfs, &other) {
        return Err("they are in different buckets".to_owned());
    }
    vfs.copy_over_link(link, file).await.map_err(|error| error.to_string())
}

async fn measure(
    (ino, bytes): (u64, u64),
    lines: &mut Lines<impl AsyncBufRead + Unpin>,
    to: &mut (impl AsyncWriteExt + Unpin),
    volumes: &Volumes,
) -> io::Result<()> {
    let (tag, _) = Tag::split(Ino(ino));
    let Some(volume) = volumes.with(tag) else {
        return say(to, &answer(0, Err("it is in no bucket".to_owned()))).await;
    };
    let stop = Stop::default();
    let bytes = bytes.min(MEASURED_BYTES_MAX);
    let mut measuring = std::pin::pin!(raw::measure(volume.remote(), bytes, &stop));
    let measured = tokio::select! {
        measured = &mut measuring => measured,
        // Nothing more is to come: whoever asked has gone away. What was made is removed all the same.
        _ = lines.next() => {
            stop.now();
            measuring.await
        }
    };
    let outcome = measured.map(Outcome::Measured).map_err(|error| error.to_string());
    say(to, &answer(0, outcome)).await
}

async fn pin(
    path: &[u8],
    to: &mut (impl AsyncWriteExt + Unpin),
    volumes: &Volumes,
) -> io::Result<()> {
    let (vfs, path) = match at(volumes, path) {
        Ok(found) => found,
        Err(reason) => return say(to, &answer(0, Err(reason))).await,
    };
    let (words, mut said) = mpsc::channel(WORDS_MAX);
    let tell = |bytes, of_bytes| {
        let _ = words.try_send(Answer { id: 0, outcome: Outcome::Came { bytes, of_bytes } });
    };
    let mut pinning = std::pin::pin!(vfs.pin(path, &tell));
    let pinned = loop {
        tokio::select! {
            Some(word) = said.recv() => say(to, &word).await?,
            pinned = &mut pinning => break pinned,
        }
    };
    let outcome = pinned.map_err(|error| error.to_string()).map(|pinned| match pinned {
        Pinned::Yes { files, bytes, brought_bytes, failed } => {
            Outcome::Pinned { files, bytes, brought_bytes, failed }
        }
        Pinned::TooLarge { bytes, others_bytes, limit_bytes } => {
            Outcome::TooLarge { bytes, others_bytes, limit_bytes }
        }
    });
    say(to, &answer(0, outcome)).await
}

fn answer(id: u64, outcome: Result<Outcome, String>) -> Answer {
    Answer { id, outcome: outcome.unwrap_or_else(|reason| Outcome::Failed { reason }) }
}

/// The file system that the file which the kernel calls `ino` is of, and its number there.
fn owner(volumes: &Volumes, ino: u64) -> Result<(Arc<Vfs>, Ino), String> {
    let (tag, inner) = Tag::split(Ino(ino));
    let volume = volumes.with(tag).ok_or("it is in no bucket")?;
    Ok((Arc::clone(volume.vfs()), inner))
}

/// The file system that `path` of the mount is in, and the path there.
fn at<'a>(volumes: &Volumes, path: &'a [u8]) -> Result<(Arc<Vfs>, &'a [u8]), String> {
    let (volume, inner) = volumes.at(path).ok_or("it is in no bucket that is in use")?;
    Ok((Arc::clone(volume.vfs()), inner))
}
