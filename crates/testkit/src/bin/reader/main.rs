//! Reads in one of the ways that programs read, and says how long that took, without its own start.
//!
//! ```text
//!   quayfs-bench-reader SECONDS whole FILE                    from start to end
//!   quayfs-bench-reader SECONDS random FILE COUNT THREADS     4 KiB at random places
//!   quayfs-bench-reader SECONDS streams FILE BYTES            two sequential streams in turns on one handle
//!   quayfs-bench-reader SECONDS stride FILE STEP LEN COUNT    LEN bytes of every STEP
//!   quayfs-bench-reader SECONDS stride-map FILE STEP LEN COUNT   the same of a mapping
//!   quayfs-bench-reader SECONDS files DIR COUNT ordered|random   small files called file-00000 and on
//!   quayfs-bench-reader SECONDS output PROGRAM ARGUMENT...    what a program prints
//!   quayfs-bench-reader SECONDS timed PROGRAM ARGUMENT...     whatever a program does, to its end
//! ```
//!
//! Prints lines of a name and a number: `micros`, `bytes`, `count` of what was read, and where single reads
//! matter `p50` and `p99`, in microseconds, and `touched`, the bytes of all granules that were read in. After
//! SECONDS it stops where it is, prints `cut` too, and all numbers are of what was done until then.

mod files;
mod places;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::wait;

/// What goes wrong ends the program.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The end of the time there is.
#[derive(Clone, Copy)]
struct Until(Instant);

impl Until {
    fn is_over(self) -> bool {
        self.0 <= wait::now()
    }
}

/// What a way of reading came to.
#[derive(Debug, Default)]
struct Work {
    bytes: u64,
    /// Of files or of reads, whichever it is about.
    count: usize,
    /// Whether there was more to do than time for it.
    is_cut: bool,
    /// Of all granules that were read in, where that is asked.
    touched_bytes: u64,
    /// How long each read took, where that is asked.
    reads: Vec<Duration>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [seconds, how @ ..] = arguments.as_slice() else {
        return Err("usage: quayfs-bench-reader SECONDS HOW ARGUMENT...".into());
    };
    let seconds = Duration::from_secs(seconds.parse()?);
    let started = wait::now();
    let work = read(how, Until(started + seconds))?;
    tell(&work, started.elapsed())
}

fn read(how: &[&str], until: Until) -> Result<Work> {
    match how {
        ["whole", file] => files::whole(file, until),
        ["random", file, count, threads] => {
            places::random(Path::new(file), count.parse()?, threads.parse()?, until)
        }
        ["streams", file, bytes] => places::streams(Path::new(file), bytes.parse()?, until),
        ["stride", file, step, len, count] => {
            places::stride(Path::new(file), step.parse()?, len.parse()?, count.parse()?, until)
        }
        ["stride-map", file, step, len, count] => {
            places::stride_map(Path::new(file), step.parse()?, len.parse()?, count.parse()?, until)
        }
        ["files", dir, count, order] => files::small(Path::new(dir), count.parse()?, order, until),
        ["output", program, arguments @ ..] => output(program, arguments, until),
        ["timed", program, arguments @ ..] => timed(program, arguments),
        _ => Err(format!("no such way of reading: {how:?}").into()),
    }
}

/// What somebody else's program prints.
fn output(program: &str, arguments: &[&str], until: Until) -> Result<Work> {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
    let mut out = child.stdout.take().expect("asked for above");
    let work = files::drained(&mut out, until)?;
    if work.is_cut {
        child.kill()?;
    }
    let status = child.wait()?;
    if !work.is_cut && !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    Ok(work)
}

/// Somebody else's program, whose output nobody reads; its time is the caller's business.
fn timed(program: &str, arguments: &[&str]) -> Result<Work> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    Ok(Work::default())
}

fn tell(work: &Work, took: Duration) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "micros {}\nbytes {}\ncount {}", took.as_micros(), work.bytes, work.count)?;
    if work.is_cut {
        writeln!(out, "cut 1")?;
    }
    let mut reads = work.reads.clone();
    reads.sort();
    if let Some(last) = reads.len().checked_sub(1) {
        let at = |percent: usize| reads[last * percent / 100].as_micros();
        writeln!(out, "p50 {}\np99 {}\ntouched {}", at(50), at(99), work.touched_bytes)?;
    }
    Ok(())
}
