//! The few things tests do to files, with every error reported, that of `close` included.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::command::run;
use crate::place::{Scratch, set_mode};

/// A line for each link, as `sha256sum` has them of files.
const SUM_LINKS: &str =
    r#"for link; do sum=$(readlink -n "$link" | sha256sum); echo "${sum%% *}  $link"; done"#;

const COMMAND_WITHIN: Duration = Duration::from_mins(5);

/// Closes `file` and says how that went, which dropping it does not.
pub fn close(file: File) -> io::Result<()> {
    let fd = file.into_raw_fd();
    // SAFETY: `into_raw_fd` gave the descriptor to us alone, and we do not use it after this.
    unsafe { rustix::io::try_close(fd) }?;
    Ok(())
}

/// Makes the file, which must not be there yet, writes and closes it.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    close(file)
}

/// Replaces what is in the file, or makes it.
pub fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    close(file)
}

/// Adds to the end of the file.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(bytes)?;
    close(file)
}

/// Copies a program, with its mode, for somebody to run. By another process: what a child of some other test
/// has open for writing, for the moment until it is a program of its own, cannot be run.
pub fn copy_program(from: &Path, to: &Path) {
    run(Command::new("cp").arg(from).arg(to), COMMAND_WITHIN).ok();
}

/// Makes a program of this text that only its owner may run; as [`copy_program`].
pub fn write_program(path: &Path, text: &str) {
    let folder = Scratch::new();
    let written = folder.path().join("program");
    std::fs::write(&written, text).expect("the temporary folder takes a file");
    set_mode(&written, 0o700);
    copy_program(&written, path);
}

/// The `len` bytes at `offset`, fewer at the end of the file.
pub fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Asks the kernel to forget the clean pages of an open file, so that the next read is asked for.
pub fn forget_pages(file: &File) {
    fadvise(file, 0, None, Advice::DontNeed).expect("any file takes advice");
}

/// Asserts that two folders hold the same names with the same bytes, by somebody else's judgement.
pub fn same_trees(one: &Path, other: &Path) {
    run(Command::new("diff").arg("-r").args([one, other]), COMMAND_WITHIN).ok();
}

/// The SHA-256 of every file below `folder`, and of the target of every link, by its path in there.
pub fn sha256_tree(folder: &Path) -> BTreeMap<String, String> {
    let sums = |kind: &str, program: &[&str]| {
        let mut command = Command::new("find");
        command.args([".", "-type", kind, "-exec"]).args(program).args(["{}", "+"]);
        run(command.current_dir(folder), COMMAND_WITHIN).ok().to_owned()
    };
    let files = sums("f", &["sha256sum"]);
    let links = sums("l", &["sh", "-c", SUM_LINKS, "sh"]);
    files
        .lines()
        .chain(links.lines())
        .map(|line| {
            let (sum, path) = line.split_once("  ./").expect("a sum, two spaces, a path");
            (path.to_owned(), sum.to_owned())
        })
        .collect()
}
