//! Many tasks on one host, each by a launcher, all with the buckets at the same place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{Bucket, MinIo, Plan, noise, run, wait};

use crate::USER;

const WITHIN: Duration = Duration::from_mins(2);
/// Tasks at a time.
const TASKS: usize = 5;

/// Where tasks run, and what they have in common.
struct Host {
    plan: Plan,
    world: World,
    top: PathBuf,
    variables: Vec<(String, String)>,
    flags: Vec<String>,
    /// What the test and the tasks tell each other.
    words: PathBuf,
}

impl Host {
    fn of(bucket: &Bucket<'_>) -> Host {
        Host::new(bucket, Plan::of(bucket))
    }

    /// All by a user who may not mount by himself.
    fn of_user(bucket: &Bucket<'_>) -> Host {
        let plan = Plan::of(bucket);
        // They are his when everything becomes his.
        for name in ["fusion", "words"] {
            plan.folder(name);
        }
        Host::new(bucket, plan.by_user(USER))
    }

    fn new(bucket: &Bucket<'_>, plan: Plan) -> Host {
        let (top, words) = (plan.folder("fusion"), plan.folder("words"));
        let world = World::begin(&words);
        let state = plan.state().to_str().unwrap().to_owned();
        let plan = plan
            .env("QUAYFS_ENDPOINT", bucket.endpoint())
            .env("QUAYFS_REGION", "us-east-1")
            .env("QUAYFS_PATH_STYLE", "true")
            .env("QUAYFS_CACHE_DIR", &state);
        Host { plan, world, top, variables: Vec::new(), flags: Vec::new(), words }
    }

    fn with(mut self, name: &str, value: &str) -> Host {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// For tasks that see one mount all together.
    fn shared(self) -> Host {
        self.with("QUAYFS_FUSION_SHARED", "true")
    }

    /// Has a task run `script` where the bucket is.
    fn start(&self, bucket: &Bucket<'_>, script: &str) -> Child {
        self.task(bucket, script).spawn().unwrap()
    }

    /// A task that runs `script` where the bucket is.
    fn task(&self, bucket: &Bucket<'_>, script: &str) -> Command {
        let folder = self.top.join("s3").join(bucket.name());
        let script = format!("cd {}; {script}", folder.display());
        let mut command = self.plan.command(["run", "--fusion", "--at"]);
        command.arg(&self.top).args(&self.flags).args(["--", "bash", "-euc", &script]);
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let mut inside = self.world.inside(command.envs(variables));
        inside.stdin(Stdio::null());
        inside
    }

    /// Whether root's tasks that share a mount there have left the file whose lock they had.
    fn has_lock(&self) -> bool {
        let name = self.top.to_str().unwrap().replace('/', "%2f");
        Path::new("/run/quayfs").join(format!("{name}.lock")).exists()
    }

    /// Whether others on the host see a mount where the buckets are.
    fn sees_mount(&self) -> bool {
        let mut look = Command::new("findmnt");
        run(&mut self.world.inside(look.arg("--mountpoint").arg(&self.top)), WITHIN)
            .status
            .success()
    }

    /// Whether the folder where the buckets are answers, be it that nothing is mounted there.
    fn is_answered(&self) -> bool {
        let mut look = Command::new("stat");
        run(&mut self.world.inside(look.arg(&self.top)), WITHIN).status.success()
    }

    /// What of a script says `word` to the test.
    fn say(&self, word: &str) -> String {
        format!("touch {}", self.words.join(word).display())
    }

    /// What of a script waits for a word of the test, or for the end of that: no script is left behind.
    fn hear(&self, word: &str) -> String {
        let words = self.words.display();
        format!("while [ -d {words} ] && ! [ -e {words}/{word} ]; do sleep 0.1; done")
    }

    fn tell(&self, word: &str) {
        fs::write(self.words.join(word), b"").unwrap();
    }

    fn await_word(&self, word: &str) {
        wait::until(word, WITHIN, || self.words.join(word).exists());
    }

    /// No daemon has the state folder any more.
    fn await_daemons(&self) {
        wait::until("the daemons to end", WITHIN, || {
            let mut command = self.plan.command(["fsck", "--cache-dir"]);
            run(command.arg(self.plan.state()), WITHIN).status.success()
        });
    }
}

/// Mounts as a host has them: what is mounted there shows in all copies, and those of other tests are not there. They go
/// when nobody is in it.
struct World {
    holder: Child,
    /// The options by which it is entered, each with a namespace.
    entries: &'static [(&'static str, &'static str)],
}

const MOUNTS: (&str, &str) = ("--mount", "mnt");
const USERS: (&str, &str) = ("--user", "user");

impl World {
    fn begin(words: &Path) -> World {
        World::held_by(words, ("unshare --mount --propagation shared", "true"), &[MOUNTS])
    }

