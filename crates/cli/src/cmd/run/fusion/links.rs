//! Outputs that are links become objects: who takes them from the bucket follows no links.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mount::Outcome;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::pattern::Pattern;
use super::script::Script;

/// Links that become objects at a time: each costs a request or two.
const LINKS_AT_A_TIME: usize = 16;

/// What the folders hold that outputs lead to, all of them together; more of it is no output that anybody meant.
const ENTRIES_MAX: usize = 1_000_000;

/// How deep they are, each folder of which is open while it is looked at.
const DEPTH_MAX: usize = 100;

/// How many links in a row the kernel follows.
const HOPS_MAX: usize = 40;

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
        let target = plan.target(&link).with_context(|| link.display().to_string())?;
        let Some(target) = target else { continue };
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

    /// What `path` leads to, if that is there and below the top. Where nobody can tell, it may be there: a link in
    /// its place would be an output that is missing.
    fn target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        match fs::canonicalize(path) {
            Ok(target) => Ok(Some(target).filter(|target| target.starts_with(self.top))),
            Err(error) if leads_nowhere(&error) || !self.ends_below_top(path) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the way that `path` leads ends below the top. Who cannot go on elsewhere on the host, because it is
    /// forbidden or what is mounted there does not answer, has met what is nobody's output; below the top it is an
    /// output that the store, or a mode, denies.
    fn ends_below_top(&self, path: &Path) -> bool {
        let mut end = path.to_owned();
        for _ in 0..HOPS_MAX {
            let Ok(text) = fs::read_link(&end) else { break };
            end = end.parent().unwrap_or(&end).join(text);
        }
        let reached = end.ancestors().find_map(|above| fs::canonicalize(above).ok());
        reached.is_some_and(|reached| reached.starts_with(self.top))
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
        if let Some(target) = self.target(&entry.path())? {
            symlink(&target, &link)?;
            return self.add(&link, &target);
        }
        // A link that leads elsewhere says the same here; what is gone meanwhile says nothing.
        match fs::read_link(entry.path()) {
            Ok(text) => symlink(text, &link),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a link that cannot be followed for this reason leads to nothing at all.
fn leads_nowhere(error: &io::Error) -> bool {
    let nowhere = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];
    Errno::from_io_error(error).is_some_and(|errno| nowhere.contains(&errno))
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
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::thread;

    use rustix::io::Errno;
    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::super::script::{Input, Script};
    use super::{DEPTH_MAX, Outputs, Plan, leads_nowhere};

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

    #[test]
    fn only_what_is_not_there_is_nowhere() {
        for (errno, want) in [
            (Errno::NOENT, true),
            (Errno::NOTDIR, true),
            (Errno::LOOP, true),
            (Errno::NAMETOOLONG, true),
            (Errno::IO, false),
            (Errno::ACCESS, false),
            (Errno::NOTCONN, false),
            (Errno::INVAL, false),
        ] {
            assert_eq!(leads_nowhere(&io::Error::from(errno)), want, "{errno:?}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_stay_what_they_are() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (folder, link) = (place.join("folder"), place.join("out"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "bytes").unwrap();
        let long = "x".repeat(300);
        let lost = [("lost", "nowhere"), ("loop", "loop"), ("through", "file/x"), ("long", &long)];
        for (name, text) in lost {
            symlink(text, folder.join(name)).unwrap();
        }
        symlink(&folder, &link).unwrap();
        let mut plan = Plan::within(&place);
        plan.add(&link, &folder).unwrap();
        assert_eq!(plan.copies, [(link.join("file"), folder.join("file"))]);
        for (name, text) in lost {
            assert_eq!(fs::read_link(link.join(name)).unwrap(), Path::new(text));
        }
    }

    #[test]
    fn what_must_not_be_looked_at_is_an_error_below_the_top_and_nobodys_output_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let place = place.path().canonicalize().unwrap();
        let (top, elsewhere) = (place.join("top"), place.join("elsewhere"));
        for folder in [&top, &elsewhere] {
            fs::create_dir(folder).unwrap();
            fs::create_dir(folder.join("locked")).unwrap();
            fs::write(folder.join("locked/file"), "bytes").unwrap();
            symlink("locked/file", folder.join("link")).unwrap();
            fs::set_permissions(folder.join("locked"), Permissions::from_mode(0o600)).unwrap();
        }
        symlink(elsewhere.join("link"), top.join("out")).unwrap();
        symlink("../elsewhere/locked/file", top.join("up")).unwrap();
        let looking = || {
            if geteuid().is_root() {
                // Of this thread alone; what it may do goes with it.
                let nobody = Uid::from_raw(65534);
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let plan = Plan::within(&top);
            for name in ["out", "up"] {
                assert_eq!(plan.target(&top.join(name)).unwrap(), None, "{name}");
            }
            for name in ["link", "locked/file"] {
                let error = plan.target(&top.join(name)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}");
            }
        };
        thread::scope(|scope| scope.spawn(looking).join()).unwrap();
        for folder in [&top, &elsewhere] {
            fs::set_permissions(folder.join("locked"), Permissions::from_mode(0o700)).unwrap();
        }
    }
}
