//! Reads in one of the ways that programs read, and says how long that took, without its own start.
//!
//! ```text
//!   quayfs-bench-reader whole FILE...                 from start to end
//!   quayfs-bench-reader random FILE COUNT THREADS     4 KiB at random places
//!   quayfs-bench-reader streams FILE BYTES            two sequential streams in turns on one handle
//!   quayfs-bench-reader stride FILE STEP LEN COUNT    LEN bytes of every STEP
//!   quayfs-bench-reader stride-map FILE STEP LEN COUNT   the same of a mapping
//!   quayfs-bench-reader files DIR COUNT ordered|random   small files called file-00000 and on
//!   quayfs-bench-reader timed PROGRAM ARGUMENT...     whatever a program does
//! ```
//!
//! Prints lines of a name and a number: `micros`, `bytes`, and where single reads matter `p50` and
//! `p99`, in microseconds.

mod files;
mod places;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::wait;

/// What goes wrong ends the program.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a way of reading came to.
#[derive(Debug, Default)]
struct Work {
    bytes: u64,
    /// How long each read took, where that is asked.
    reads: Vec<Duration>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let started = wait::now();
    let work = read(&arguments)?;
    tell(&work, started.elapsed())
}

fn read(arguments: &[&str]) -> Result<Work> {
    match arguments {
        ["whole", files @ ..] => files::whole(files),
        ["random", file, count, threads] => {
            places::random(Path::new(file), count.parse()?, threads.parse()?)
        }
        ["streams", file, bytes] => places::streams(Path::new(file), bytes.parse()?),
        ["stride", file, step, len, count] => {
            places::stride(Path::new(file), step.parse()?, len.parse()?, count.parse()?)
        }
        ["stride-map", file, step, len, count] => {
            places::stride_map(Path::new(file), step.parse()?, len.parse()?, count.parse()?)
        }
        ["files", dir, count, order] => files::small(Path::new(dir), count.parse()?, order),
        ["timed", program, arguments @ ..] => timed(program, arguments),
        _ => Err(format!("no such way of reading: {arguments:?}").into()),
    }
}

/// Somebody else's program, whose output nobody reads.
fn timed(program: &str, arguments: &[&str]) -> Result<Work> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    Ok(Work::default())
}

fn tell(work: &Work, took: Duration) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "micros {}\nbytes {}", took.as_micros(), work.bytes)?;
    let mut reads = work.reads.clone();
    reads.sort();
    if let Some(last) = reads.len().checked_sub(1) {
        let at = |percent: usize| reads[last * percent / 100].as_micros();
        writeln!(out, "p50 {}\np99 {}", at(50), at(99))?;
    }
    Ok(())
}
