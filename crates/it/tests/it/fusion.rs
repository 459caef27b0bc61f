//! The launcher that Nextflow starts tasks with: what is in the bucket when a task has ended, and in which order.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{
    Bucket, Cloud, Emulator, Finished, Login, MinIo, Plan, Scratch, mounted_at, noise, run, wait,
};

const WITHIN: Duration = Duration::from_mins(1);
/// When not the command failed, but the launcher.
const FAILED: i32 = 174;
/// The folder of the task, as a key.
const WORK: &str = "work/ab/cdef";

/// A bucket, and how tasks are started with it.
pub(crate) struct Launcher {
    plan: Plan,
    place: Scratch,
}

impl Launcher {
    pub(crate) fn of(bucket: &Bucket<'_>) -> Launcher {
        let place = Scratch::new();
        Launcher::with(Plan::of(bucket), bucket, place)
    }

    /// One that has the keys of `login`.
    pub(crate) fn by(login: &Login, bucket: &Bucket<'_>) -> Launcher {
        Launcher::with(Plan::of(bucket).login(login), bucket, Scratch::new())
    }

    fn with(plan: Plan, bucket: &Bucket<'_>, place: Scratch) -> Launcher {
        let (top, tools) = (place.path().join("fusion"), place.folder("tools"));
        symlink(testkit::quayfs(), tools.join("fusion")).unwrap();
        let state = plan.state().to_str().unwrap().to_owned();
        let plan = plan
            .env("AWS_ENDPOINT_URL", bucket.endpoint())
            .env("AWS_REGION", "us-east-1")
            .env("QUAYFS_PATH_STYLE", "true")
            .env("QUAYFS_CACHE_DIR", &state)
            .env("QUAYFS_FUSION_AT", top.to_str().unwrap());
        Launcher { plan, place }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where all buckets are mounted.
    pub(crate) fn top(&self) -> PathBuf {
        self.place.path().join("fusion")
    }

    /// The program under the name that Nextflow knows.
    pub(crate) fn program(&self) -> PathBuf {
        self.place.path().join("tools/fusion")
    }

    /// The folder of the task.
    fn work(&self, bucket: &Bucket<'_>) -> PathBuf {
        self.top().join(store(bucket)).join(bucket.name()).join(WORK)
    }

    /// Puts a script into the folder of the task as Nextflow does, with the lines that name its inputs and
    /// outputs, and starts it as Nextflow does.
    pub(crate) fn task(
        &self,
        bucket: &Bucket<'_>,
        outputs: &[&str],
        stage: &str,
        body: &str,
    ) -> Command {
        self.task_in(bucket, WORK, (outputs, stage, body))
    }

    /// As [`Launcher::task`], in the folder with the key `folder`.
    pub(crate) fn task_in(
        &self,
        bucket: &Bucket<'_>,
        folder: &str,
        (outputs, stage, body): (&[&str], &str, &str),
    ) -> Command {
        let work = self.top().join(store(bucket)).join(bucket.name()).join(folder);
        let outputs: Vec<String> = outputs.iter().map(|name| format!("### - '{name}'\n")).collect();
        let outputs = outputs.concat();
        let stage = stage
            .replace("TOP", self.top().join(store(bucket)).join(bucket.name()).to_str().unwrap());
        let script = format!(
            "#!/bin/bash\n### ---\n### name: 'task'\n### outputs:\n{outputs}### ...\n\
             nxf_stage() {{\n    true\n{stage}\n}}\ntrap 'printf $? > .exitcode' EXIT\n\
             cd {}\nnxf_stage\n{body}\n",
            work.display()
        );
        bucket.put(&format!("{folder}/.command.run"), script.as_bytes());
        let mut command = self.plan.other_command(self.program().as_os_str());
        command.arg("bash").arg(work.join(".command.run")).env("FUSION_WORK", &work);
        command
    }

    fn run(&self, bucket: &Bucket<'_>, outputs: &[&str], stage: &str, body: &str) -> Finished {
        let finished = run(&mut self.task(bucket, outputs, stage, body), WITHIN);
        assert!(!mounted_at(&self.top()), "{}", finished.report());
        finished
    }
}

impl Drop for Launcher {
    /// A test that fails leaves no mount behind: the daemon ends with it.
    fn drop(&mut self) {
        if mounted_at(&self.top()) {
            run(Command::new("umount").arg("--lazy").arg(self.top()), WITHIN);
        }
    }
}

/// The folder of such buckets.
fn store(bucket: &Bucket<'_>) -> String {
    bucket.url().split_once("://").unwrap().0.to_owned()
}

fn get(bucket: &Bucket<'_>, name: &str) -> Option<String> {
    let bytes = bucket.get(&format!("{WORK}/{name}"))?;
    Some(String::from_utf8(bytes).unwrap())
}

#[test]
fn a_task_is_in_the_bucket_when_its_launcher_has_ended() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/in.txt", b"input\n");
    let launcher = Launcher::of(&bucket);
    let body = "cat in.txt in.txt > out.txt; mkfifo p; (echo from the pipe > p &); cat p; echo aside >&2\n\
                touch empty; for i in 1 2 3; do echo $i | tee -a small > /dev/null; done; mv small empty\n\
                exit 7";
    let ran = launcher.run(&bucket, &["out.txt"], "    ln -s TOP/data/in.txt in.txt", body);
    assert_eq!(ran.status.code(), Some(7), "{}", ran.report());
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("from the pipe\n", "aside\n"));
    let lines = get(&bucket, ".command.log").unwrap();
    assert!(lines.contains("from the pipe\n") && lines.contains("aside\n"), "{lines}");
    for (name, want) in [("out.txt", "input\ninput\n"), ("empty", "1\n2\n3\n"), (".exitcode", "7")]
    {
        assert_eq!(get(&bucket, name).as_deref(), Some(want), "{name}");
    }
    assert_eq!(get(&bucket, "small"), None);
}

