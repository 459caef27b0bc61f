//! A command with a bucket for as long as it runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{Finished, MinIo, Plan, mounted_at, run, wait};

use crate::{SOON, USER};

const WITHIN: Duration = Duration::from_mins(1);
/// When not the command failed, but what was around it.
const FAILED: i32 = 174;

/// A folder as a bucket, and what runs commands with it.
struct Place {
    plan: Plan,
    store: PathBuf,
    temporary: PathBuf,
}

fn place() -> Place {
    let plan = Plan::of_url("file:///");
    let (store, temporary) = (plan.folder("store"), plan.folder("tmp"));
    let plan = plan.env("TMPDIR", temporary.to_str().unwrap());
    let state = plan.state().to_str().unwrap().to_owned();
    Place { plan: plan.env("QUAYFS_CACHE_DIR", &state), store, temporary }
}

impl Place {
    fn command(&self, flags: &[&str], script: &str) -> Command {
        let url = format!("file://{}", self.store.display());
        let mut command = self.plan.command(["run"]);
        command.args(flags).args([&url, "--", "sh", "-c", script]);
        command
    }

    fn run(&self, flags: &[&str], script: &str) -> Finished {
        let finished = run(&mut self.command(flags, script), WITHIN);
        assert_eq!(crate::names(&self.temporary), Vec::<String>::new(), "{}", finished.report());
        finished
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.store.join(name)).unwrap()
    }

    /// Starts a command that says when it can be sent signals, and waits for that.
    fn started(&self, script: &str) -> Started {
        let ready = self.temporary.with_extension("ready");
        let _ = fs::remove_file(&ready);
        // A shell does what a trap says when the command that it waits for ends; `wait` ends at once.
        // It must not be in the mount, which would be busy with it.
        let sleep = "(cd / && exec sleep 600 > /dev/null 2>&1) &";
        let ready_text = ready.display();
        // It ends with that one: after a kill of `run` nobody else ends it.
        let turns = "while kill -0 $!; do wait; done";
        let script = format!("{script}\n{sleep}\necho $! > {ready_text}\n{turns}");
        let bare = self.command(&[], &script);
        // Whoever runs the tests may ignore some.
        let mut command = self.plan.other_command("env".as_ref());
        command.arg("--default-signal").arg(bare.get_program()).args(bare.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.process_group(0).spawn().unwrap();
        let is_ready = || fs::read_to_string(&ready).is_ok_and(|text| text.ends_with('\n'));
        wait::until("the command to run", SOON, is_ready);
        Started { child, sleeping: fs::read_to_string(&ready).unwrap() }
    }
}

/// A `run` whose command waits for signals.
struct Started {
    child: Child,
    sleeping: String,
}

impl Started {
    fn signal(&self, name: &str) {
        run(Command::new("kill").args([name, &self.child.id().to_string()]), WITHIN).ok();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        run(Command::new("kill").arg(self.sleeping.trim()), WITHIN);
        // Where a test fails its mount has to go as well.
        if matches!(self.child.try_wait(), Ok(None)) {
            run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]), WITHIN);
            let _ = self.child.wait();
        }
    }
}

/// Waits until no daemon has the state folder any more: what it writes last must not be where a test cleans up.
fn await_daemon(plan: &Plan) {
    wait::until("the daemon to let go of its state folder", WITHIN, || {
        run(plan.command(["fsck", "--cache-dir"]).arg(plan.state()), WITHIN).status.success()
    });
}

#[test]
fn a_command_begins_in_the_mount_and_its_files_are_in_the_bucket_when_it_has_ended() {
    let place = place();
    fs::write(place.store.join("in"), b"bytes").unwrap();
    let script = "test \"$(pwd -P)\" = \"$QUAYFS_MOUNT\" && mkdir d && cat in in > d/out; exit 7";
    let said = place.run(&[], script);
    assert_eq!(said.status.code(), Some(7), "{}", said.report());
    assert_eq!(place.text("d/out"), "bytesbytes");
}

#[test]
fn a_place_that_is_named_is_mounted_at_and_kept() {
    let place = place();
    let at = place.plan.folder("at");
    let script = "test \"$(pwd -P)\" != \"$QUAYFS_MOUNT\" && echo x > \"$QUAYFS_MOUNT/out\"";
    place.run(&["--at", at.to_str().unwrap(), "--commit", "close"], script).ok();
    assert_eq!(place.text("out"), "x\n");
    assert!(at.is_dir() && !mounted_at(&at));
}

