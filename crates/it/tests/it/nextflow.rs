//! A real Nextflow with real tools: its work folder on a mount, and its tasks by the launcher.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{
    Bucket, Containers, MinIo, Plan, Scratch, is_long, nextflow, nextflow_of_buckets, noise,
    root_folder, run,
};

use crate::fusion::Launcher;

/// A run with all its tasks, on a machine that is busy.
const WITHIN: Duration = Duration::from_mins(12);
const SAMPLES_IN_CONTAINERS: usize = 8;
const SAMPLES_AT_LENGTH: usize = 17;

/// What begins a world with a folder of another one at `/fusion`.
const AT_FUSION: &str = r#"
    mount --bind "$0" /fusion
    findmnt --raw --noheadings --types fuse.quayfs --output TARGET | grep -vx /fusion |
        while read -r dir; do umount --lazy "$dir" || ! mountpoint --quiet "$dir"; done
    exec java "$@"
"#;

/// The pipeline, and where it finds and leaves files.
struct Pipeline {
    samples: usize,
    project: PathBuf,
    // A folder or a URL.
    bucket: String,
    home: Scratch,
}

/// What a run of the pipeline said it did.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    submitted: usize,
    cached: usize,
}

/// As many as asked for, or, where there is time, enough for more than a hundred tasks.
fn samples(short: usize) -> usize {
    if is_long() { SAMPLES_AT_LENGTH } else { short }
}

fn settings_folder() -> PathBuf {
    root_folder().join("crates/it/nextflow")
}

/// What all samples are made from.
fn reference() -> String {
    let letters = noise(7, 30_000).iter().map(|byte| b"ACGT"[usize::from(byte % 4)]).collect();
    format!(">chr1\n{}\n", String::from_utf8(letters).unwrap())
}

/// Puts the pipeline itself, with its scripts, into a folder.
fn install(project: &Path) {
    fs::create_dir_all(project.join("bin")).unwrap();
    for name in ["main.nf", "bin/count-calls.sh"] {
        fs::copy(settings_folder().join(name), project.join(name)).unwrap();
    }
}

impl Pipeline {
    /// With all in the bucket, which is a folder.
    fn in_folder(samples: usize, bucket: &Path) -> Pipeline {
        let project = bucket.join("project");
        install(&project);
        fs::create_dir(bucket.join("data")).unwrap();
        fs::write(bucket.join("data/reference.fa"), reference()).unwrap();
        let bucket = bucket.to_str().unwrap().to_owned();
        Pipeline { samples, project, bucket, home: Scratch::new() }
    }

    /// With all in the bucket, for a head that asks the store for it; what begins it is here as well.
    fn of_bucket(samples: usize, bucket: &Bucket<'_>) -> Pipeline {
        let mount = Plan::of(bucket).mount();
        let pipeline = Pipeline::in_folder(samples, mount.path());
        mount.umount();
        let project = pipeline.home.folder("project");
        install(&project);
        Pipeline { project, bucket: bucket.url(), ..pipeline }
    }

    /// The same, told by another path.
    fn seen_at(self, bucket: &Path) -> Pipeline {
        Pipeline {
            project: bucket.join("project"),
            bucket: bucket.to_str().unwrap().to_owned(),
            ..self
        }
    }

    /// How many tasks it has; the one that is killed is submitted twice.
    fn tasks(&self) -> usize {
        6 * self.samples + 3
    }

    fn home(&self) -> PathBuf {
        self.home.folder("home")
    }

    fn run(&self, mut command: Command, config: &str, more: &[&str]) -> Done {
        let bucket = &self.bucket;
        command.current_dir(self.home.path());
        command.arg("run").arg(self.project.join("main.nf"));
        command.arg("-c").arg(settings_folder().join(config));
        command.args(["-work-dir", &format!("{bucket}/work")]);
        command.args(["--out", &format!("{bucket}/results")]);
        command.args(["--reference", &format!("{bucket}/data/reference.fa")]);
        command.args(["--samples", &self.samples.to_string()]).args(more);
        let finished = run(&mut command, WITHIN);
        let log = fs::read_to_string(self.home.path().join(".nextflow.log")).unwrap_or_default();
        assert!(finished.status.success(), "{}\n{log}", finished.report());
        let count = |word: &str| finished.stdout.lines().filter(|line| line.contains(word)).count();
        // One that is tried again is re-submitted.
        Done { submitted: count("ubmitted process"), cached: count("] Cached process") }
    }

    /// Runs it, and once more, when nothing is left to do.
    fn run_and_resume(&self, command: impl Fn() -> Command, config: &str) {
        let done = self.run(command(), config, &[]);
        assert_eq!(done, Done { submitted: self.tasks() + 1, cached: 0 });
        let again = self.run(command(), config, &["-resume"]);
        assert_eq!(again, Done { submitted: 0, cached: self.tasks() });
    }

