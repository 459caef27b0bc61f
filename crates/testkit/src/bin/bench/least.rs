//! The least of file systems over the same library, with its files on the disk where the state folders are.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::{Scratch, run};

use crate::kept::Kept;
use crate::writes::timed;
use crate::{PROBE_WITHIN, beside};

/// How its column is called.
pub(crate) const NAME: &str = "pass-through file system";

/// How the column is called of the same with its files in memory.
pub(crate) const NAME_IN_MEMORY: &str = "pass-through file system over memory";

/// Does the work in it. Returns the seconds that took.
pub(crate) fn through(kept: &mut Kept, work: impl FnOnce(&Path)) -> f64 {
    over(kept.scratch(), work)
}

/// As [`through`], with the files in memory: what the requests of the kernel cost by themselves.
pub(crate) fn in_memory(work: impl FnOnce(&Path)) -> f64 {
    over(&Scratch::in_memory(), work)
}

fn over(scratch: &Scratch, work: impl FnOnce(&Path)) -> f64 {
    let (folder, dir) = (scratch.folder("files"), scratch.folder("mnt"));
    let mut command = Command::new(beside("quayfs-bench-through"));
    let mut server = command.arg(&folder).arg(&dir).stdout(Stdio::piped()).spawn();
    let server = server.as_mut().expect("built together with this program");
    wait_for_line(server);
    let took = timed(|| work(&dir));
    run(Command::new("umount").arg(&dir), PROBE_WITHIN).ok();
    server.wait().expect("the child is ours");
    took
}

fn wait_for_line(server: &mut Child) {
    let pipe = server.stdout.take().expect("asked for above");
    let mut line = String::new();
    BufReader::new(pipe).read_line(&mut line).expect("it says that it is mounted");
    assert_eq!(line.trim(), "mounted");
}
