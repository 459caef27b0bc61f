//! Outputs that are links become objects: who takes them from the bucket follows no links.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
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

/// What the folders hold that outputs lead to, all of them together; more of it is no output that anybody meant.
const ENTRIES_MAX: usize = 1_000_000;

/// How deep they are, each folder of which is open while it is looked at.
const DEPTH_MAX: usize = 100;

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
    // The folder of all buckets may be reached through a link, and what outputs lead to is told without.
    let (work, top) = (resolved(work)?, resolved(top)?);
    let links = links_below(&work).with_context(|| format!("cannot list {}", work.display()))?;
    let is_output = |link: &PathBuf| link.strip_prefix(&work).is_ok_and(|path| outputs.has(path));
    let mut plan = Plan::within(&top);
    for link in links.into_iter().filter(is_output) {
        // What leads nowhere, or out of the mount, stays what it is.
        let Some(target) = plan.target(&link) else { continue };
        if target != link {
            plan.add(&link, &target).with_context(|| link.display().to_string())?;
        }
    }
    let copies = Mutex::new(plan.copies.into_iter());
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

fn resolved(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).with_context(|| path.display().to_string())
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

/// Which link gives way to which file.
#[derive(Debug)]
struct Plan<'a> {
    top: &'a Path,
    copies: Vec<(PathBuf, PathBuf)>,
    /// What the folders held that were looked at.
    entries: usize,
    /// The folders that are looked at just now, each in the one before it.
    within: Vec<PathBuf>,
}

impl Plan<'_> {
    /// One in which nothing gives way to what is not below `top`: what is elsewhere on the host is nobody's output.
    fn within(top: &Path) -> Plan<'_> {
        Plan { top, copies: Vec::new(), entries: 0, within: Vec::new() }
    }

    /// What `path` leads to, if that is there and below the top.
    fn target(&self, path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok().filter(|target| target.starts_with(self.top))
    }

    /// Has `link` give way to `target`. A link to a folder becomes a folder of links first, unless that folder is one
    /// of those that it is in: it would have no end.
    fn add(&mut self, link: &Path, target: &Path) -> io::Result<()> {
        let metadata = fs::metadata(target)?;
        if metadata.is_file() {
            self.copies.push((link.to_owned(), target.to_owned()));
        }
        let is_outer = || self.within.iter().any(|outer| outer == target);
        if !metadata.is_dir() || link.starts_with(target) || is_outer() {
            return Ok(());
        }
        if self.within.len() == DEPTH_MAX {
            return Err(io::Error::other(format!(
                "it leads to more than {DEPTH_MAX} folders deep"
            )));
        }
        self.within.push(target.to_owned());
        fs::remove_file(link)?;
        fs::create_dir(link)?;
        for entry in fs::read_dir(target)? {
            if self.entries == ENTRIES_MAX {
                let text = format!("outputs lead to more than {ENTRIES_MAX} files and folders");
                return Err(io::Error::other(text));
            }
            self.entries += 1;
            self.add_inner(link, &entry?)?;
        }
        self.within.pop();
        Ok(())
    }

    /// Has `entry`, in a folder that `folder` gave way to, be there too.
    fn add_inner(&mut self, folder: &Path, entry: &DirEntry) -> io::Result<()> {
        let link = folder.join(entry.file_name());
        if let Some(target) = self.target(&entry.path()) {
            symlink(&target, &link)?;
            return self.add(&link, &target);
        }
        // A link that leads elsewhere says the same here; what is gone meanwhile says nothing.
        match fs::read_link(entry.path()) {
            Ok(text) => symlink(text, &link),
            Err(_) => Ok(()),
        }
    }
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
    use super::{DEPTH_MAX, Outputs, Plan};

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
        let mut plan = Plan::within(&place);
        plan.add(&link, &folder).unwrap();
        assert_eq!(plan.copies, [(link.join("file"), folder.join("file"))]);
    }

    #[test]
    fn a_link_in_a_folder_that_leads_elsewhere_stays_what_it_is() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (top, elsewhere, link) =
            (place.join("top"), place.join("elsewhere"), place.join("out"));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("secret"), "bytes").unwrap();
        symlink(&elsewhere, top.join("folder")).unwrap();
        symlink(elsewhere.join("secret"), top.join("file")).unwrap();
        symlink("nowhere", top.join("lost")).unwrap();
        symlink(&top, &link).unwrap();
        let mut plan = Plan::within(&top);
        plan.add(&link, &top).unwrap();
        assert_eq!(plan.copies, []);
        for (name, want) in [
            ("folder", elsewhere.clone()),
            ("file", elsewhere.join("secret")),
            ("lost", "nowhere".into()),
        ] {
            assert_eq!(fs::read_link(link.join(name)).unwrap(), want);
        }
    }

    #[test]
    fn folders_without_end_are_no_output() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (folder, link) = (place.join("folder"), place.join("out"));
        fs::create_dir_all(folder.join(["d"; DEPTH_MAX].join("/"))).unwrap();
        symlink(&folder, &link).unwrap();
        let error = Plan::within(&place).add(&link, &folder).unwrap_err();
        assert!(error.to_string().contains("folders deep"), "{error}");
    }
}
