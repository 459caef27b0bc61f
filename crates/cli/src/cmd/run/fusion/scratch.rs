//! What a task made and nobody takes from it: removed before it is uploaded, if that is wished.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::hold;
use super::links::Outputs;
use crate::complain;

/// Where the status of a task is.
pub(super) const STATUS: &str = ".exitcode";

/// What is about a task, and not of it, begins with this.
const ABOUT: &[u8] = b".command.";

/// Uploads wait for longer than any task takes: until it is known what is to be removed.
pub(super) const UPLOAD_DELAY: &str = "8760h";

/// Removes what is in the folder `work` of a task, and is neither an output nor about the task. Of a task whose
/// outputs are not known everything stays, and what cannot be removed is uploaded.
pub(super) fn remove(work: &Path, outputs: &Outputs) {
    if !outputs.are_unknown()
        && let Err(error) = remove_below(work, work, outputs)
    {
        complain(&format!("some of {} is uploaded that is no output: {error}", work.display()));
    }
}

/// Removes all that it can; returns what went wrong first.
fn remove_below(folder: &Path, work: &Path, outputs: &Outputs) -> io::Result<()> {
    let mut removed = Ok(());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let within = path.strip_prefix(work).map_err(io::Error::other)?;
        if outputs.may_have(within) || folder == work && is_about(&entry.file_name()) {
            continue;
        }
        removed = removed.and(if entry.file_type()?.is_dir() {
            let below = remove_below(&path, work, outputs);
            // One with an output in it stays.
            below.and(unless(io::ErrorKind::DirectoryNotEmpty, fs::remove_dir(&path)))
        } else {
            // A process that the task left behind may have been first.
            unless(io::ErrorKind::NotFound, fs::remove_file(&path))
        });
    }
    removed
}

fn unless(kind: io::ErrorKind, done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == kind => Ok(()),
        done => done,
    }
}

fn is_about(name: &OsStr) -> bool {
    name == STATUS || name == hold::NAME || name.as_encoded_bytes().starts_with(ABOUT)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::script::{Input, Script};
    use super::{Outputs, remove};

    #[test]
    fn outputs_and_what_is_about_the_task_stay() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path();
        for name in [
            ".command.run",
            ".exitcode",
            ".exitcode.held",
            "a.bam",
            "b.tmp",
            "d/e/f.bam",
            "d/g",
            "h/i",
            "j/k",
            "x[1].txt",
            "\u{e9}\u{f1}.v",
        ] {
            let path = work.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        symlink("a.bam", work.join("input")).unwrap();
        let left = || {
            let found = walk(work);
            found.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        let all = left();
        remove(work, &Outputs::of(&Script::default()));
        assert_eq!(left(), all, "nothing is known of its outputs");
        let outputs = ["*.bam", "d/e/*", "h/", "x[1].txt", "./\u{e9}?.v", "in*"].map(str::to_owned);
        let input = Input { from: "/elsewhere".into(), name: "input".into() };
        let script = Script { outputs: outputs.to_vec(), inputs: vec![input], ..Script::default() };
        remove(work, &Outputs::of(&script));
        let want = ".command.run .exitcode .exitcode.held a.bam d d/e d/e/f.bam h h/i input x[1].txt \u{e9}\u{f1}.v";
        assert_eq!(left(), want);
    }

    fn walk(work: &std::path::Path) -> Vec<String> {
        let (mut found, mut folders) = (Vec::new(), vec![work.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                found.push(path.strip_prefix(work).unwrap().to_str().unwrap().to_owned());
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path);
                }
            }
        }
        found.sort();
        found
    }
}