#[test]
fn the_store_is_found_by_the_name_that_nextflow_gives_it() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let mut task = launcher.task(&bucket, &["made"], "", "echo made > made");
    task.env_remove("AWS_ENDPOINT_URL").env("AWS_S3_ENDPOINT", bucket.endpoint());
    let ran = run(&mut task, WITHIN);
    assert!(ran.status.success(), "{}", ran.report());
    assert_eq!(get(&bucket, "made").as_deref(), Some("made\n"));
}

#[test]
fn tasks_run_on_every_store_under_the_names_that_nextflow_gives() {
    for cloud in [Cloud::Google, Cloud::Azure] {
        let emulator = Emulator::start(cloud);
        let bucket = emulator.bucket();
        bucket.put("data/in.txt", b"input\n");
        let launcher = Launcher::of(&bucket);
        let stage = "    ln -s TOP/data/in.txt in.txt";
        let body = "cat in.txt in.txt > made.txt; ln -s in.txt link.txt; exit 5";
        let mut task = launcher.task(&bucket, &["made.txt", "link.txt"], stage, body);
        let (name, value) = emulator.env();
        task.env(name, value).env("GOOGLE_CLOUD_PROJECT", "test");
        // A path on Azure begins with the container.
        if let Some((account, _)) = bucket.url().trim_start_matches("az://").split_once('/')
            && cloud == Cloud::Azure
        {
            task.env("AZURE_STORAGE_ACCOUNT", account);
        }
        let ran = run(&mut task, WITHIN);
        assert_eq!(ran.status.code(), Some(5), "{}", ran.report());
        assert_eq!(get(&bucket, "made.txt").as_deref(), Some("input\ninput\n"));
        assert_eq!(get(&bucket, ".exitcode").as_deref(), Some("5"));
    }
}

#[test]
fn what_is_no_output_is_not_uploaded_where_it_is_to_be_kept_local() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/in.txt", b"input\n");
    let launcher = Launcher::of(&bucket);
    // Longer than uploads wait otherwise.
    let body = format!(
        "mkdir -p tmp/deep made; cp in.txt tmp/deep/scratch; seq 100000 > tmp/large; sleep 1\n\
         {} status --json \"$QUAYFS_MOUNT\" > made/status.txt\n\
         cat in.txt tmp/deep/scratch > made/out.txt; exit 3",
        testkit::quayfs().display()
    );
    let stage = "    ln -s TOP/data/in.txt in.txt";
    let mut task = launcher.task(&bucket, &["made/*.txt"], stage, &body);
    let ran = run(task.env("QUAYFS_KEEP_LOCAL", "true"), WITHIN);
    assert_eq!(ran.status.code(), Some(3), "{}", ran.report());
    assert_eq!(get(&bucket, "made/out.txt").as_deref(), Some("input\ninput\n"));
    assert_eq!(get(&bucket, ".exitcode").as_deref(), Some("3"));
    let keys = bucket.all_keys();
    let is_wanted = |key: &String| {
        ["made/", ".command", ".exitcode", "data/", ".quayfs-"]
            .iter()
            .any(|part| key.contains(part))
            || key == &format!("{WORK}/")
    };
    assert!(keys.iter().all(is_wanted), "{keys:?}");
    let status: serde_json::Value =
        serde_json::from_str(&get(&bucket, "made/status.txt").unwrap()).unwrap();
    assert_eq!(status["counters"]["uploads_done"], 0, "nothing was uploaded while it ran");
}

