//! Whole files: large ones from start to end, small ones one after the other.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::{Result, Until, Work};

const BUFFER_BYTES: usize = 1 << 20;

/// A file from start to end.
pub(crate) fn whole(path: &str, until: Until) -> Result<Work> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let work = drained(&mut file, until)?;
    if !work.is_cut && work.bytes != len {
        return Err(format!("{path}: {} of {len} bytes", work.bytes).into());
    }
    Ok(work)
}

/// All that comes from somewhere.
pub(crate) fn drained(from: &mut impl Read, until: Until) -> std::io::Result<Work> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut work = Work::default();
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(work),
            read => work.bytes += read as u64,
        }
        if until.is_over() {
            return Ok(Work { is_cut: true, ..work });
        }
    }
}

/// `count` small files, by name or in no order.
pub(crate) fn small(dir: &Path, count: usize, order: &str, until: Until) -> Result<Work> {
    // Prime to any count in use: each file once, and no two neighbours after each other.
    let step = match order {
        "ordered" => 1,
        "random" => 619,
        _ => return Err(format!("no such order: {order}").into()),
    };
    let mut work = Work::default();
    for at in 0..count {
        if until.is_over() {
            work.is_cut = true;
            break;
        }
        let path = dir.join(format!("file-{:05}", at * step % count));
        work.bytes += fs::read(path)?.len() as u64;
        work.count += 1;
    }
    Ok(work)
}
