//! Measures a folder, of a mount or of a local disk, as programs see it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base::Rng;
use rustix::fs::{Advice, fadvise};

use crate::figures::{AT_A_TIME, Figures, Phase, RANDOM_READS, SMALL_BYTES, SMALL_FILES, Stop};

const BLOCK_BYTES: usize = 1 << 20;

/// A folder of our own, removed with all that is in it on drop.
#[derive(Debug)]
pub(super) struct Trial {
    folder: PathBuf,
}

impl Trial {
    pub(super) fn new(place: &Path) -> io::Result<Trial> {
        let folder = place.join(format!("quayfs-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Trial { folder })
    }

    /// Measures with a file of `bytes` and some small ones; `forget` makes the place forget what it has of
    /// files here.
    pub(super) fn measure(
        &self,
        bytes: u64,
        stop: &Stop,
        forget: &dyn Fn(&[PathBuf]) -> io::Result<()>,
    ) -> io::Result<Figures> {
        let large = self.folder.join("large");
        let mut figures =
            Figures { write_bytes: write(&large, bytes, stop)?, ..Figures::default() };
        forget_all(std::slice::from_ref(&large), forget)?;
        figures.first_read_bytes = read(&large, stop)?;
        drop_pages(&large)?;
        figures.read_bytes = read(&large, stop)?;
        forget_all(std::slice::from_ref(&large), forget)?;
        figures.random_reads = read_here_and_there(&large, stop)?;
        let small: Vec<PathBuf> =
            (0..SMALL_FILES).map(|number| self.folder.join(format!("small-{number}"))).collect();
        let content = vec![b'q'; usize::try_from(SMALL_BYTES).unwrap_or(0)];
        let write = |path: &PathBuf| fs::write(path, &content);
        figures.small_writes = each(&small, stop, &write)?;
        let made: Vec<PathBuf> = small.into_iter().filter(|path| path.exists()).collect();
        forget_all(&made, forget)?;
        figures.small_reads = each(&made, stop, &|path| fs::read(path).map(drop))?;
        Ok(figures)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(path = %self.folder.display(), %error, "a folder of a bench stays behind");
        }
    }
}

fn forget_all(paths: &[PathBuf], forget: &dyn Fn(&[PathBuf]) -> io::Result<()>) -> io::Result<()> {
    paths.iter().try_for_each(|path| drop_pages(path))?;
    forget(paths)
}

/// Has the kernel forget what it has of a file in memory.
fn drop_pages(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

fn write(path: &Path, bytes: u64, stop: &Stop) -> io::Result<Option<u64>> {
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    let phase = Phase::begin(stop);
    let mut file = File::create(path)?;
    let mut written = 0;
    while written < bytes && !phase.is_over() {
        file.write_all(&block)?;
        written += block.len() as u64;
    }
    file.sync_all()?;
    drop(file);
    Ok(phase.rate(written))
}

fn read(path: &Path, stop: &Stop) -> io::Result<Option<u64>> {
    let mut block = vec![0; BLOCK_BYTES];
    let phase = Phase::begin(stop);
    let mut file = File::open(path)?;
    let mut bytes = 0;
    while !phase.is_over() {
        match file.read(&mut block)? {
            0 => break,
            count => bytes += count as u64,
        }
    }
    Ok(phase.rate(bytes))
}

fn read_here_and_there(path: &Path, stop: &Stop) -> io::Result<Option<u64>> {
    let file = File::open(path)?;
    let places = (file.metadata()?.len() / SMALL_BYTES).max(1);
    let rng = Rng::from_entropy();
    let offsets: Vec<u64> = (0..RANDOM_READS).map(|_| rng.below(places) * SMALL_BYTES).collect();
    each(&offsets, stop, &|offset| {
        let mut block = [0; 4096];
        file.read_at(&mut block, *offset).map(drop)
    })
}

/// Does something with each of `all`, some at a time, until the time is over; returns how many each second.
fn each<T: Sync>(
    all: &[T],
    stop: &Stop,
    one: &(impl Fn(&T) -> io::Result<()> + Sync),
) -> io::Result<Option<u64>> {
    let phase = Phase::begin(stop);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> io::Result<()> {
        while !phase.is_over() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = usize::try_from(at).ok().and_then(|at| all.get(at)) else { break };
            one(item)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })?;
    Ok(phase.rate(done.into_inner()))
}