#[test]
fn what_a_task_writes_has_the_tags_that_nextflow_names() {
    let minio = MinIo::shared();
    let bucket = minio.bucket();
    let launcher = Launcher::of(&bucket);
    let mut task = launcher.task(&bucket, &["out.txt"], "", "echo 1 > out.txt");
    let tags = "[.command.*|.exitcode](nextflow.io/metadata=true),[*](nextflow.io/temporary=true)";
    run(task.env("FUSION_TAGS", tags), WITHIN).ok();
    let tags = |name: &str| {
        let place = format!("it/{}/{WORK}/{name}", bucket.name());
        minio.mc(&["tag", "list", "--json", &place]).ok().to_owned()
    };
    let (out, status) = (tags("out.txt"), tags(".exitcode"));
    assert!(
        out.contains("\"nextflow.io/temporary\":\"true\"") && !out.contains("metadata"),
        "{out}"
    );
    assert!(status.contains("\"nextflow.io/metadata\":\"true\""), "{status}");
}

#[test]
fn outputs_that_are_links_are_objects_and_other_links_are_not() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/in.txt", b"input");
    bucket.put("data/sub/deep.txt", b"deep");
    let launcher = Launcher::of(&bucket);
    let stage = "    ln -s TOP/data/in.txt in.txt\n    ln -s TOP/data folder";
    let body = "ln -s /etc/hostname folder/away; ln -s nowhere folder/lost\n\
                echo -n made > made.txt; ln -s in.txt one.out; ln -s made.txt two.out; ln -s folder all\n\
                ln -s in.txt no-output; ln -s /etc/hostname away.out; ln -s nowhere lost.out";
    let outputs = ["*.out", "all", "in.{txt,csv}"];
    let ran = launcher.run(&bucket, &outputs, stage, body);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.report());
    for (name, want) in [
        ("one.out", "input"),
        ("two.out", "made"),
        ("all/in.txt", "input"),
        ("all/sub/deep.txt", "deep"),
        ("all/away", "/etc/hostname"),
        ("all/lost", "nowhere"),
        ("no-output", "in.txt"),
        ("away.out", "/etc/hostname"),
        ("lost.out", "nowhere"),
    ] {
        assert_eq!(get(&bucket, name).as_deref(), Some(want), "{name}");
    }
    // An input is an output only for who names it, and a pattern does not.
    assert!(get(&bucket, "in.txt").unwrap().ends_with("/data/in.txt"));
    let named = launcher.run(&bucket, &["in.txt"], "    ln -sf TOP/data/in.txt in.txt", "true");
    assert_eq!(named.status.code(), Some(0), "{}", named.report());
    assert_eq!(get(&bucket, "in.txt").as_deref(), Some("input"));
}

#[test]
fn outputs_that_are_links_are_objects_also_where_the_buckets_are_reached_through_a_link() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/in.txt", b"input");
    let launcher = Launcher::of(&bucket);
    symlink(launcher.place.folder("elsewhere"), launcher.top()).unwrap();
    let stage = "    ln -s TOP/data folder";
    // One leads to the folder that it is in.
    let body = "ln -s folder/in.txt one.out; ln -s folder all.out; ln -s . self.out";
    let ran = launcher.run(&bucket, &["*.out"], stage, body);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.report());
    for (name, want) in [("one.out", "input"), ("all.out/in.txt", "input"), ("self.out", ".")] {
        assert_eq!(get(&bucket, name).as_deref(), Some(want), "{name}");
    }
}