#[test]
fn closes_do_not_wait_for_the_bucket_unless_somebody_says_so() {
    let place = place();
    let script = "tr '\\0' ' ' < /proc/$(pgrep -of \"detach.*$PWD\")/cmdline > \"$OLDPWD/said\"";
    let script = format!("OLDPWD={}; {script}", place.temporary.parent().unwrap().display());
    let said = |place: &Place| fs::read_to_string(place.temporary.with_file_name("said")).unwrap();
    place.run(&[], &script).ok();
    assert!(said(&place).contains("--commit=async"), "{}", said(&place));
    place.run(&["-o", "commit=close"], &script).ok();
    assert!(said(&place).contains("--commit=close"), "{}", said(&place));
}

#[test]
fn signals_reach_the_command_and_its_end_by_one_is_told() {
    let place = place();
    let note = "trap 'echo $0 usr1 >> note' USR1; trap 'echo usr2 >> note' USR2";
    let end = "trap 'echo hup >> note' HUP; trap 'echo term >> note; exit 5' TERM";
    let mut child = place.started(&format!("{note}; {end}"));
    for (name, line) in [("-USR1", "usr1"), ("-USR2", "usr2"), ("-HUP", "hup")] {
        child.signal(name);
        wait::until("the command to note it", SOON, || {
            fs::read_to_string(place.store.join("note")).is_ok_and(|note| note.contains(line))
        });
    }
    child.signal("-TERM");
    assert_eq!(child.code(), Some(5));
    assert!(place.text("note").ends_with("term\n"));

    let mut child = place.started(":");
    child.signal("-INT");
    assert_eq!(child.code(), Some(130));
}

#[test]
fn a_command_whose_whole_job_is_told_to_end_has_its_mount_until_it_ends() {
    let place = place();
    let words = place.plan.folder("words");
    let (go, number) = (words.join("go"), words.join("number"));
    run(Command::new("mkfifo").arg(&go), WITHIN).ok();
    let (go, number) = (go.to_str().unwrap(), number.to_str().unwrap());
    // It is not in the mount, which could go at any time.
    let trap = format!("read x < {go}; echo told > $QUAYFS_MOUNT/told; exit 9");
    let own = format!("pgrep -of \"detach.*$QUAYFS_MOUNT\" > {number}");
    let mut started = place.started(&format!("trap '{trap}' TERM; cd /; {own}"));
    // Open at both ends: where the test fails, the command reads the end of it and does not wait for ever.
    let mut fifo = fs::File::options().read(true).write(true).open(go).unwrap();
    let daemon = fs::read_to_string(number).unwrap();
    // As a scheduler does to all that is in a group of control.
    for name in ["-HUP", "-USR1", "-USR2", "-INT", "-TERM"] {
        run(Command::new("kill").args([name, daemon.trim()]), WITHIN).ok();
    }
    started.signal("-TERM");
    let log = place.plan.state().join("quayfs.log");
    wait::until("the daemon to hear of it", SOON, || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("asked to end"))
    });
    writeln!(fifo, "go").unwrap();
    assert_eq!(started.code(), Some(9));
    assert_eq!(place.text("told"), "told\n");
    await_daemon(&place.plan);
}

#[test]
fn an_ordinary_user_runs_a_command_with_a_bucket() {
    let place = place();
    let plan = place.plan.by_user(USER);
    let place = Place { plan, ..place };
    let said = place.run(&[], "test $(id -un) = nobody && echo mine > out; exit 3");
    assert_eq!(said.status.code(), Some(3), "{}", said.report());
    assert_eq!(place.text("out"), "mine\n");
    assert_eq!(fs::metadata(place.store.join("out")).unwrap().uid(), 65534);
}

#[test]
fn who_waits_for_the_bucket_can_be_told_to_end() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let plan = Plan::of(&bucket);
    let go = plan.folder("").join("go");
    run(Command::new("mkfifo").arg(&go), WITHIN).ok();
    let mut command = plan.command(["run", "--path-style", "--region", "us-east-1", "--endpoint"]);
    command
        .arg(bucket.endpoint())
        .arg("--cache-dir")
        .arg(plan.state())
        .arg("--at")
        .arg(plan.path());
    command.args([&*bucket.url(), "--", "sh", "-c"]);
    command.arg(format!("exec 9> $QUAYFS_MOUNT/out; read x < '{}'; echo bytes >&9", go.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().unwrap();
    // The other end is opened when the file is.
    let mut go = fs::File::options().write(true).open(&go).unwrap();
    minio.freeze();
    writeln!(go, "go").unwrap();
    drop(go);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting for")), "it says what it waits for");
    let tell =
        || run(Command::new("kill").args(["-TERM", &child.id().to_string()]), WITHIN).ok().len();
    tell();
    assert!(said.any(|line| line.contains("unmounting with")), "the mount goes");
    tell();
    let rest: Vec<_> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(FAILED), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("told to end")), "{rest:?}");
    assert!(!mounted_at(plan.path()));
    minio.thaw();
    wait::until("the daemon to bring the rest by itself", WITHIN, || bucket.keys() == ["out"]);
    await_daemon(&plan);
}