    /// What it published, by another client.
    fn check_results(&self, bucket: &Bucket<'_>) {
        let names = (1..=self.samples).map(|number| format!("s{number}"));
        let names = names.collect::<Vec<_>>();
        let mut lines: Vec<String> =
            names.iter().map(|name| format!("{name}.vcf.gz calls\n")).collect();
        lines.sort();
        let summary = bucket.get("results/summary.txt").unwrap();
        // The task that was killed won when it was tried again.
        assert_eq!(String::from_utf8(summary).unwrap(), format!("{}2\n", lines.concat()));
        let get = |name: &str| bucket.get(&format!("results/{name}")).unwrap();
        for name in names {
            // The second is what the output of its task is a link to.
            for compressed in [format!("calls/{name}.vcf.gz"), format!("passed/{name}.bam")] {
                assert_eq!(get(&compressed)[..2], [0x1f, 0x8b], "{compressed}");
            }
            let counts = String::from_utf8(get(&format!("counts/{name}.sf"))).unwrap();
            assert_eq!(counts.lines().count(), 7, "a heading, and six transcripts: {counts}");
        }
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

/// What tasks that the launcher ran have left.
fn check_tasks(bucket: &Bucket<'_>, pipeline: &Pipeline) {
    let tasks = tasks(bucket);
    assert_eq!(tasks.len(), pipeline.tasks() + 1);
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
    assert_eq!(passed, pipeline.samples);
}

#[test]
fn a_work_folder_on_a_mount_is_as_good_as_one_on_a_disk() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(["--profile", "pipeline"]).mount();
    let pipeline = Pipeline::in_folder(samples(2), mount.path());
    let java = || mount.plan().other_command(OsStr::new("java"));
    pipeline.run_and_resume(|| nextflow(java(), &pipeline.home()), "local.config");
    mount.umount();
    pipeline.check_results(&bucket);
}

/// What makes a command of ours see a cluster, whose hosts are what the program `host` does.
fn in_cluster(command: &mut Command, host: &str, launcher: &Launcher, jobs: &Path) {
    let cluster = settings_folder().join("cluster");
    let mut path = cluster.clone().into_os_string();
    path.push(":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    command.env("PATH", path).env("HOST", cluster.join(host)).env("JOBS", jobs);
    command.env("LAUNCHER", launcher.program()).env("TOP", launcher.top());
}

/// A world of mounts of its own for what follows, with `top` at `/fusion`: nobody else sees it there. Mounts of other tests
/// are taken out of it, since who unmounts one would wait for this world's end.
fn at_fusion(plan: &Plan, top: &Path) -> Command {
    let mut command = plan.other_command(OsStr::new("unshare"));
    command.args(["--mount", "--propagation", "private", "bash", "-euc"]);
    command.arg(AT_FUSION).arg(top);
    command
}

#[test]
fn tasks_by_the_launcher_have_mounts_of_their_own_and_leave_all_in_the_bucket() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    fs::create_dir(launcher.top()).unwrap();
    // What starts tasks closes their scripts in the bucket before they begin on other hosts.
    let head = Plan::of(&bucket).instead_of_url("all").at(&launcher.top()).mount();
    let pipeline = Pipeline::in_folder(samples(2), &launcher.top().join("s3").join(bucket.name()));
    let jobs = pipeline.home.folder("jobs");
    let java = || {
        let mut java = launcher.plan().other_command(OsStr::new("java"));
        in_cluster(&mut java, "apart", &launcher, &jobs);
        java
    };
    pipeline.run_and_resume(|| nextflow(java(), &pipeline.home()), "launcher.config");
    head.umount();
    pipeline.check_results(&bucket);
    check_tasks(&bucket, &pipeline);
}

#[test]
fn tasks_of_a_job_array_are_complete_in_folders_of_their_own() {
    const TASKS: usize = 5;
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    fs::create_dir(launcher.top()).unwrap();
    let head = Plan::of(&bucket).instead_of_url("all").at(&launcher.top()).mount();
    let pipeline = Pipeline::in_folder(TASKS, &launcher.top().join("s3").join(bucket.name()));
    fs::copy(settings_folder().join("array.nf"), pipeline.project.join("main.nf")).unwrap();
    let jobs = pipeline.home.folder("jobs");
    let mut java = launcher.plan().other_command(OsStr::new("java"));
    in_cluster(&mut java, "apart", &launcher, &jobs);
    pipeline.run(nextflow(java, &pipeline.home()), "launcher.config", &[]);
    head.umount();
    // One job of three tasks, and one of the two that are left.
    assert_eq!(fs::read_to_string(jobs.join("last")).unwrap(), "2\n");
    let mut ended = Vec::new();
    for (folder, names) in tasks(&bucket) {
        let Some(name) = names.iter().find_map(|name| name.strip_suffix(".txt")) else { continue };
        let get = |name: &str| bucket.get(&format!("{folder}/{name}"));
        let text = |name: &str| String::from_utf8(get(name).unwrap()).unwrap();
        assert_eq!(text(".exitcode"), "0", "{folder}");
        assert_eq!(text(".command.log"), format!("this is {name}\n"), "{folder}");
        assert_eq!(text(&format!("{name}.link")), reference(), "{folder}");
        assert_eq!(text(&format!("{name}.txt")), reference()[..name.parse().unwrap()], "{folder}");
        assert_eq!(bucket.get(&format!("results/{name}.txt")), get(&format!("{name}.txt")));
        ended.push(name.to_owned());
    }
    ended.sort();
    assert_eq!(ended, ["1", "2", "3", "4", "5"]);
}

#[test]
fn the_profiles_of_the_page_are_read_by_nextflow() {
    let page = fs::read_to_string(root_folder().join("docs/pipelines.md")).unwrap();
    let (_, settings) = page.split_once("```groovy nextflow.config\n").unwrap();
    let (settings, _) = settings.split_once("```\n").unwrap();
    let place = Scratch::new();
    fs::write(place.path().join("nextflow.config"), settings).unwrap();
    let mut command = nextflow(Command::new("java"), &place.folder("home"));
    command.current_dir(place.path()).args(["config", "-flat", "-show-profiles"]);
    let said = run(&mut command, WITHIN);
    let read = said.ok();
    for (profile, executor) in [
        ("local", "local"),
        ("containers", "local"),
        ("cluster", "slurm"),
        ("awsbatch", "awsbatch"),
        ("googlebatch", "google-batch"),
        ("azurebatch", "azurebatch"),
        ("kubernetes", "k8s"),
    ] {
        let line = format!("profiles.{profile}.process.executor = '{executor}'");
        assert!(read.lines().any(|found| found == line), "{line}: {read}");
    }
}

#[test]
fn a_mount_at_fusion_is_passed_into_the_containers_of_tasks() {
    let bucket = MinIo::shared().bucket();
    let containers = Containers::new();
    let plan = Plan::of(&bucket).instead_of_url("all");
    let mount = plan.flags(["--profile", "pipeline", "--commit-last", ".exitcode"]).mount();
    let place = Path::new("s3").join(bucket.name());
    let pipeline = Pipeline::in_folder(samples(SAMPLES_IN_CONTAINERS), &mount.join(&place));
    let pipeline = pipeline.seen_at(&Path::new("/fusion").join(place));
    let java = || {
        let mut java = at_fusion(mount.plan(), mount.path());
        java.envs(containers.env());
        java
    };
    pipeline.run_and_resume(|| nextflow(java(), &pipeline.home()), "containers.config");
    mount.umount();
    pipeline.check_results(&bucket);
    assert_eq!(tasks(&bucket).len(), pipeline.tasks() + 1);
}

#[test]
fn the_launcher_mounts_in_the_container_of_each_task() {
    let bucket = MinIo::shared().bucket();
    let containers = Containers::new();
    let launcher = Launcher::of(&bucket);
    fs::create_dir(launcher.top()).unwrap();
    let head = Plan::of(&bucket).instead_of_url("all").at(&launcher.top()).mount();
    let place = Path::new("s3").join(bucket.name());
    let pipeline = Pipeline::in_folder(samples(2), &launcher.top().join(&place));
    let pipeline = pipeline.seen_at(&Path::new("/fusion").join(place));
    let jobs = pipeline.home.folder("jobs");
    let java = || {
        let mut java = at_fusion(launcher.plan(), &launcher.top());
        in_cluster(&mut java, "contained", &launcher, &jobs);
        java.envs(containers.env());
        java
    };
    pipeline.run_and_resume(|| nextflow(java(), &pipeline.home()), "launcher.config");
    head.umount();
    pipeline.check_results(&bucket);
    check_tasks(&bucket, &pipeline);
}

#[test]
fn with_its_work_folder_in_a_bucket_nextflow_starts_the_launcher_in_containers() {
    let bucket = MinIo::shared().bucket();
    let containers = Containers::new();
    let launcher = Launcher::of(&bucket);
    let pipeline = Pipeline::of_bucket(samples(SAMPLES_IN_CONTAINERS), &bucket);
    let java = || {
        let mut java = launcher.plan().other_command(OsStr::new("java"));
        java.env("FUSION_ENABLED", "true").env("BUCKET", bucket.name());
        java.env("LAUNCHER", launcher.program()).envs(containers.env());
        java
    };
    let nextflow = || nextflow_of_buckets(java(), &pipeline.home());
    pipeline.run_and_resume(nextflow, "fusion.config");
    pipeline.check_results(&bucket);
    check_tasks(&bucket, &pipeline);
}
