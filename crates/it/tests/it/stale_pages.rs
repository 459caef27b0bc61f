//! Reads through the kernel's page cache after a close, beside readers that fill that cache all the time.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use testkit::{AsyncWrites, Mount, Plan, Scratch, close, is_long, read_at, write_new};

const LEN: usize = 640 << 10;
const READERS: usize = 2;

/// How the file is written in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    Buffered,
    Direct,
    DirectAsync,
}

/// Whether a reader has the file open all the time. The mode in which the kernel reads it then stays to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Earlier {
    Open,
    None,
}

#[derive(Debug)]
struct Case {
    writes: Writes,
    /// Flags of the readers that fill the page cache.
    reads: OFlags,
    earlier: Earlier,
}

#[test]
fn close_leaves_no_stale_pages() {
    check_all(&[]);
}

#[test]
fn close_leaves_no_stale_pages_without_passthrough() {
    check_all(&["--no-passthrough"]);
}

/// Each kind of write beside each kind of reader. Asynchronous direct writes get most of the time.
fn check_all(flags: &[&str]) {
    let objects = Scratch::new();
    let url = format!("file://{}", objects.path().display());
    let mount = Plan::of_url(&url).flags(flags).mount();
    let unit = if is_long() { Duration::from_secs(20) } else { Duration::from_millis(600) };
    for (writes, units) in [(Writes::DirectAsync, 3), (Writes::Direct, 1), (Writes::Buffered, 1)] {
        for reads in [OFlags::RDONLY, OFlags::RDWR] {
            for earlier in [Earlier::Open, Earlier::None] {
                check(&mount, &Case { writes, reads, earlier }, unit * units);
            }
        }
    }
}

/// Rewrites a file for a while, and reads it after each close through a descriptor from before and through a new one.
fn check(mount: &Mount, case: &Case, time: Duration) {
    let Case { writes, reads, earlier } = *case;
    let path = mount.join(format!("{writes:?}-{}-{earlier:?}", reads.bits()));
    let sides = [vec![0x55; LEN], vec![0xaa; LEN]];
    write_new(&path, &sides[0]).unwrap();
    let old = match earlier {
        Earlier::Open => Some(File::open(&path).unwrap()),
        Earlier::None => None,
    };
    let queue = AsyncWrites::new().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| read_until(&is_over, &path, reads));
        }
        // Also where this one fails.
        let _ends = Ends(&is_over);
        let begun = testkit::wait::now();
        let mut rounds = 0;
        while begun.elapsed() < time {
            rounds += 1;
            let want = &sides[rounds % 2];
            rewrite(&path, want, writes, &queue);
            let new = File::open(&path).unwrap();
            for (name, file) in [("before", old.as_ref()), ("after", Some(&new))] {
                let Some(file) = file else { continue };
                let got = read_at(file, 0, LEN).unwrap();
                let stale = got.iter().zip(want).filter(|(got, want)| got != want).count();
                assert_eq!(
                    (got.len(), stale),
                    (LEN, 0),
                    "{case:?}, round {rounds}: stale bytes through a descriptor from {name} the close",
                );
            }
        }
    });
}

fn rewrite(path: &Path, bytes: &[u8], writes: Writes, queue: &AsyncWrites) {
    let flags = match writes {
        Writes::Buffered => OFlags::empty(),
        Writes::Direct | Writes::DirectAsync => OFlags::DIRECT,
    };
    let file = opened(path, OFlags::RDWR | flags);
    match writes {
        Writes::Buffered | Writes::Direct => file.write_all_at(bytes, 0).unwrap(),
        Writes::DirectAsync => {
            assert_eq!(queue.write_at(&file, 0, bytes).unwrap(), bytes.len());
        }
    }
    close(file).unwrap();
}

fn read_until(is_over: &AtomicBool, path: &Path, flags: OFlags) {
    while !is_over.load(Ordering::Relaxed) {
        let file = opened(path, flags);
        assert_eq!(read_at(&file, 0, LEN).unwrap().len(), LEN);
        close(file).unwrap();
    }
}

fn opened(path: &Path, flags: OFlags) -> File {
    let access = flags & OFlags::ACCMODE;
    OpenOptions::new()
        .read(true)
        .write(access == OFlags::RDWR)
        .custom_flags(i32::try_from((flags - access).bits()).expect("flags are an i32"))
        .open(path)
        .unwrap()
}

/// Has readers stop when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