#[test]
fn the_folder_of_a_task_speaks_of_its_outputs_as_they_are() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/in.txt", b"input");
    bucket.put("data/sub/deep.txt", b"deep");
    let launcher = Launcher::of(&bucket);
    let stage = "    ln -s TOP/data/in.txt in.txt\n    ln -s TOP/data folder";
    let body = "echo 'echo made' > made.sh; chmod 750 made.sh; ln -s in.txt one.out; ln -s made.sh two.out\n\
                ln -s folder all; ln -s in.txt no-output; echo 1 > out.txt; mkdir sub; mv out.txt sub/\n\
                ln -s sub/out.txt three.out; echo 2 > gone; rm gone";
    let ran = launcher.run(&bucket, &["*.out", "all", "sub"], stage, body);
    assert!(ran.status.success(), "{}", ran.report());
    let mut fsck = launcher.plan().command(["fsck", "--json", "--cache-dir"]);
    fsck.arg(launcher.plan().state()).arg(bucket.url()).arg("--endpoint").arg(bucket.endpoint());
    let checked = run(&mut fsck, WITHIN);
    let found: serde_json::Value = serde_json::from_str(checked.ok()).unwrap();
    assert_eq!(found["bucket"]["flaws"], serde_json::json!([]), "{found}");
    let mount = Plan::of(&bucket).mount();
    let mode = |name: &str| {
        fs::metadata(mount.join(format!("{WORK}/{name}"))).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("made.sh"), mode("two.out"), mode("one.out")), (0o750, 0o750, 0o644));
    mount.umount();
}

#[test]
fn the_status_of_a_task_comes_when_all_else_is_in_the_bucket() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let body = "mkdir many; for i in $(seq 300); do echo $i > many/$i; done; ln -s many/1 link.out\n\
                head -c 3000000 /dev/zero > large";
    let mut command = launcher.task(&bucket, &["*.out"], "", body);
    let mut running = command.spawn().unwrap();
    // A listing is told in the order of the keys, and the status comes first in it.
    let first = wait::until_some("the status", WITHIN, || {
        let keys = bucket.keys();
        keys.contains(&format!("{WORK}/.exitcode")).then_some(keys)
    });
    assert_eq!(get(&bucket, "link.out").as_deref(), Some("1\n"), "the link is an object by then");
    assert!(running.wait().unwrap().success());
    assert_eq!(first, bucket.keys());
    assert!(300 < first.len());
}

/// A folder of the task that a job array has run, as a key.
const MEMBER: &str = "work/01/member";

/// Puts the scripts of a job array into the bucket, and starts the second of its tasks; `after` is what the array does
/// when its task is over.
fn member(launcher: &Launcher, bucket: &Bucket<'_>, after: &str) -> Command {
    let folder = launcher.top().join("s3").join(bucket.name()).join(MEMBER);
    let folder = folder.to_str().unwrap();
    let script = format!(
        "### outputs:\n### - 'link.out'\n### ...\ncd {folder}\ntrap 'printf $? > .exitcode' EXIT\n\
         ln -s {}/s3/{}/data/in.txt link.out\necho done\n",
        launcher.top().display(),
        bucket.name()
    );
    bucket.put("data/in.txt", b"input");
    bucket.put(&format!("{MEMBER}/.command.run"), script.as_bytes());
    // The redirection is Nextflow's.
    let array = format!(
        "array=( /nowhere {folder} )\nexport nxf_array_task_dir=${{array[NUMBER - 1]}}\n\
         bash $nxf_array_task_dir/.command.run 2>&1 > $nxf_array_task_dir/.command.log\n{after}\n"
    );
    bucket.put(&format!("{WORK}/.command.sh"), array.as_bytes());
    let mut command = launcher.task(bucket, &[], "", "bash .command.sh");
    command.env("NUMBER", "2");
    command
}

fn check_member(bucket: &Bucket<'_>, ran: &Finished) {
    assert_eq!(ran.status.code(), Some(0), "{}", ran.report());
    for (name, want) in [("link.out", "input"), (".exitcode", "0"), (".command.log", "done\n")] {
        let found = bucket.get(&format!("{MEMBER}/{name}"));
        assert_eq!(found.as_deref(), Some(want.as_bytes()), "{name}");
    }
    assert_eq!(get(bucket, ".exitcode").as_deref(), Some("0"));
}

