//! The end of a daemon: signals, uploads that are left, and the exit status.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Duration;

use testkit::{Bucket, Login, MinIo, Mount, Plan, mounted_at, run, wait, write_new};

use crate::SOON;

const WITHIN: Duration = Duration::from_mins(1);

/// The exit status of a daemon that could not upload everything.
const NOT_UPLOADED: i32 = 174;

fn send(signal: &str, pid: u32) {
    run(Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]), WITHIN).ok();
}

/// A mount in the foreground of a store that was frozen after a file was closed.
fn cut_off(minio: &MinIo, bucket: &Bucket<'_>, flags: &[&str]) -> (Child, Mount) {
    let plan = Plan::of(bucket).flags(["--foreground", "--commit", "async", "--deadline", "2s"]);
    let (child, mount) = plan.flags(["--upload-delay", "1h"]).flags(flags).in_foreground();
    wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
    write_new(&mount.join("file"), b"bytes").unwrap();
    minio.freeze();
    (child, mount)
}

fn log(mount: &Mount) -> String {
    mount.plan().last_log()
}

#[test]
fn an_end_waits_for_a_store_that_comes_back() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let (mut child, mount) = cut_off(&minio, &bucket, &[]);
    send("TERM", child.id());
    // A whole round of tries has failed by then.
    let failed = || log(&mount).contains("trying again");
    wait::until("a try to fail", WITHIN, failed);
    assert_eq!(child.try_wait().unwrap(), None, "it gave up");
    minio.thaw();
    assert!(child.wait().unwrap().success(), "{}", log(&mount));
    assert!(log(&mount).contains("everything is in the bucket"), "{}", log(&mount));
}

#[test]
fn a_second_signal_ends_the_wait_with_a_status_and_loses_nothing() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let (mut child, mount) = cut_off(&minio, &bucket, &[]);
    send("TERM", child.id());
    wait::until("a try to fail", WITHIN, || log(&mount).contains("trying again"));
    send("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(NOT_UPLOADED), "{}", log(&mount));
    assert!(log(&mount).contains("before everything was uploaded"), "{}", log(&mount));
    minio.thaw();
    let ended = mount.abandon();
    let next = Plan::of(&bucket).state_in(ended.state()).mount();
    assert_eq!(fs::read(next.join("file")).unwrap(), b"bytes");
    next.umount();
}

#[test]
fn an_end_waits_for_credentials_that_are_renewed() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let logins =
        [minio.writer_of_prefix(bucket.name(), "team"), minio.of_prefix(bucket.name(), "team")];
    let plan = Plan::of(&bucket).without_login();
    let file = plan.folder("etc").join("credentials");
    let use_login = |Login { user, secret }: &Login| {
        let keys = format!("aws_access_key_id = {user}\naws_secret_access_key = {secret}\n");
        fs::write(&file, format!("[default]\n{keys}")).unwrap();
    };
    use_login(&logins[0]);
    let plan = plan.instead_of_url(&format!("{}/team", bucket.url()));
    let plan = plan.env("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap());
    let flags = ["--foreground", "--commit", "async", "--deadline", "2s", "--upload-delay", "1h"];
    let (mut child, mount) = plan.flags(flags).in_foreground();
    wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
    write_new(&mount.join("file"), b"bytes").unwrap();
    minio.forget(&logins[0]);
    send("TERM", child.id());
    wait::until("a try to be refused", WITHIN, || log(&mount).contains("trying again"));
    use_login(&logins[1]);
    assert!(child.wait().unwrap().success(), "{}", log(&mount));
    assert_eq!(bucket.get("team/file").unwrap(), b"bytes");
}

#[test]
fn an_end_does_not_wait_for_a_file_that_a_program_holds_back() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let flags = ["--foreground", "--commit", "async", "--commit-last", "done"];
    let (mut child, mount) = Plan::of(&bucket).flags(flags).in_foreground();
    wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
    let _held = fs::File::create(mount.join("done.held")).unwrap();
    write_new(&mount.join("done"), b"0").unwrap();
    send("TERM", child.id());
    let ended = wait::within("the end", WITHIN, move || child.wait().unwrap());
    assert_eq!(ended.code(), Some(NOT_UPLOADED), "{}", log(&mount));
    assert!(!bucket.keys().contains(&"done".to_owned()));
}

