//! Parts of one large file: at random, in two streams, and in strides.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::{SharedMap, noise, wait};

use crate::{Result, Work};

const BLOCK_BYTES: usize = 4096;
const STREAM_BLOCK_BYTES: usize = 128 << 10;

/// 4 KiB at `count` random places, by `threads` that share them; the same places of every file of one
/// length.
pub(crate) fn random(path: &Path, count: usize, threads: usize) -> Result<Work> {
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
    let read: std::io::Result<Vec<Vec<Duration>>> = thread::scope(|scope| {
        let readers: Vec<_> = places
            .chunks(share)
            .map(|places| scope.spawn(|| read_at_each(&file, places)))
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader only reads")).collect()
    });
    Ok(Work { bytes: (count * BLOCK_BYTES) as u64, reads: read?.concat() })
}

fn read_at_each(file: &File, places: &[u64]) -> std::io::Result<Vec<Duration>> {
    let mut buffer = [0; BLOCK_BYTES];
    let timed = |&at: &u64| {
        let started = wait::now();
        file.read_exact_at(&mut buffer, at)?;
        Ok(started.elapsed())
    };
    places.iter().map(timed).collect()
}

/// `bytes` in all, half of them from the start and half from the middle, in turns.
pub(crate) fn streams(path: &Path, bytes: u64) -> Result<Work> {
    let file = File::open(path)?;
    let middle = file.metadata()?.len() / 2;
    let mut buffer = vec![0; STREAM_BLOCK_BYTES];
    let blocks = bytes / 2 / STREAM_BLOCK_BYTES as u64;
    for block in 0..blocks {
        let at = block * STREAM_BLOCK_BYTES as u64;
        file.read_exact_at(&mut buffer, at)?;
        file.read_exact_at(&mut buffer, middle + at)?;
    }
    Ok(Work { bytes: blocks * 2 * STREAM_BLOCK_BYTES as u64, reads: Vec::new() })
}

/// `len` bytes at every `step`, `count` times.
pub(crate) fn stride(path: &Path, step: u64, len: usize, count: u64) -> Result<Work> {
    let file = File::open(path)?;
    let mut buffer = vec![0; len];
    for at in 0..count {
        file.read_exact_at(&mut buffer, at * step)?;
    }
    Ok(Work { bytes: count * len as u64, reads: Vec::new() })
}

/// The same of a mapping of the file.
pub(crate) fn stride_map(path: &Path, step: usize, len: usize, count: usize) -> Result<Work> {
    let file = File::open(path)?;
    let whole = usize::try_from(file.metadata()?.len())?;
    let map = SharedMap::readable(&file, whole);
    let mut buffer = vec![0; len];
    for at in 0..count {
        map.read(at * step, &mut buffer);
    }
    Ok(Work { bytes: (count * len) as u64, reads: Vec::new() })
}
