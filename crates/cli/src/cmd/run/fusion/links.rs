//! Outputs that are links become objects: who takes them from the bucket follows no links.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mount::Outcome;
use parking_lot::Mutex;

use super::pattern::Pattern;
use super::script::Script;

/// Links that become objects at a time: each costs a request or two.
const LINKS_AT_A_TIME: usize = 16;

/// Which of the paths in the folder of a task are outputs.
#[derive(Debug)]
pub(super) struct Outputs {
    patterns: Vec<Pattern>,
    /// Names of inputs: outputs only for who names them.
    inputs: HashSet<PathBuf>,
}

impl Outputs {
    pub(super) fn of(script: &Script) -> Outputs {
        let patterns = script.outputs.iter().map(|text| Pattern::new(text)).collect();
        let inputs = script.inputs.iter().map(|input| input.name.clone()).collect();
        Outputs { patterns, inputs }
    }

    /// Whether nothing is known of them; a task may also have none.
    pub(super) fn are_unknown(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether `path`, in the folder of the task, may be an output: whatever a pattern fits, inputs among it.
    pub(super) fn may_have(&self, path: &Path) -> bool {
        self.patterns.iter().any(|pattern| pattern.covers(path.as_os_str().as_bytes()))
    }

    /// Whether `path`, in the folder of the task, is an output.
    fn has(&self, path: &Path) -> bool {
        let is_input = self.inputs.contains(path);
        let mut patterns = self.patterns.iter().filter(|pattern| !is_input || pattern.is_plain());
        patterns.any(|pattern| pattern.covers(path.as_os_str().as_bytes()))
    }
}

/// Turns the links in the folder `work` that are outputs, and lead to somewhere in the mount at `top`, into
/// what they lead to.
pub(super) fn to_objects(work: &Path, top: &Path, outputs: &Outputs) -> Result<()> {
    if outputs.are_unknown() {
        return Ok(());
    }
    let links = links_below(work).with_context(|| format!("cannot list {}", work.display()))?;
    let is_output = |link: &PathBuf| link.strip_prefix(work).is_ok_and(|path| outputs.has(path));
    let mut copies = Vec::new();
    for link in links.into_iter().filter(is_output) {
        // What leads nowhere, or out of the mount, stays what it is.
        let Ok(target) = fs::canonicalize(&link) else { continue };
        if target.starts_with(top) && target != link {
            let mut within = Vec::new();
            plan((&link, &target), &mut within, &mut copies)
                .with_context(|| link.display().to_string())?;
        }
    }
    let copies = Mutex::new(copies.into_iter());
    std::thread::scope(|scope| {
        let copy_next = || {
            while let Some((link, target)) = next(&copies) {
                copy(&link, &target)
                    .with_context(|| format!("cannot copy {}", target.display()))?;
            }
            anyhow::Ok(())
        };
        let threads: Vec<_> = (0..LINKS_AT_A_TIME).map(|_| scope.spawn(copy_next)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

fn next<T>(of: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    of.lock().next()
}

/// All links below `folder`.
fn links_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut links, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                links.push(entry.path());
            } else if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(links)
}

/// Says of each file which link gives way to it. A link to a folder becomes a folder of links first, unless that
/// folder is one of those that it is `within`: it would have no end.
fn plan(
    (link, target): (&Path, &Path),
    within: &mut Vec<PathBuf>,
    copies: &mut Vec<(PathBuf, PathBuf)>,
) -> io::Result<()> {
    let metadata = fs::metadata(target)?;
    if metadata.is_file() {
        copies.push((link.to_owned(), target.to_owned()));
    }
    if !metadata.is_dir() || link.starts_with(target) || within.iter().any(|outer| outer == target)
    {
        return Ok(());
    }
    within.push(target.to_owned());
    fs::remove_file(link)?;
    fs::create_dir(link)?;
    for entry in fs::read_dir(target)? {
        let entry = entry?;
        let inner = link.join(entry.file_name());
        let Ok(target) = fs::canonicalize(entry.path()) else { continue };
        symlink(&target, &inner)?;
        plan((&inner, &target), within, copies)?;
    }
    within.pop();
    Ok(())
}

/// The store copies, if both are in one bucket; else the bytes go through here.
fn copy(link: &Path, target: &Path) -> Result<()> {
    let reason = match mount::copy_over_link(link, target) {
        Ok(Outcome::Copied {}) => return Ok(()),
        Ok(refused) => refused.reason(),
        Err(error) => error.to_string(),
    };
    if !fs::symlink_metadata(link).is_ok_and(|link| link.is_symlink()) {
        bail!("{reason}");
    }
    let name = link.file_name().context("a link has a name")?.to_string_lossy();
    let beside = link.with_file_name(format!(".copying-{name}"));
    let mut from = File::open(target)?;
    let mut to = File::create(&beside)?;
    io::copy(&mut from, &mut to)?;
    to.set_permissions(from.metadata()?.permissions())?;
    drop(to);
    Ok(fs::rename(&beside, link)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::super::script::{Input, Script};
    use super::{Outputs, plan};

    #[test]
    fn inputs_are_outputs_only_by_their_names() {
        let input = |name: &str| Input { from: "/x".into(), name: name.into() };
        let script = Script {
            inputs: vec![input("a.bam"), input("b.bam")],
            outputs: vec!["*.bam".to_owned(), "b.bam".to_owned()],
            staged_by: None,
        };
        let outputs = Outputs::of(&script);
        for (path, want) in [("a.bam", false), ("b.bam", true), ("c.bam", true), ("c.bai", false)] {
            assert_eq!(outputs.has(Path::new(path)), want, "{path}");
        }
    }

    #[test]
    fn a_folder_that_leads_to_itself_is_taken_once() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (folder, link) = (place.join("folder"), place.join("work/out"));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::create_dir(place.join("work")).unwrap();
        fs::write(folder.join("file"), "bytes").unwrap();
        for name in ["self", "again"] {
            symlink(".", folder.join(name)).unwrap();
        }
        symlink("..", folder.join("inner/up")).unwrap();
        symlink(&folder, &link).unwrap();
        let mut copies = Vec::new();
        plan((&link, &folder), &mut Vec::new(), &mut copies).unwrap();
        assert_eq!(copies, [(link.join("file"), folder.join("file"))]);
    }
}