    /// One in which nobody gets mounts of his own.
    fn without_more(words: &Path) -> World {
        let unshare = "unshare --user --map-root-user --mount --propagation shared";
        let first = "echo 0 > /proc/sys/user/max_mnt_namespaces";
        World::held_by(words, (unshare, first), &[USERS, MOUNTS])
    }

    fn held_by(
        words: &Path,
        (unshare, first): (&str, &str),
        entries: &'static [(&'static str, &'static str)],
    ) -> World {
        let begun = words.join("begun");
        let script = format!(
            "grep fuse.quayfs /proc/self/mountinfo | cut -d' ' -f5 | while read -r dir; do\n\
                 umount --lazy \"$(printf %b \"$dir\")\"\n\
             done\n\
             exec {unshare} sh -ec '{first}; touch \"$0\"; exec sleep infinity' \"$0\""
        );
        let mut holder = Command::new("unshare");
        holder.args(["--mount", "--propagation", "private", "sh", "-c", &script]).arg(&begun);
        let holder = holder.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        wait::until("a world of mounts", WITHIN, || begun.exists());
        World { holder, entries }
    }

    /// `command` in it.
    fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        for (option, kind) in self.entries {
            inside.arg(format!("{option}=/proc/{}/ns/{kind}", self.holder.id()));
        }
        inside.arg(command.get_program()).args(command.get_args()).env_clear();
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.holder.kill().unwrap();
        self.holder.wait().unwrap();
    }
}

/// What others on the host see of a task's mount.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
}

/// Runs tasks at the same time, of which each ends by itself and at its time.
fn check(bucket: &Bucket<'_>, host: &Host, seen: Seen) {
    bucket.put("in", b"input\n");
    bucket.put("later", b"more\n");
    let script = |number: usize| {
        let steps = [
            "mkdir -p out".to_owned(),
            format!("cat in > out/{number}.first"),
            host.say(&format!("at-work-{number}")),
            host.hear(&format!("go-{number}")),
            format!(
                "cat later > out/{number}.second; cat out/{number}.first >> out/{number}.second"
            ),
            format!("exit {number}"),
        ];
        steps.join("\n")
    };
    let mut tasks: Vec<Child> =
        (0..TASKS).map(|number| host.start(bucket, &script(number))).collect();
    for number in 0..TASKS {
        host.await_word(&format!("at-work-{number}"));
    }
    for (number, task) in tasks.iter_mut().enumerate() {
        assert_eq!(host.sees_mount(), seen == Seen::Yes, "before task {number} ends");
        host.tell(&format!("go-{number}"));
        assert_eq!(task.wait().unwrap().code(), i32::try_from(number).ok());
        // Whether others still run or not.
        let made = bucket.get(&format!("out/{number}.second"));
        assert_eq!(made.as_deref(), Some(&b"more\ninput\n"[..]), "of task {number}");
    }
    assert!(!host.sees_mount());
    host.await_daemons();
}

#[test]
fn tasks_of_one_host_have_mounts_that_nobody_else_sees() {
    let bucket = MinIo::shared().bucket();
    check(&bucket, &Host::of(&bucket), Seen::No);
}

#[test]
fn tasks_of_an_ordinary_user_have_mounts_that_nobody_else_sees() {
    let bucket = MinIo::shared().bucket();
    check(&bucket, &Host::of_user(&bucket), Seen::No);
}