#[test]
fn detached_mount_says_in_the_log_what_it_leaves() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let (mut child, mount) = cut_off(&minio, &bucket, &["--shutdown-timeout", "1s"]);
    run(Command::new("fusermount3").arg("-u").arg(mount.path()), WITHIN).ok();
    assert_eq!(child.wait().unwrap().code(), Some(NOT_UPLOADED), "{}", log(&mount));
    assert!(log(&mount).contains("before everything was uploaded"), "{}", log(&mount));
    minio.thaw();
}

#[test]
fn a_reload_changes_the_log_and_names_what_needs_a_remount() {
    let plan = Plan::of_url("file:///");
    let url = format!("file://{}", plan.folder("store").display());
    let file = plan.folder("etc").join("config.toml");
    fs::write(&file, "[general]\nlog-level = \"info\"\n").unwrap();
    let mount = plan.instead_of_url(&url).flags(["--config".as_ref(), file.as_os_str()]).mount();
    let pid = u32::try_from(mount.status()["pid"].as_u64().unwrap()).unwrap();
    let current = mount.path().with_file_name("log");
    fs::rename(&current, current.with_extension("1")).unwrap();
    send("HUP", pid);
    wait::until("a new log", WITHIN, || log(&mount).contains("no setting has changed"));

    fs::write(&file, "[general]\nlog-level = \"debug\"\ncache-size = \"1GiB\"\n").unwrap();
    let reload = || run(mount.plan().command(["reload"]).arg(mount.path()), WITHIN);
    let said = reload();
    let said = said.ok();
    assert!(said.contains("log-level: info -> debug\n"), "{said}");
    assert!(said.contains("-> 1GiB (needs a remount)\n"), "{said}");
    fs::metadata(mount.path()).unwrap();
    assert!(log(&mount).contains(" DEBUG "), "{}", log(&mount));

    fs::write(&file, "[general]\nlog-level = \"loud\"\n").unwrap();
    let said = reload();
    assert!(!said.status.success() && said.stderr.contains("config.toml"), "{}", said.report());
    assert!(mount.is_alive());
    mount.umount();
}

#[test]
fn a_limit_ends_the_wait_with_a_status() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let (mut child, mount) = cut_off(&minio, &bucket, &["--shutdown-timeout", "1s"]);
    send("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(NOT_UPLOADED), "{}", log(&mount));
    minio.thaw();
}

#[test]
fn no_signal_but_those_that_end_a_mount_harms_it() {
    let plan = Plan::of_url("file:///");
    let url = format!("file://{}", plan.folder("store").display());
    let mount = plan.instead_of_url(&url).mount();
    let pid = u32::try_from(mount.status()["pid"].as_u64().unwrap()).unwrap();
    let named =
        "HUP USR1 USR2 PIPE ALRM VTALRM PROF IO PWR STKFLT TSTP TTIN TTOU XFSZ WINCH URG CHLD CONT";
    let real_time = (34..=64).map(|number: u32| number.to_string());
    for signal in named.split(' ').map(str::to_owned).chain(real_time) {
        send(&signal, pid);
        write_new(&mount.join(&signal), signal.as_bytes()).unwrap();
        assert_eq!(fs::read(mount.join(&signal)).unwrap(), signal.as_bytes());
        assert!(mount.is_alive(), "{signal}: {}", log(&mount));
    }
    mount.umount();
}

#[test]
fn each_signal_that_asks_for_the_end_uploads_what_was_closed() {
    for signal in ["TERM", "INT", "QUIT", "XCPU"] {
        let plan = Plan::of_url("file:///");
        let store = plan.folder("store");
        let plan = plan.instead_of_url(&format!("file://{}", store.display()));
        let plan = plan.flags(["--foreground", "--commit", "async", "--upload-delay", "1h"]);
        let (mut child, mount) = plan.in_foreground();
        wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
        write_new(&mount.join("file"), b"bytes").unwrap();
        send(signal, child.id());
        let ended = child.wait().unwrap();
        assert_eq!((ended.code(), ended.signal()), (Some(0), None), "{signal}");
        assert_eq!(fs::read(store.join("file")).unwrap(), b"bytes", "{signal}");
        assert!(!mounted_at(mount.path()), "{signal}");
    }
}