#[test]
fn a_signal_that_was_ignored_before_is_ignored_by_the_command() {
    let place = place();
    let bare = place.command(&[], "grep SigIgn /proc/self/status > ignored");
    let mut nohup = place.plan.other_command("nohup".as_ref());
    nohup.arg(bare.get_program()).args(bare.get_args());
    run(&mut nohup, WITHIN).ok();
    let ignored = place.text("ignored");
    let set = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(set & 1, 1, "the first signal is the hangup: {ignored}");
}

#[test]
fn what_is_not_the_commands_failure_has_a_status_of_its_own() {
    let place = place();
    let check = |said: Finished, word: &str| {
        assert_eq!(said.status.code(), Some(FAILED), "{}", said.report());
        assert!(said.stderr.contains(word), "{}", said.report());
    };
    let url = format!("file://{}", place.store.display());
    let quayfs = |arguments: &[&str]| run(&mut place.plan.command(arguments), WITHIN);
    check(quayfs(&["run", &url, "--", "/no/such/program"]), "cannot run /no/such/program");
    check(quayfs(&["run", "file:///no/such/folder", "--", "true"]), "nothing was run");
    check(quayfs(&["run", "nonsense", "--", "true"]), "not a URL");
    check(quayfs(&["run", &url, "--colour", "--", "true"]), "--colour");
    let wrong = quayfs(&["run", &url, "--colour", "--", "true"]);
    assert!(wrong.stderr.starts_with("error: unexpected"), "as of others: {}", wrong.report());
    check(quayfs(&["run", &url]), "COMMAND");
    check(quayfs(&["run", "--keep-local", &url, "--", "true"]), "--keep-local goes with --fusion");
    check(quayfs(&["run", "-o", "roo", &url, "--", "true"]), "unknown mount option roo");
    assert_eq!(crate::names(&place.temporary), Vec::<String>::new());
}

#[test]
fn what_is_not_there_of_a_list_is_told_also_by_a_quick_command() {
    let place = place();
    fs::write(place.store.join("there"), b"x").unwrap();
    let list = place.temporary.with_extension("list");
    fs::write(&list, "nosuch\n/no/such/path\n../none\nthere\n").unwrap();
    let said = place.run(&["--warm", list.to_str().unwrap()], "exit 3");
    assert_eq!(said.status.code(), Some(3), "{}", said.report());
    for name in ["nosuch: ", "/no/such/path: ", "../none: "] {
        assert!(said.stderr.contains(name), "{name}: {}", said.report());
    }
    assert!(!said.stderr.contains("there: ") && said.stdout.is_empty(), "{}", said.report());
}

/// Runs a script in a mount under limits of the shell.
fn run_limited(place: &Place, limits: &str, script: &str) -> Finished {
    let bare = place.command(&[], script);
    let mut command = place.plan.other_command("sh".as_ref());
    command.args(["-c", &format!("{limits} && exec \"$0\" \"$@\"")]);
    command.arg(bare.get_program()).args(bare.get_args());
    run(&mut command, WITHIN)
}

#[test]
fn who_may_have_few_files_open_writes_many() {
    let place = place();
    let place = Place { plan: place.plan.env("QUAYFS_UPLOAD_DELAY", "1h"), ..place };
    let script = "i=0; while [ $i -lt 1500 ]; do echo $i > f$i || exit 9; i=$((i + 1)); done";
    run_limited(&place, "ulimit -n 1024", script).ok();
    let hidden = |name: &String| name.starts_with(".quayfs");
    let names = crate::names(&place.store);
    assert_eq!(names.iter().filter(|name| !hidden(name)).count(), 1500);
    assert_eq!(place.text("f1499"), "1499\n");
}

#[test]
fn a_limit_of_the_length_of_files_is_not_one_of_the_mount_nor_its_end() {
    let place = place();
    fs::write(place.store.join("large"), vec![b'x'; 3_000_000]).unwrap();
    let soft = run_limited(&place, "ulimit -S -f 100", "wc -c < large");
    assert_eq!(soft.ok().trim(), "3000000", "{}", soft.report());
    let hard = run_limited(&place, "ulimit -f 2000", "cat large > /dev/null; cat small");
    assert!(
        !hard.stderr.contains("abort") && !hard.stderr.contains("connected"),
        "{}",
        hard.report()
    );
}

#[test]
fn what_the_command_leaves_running_does_not_keep_the_mount() {
    let place = place();
    let script = "sleep 600 > /dev/null 2>&1 & echo $! > pid; echo x > out";
    let said = place.run(&[], script);
    run(Command::new("kill").arg(place.text("pid").trim()), WITHIN).ok();
    assert_eq!(said.status.code(), Some(0), "{}", said.report());
    assert!(said.stderr.contains("left behind"), "{}", said.report());
    assert_eq!(place.text("out"), "x\n");
}

