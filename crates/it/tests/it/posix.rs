//! The POSIX suite `pjdfstest`, all of it, on a mount.
//!
//! What it cannot pass stands in `pjdfstest.excluded` with the reason, and fails: a line that is not
//! needed any more is a failure too.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{Cloud, Emulator, Mount, Plan, Scratch, run, tool};

use crate::mounted_with;

/// It takes half a minute where nothing else runs and nothing fails.
const WITHIN: Duration = Duration::from_mins(10);

/// What the suite is to try, beyond what every system has, and as whom.
const CONFIG: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["tests", "tests"]]
"#;

/// Those that want other systems, a remount, or a link limit.
const SKIPPED_MAX: usize = 16;
const CASES_MIN: usize = 390;

#[test]
fn every_case_of_the_posix_suite_passes_but_those_excluded_with_a_reason() {
    let (_bucket, mount) = mounted_with(&["--allow-other"]);
    check(&mount);
}

#[test]
fn the_same_cases_pass_on_google() {
    let google = Emulator::start(Cloud::Google);
    check(&google.plan(&google.bucket().url()).flags(["--allow-other"]).mount());
}

#[test]
fn the_same_cases_pass_on_azure() {
    let azure = Emulator::start(Cloud::Azure);
    check(&azure.plan(&azure.bucket().url()).flags(["--allow-other"]).mount());
}

#[test]
fn the_same_cases_pass_on_a_local_folder() {
    let store = Scratch::new();
    let url = format!("file://{}", store.path().display());
    check(&Plan::of_url(&url).flags(["--allow-other"]).mount());
}

/// Runs the suite, and compares what fails with what may.
pub(crate) fn check(mount: &Mount) {
    let beside = Scratch::new();
    let config = beside.path().join("config.toml");
    fs::write(&config, CONFIG).unwrap();
    let mut suite = Command::new(tool("pjdfstest"));
    suite.arg("-c").arg(&config).arg("-p").arg(mount.path());
    suite.arg("-s").arg(beside.folder("other-file-system"));
    // A stack for each failure tells nothing of a file system.
    let finished = run(suite.env("RUST_BACKTRACE", "0"), WITHIN);
    let verdicts = verdicts(&finished.stdout);
    let skipped = verdicts.values().filter(|verdict| matches!(verdict, Verdict::Skipped)).count();
    assert!(CASES_MIN <= verdicts.len(), "{} cases: {}", verdicts.len(), finished.report());
    assert!(skipped <= SKIPPED_MAX, "{skipped} cases were skipped");

    let excluded = exclusions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("pjdfstest.excluded"));
    let mut complaints = Vec::new();
    for (name, verdict) in &verdicts {
        let reason = excluded.iter().find(|exclusion| exclusion.covers(name));
        match (verdict, reason) {
            (Verdict::Failed(words), None) => complaints.push(format!("{name} failed: {words}")),
            (Verdict::Passed, Some(_)) => complaints.push(format!("{name} is excluded and passes")),
            (Verdict::Passed | Verdict::Skipped, _) | (Verdict::Failed(_), Some(_)) => {}
        }
    }
    for exclusion in &excluded {
        if !verdicts.keys().any(|name| exclusion.covers(name)) {
            complaints.push(format!("{} excludes nothing", exclusion.pattern));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Skipped,
    /// With what it said.
    Failed(String),
}

/// The suite's output: a line for each case with its name and its end, and after a failure, further
/// in, what it said.
fn verdicts(output: &str) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(end), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let verdict = match end {
            "ok" => Verdict::Passed,
            "skipped" => Verdict::Skipped,
            "FAILED" => {
                let is_said = |line: &&str| {
                    // Values that differ stand in lines of their own.
                    line.starts_with('\t')
                        || line.starts_with("  left: ")
                        || line.starts_with(" right: ")
                };
                let said = iter::from_fn(|| lines.next_if(is_said));
                let said: Vec<&str> = said.map(str::trim).collect();
                Verdict::Failed(said.join(" "))
            }
            _ => continue,
        };
        verdicts.insert(name.to_owned(), verdict);
    }
    verdicts
}

/// Cases that fail, and nobody minds.
#[derive(Debug)]
struct Exclusion {
    /// A case's name, in which `*` stands for anything.
    pattern: String,
}

impl Exclusion {
    fn covers(&self, name: &str) -> bool {
        matches(&self.pattern, name)
    }
}

/// The exclusions of a file: a pattern a line, then blanks and the reason; `#` begins a comment.
fn exclusions(path: &Path) -> Vec<Exclusion> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (pattern, reason) = line.split_once(' ').expect("a pattern and a reason");
            assert!(!reason.trim().is_empty(), "{pattern} has no reason");
            Exclusion { pattern: pattern.to_owned() }
        })
        .collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(after, &rest[at..]))
}

#[test]
fn patterns_and_verdicts_are_read_as_they_are_written() {
    assert!(matches("link::*", "link::create::file"));
    assert!(matches("*::eloop", "open::eloop") && matches("*::x::*", "a::x::b"));
    assert!(!matches("link::*", "unlink::a") && !matches("open::eloop", "open::eloop_2"));
    let output =
        "a::b      ok\nc::d   FAILED\n\tthe words\n  left: 1\n right: 2\ne   skipped\n\twhy\n";
    let verdicts = verdicts(output);
    assert_eq!(verdicts["a::b"], Verdict::Passed);
    assert_eq!(verdicts["c::d"], Verdict::Failed("the words left: 1 right: 2".to_owned()));
    assert_eq!(verdicts["e"], Verdict::Skipped);
    assert_eq!(verdicts.len(), 3);
}