#[test]
fn a_forced_unmount_does_not_wait_for_a_daemon_that_stands_still() {
    let plan = Plan::of_url("file:///");
    let url = format!("file://{}", plan.folder("store").display());
    let mount = plan.instead_of_url(&url).mount();
    let (said, took) = mount.frozen(|| {
        wait::timed(|| run(mount.plan().command(["umount", "--force"]).arg(mount.path()), WITHIN))
    });
    assert!(said.status.success() && !mounted_at(mount.path()), "{}", said.report());
    // Three patiences, where each of a dozen questions had one of ten seconds.
    assert!(took < Duration::from_secs(20), "{took:?}: {}", said.report());
}

#[test]
fn the_log_tells_what_was_mounted_and_that_it_ended() {
    let plan = Plan::of_url("file:///");
    let url = format!("file://{}", plan.folder("store").display());
    let mount = plan.instead_of_url(&url).mount();
    let pid = mount.status()["pid"].to_string();
    let plan = mount.umount();
    let log = plan.last_log();
    let mounted = log.lines().find(|line| line.contains("mounted source=")).expect(&log);
    let pid = format!("pid={pid}");
    for words in [&*url, &*pid, "version=", "mode=\"rw\"", "cache_dir=", "io_uring="] {
        assert!(mounted.contains(words), "{words}: {mounted}");
    }
    assert!(log.contains("unmounted: everything is in the bucket"), "{log}");
}

#[test]
fn a_forced_unmount_ends_calls_that_wait_for_a_silent_daemon() {
    let plan = Plan::of_url("file:///");
    let url = format!("file://{}", plan.folder("store").display());
    let mount = plan.instead_of_url(&url).mount();
    let (said, asked) = mount.frozen(|| {
        let mut asking = Command::new("stat").arg(mount.join("unseen")).spawn().unwrap();
        let place = format!("/proc/{}/wchan", asking.id());
        let waits = || fs::read_to_string(&place).is_ok_and(|at| at.contains("request_wait"));
        wait::until("the call to wait for the daemon", SOON, waits);
        let said = run(mount.plan().command(["umount", "--force"]).arg(mount.path()), WITHIN);
        let asked = wait::within("the call to end", WITHIN, move || asking.wait().unwrap());
        (said, asked)
    });
    assert!(!asked.success());
    assert!(said.stderr.contains("does not answer: `quayfs recover"), "{}", said.report());
    said.ok();
    mount.abandon();
}

#[test]
fn umount_takes_the_short_flags_of_other_file_systems() {
    for flags in [&["-fl"][..], &["-f", "-l"], &["-l"], &["-f"], &["--lazy", "--force"]] {
        let plan = Plan::of_url("file:///");
        let url = format!("file://{}", plan.folder("store").display());
        let mount = plan.instead_of_url(&url).mount();
        let held = fs::File::create(mount.join("file")).unwrap();
        let said = run(mount.plan().command(["umount"]).args(flags).arg(mount.path()), WITHIN);
        assert!(said.status.success() && !mounted_at(mount.path()), "{flags:?} {}", said.report());
        drop(held);
        mount.abandon();
    }
}

#[test]
fn a_lazy_unmount_leaves_a_daemon_that_waits_for_the_store() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let (mut child, mount) = cut_off(&minio, &bucket, &[]);
    let said = run(mount.plan().command(["umount", "--lazy"]).arg(mount.path()), WITHIN);
    assert!(said.stderr.contains("uploads on in the background"), "{}", said.report());
    said.ok();
    wait::until("a try to fail", WITHIN, || log(&mount).contains("trying again"));
    minio.thaw();
    assert!(child.wait().unwrap().success(), "{}", log(&mount));
    assert_eq!(bucket.keys(), ["file"]);
}

