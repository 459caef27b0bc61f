//! A real Nextflow with real tools: its work folder on a mount, and its tasks by the launcher.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Bucket, MinIo, Plan, Scratch, is_long, nextflow, noise, root_folder, run};

use crate::fusion::Launcher;

/// A run with all its tasks, on a machine that is busy.
const WITHIN: Duration = Duration::from_mins(8);

/// Five tasks each, and two more.
fn samples() -> usize {
    if is_long() { 12 } else { 2 }
}

/// What the pipeline needs, below a folder that is a bucket.
struct Pipeline {
    bucket: PathBuf,
    home: Scratch,
}

/// What a run of the pipeline said it did.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    submitted: usize,
    cached: usize,
}

impl Pipeline {
    /// Puts the pipeline itself, with its scripts, and the data into the bucket, through the mount.
    fn new(bucket: &Path) -> Pipeline {
        let from = root_folder().join("crates/it/nextflow");
        let (project, home) = (bucket.join("project"), Scratch::new());
        fs::create_dir_all(project.join("bin")).unwrap();
        for name in ["main.nf", "bin/count-calls.sh"] {
            fs::copy(from.join(name), project.join(name)).unwrap();
        }
        let letters = noise(7, 30_000).iter().map(|byte| b"ACGT"[usize::from(byte % 4)]).collect();
        let sequence = String::from_utf8(letters).unwrap();
        fs::create_dir(bucket.join("data")).unwrap();
        fs::write(bucket.join("data/reference.fa"), format!(">chr1\n{sequence}\n")).unwrap();
        Pipeline { bucket: bucket.to_owned(), home }
    }

    fn run(&self, java: Command, config: &str, more: &[&str]) -> Done {
        let mut command = nextflow(java, &self.home.path().join("home"));
        command.current_dir(self.home.path());
        command.arg("run").arg(self.bucket.join("project/main.nf"));
        command.arg("-c").arg(root_folder().join("crates/it/nextflow").join(config));
        command.arg("-work-dir").arg(self.bucket.join("work"));
        command.arg("--out").arg(self.bucket.join("results"));
        command.arg("--reference").arg(self.bucket.join("data/reference.fa"));
        command.args(["--samples", &samples().to_string()]).args(more);
        let finished = run(&mut command, WITHIN);
        let log = fs::read_to_string(self.home.path().join(".nextflow.log")).unwrap_or_default();
        assert!(finished.status.success(), "{}\n{log}", finished.report());
        let count = |word: &str| finished.stdout.lines().filter(|line| line.contains(word)).count();
        // One that is tried again is re-submitted.
        Done { submitted: count("ubmitted process"), cached: count("] Cached process") }
    }
}

/// What the pipeline published, by another client.
fn check_results(bucket: &Bucket<'_>) {
    let names = (1..=samples()).map(|number| format!("s{number}.vcf.gz")).collect::<Vec<_>>();
    let mut lines: Vec<String> = names.iter().map(|name| format!("{name} calls\n")).collect();
    lines.sort();
    let summary = bucket.get("results/summary.txt").unwrap();
    // The task that was killed won when it was tried again.
    assert_eq!(String::from_utf8(summary).unwrap(), format!("{}2\n", lines.concat()));
    for name in names {
        let calls = bucket.get(&format!("results/calls/{name}")).unwrap();
        assert_eq!(calls[..2], [0x1f, 0x8b], "{name} is compressed");
    }
}

/// The files of each task, by its folder.
fn tasks(bucket: &Bucket<'_>) -> BTreeMap<String, Vec<String>> {
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in bucket.keys() {
        let mut parts = key.splitn(4, '/');
        if let (Some("work"), Some(first), Some(second), Some(name)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            tasks.entry(format!("work/{first}/{second}")).or_default().push(name.to_owned());
        }
    }
    tasks.retain(|_, names| names.iter().any(|name| name == ".command.run"));
    tasks
}

#[test]
fn a_work_folder_on_a_mount_is_as_good_as_one_on_a_disk() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(["--profile", "pipeline"]).mount();
    let pipeline = Pipeline::new(mount.path());
    let java = || mount.plan().other_command(OsStr::new("java"));
    let all = 5 * samples() + 2;
    // The one that is killed is submitted twice.
    let done = pipeline.run(java(), "local.config", &[]);
    assert_eq!(done, Done { submitted: all + 1, cached: 0 });
    let again = pipeline.run(java(), "local.config", &["-resume"]);
    assert_eq!(again, Done { submitted: 0, cached: all });
    mount.umount();
    check_results(&bucket);
}

#[test]
fn tasks_by_the_launcher_have_mounts_of_their_own_and_leave_all_in_the_bucket() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    fs::create_dir(launcher.top()).unwrap();
    // What starts tasks closes their scripts in the bucket before they begin on other hosts.
    let head = Plan::of(&bucket).instead_of_url("all").at(&launcher.top()).mount();
    let pipeline = Pipeline::new(&launcher.top().join("s3").join(bucket.name()));
    let jobs = pipeline.home.folder("jobs");
    let cluster = root_folder().join("crates/it/nextflow/cluster");
    let java = || {
        let mut java = launcher.plan().other_command(OsStr::new("bash"));
        java.args(["-c", r#"PATH=$0:$PATH exec java "$@""#]).arg(&cluster);
        java.env("JOBS", &jobs).env("TOP", launcher.top()).env("LAUNCHER", launcher.program());
        java
    };
    let all = 5 * samples() + 2;
    let done = pipeline.run(java(), "launcher.config", &[]);
    assert_eq!(done, Done { submitted: all + 1, cached: 0 });
    let again = pipeline.run(java(), "launcher.config", &["-resume"]);
    assert_eq!(again, Done { submitted: 0, cached: all });
    head.umount();
    check_results(&bucket);

    let tasks = tasks(&bucket);
    assert_eq!(tasks.len(), all + 1);
    let has = |names: &[String], name: &str| names.iter().any(|other| other == name);
    let ended = tasks.values().filter(|names| has(names, ".exitcode")).count();
    assert_eq!(ended, tasks.len() - 1, "the one that was killed has left no status");
    let mut passed = 0;
    for (folder, names) in &tasks {
        assert!(has(names, ".command.log") && has(names, ".command.begin"), "{folder}: {names:?}");
        // Who takes it as an input has a link to it.
        if has(names, "passed.bam") && !names.iter().any(|name| name.ends_with(".vcf.gz")) {
            let object = bucket.get(&format!("{folder}/passed.bam")).unwrap();
            assert_eq!(object[..2], [0x1f, 0x8b], "an object, and not where a link leads");
            passed += 1;
        }
    }
    assert_eq!(passed, samples());
}
