//! Reads 4 KiB at random places of a file, and prints how many microseconds that took in all.
//!
//! `quayfs-bench-probe FILE COUNT`: the same places for every file of one length.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use testkit::wait;

const BLOCK_BYTES: u64 = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, count] = arguments.as_slice() else {
        return Err("usage: quayfs-bench-probe FILE COUNT".into());
    };
    let file = File::open(path)?;
    let blocks = file.metadata()?.len() / BLOCK_BYTES;
    let count: usize = count.parse()?;
    let chances = testkit::noise(1, count * 8);
    let mut buffer = [0; 4096];
    let started = wait::now();
    for chance in chances.as_chunks::<8>().0 {
        let block = u64::from_le_bytes(*chance) % blocks;
        file.read_exact_at(&mut buffer, block * BLOCK_BYTES)?;
    }
    writeln!(std::io::stdout(), "{}", started.elapsed().as_micros())?;
    Ok(())
}