#[test]
fn a_task_of_a_job_array_is_complete_in_a_folder_of_its_own() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let ran = run(&mut member(&launcher, &bucket, ""), WITHIN);
    check_member(&bucket, &ran);
}

#[test]
fn the_status_of_a_task_of_a_job_array_comes_when_its_links_are_objects() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let go = launcher.place.path().join("go");
    // What comes last in another folder, and is closed later, is not there before the status of the task is due.
    let after = format!(
        "mkdir later; echo x > later/file; echo x > later/.exitcode; while [ -d {} ] && ! [ -e {} ]; do sleep 0.1; done",
        launcher.place.path().display(),
        go.display()
    );
    let mut command = member(&launcher, &bucket, &after);
    let mut running = command.env("QUAYFS_UPLOAD_DELAY", "10ms").spawn().unwrap();
    wait::until("what is closed later", WITHIN, || get(&bucket, "later/.exitcode").is_some());
    let status = bucket.get(&format!("{MEMBER}/.exitcode"));
    fs::write(go, b"").unwrap();
    assert!(running.wait().unwrap().success());
    assert_eq!(status, None, "its link is none yet");
    let names: Vec<_> = bucket.all_keys().into_iter().filter(|key| key.contains("held")).collect();
    assert_eq!(names, Vec::<String>::new());
    assert!(bucket.get(&format!("{MEMBER}/.exitcode")).is_some());
}

#[test]
fn inputs_are_on_their_way_before_anybody_reads_them() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/large", &noise(1, 3_000_000));
    bucket.put("data/folder/inner", &noise(2, 1_000_000));
    let launcher = Launcher::of(&bucket);
    let stage = "    ln -s TOP/data/large large\n    ln -s TOP/data/folder folder\n    ln -s TOP/data/none none";
    let quayfs = testkit::quayfs();
    let body = format!(
        "got() {{ {} status --json \"$QUAYFS_MOUNT\" | grep -o '\"remote_get_bytes\": *[0-9]*' | grep -o '[0-9]*$'; }}\n\
         for i in $(seq 600); do [ \"$(got)\" -ge 4000000 ] && exit 5; sleep 0.1; done",
        quayfs.display()
    );
    let ran = launcher.run(&bucket, &[], stage, &body);
    assert_eq!(ran.status.code(), Some(5), "{}", ran.report());
}

#[test]
fn a_task_that_is_told_to_end_leaves_what_it_closed_in_the_bucket() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let ready = launcher.plan.folder("ready").join("now");
    // As when the host is taken away with a notice.
    let body = format!(
        "trap 'echo told > told; exit 9' TERM; echo x > out; touch {}; while :; do sleep 0.1; done",
        ready.display()
    );
    let mut running = launcher.task(&bucket, &["out"], "", &body).spawn().unwrap();
    wait::until("the task to be at work", WITHIN, || ready.exists());
    run(Command::new("kill").args(["-TERM", &running.id().to_string()]), WITHIN).ok();
    assert_eq!(running.wait().unwrap().code(), Some(9));
    for (name, want) in [("out", "x\n"), ("told", "told\n"), (".exitcode", "9")] {
        assert_eq!(get(&bucket, name).as_deref(), Some(want), "{name}");
    }
}

#[test]
fn what_is_not_the_tasks_failure_has_a_status_of_its_own() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let launcher = Launcher::of(&bucket);
    let program = launcher.program();
    // The store goes away for good while the task runs.
    let gone = launcher.plan.folder("gone");
    let body = format!(
        "echo x > out; touch {0}/now; until [ -e {0}/go ]; do sleep 0.1; done",
        gone.display()
    );
    let mut command = launcher.task(&bucket, &["out"], "", &body);
    let mut running = command.env("QUAYFS_DEADLINE", "2s").spawn().unwrap();
    wait::until("the task to be at work", WITHIN, || gone.join("now").exists());
    minio.stop();
    fs::write(gone.join("go"), b"").unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(FAILED));
    assert!(!mounted_at(&launcher.top()));
    // Nothing is lost: the next task brings it, the status behind the rest.
    minio.start_again();
    let mut next = launcher.plan.other_command(program.as_os_str());
    let there = launcher.work(&bucket).join("out");
    let said = run(next.arg("cat").arg(&there), WITHIN);
    assert_eq!(said.status.code(), Some(0), "{}", said.report());
    assert_eq!(get(&bucket, "out").as_deref(), Some("x\n"));
}

