//! A mount beside a folder of the local disk: whatever programs, other clients and crashes do to both,
//! they are alike.
//!
//! A failure prints the fewest operations that still fail, a line each: they become a test of their own
//! in [`recorded`](crate::recorded).

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::lchown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use testkit::posix::{Op, Player, Verb, beginning, difference, ops, tree};
use testkit::{Bucket, MinIo, Mount, Plan, Scratch, is_long, noise};

/// Nothing is believed for any time, so that what others do is seen at once; and nearly nothing is
/// cached, so that much is fetched again.
pub(crate) const FLAGS: [&str; 5] =
    ["--metadata-ttl", "0s", "--cache-size", "1MiB", "--trusted-xattrs"];

const OPS_MAX: usize = 60;
const CASES_SHORT: u32 = 40;
const CASES_LONG: u32 = 1000;
const PLAYERS_LONG: u32 = 4;
const SHRINKS_MAX: u32 = 1000;
const SHRINK_MS_MAX: u32 = 120_000;

/// When a close returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// When the bucket has the bytes.
    Close,
    /// When they are safe here.
    Async,
}

#[test]
fn a_mount_and_a_local_folder_are_alike_whatever_is_done_to_both() {
    are_alike(Commit::Close, if is_long() { CASES_LONG } else { CASES_SHORT });
}

#[test]
fn they_are_alike_when_closes_do_not_wait_for_the_bucket() {
    are_alike(Commit::Async, if is_long() { CASES_LONG } else { CASES_SHORT / 2 });
}

/// The cases, by several at a time if they are many: mounts and remounts are mostly waited for.
fn are_alike(commit: Commit, cases: u32) {
    let players = if is_long() { PLAYERS_LONG } else { 1 };
    thread::scope(|scope| {
        for _ in 0..players {
            scope.spawn(|| stay_alike(&|| mounted(commit), commit, cases / players));
        }
    });
}

fn mounted(commit: Commit) -> (Bucket<'static>, Mount) {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).flags(FLAGS);
    let mount = match commit {
        Commit::Close => plan.mount(),
        Commit::Async => plan.flags(["--commit", "async", "--upload-delay", "100ms"]).mount(),
    };
    (bucket, mount)
}