#[test]
fn a_forced_unmount_that_fails_leaves_uploads_as_they_were() {
    let (user, _lock) = user_of_this_test();
    let minio = MinIo::start();
    let bucket = minio.bucket();
    let flags = ["--foreground", "--commit", "async", "--deadline", "2s", "--upload-delay", "1h"];
    let (mut child, mount) = Plan::of(&bucket).by_user(user).flags(flags).in_foreground();
    wait::until("the mount to answer", SOON, || mounted_at(mount.path()));
    let write = format!("echo bytes > {}", mount.join("file").display());
    run(mount.plan().other_command("sh".as_ref()).args(["-c", &write]), WITHIN).ok();
    minio.freeze();
    // Without fusermount3 a user cannot unmount.
    let mut umount = mount.plan().other_command("env".as_ref());
    umount.arg("PATH=/nonexistent").arg(mount.plan().folder("").join("quayfs"));
    let said = run(umount.args(["umount", "--force"]).arg(mount.path()), WITHIN);
    assert!(!said.status.success() && mounted_at(mount.path()), "{}", said.report());
    send("TERM", child.id());
    wait::until("a try to fail", WITHIN, || log(&mount).contains("trying again"));
    minio.thaw();
    assert!(child.wait().unwrap().success(), "{}", log(&mount));
}

/// A user that no other test uses meanwhile, in another run on this machine neither, for as long as the lock is held.
fn user_of_this_test() -> (&'static str, fs::File) {
    let known = fs::read_to_string("/etc/passwd").unwrap();
    let is_known = |name: &&str| known.lines().any(|line| line.starts_with(&format!("{name}:")));
    let free = ["uucp", "lp", "mail", "proxy", "backup", "list", "irc", "games"]
        .into_iter()
        .filter(is_known)
        .find_map(|name| {
            let place = std::env::temp_dir().join(format!("quayfs-test-{name}.lock"));
            let lock = fs::File::create(place).unwrap();
            lock.try_lock().is_ok().then_some((name, lock))
        });
    free.expect("a user that no test uses")
}

#[test]
fn umount_of_all_mounts_takes_those_of_this_user_alone() {
    let (user, _lock) = user_of_this_test();
    let plan = || Plan::of_url("file:///");
    let of = |plan: Plan| {
        let url = format!("file://{}", plan.folder("store").display());
        plan.instead_of_url(&url)
    };
    let of_root = of(plan()).mount();
    let one = of(plan()).by_user(user).mount();
    let runtime = one.plan().folder("run").display().to_string();
    let two = of(plan()).by_user(user).env("XDG_RUNTIME_DIR", &runtime).mount();
    let unmount = || run(&mut one.plan().command(["unmount", "--all"]), WITHIN);

    // The mount of a command that runs is left to it.
    let third = of(plan()).by_user(user).env("XDG_RUNTIME_DIR", &runtime);
    let mut command = third.command(["run", "--cache-dir"]);
    command.arg(third.state()).arg("--at").arg(third.path());
    command.arg(format!("file://{}", third.folder("store").display()));
    let mut command = command.args(["--", "sleep", "600"]).spawn().unwrap();
    wait::until("the mount of the command", SOON, || mounted_at(third.path()));

    // A program is in one of them: the other goes.
    let mut guest = one.plan().other_command("sh".as_ref());
    let mut guest =
        guest.args(["-c", "cd \"$1\" && exec sleep 600", "sh"]).arg(one.path()).spawn().unwrap();
    let place = format!("/proc/{}/cwd", guest.id());
    wait::until("a guest", WITHIN, || fs::read_link(&place).is_ok_and(|at| at == one.path()));
    let said = unmount();
    let told = said.stderr.contains("sleep") || said.stderr.contains("use");
    assert!(!said.status.success() && told, "{}", said.report());
    assert!(mounted_at(one.path()) && !mounted_at(two.path()), "{}", said.report());
    assert_eq!(said.stdout, format!("{}: unmounted\n", two.path().display()));
    assert!(mounted_at(third.path()));
    send("TERM", command.id());
    command.wait().unwrap();
    wait::until("the mount of the command to go", WITHIN, || !mounted_at(third.path()));
    guest.kill().unwrap();
    guest.wait().unwrap();

    let reloaded = run(&mut one.plan().command(["reload", "--all"]), WITHIN);
    assert_eq!(reloaded.ok(), format!("{}:\nno setting has changed\n", one.path().display()));
    unmount().ok();
    assert!(!mounted_at(one.path()));
    unmount().ok();
    assert!(mounted_at(of_root.path()));
    of_root.umount();
}