#[test]
fn what_is_in_the_way_of_a_task_is_told_and_not_taken_for_a_program_that_is_not_there() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let work = launcher.work(&bucket);
    let elsewhere = launcher.place.path().join("elsewhere");
    let nowhere = launcher.top().join("s3/no-such-bucket/work");
    let (here, secret) = (("LANG", "C"), ("AWS_SECRET_ACCESS_KEY", "wrong"));
    for (work, (name, value), words) in [
        (&nowhere, here, "there is no bucket no-such-bucket"),
        (&work, secret, "the secret key does not belong to the access key"),
        (&work, here, "No such file or directory"),
        (&elsewhere, here, "it is not below"),
    ] {
        let mut command = launcher.plan.other_command(launcher.program().as_os_str());
        command.arg("true").env("FUSION_WORK", work).env(name, value);
        let said = run(&mut command, WITHIN);
        assert_eq!(said.status.code(), Some(FAILED), "{}", said.report());
        for words in ["the folder of the task", work.to_str().unwrap(), words] {
            assert!(said.stderr.contains(words), "{words}: {}", said.report());
        }
        assert!(!said.stderr.contains("cannot run"), "{}", said.report());
    }
    let mut help = launcher.plan.other_command(launcher.program().as_os_str());
    let said = run(help.arg("--help"), WITHIN);
    assert!(said.ok().contains("quayfs run --fusion"), "{}", said.report());
}

#[test]
fn a_dead_mount_where_all_buckets_are_to_be_is_taken_away() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let top = launcher.top();
    fs::create_dir_all(&top).unwrap();
    run(launcher.plan.command(["mount", "all"]).arg(&top), WITHIN).ok();
    let daemon = format!("kill -KILL $(pgrep -of 'detach.* {}$')", top.display());
    run(Command::new("sh").args(["-c", &daemon]), WITHIN).ok();
    // What the kernel remembers of it would do.
    wait::until("nobody to answer there", WITHIN, || fs::metadata(&top).is_err());
    let said = launcher.run(&bucket, &["out"], "", "echo x > out");
    assert_eq!(said.status.code(), Some(0), "{}", said.report());
    assert_eq!(get(&bucket, "out").as_deref(), Some("x\n"));
}

#[test]
fn a_copy_of_the_program_is_the_launcher_by_its_name_alone_and_run_does_the_same() {
    let bucket = MinIo::shared().bucket();
    bucket.put("there", b"bytes");
    let launcher = Launcher::of(&bucket);
    let copied = launcher.plan.folder("copied").join("fusion");
    testkit::copy_program(&testkit::quayfs(), &copied);
    let there = launcher.top().join("s3").join(bucket.name()).join("there");
    let check = |said: &Finished| assert_eq!(said.ok(), "bytes", "{}", said.report());
    check(&run(launcher.plan.other_command(copied.as_os_str()).arg("cat").arg(&there), WITHIN));
    let at = launcher.plan.folder("elsewhere");
    let mut command = launcher.plan.command(["run", "--fusion", "--at"]);
    command.arg(&at).args(["--", "cat"]);
    command.arg(at.join("s3").join(bucket.name()).join("there"));
    check(&run(&mut command, WITHIN));
    assert!(!mounted_at(&at) && !mounted_at(&launcher.top()));
    assert!(Path::new(&at).is_dir());
}

/// A mount of the host where the launcher has its own. Nothing is uploaded unless somebody waits for it.
fn host(launcher: &Launcher, bucket: &Bucket<'_>) -> testkit::Mount {
    fs::create_dir(launcher.top()).unwrap();
    let host = Plan::of(bucket).instead_of_url("all").at(&launcher.top());
    let flags = ["--profile", "pipeline", "--commit-last", ".exitcode", "--upload-delay", "1h"];
    host.flags(flags).mount()
}

/// Whether the daemon of a mount can be asked by who uses it; not from a container that the mount was passed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    Reached,
    Elsewhere,
}

impl Daemon {
    const EITHER: [Daemon; 2] = [Daemon::Elsewhere, Daemon::Reached];