#[test]
fn tasks_that_share_a_mount_lose_it_only_when_the_last_of_them_ends() {
    let bucket = MinIo::shared().bucket();
    let host = Host::of(&bucket).shared();
    check(&bucket, &host, Seen::Yes);
    assert!(!host.has_lock());
}

/// A task that is at work until it is told to go on, and whose mount is dead.
fn bereft(host: &Host, bucket: &Bucket<'_>) -> Child {
    let steps = [host.say("at-work"), host.hear("go")];
    let task = host.start(bucket, &steps.join("\n"));
    host.await_word("at-work");
    let daemon = format!("kill -KILL $(pgrep -of 'detach.* {}$')", host.top.display());
    run(Command::new("sh").args(["-c", &daemon]), WITHIN).ok();
    wait::until("nobody to answer there", WITHIN, || !host.is_answered());
    task
}

#[test]
fn who_shares_a_mount_goes_on_when_the_tasks_of_a_dead_one_have_ended() {
    let bucket = MinIo::shared().bucket();
    let host = Host::of(&bucket).shared();
    let mut task = bereft(&host, &bucket);
    let mut other = host.start(&bucket, "echo x > out");
    wait::until("the dead mount to be taken away", WITHIN, || host.is_answered());
    assert!(!host.sees_mount(), "it waits for the task");
    host.tell("go");
    assert_eq!(task.wait().unwrap().code(), Some(174), "it has lost its mount");
    assert_eq!(other.wait().unwrap().code(), Some(0));
    assert_eq!(bucket.get("out").as_deref(), Some(&b"x\n"[..]));
    host.await_daemons();
}

#[test]
fn who_clears_a_dead_mount_does_not_wait_for_the_tasks_that_used_it() {
    let bucket = MinIo::shared().bucket();
    let mut host = Host::of(&bucket).shared();
    let mut task = bereft(&host, &bucket);
    host.variables.clear();
    let said = run(&mut host.task(&bucket, "echo x > out"), WITHIN);
    assert_eq!(said.status.code(), Some(0), "{}", said.report());
    assert_eq!(bucket.get("out").as_deref(), Some(&b"x\n"[..]));
    host.tell("go");
    assert_eq!(task.wait().unwrap().code(), Some(174), "it has lost its mount");
    host.await_daemons();
}

#[test]
fn tasks_of_an_ordinary_user_that_share_a_mount_lose_it_only_when_the_last_of_them_ends() {
    let bucket = MinIo::shared().bucket();
    check(&bucket, &Host::of_user(&bucket).shared(), Seen::Yes);
}

#[test]
fn tasks_that_can_have_no_mounts_of_their_own_share_one() {
    let bucket = MinIo::shared().bucket();
    let mut host = Host::of(&bucket);
    fs::remove_file(host.words.join("begun")).unwrap();
    host.world = World::without_more(&host.words);
    check(&bucket, &host, Seen::Yes);
}

#[test]
fn a_task_of_an_ordinary_user_is_his_and_may_not_mount_either() {
    let bucket = MinIo::shared().bucket();
    let host = Host::of_user(&bucket);
    let script = "id -nu; grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status";
    let said = host.words.join("said");
    let script = format!("({script}) > {}; umask 077; echo mine > file", said.display());
    assert_eq!(host.start(&bucket, &script).wait().unwrap().code(), Some(0));
    let said = fs::read_to_string(said).unwrap();
    let want =
        ["CapPrm:", "CapEff:", "CapAmb:"].map(|name| format!("{name}\t{}\n", "0".repeat(16)));
    assert_eq!(said, format!("{USER}\n{}", want.concat()));
    assert_eq!(bucket.get("file").as_deref(), Some(&b"mine\n"[..]));
}

#[test]
fn who_looks_for_the_mount_of_a_killed_launcher_finds_none_and_its_files_in_the_bucket() {
    let bucket = MinIo::shared().bucket();
    let host = Host::of(&bucket);
    let steps = ["echo x > closed".to_owned(), host.say("at-work"), host.hear("never")];
    let mut task = host.start(&bucket, &steps.join("\n"));
    host.await_word("at-work");
    task.kill().unwrap();
    task.wait().unwrap();
    host.await_daemons();
    assert_eq!(bucket.get("closed").as_deref(), Some(&b"x\n"[..]));
    host.tell("never");
}

