//! Whole files: large ones from start to end, small ones one after the other.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::{Result, Work};

const BUFFER_BYTES: usize = 1 << 20;

/// Each of `files` from start to end.
pub(crate) fn whole(files: &[&str]) -> Result<Work> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut work = Work::default();
    for path in files {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        let before = work.bytes;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => work.bytes += read as u64,
            }
        }
        if work.bytes - before != len {
            return Err(format!("{path}: {} of {len} bytes", work.bytes - before).into());
        }
    }
    Ok(work)
}

/// `count` small files, by name or in no order.
pub(crate) fn small(dir: &Path, count: usize, order: &str) -> Result<Work> {
    // Prime to any count in use: each file once, and no two neighbours after each other.
    let step = match order {
        "ordered" => 1,
        "random" => 619,
        _ => return Err(format!("no such order: {order}").into()),
    };
    let mut work = Work::default();
    for at in 0..count {
        let path = dir.join(format!("file-{:05}", at * step % count));
        work.bytes += fs::read(path)?.len() as u64;
    }
    Ok(work)
}