    /// `command` where this is so.
    fn run(self, command: &Command) -> Finished {
        let script = match self {
            Daemon::Reached => "exec \"$0\" \"$@\"",
            Daemon::Elsewhere => {
                "mount -t tmpfs -o mode=700 none /run/quayfs && exec \"$0\" \"$@\""
            }
        };
        let mut around = Command::new("unshare");
        around.args(["--mount", "--propagation", "slave", "sh", "-c", script]);
        around.arg(command.get_program()).args(command.get_args()).env_clear();
        around.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(&mut around, WITHIN)
    }
}

#[test]
fn a_mount_that_is_there_is_used_and_stays_whether_its_daemon_is_reached_or_not() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let host = host(&launcher, &bucket);
    for (number, daemon) in ["1", "2"].into_iter().zip(Daemon::EITHER) {
        let body = "mkdir -p deep/er; echo $NUMBER | tee out > deep/er/inner; ln -sf out a.out";
        let mut command = launcher.task(&bucket, &["*.out"], "", body);
        let ran = daemon.run(command.env("NUMBER", number));
        assert_eq!(ran.status.code(), Some(0), "{}", ran.report());
        assert!(mounted_at(&launcher.top()));
        for name in ["out", "deep/er/inner", "a.out"] {
            assert_eq!(get(&bucket, name).unwrap(), format!("{number}\n"), "{name}");
        }
        assert_eq!(get(&bucket, ".exitcode").as_deref(), Some("0"));
    }
    host.umount();
}

#[test]
fn a_task_of_a_job_array_is_in_the_bucket_also_by_a_mount_that_stays() {
    for daemon in Daemon::EITHER {
        let bucket = MinIo::shared().bucket();
        let launcher = Launcher::of(&bucket);
        let host = host(&launcher, &bucket);
        check_member(&bucket, &daemon.run(&member(&launcher, &bucket, "")));
        host.umount();
    }
}

#[test]
fn all_is_in_the_bucket_when_a_command_ends_of_which_no_folder_is_known() {
    for daemon in Daemon::EITHER {
        let bucket = MinIo::shared().bucket();
        let launcher = Launcher::of(&bucket);
        let host = host(&launcher, &bucket);
        let mut command = launcher.plan.other_command(launcher.program().as_os_str());
        let name = bucket.name();
        let script = format!("cd \"$QUAYFS_MOUNT\"/s3/{name}; mkdir d; echo x > d/made");
        daemon.run(command.args(["sh", "-c", &script])).ok();
        assert_eq!(bucket.get("d/made").as_deref(), Some(&b"x\n"[..]), "{daemon:?}");
        host.umount();
    }
}

#[test]
fn a_command_of_which_no_folder_is_known_is_not_failed_by_a_task_that_still_runs() {
    let bucket = MinIo::shared().bucket();
    let launcher = Launcher::of(&bucket);
    let host = host(&launcher, &bucket);
    let words = launcher.place.folder("words");
    let at_work = words.join("at-work");
    let body = format!(
        "printf 0 > .exitcode; touch {}; while [ -d {1} ] && ! [ -e {1}/go ]; do sleep 0.1; done",
        at_work.display(),
        words.display()
    );
    let mut task = launcher.task(&bucket, &[], "", &body).spawn().unwrap();
    wait::until("the task to be at work", WITHIN, || at_work.exists());
    for (number, daemon) in ["1", "2"].into_iter().zip(Daemon::EITHER) {
        let mut command = launcher.plan.other_command(launcher.program().as_os_str());
        let made = format!("made-{number}");
        let script = format!("echo x > \"$QUAYFS_MOUNT\"/s3/{}/{made}", bucket.name());
        let ran = daemon.run(command.args(["sh", "-c", &script]));
        assert_eq!(ran.status.code(), Some(0), "{daemon:?}: {}", ran.report());
        assert_eq!(bucket.get(&made).as_deref(), Some(&b"x\n"[..]), "{daemon:?}");
        assert_eq!(get(&bucket, ".exitcode"), None, "{daemon:?}");
    }
    fs::write(words.join("go"), b"").unwrap();
    assert_eq!(task.wait().unwrap().code(), Some(0));
    assert_eq!(get(&bucket, ".exitcode").as_deref(), Some("0"));
    host.umount();
}