#[test]
fn the_status_of_a_task_whose_launcher_is_killed_before_its_folder_is_complete_is_not_in_the_bucket()
 {
    for is_shared in [false, true] {
        let bucket = MinIo::shared().bucket();
        let host = Host::of(&bucket);
        let host = if is_shared { host.shared() } else { host };
        let work = host.top.join("s3").join(bucket.name());
        let host = host.with("FUSION_WORK", work.to_str().unwrap());
        // The launcher has not made objects of links yet.
        let held = "until [ -e .exitcode.held ]; do sleep 0.1; done";
        let script =
            format!("{held}; echo x > out; trap 'printf 0 > .exitcode; kill -KILL $PPID' EXIT");
        let mut task = host.start(&bucket, &script);
        assert!(!task.wait().unwrap().success());
        host.await_daemons();
        assert_eq!(bucket.get("out").as_deref(), Some(&b"x\n"[..]), "shared: {is_shared}");
        assert_eq!(bucket.get(".exitcode"), None, "shared: {is_shared}");
    }
}

#[test]
fn a_status_that_cannot_be_let_go_is_told_of_and_does_not_come() {
    let bucket = MinIo::shared().bucket();
    // In mounts of his own he may do anything.
    let host = Host::of_user(&bucket).shared();
    let work = host.top.join("s3").join(bucket.name());
    let host = host.with("FUSION_WORK", work.to_str().unwrap());
    let held = "until [ -e .exitcode.held ]; do sleep 0.1; done";
    let script = format!("{held}; printf 0 > .exitcode; chmod a-w .");
    let said = run(&mut host.task(&bucket, &script), WITHIN);
    let words = "the status of the task does not get into the bucket";
    assert!(said.stderr.contains(words), "{}", said.report());
    assert_eq!(said.status.code(), Some(174), "{}", said.report());
    host.await_daemons();
    assert_eq!(bucket.get(".exitcode"), None);
}

#[test]
fn a_shared_mount_whose_launchers_were_killed_goes_when_nothing_uses_it_any_more() {
    let bucket = MinIo::shared().bucket();
    let host = Host::of(&bucket).shared().with("QUAYFS_UPLOAD_DELAY", "1h");
    let steps = [
        "echo x > closed".to_owned(),
        host.say("at-work"),
        host.hear("go"),
        "echo y > later".into(),
    ];
    let mut task = host.start(&bucket, &steps.join("\n"));
    host.await_word("at-work");
    task.kill().unwrap();
    task.wait().unwrap();
    wait::until("what was closed", WITHIN, || bucket.get("closed").is_some());
    assert!(host.sees_mount(), "the command is in it");
    host.tell("go");
    wait::until("the mount to go", WITHIN, || !host.sees_mount());
    host.await_daemons();
    assert_eq!(bucket.get("later").as_deref(), Some(&b"y\n"[..]));
}

#[test]
fn what_is_closed_is_in_the_bucket_while_a_task_that_was_told_to_end_still_runs() {
    let bucket = MinIo::shared().bucket();
    for (folder, host) in [("own", Host::of(&bucket)), ("shared", Host::of(&bucket).shared())] {
        let host = host.with("QUAYFS_UPLOAD_DELAY", "1h");
        let trap =
            format!("echo told > told; {}; wait; printf 9 > .exitcode; exit 9", host.hear("go"));
        let steps = [
            format!("rm -rf {folder}; mkdir {folder}; cd {folder}; trap '{trap}' TERM"),
            // Who opens it writes to it as long as it runs.
            format!("(echo half; {}) > open &", host.hear("go")),
            "echo x > closed".to_owned(),
            host.say("at-work"),
            host.hear("never"),
        ];
        let mut task = host.start(&bucket, &steps.join("\n"));
        host.await_word("at-work");
        assert_eq!(bucket.get(&format!("{folder}/closed")), None, "uploads wait for an hour");
        run(Command::new("kill").args(["-TERM", &task.id().to_string()]), WITHIN).ok();
        for name in ["closed", "told"] {
            wait::until(name, WITHIN, || bucket.get(&format!("{folder}/{name}")).is_some());
        }
        assert!(task.try_wait().unwrap().is_none(), "it is not over");
        let got = |name: &str| bucket.get(&format!("{folder}/{name}"));
        assert_eq!(got(".exitcode"), None);
        assert_ne!(got("open").as_deref(), Some(&b"half\n"[..]), "it is not closed");
        host.tell("go");
        assert_eq!(task.wait().unwrap().code(), Some(9));
        assert_eq!(got("open").as_deref(), Some(&b"half\n"[..]));
        assert_eq!(got(".exitcode").as_deref(), Some(&b"9"[..]));
    }
}

