//! Parts of one large file: at random, in two streams, and in strides.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::{SharedMap, noise, wait};

use crate::{Result, Until, Work};

const BLOCK_BYTES: usize = 4096;
const STREAM_BLOCK_BYTES: usize = 128 << 10;
/// In which quayfs fetches what is read here and there.
const GRANULE_BYTES: u64 = 128 << 10;

/// A place that was read, and how long that took.
type Read = (u64, Duration);

/// 4 KiB at `count` random places, by `threads` that share them; the same places of every file of one
/// length.
pub(crate) fn random(path: &Path, count: usize, threads: usize, until: Until) -> Result<Work> {
    let file = File::open(path)?;
    let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
    let chances = noise(1, count * 8);
    let places: Vec<u64> = chances
        .as_chunks::<8>()
        .0
        .iter()
        .map(|chance| u64::from_le_bytes(*chance) % blocks * BLOCK_BYTES as u64)
        .collect();
    let share = count.div_ceil(threads);
    let read: std::io::Result<Vec<Vec<Read>>> = thread::scope(|scope| {
        let readers: Vec<_> = places
            .chunks(share)
            .map(|places| scope.spawn(|| read_at_each(&file, places, until)))
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader only reads")).collect()
    });
    let read = read?.concat();
    let granules: BTreeSet<u64> = read.iter().map(|(at, _)| at / GRANULE_BYTES).collect();
    Ok(Work {
        bytes: (read.len() * BLOCK_BYTES) as u64,
        count: read.len(),
        is_cut: read.len() < count,
        touched_bytes: granules.len() as u64 * GRANULE_BYTES,
        reads: read.into_iter().map(|(_, took)| took).collect(),
    })
}

fn read_at_each(file: &File, places: &[u64], until: Until) -> std::io::Result<Vec<Read>> {
    let mut buffer = [0; BLOCK_BYTES];
    let timed = |&at: &u64| {
        let started = wait::now();
        file.read_exact_at(&mut buffer, at)?;
        Ok((at, started.elapsed()))
    };
    places.iter().take_while(|_| !until.is_over()).map(timed).collect()
}

/// `bytes` in all, half of them from the start and half from the middle, in turns.
pub(crate) fn streams(path: &Path, bytes: u64, until: Until) -> Result<Work> {
    let file = File::open(path)?;
    let middle = file.metadata()?.len() / 2;
    let mut buffer = vec![0; STREAM_BLOCK_BYTES];
    let block_bytes = STREAM_BLOCK_BYTES as u64;
    each(bytes / 2 / block_bytes, 2 * block_bytes, until, |block| {
        file.read_exact_at(&mut buffer, block * block_bytes)?;
        file.read_exact_at(&mut buffer, middle + block * block_bytes)
    })
}

/// `len` bytes at every `step`, `count` times.
pub(crate) fn stride(path: &Path, step: u64, len: u64, count: u64, until: Until) -> Result<Work> {
    let file = File::open(path)?;
    let mut buffer = vec![0; usize::try_from(len)?];
    each(count, len, until, |at| file.read_exact_at(&mut buffer, at * step))
}

/// The same of a mapping of the file.
pub(crate) fn stride_map(
    path: &Path,
    step: u64,
    len: u64,
    count: u64,
    until: Until,
) -> Result<Work> {
    let file = File::open(path)?;
    let whole = usize::try_from(file.metadata()?.len())?;
    let map = SharedMap::readable(&file, whole);
    let mut buffer = vec![0; usize::try_from(len)?];
    each(count, len, until, |at| {
        map.read(usize::try_from(at * step).expect("within the mapping"), &mut buffer);
        Ok(())
    })
}

/// `count` reads of `bytes` each, as far as the time goes.
fn each(
    count: u64,
    bytes: u64,
    until: Until,
    mut read: impl FnMut(u64) -> std::io::Result<()>,
) -> Result<Work> {
    let mut work = Work::default();
    for at in 0..count {
        if until.is_over() {
            work.is_cut = true;
            break;
        }
        read(at)?;
        work.bytes += bytes;
        work.count += 1;
    }
    Ok(work)
}