/// Plays cases on mounts that `mounted` makes, each of a bucket of its own.
pub(crate) fn stay_alike<'a>(
    mounted: &dyn Fn() -> (Bucket<'a>, Mount),
    commit: Commit,
    cases: u32,
) {
    let rig = RefCell::new(Rig::new(mounted(), commit));
    let config = Config {
        cases,
        max_shrink_iters: SHRINKS_MAX,
        max_shrink_time: SHRINK_MS_MAX,
        failure_persistence: None,
        ..Config::default()
    };
    // The short form is the same each time; the long one looks for what nobody has seen yet.
    let mut runner = if is_long() {
        TestRunner::new(config)
    } else {
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
    };
    let result = runner.run(&ops(OPS_MAX), |ops| {
        // A panic, such as that of an unmount that fails, is a failure too. What it left is not to be
        // in the way of the next try.
        let played = catch_unwind(AssertUnwindSafe(|| rig.borrow_mut().play(&ops)));
        let failed = match played {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(difference)) => difference,
            Err(panic) => panic.downcast_ref::<String>().map_or("a panic", |text| text).to_owned(),
        };
        *rig.borrow_mut() = Rig::new(mounted(), commit);
        Err(TestCaseError::fail(failed))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(difference, ops)) => {
            let lines: Vec<String> = ops.iter().map(Op::to_string).collect();
            panic!("{difference}\nafter\n{}\n", lines.join("\n"));
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Plays operations that were recorded, a line each, on a mount of its own.
pub(crate) fn replay(lines: &str) {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let ops: Vec<Op> = lines.map(|line| line.parse().unwrap()).collect();
    Rig::new(mounted(Commit::Close), Commit::Close).play(&ops).unwrap();
}

/// A mount and a local folder, for one case after the other.
struct Rig<'a> {
    commit: Commit,
    bucket: Bucket<'a>,
    // Gone only while it is mounted again.
    mount: Option<Mount>,
    local: Scratch,
    cases: u32,
}

/// One case: a folder of its own on both sides.
struct Case<'r, 'a> {
    rig: &'r mut Rig<'a>,
    name: String,
    there: Player,
    here: Player,
}

impl<'a> Rig<'a> {
    fn new((bucket, mount): (Bucket<'a>, Mount), commit: Commit) -> Rig<'a> {
        Rig { commit, bucket, mount: Some(mount), local: Scratch::new(), cases: 0 }
    }

    fn mount(&self) -> &Mount {
        self.mount.as_ref().expect("mounted")
    }

    /// Plays `ops` on both sides; the error is the first difference.
    fn play(&mut self, ops: &[Op]) -> Result<(), String> {
        self.cases += 1;
        let name = format!("case-{}", self.cases);
        let (there, here) = (self.mount().join(&name), self.local.path().join(&name));
        for folder in [&there, &here] {
            fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let (there, here) = (Player::new(&there), Player::new(&here));
        let mut case = Case { rig: self, name, there, here };
        for op in beginning() {
            case.step(&op).map_err(|difference| format!("{op}: {difference}"))?;
        }
        for (place, op) in ops.iter().enumerate() {
            case.step(op).map_err(|difference| format!("{place}: {op}: {difference}"))?;
        }
        case.rest("at the end")
    }
}

impl Case<'_, '_> {
    fn step(&mut self, op: &Op) -> Result<(), String> {
        if matches!(op.verb, Verb::TheyPut | Verb::TheyDelete) && self.rig.commit == Commit::Async {
            // They change what they see.
            sync_folders(self.there.root());
        }
        if op.verb == Verb::TheyPut {
            self.they_put(op);
        } else if op.verb == Verb::TheyDelete {
            self.they_delete(op);
        } else if op.verb == Verb::Remount {
            self.rest("before the unmount")?;
            let mount = self.rig.mount.take().expect("mounted");
            self.rig.mount = Some(mount.umount().mount());
            self.rest("after the remount")?;
        } else if op.verb == Verb::Kill {
            self.rest("before the kill")?;
            let mount = self.rig.mount.take().expect("mounted");
            mount.kill();
            self.rig.mount = Some(mount.abandon().mount());
            self.rest("after the kill")?;
        } else {
            let (want, outcome) = (self.here.play(op), self.there.play(op));
            if want != outcome {
                return Err(format!("{outcome:?} on the mount, {want:?} on the local disk"));
            }
        }
        Ok(())
    }

    /// Nobody has a file open, and both sides are alike.
    fn rest(&mut self, when: &str) -> Result<(), String> {
        let (want, closed) = (self.here.let_go(), self.there.let_go());
        if want != closed {
            return Err(format!("{when}, closing: {closed:?}, not {want:?}"));
        }
        match difference(&tree(self.here.root()), &tree(self.there.root())) {
            None => Ok(()),
            Some(difference) => Err(format!("{when}: {difference}")),
        }
    }

    fn they_put(&self, op: &Op) {
        let path = self.here.root().join(&op.path);
        // Folders that exist by their keys only, and open files that others replace, are the business
        // of other tests.
        if !self.lies_in_folders(&op.path) || path.is_dir() || self.here.holds(&op.path) {
            return;
        }
        let bytes = noise(u64::from(op.seed), usize::try_from(op.len).expect("small"));
        self.rig.bucket.put(&format!("{}/{}", self.name, op.path), &bytes);
        // A new file, as the new object is: nothing of the one before it is left.
        as_others(&path, || {
            if path.symlink_metadata().is_ok() {
                fs::remove_file(&path).expect("it is no folder");
            }
            fs::write(&path, &bytes).expect("the folder is there");
            // A bucket has no set-gid folders: what others put there belongs to who mounted.
            lchown(&path, Some(0), Some(0)).expect("the file is ours");
        });
    }

    fn they_delete(&self, op: &Op) {
        let path = self.here.root().join(&op.path);
        let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_file || !self.lies_in_folders(&op.path) || self.here.holds(&op.path) {
            return;
        }
        self.rig.bucket.delete(&format!("{}/{}", self.name, op.path));
        as_others(&path, || fs::remove_file(&path).expect("it is there"));
    }

    /// Whether what `path` lies in is folders all the way, and no links.
    fn lies_in_folders(&self, path: &str) -> bool {
        let mut folders = Path::new(path).ancestors().skip(1);
        folders.all(|folder| {
            let there = self.here.root().join(folder).symlink_metadata();
            there.is_ok_and(|metadata| metadata.is_dir())
        })
    }
}

/// Waits until the bucket has what is in `folder`, and below it.
fn sync_folders(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("it can be listed");
        if entry.file_type().expect("it is known").is_dir() {
            sync_folders(&entry.path());
        }
    }
    fs::File::open(folder).and_then(|folder| folder.sync_all()).expect("the store answers");
}

/// Changes the folder of `path` on the local disk as others change a bucket: without a new time.
fn as_others(path: &Path, change: impl FnOnce()) {
    use std::os::unix::fs::MetadataExt;

    let folder = path.parent().expect("below the root");
    let before = fs::metadata(folder).expect("it is there");
    change();
    let time = |secs, nanos| Timespec { tv_sec: secs, tv_nsec: nanos };
    let times = Timestamps {
        last_access: time(before.atime(), before.atime_nsec()),
        last_modification: time(before.mtime(), before.mtime_nsec()),
    };
    utimensat(CWD, folder, &times, AtFlags::empty()).expect("the folder is ours");
}