#[test]
fn what_a_task_has_closed_is_in_the_bucket_before_it_ends() {
    let bucket = MinIo::shared().bucket();
    let host = Host::of(&bucket).with("QUAYFS_UPLOAD_DELAY", "10ms");
    let steps = ["echo made > made; ln -s made link; mkdir folder".to_owned(), host.hear("go")];
    let mut task = host.start(&bucket, &steps.join("\n"));
    wait::until("the bucket to have it", WITHIN, || bucket.get("made").is_some());
    assert!(task.try_wait().unwrap().is_none(), "it still runs");
    host.tell("go");
    assert_eq!(task.wait().unwrap().code(), Some(0));
}

#[test]
fn two_thousand_small_outputs_are_in_the_bucket_before_the_status_of_their_task() {
    const OUTPUTS: usize = 2_000;
    let bucket = MinIo::shared().bucket();
    let host = Host::of(&bucket);
    let script = format!(
        "mkdir -p work/out; cd work; text=$(printf %0299d 7)\n\
         for ((i = 0; i < {OUTPUTS}; i++)); do echo $text > out/$i; done; printf 0 > .exitcode"
    );
    let mut task = host.start(&bucket, &script);
    let status = || bucket.get("work/.exitcode").is_some();
    wait::until("the status", WITHIN, status);
    let keys = bucket.keys();
    let outputs = keys.iter().filter(|key| key.starts_with("work/out/") && !key.ends_with('/'));
    assert_eq!(outputs.count(), OUTPUTS);
    assert_eq!(task.wait().unwrap().code(), Some(0));
    let last = bucket.get(&format!("work/out/{}", OUTPUTS - 1)).unwrap();
    assert_eq!(String::from_utf8(last).unwrap(), format!("{}7\n", "0".repeat(298)));
}

#[test]
fn a_list_of_inputs_is_fetched_while_the_command_runs() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/large", &noise(1, 3_000_000));
    bucket.put("data/folder/inner", &noise(2, 1_000_000));
    let mut host = Host::of(&bucket);
    let list = host.words.join("list");
    let name = bucket.name();
    fs::write(&list, format!("s3/{name}/data/large\ns3/{name}/none\ns3/{name}/data/folder\n"))
        .unwrap();
    host.flags = vec!["--warm".to_owned(), list.to_str().unwrap().to_owned()];
    // Nobody reads: what has come was asked for by the list.
    let script = format!(
        "got() {{ {} status --json \"$QUAYFS_MOUNT\" | grep -o '\"remote_get_bytes\": *[0-9]*' | grep -o '[0-9]*$'; }}\n\
         until [ \"$(got)\" -ge 4000000 ]; do sleep 0.1; done; exit 5",
        testkit::quayfs().display()
    );
    assert_eq!(host.start(&bucket, &script).wait().unwrap().code(), Some(5));
}

#[test]
fn a_list_that_cannot_be_read_fails_no_command() {
    let bucket = MinIo::shared().bucket();
    let mut host = Host::of(&bucket);
    host.flags = vec!["--warm".to_owned(), "/no/such/list".to_owned()];
    assert_eq!(host.start(&bucket, "echo x > made").wait().unwrap().code(), Some(0));
    assert_eq!(bucket.get("made").as_deref(), Some(&b"x\n"[..]));
}