#[test]
fn who_waits_for_the_daemon_can_be_told_to_end_and_what_is_closed_is_in_the_bucket() {
    let place = place();
    let pid = place.temporary.with_extension("pid");
    // It stays in the mount, to which the daemon gives some seconds.
    let script =
        format!("sleep 600 > /dev/null 2>&1 & echo $! > '{}'; echo x > out", pid.display());
    let mut command = place.command(&[], &script);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let left = said.find(|line| line.contains("left behind")).expect("it says what it waits for");
    let left_behind = fs::read_to_string(&pid).unwrap();
    assert!(left.contains(&format!("sleep ({})", left_behind.trim())), "it says for whom: {left}");
    run(Command::new("kill").args(["-TERM", &child.id().to_string()]), WITHIN).ok();
    let rest: Vec<_> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(FAILED), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("goes on by itself")), "{rest:?}");
    assert_eq!(place.text("out"), "x\n");
    run(Command::new("kill").arg(left_behind.trim()), WITHIN).ok();
    let mount = fs::read_dir(&place.temporary).unwrap().next().unwrap().unwrap().path();
    wait::until("the daemon to end by itself", SOON, || !mounted_at(&mount));
    await_daemon(&place.plan);
}

#[test]
fn a_daemon_that_dies_is_no_success_of_the_command() {
    let place = place();
    let script = "echo x > out; kill -9 $(pgrep -of \"detach.*$QUAYFS_MOUNT\")";
    let said = place.run(&[], script);
    assert_eq!(said.status.code(), Some(FAILED), "{}", said.report());
    for words in ["quayfs recover file://", "with the flags of this run"] {
        assert!(said.stderr.contains(words), "{words}: {}", said.report());
    }
    // What was closed is not lost.
    place.run(&[], "true").ok();
    assert_eq!(place.text("out"), "x\n");
}

#[test]
fn the_mount_of_a_run_that_is_killed_goes_and_what_was_closed_is_in_the_bucket() {
    let place = place();
    let place = Place { plan: place.plan.env("QUAYFS_UPLOAD_DELAY", "1h"), ..place };
    let mut started = place.started("echo x > closed; pwd -P > \"$TMPDIR/../where\"; cd /");
    let mount = fs::read_to_string(place.temporary.with_file_name("where")).unwrap();
    assert!(!place.store.join("closed").exists());
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    wait::until("the mount to go", WITHIN, || !mounted_at(mount.trim().as_ref()));
    await_daemon(&place.plan);
    assert_eq!(place.text("closed"), "x\n");
    // Nobody takes a folder of the local disk for the mount.
    assert_eq!(crate::names(&place.temporary), Vec::<String>::new());
}

#[test]
fn what_is_left_of_a_run_that_is_killed_with_its_daemon_is_cleared_by_the_next_one() {
    let place = place();
    let place = Place { plan: place.plan.env("QUAYFS_UPLOAD_DELAY", "1h"), ..place };
    let daemon = "pgrep -of \"detach.*$QUAYFS_MOUNT\" > \"$TMPDIR/../daemon\"";
    let mut started = place.started(&format!("echo x > closed; {daemon}; cd /"));
    let daemon = fs::read_to_string(place.temporary.with_file_name("daemon")).unwrap();
    run(Command::new("kill").args(["-STOP", daemon.trim()]), WITHIN).ok();
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    // While its daemon stands still nobody waits for it.
    run(&mut place.command(&[], "true"), WITHIN).ok();
    run(Command::new("kill").args(["-KILL", daemon.trim()]), WITHIN).ok();
    await_daemon(&place.plan);
    let left = crate::names(&place.temporary);
    assert!(left.len() == 1 && mounted_at(&place.temporary.join(&left[0])), "{left:?}");
    place.run(&[], "true").ok();
    assert_eq!(place.text("closed"), "x\n");
    assert!(!mounted_at(&place.temporary.join(&left[0])));
}

#[test]
fn what_a_process_has_in_hand_is_told_by_a_recovery_which_is_not_done_then() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let plan = Plan::of(&bucket).flags(["--commit", "async", "--upload-delay", "1h"]);
    let mount = plan.mount();
    testkit::write_new(&mount.join("file"), b"bytes").unwrap();
    let mut recover = mount.plan().command(["recover", "--path-style", "--region", "us-east-1"]);
    recover.args(["--endpoint", bucket.endpoint(), "--cache-dir"]).arg(mount.state());
    let said = run(recover.arg(&*bucket.url()), WITHIN);
    assert_eq!(said.status.code(), Some(1), "{}", said.report());
    assert!(said.stderr.contains("still uploading: 1 file"), "{}", said.report());
    assert!(!said.stdout.contains("nothing was left"), "{}", said.report());
    mount.umount();
    assert_eq!(bucket.keys(), ["file"]);
}
