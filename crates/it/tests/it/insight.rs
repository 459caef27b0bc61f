//! What a running mount tells: its state, its costs, its slow calls, its metrics, its log.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::{Login, MinIo, Mount, Opening, Plan, Program, Scratch, run, wait};

use crate::SOON;

/// A command of quayfs on a machine that is busy.
const WITHIN: Duration = Duration::from_mins(1);

fn folder_mounted(flags: &[&str]) -> (Scratch, Mount) {
    let folder = Scratch::new();
    let bucket = folder.folder("bucket");
    let plan = Plan::of_url(&format!("file://{}", bucket.display()));
    (folder, plan.flags(flags).mount())
}

fn said(mount: &Mount, arguments: &[&str]) -> String {
    let mut command = mount.plan().command(arguments);
    run(&mut command, WITHIN).ok().to_owned()
}

/// The line of `kind` in a list of times.
fn times<'a>(status: &'a Value, list: &str, kind: &str) -> &'a Value {
    let lines = status[list].as_array().unwrap();
    lines.iter().find(|line| line["kind"] == kind).unwrap_or_else(|| panic!("{kind} in {status}"))
}

#[test]
fn who_connects_and_says_nothing_keeps_nobody_from_asking() {
    let (_folder, mount) = folder_mounted(&[]);
    let device = std::fs::metadata(mount.path()).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let socket = Path::new("/run/quayfs").join(format!("{major}-{minor}.sock"));
    // More than are listened to at a time.
    let silent: Vec<_> = (0..300).map(|_| UnixStream::connect(&socket)).collect();
    assert_eq!(mount.status()["health"], "ok");
    drop(silent);
    mount.umount();
}

#[test]
fn a_daemon_that_stands_still_is_said_not_to_answer() {
    let (_folder, mount) = folder_mounted(&[]);
    let pid = mount.status()["pid"].as_i64().unwrap();
    let signal = |name: &str| run(Command::new("kill").args([name, &pid.to_string()]), WITHIN);
    signal("-STOP").ok();
    let asked = std::thread::scope(|scope| {
        let ask = |command: &'static str| {
            let mount = &mount;
            scope.spawn(move || run(mount.plan().command([command]).arg(mount.path()), WITHIN))
        };
        let commands = ["status", "umount", "sync", "warm", "evict", "pin", "unpin", "bench"];
        let asking = commands.map(|command| (command, ask(command)));
        // It tells of all mounts, and ends although one of them does not.
        let listed = run(&mut mount.plan().command(["list"]), WITHIN);
        let place = mount.path().to_str().unwrap();
        let line = listed.ok().lines().find(|line| line.contains(place)).unwrap();
        assert!(line.contains("silent"), "{}", listed.report());
        asking.map(|(command, asked)| (command, asked.join().unwrap()))
    });
    signal("-CONT").ok();
    for (command, said) in asked {
        assert!(!said.status.success(), "{command}: {}", said.report());
        assert!(said.stderr.contains("does not answer"), "{command}: {}", said.report());
    }
    mount.umount();
}

#[test]
fn status_tells_what_was_done_how_long_it_took_and_what_it_cost() {
    let bucket = MinIo::shared().bucket();
    bucket.put("there.txt", b"some bytes");
    let mount = Plan::of(&bucket).flags(["--no-passthrough"]).mount();
    assert_eq!(std::fs::read(mount.join("there.txt")).unwrap(), b"some bytes");
    std::fs::write(mount.join("new.txt"), "more").unwrap();

    let status = mount.status();
    assert_eq!(status["health"], "ok", "{status}");
    for (list, kind) in
        [("requests", "get"), ("requests", "put"), ("calls", "read"), ("calls", "create")]
    {
        let line = times(&status, list, kind);
        let [p50, p99, max] = ["p50_ms", "p99_ms", "max_ms"].map(|key| line[key].as_f64().unwrap());
        assert!(1 <= line["count"].as_u64().unwrap() && 0.0 < p50, "{line}");
        assert!(p50 <= p99 && p99 <= max, "{line}");
    }
    let put = times(&status, "requests", "put");
    let want = put["count"].as_f64().unwrap() * 0.005 / 1000.0;
    assert!((put["cost"].as_f64().unwrap() - want).abs() < 1e-12, "{put}");
    assert!(want <= status["cost"]["requests"].as_f64().unwrap(), "{status}");
    assert_eq!(status["hit_ratio"], 0.0, "all of it was fetched");

    // The time of what was written gets there a little later.
    let page = || said(&mount, &["status", &mount.path().to_string_lossy()]);
    wait::until("the attributes to be in the bucket", SOON, || {
        page().contains("everything is in the bucket")
    });
    let page = page();
    for words in ["ok, mounted for", "Amazon S3", "from the store 10 B", "p99", "get", "read"] {
        assert!(page.contains(words), "{words} in {page}");
    }
}

#[test]
fn credentials_are_named_and_never_shown() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).mount();
    let login = Login::root();
    let status = mount.status();
    let who = &status["credentials"][0];
    assert_eq!(who["kind"], "access key", "{status}");
    let name = who["name"].as_str().unwrap();
    assert!(login.user.starts_with(name.split('…').next().unwrap()), "{name}");
    let page = said(&mount, &["status", &mount.path().to_string_lossy()]);
    for text in [status.to_string(), page] {
        assert!(!text.contains(&login.secret), "{text}");
        assert!(!text.contains(&format!("\"{}\"", login.user)), "{text}");
    }
}

#[test]
fn what_cannot_be_uploaded_is_named_with_its_reason() {
    let store = MinIo::start();
    let bucket = store.bucket();
    let mount = Plan::of(&bucket).flags(["--commit", "async", "--deadline", "1s"]).mount();
    let mut program = Program::open(&mount.join("stuck.txt"), Opening::Whole).unwrap();
    program.write(b"bytes").unwrap();
    store.stop();
    program.close().unwrap();
    let (status, upload) = wait::until_some("the upload to fail", SOON, || {
        let status = mount.status();
        let upload = status["uploads"].get(0).cloned()?;
        (upload["state"] == "failed").then_some((status, upload))
    });
    assert_eq!((&upload["path"], &upload["bytes"]), (&"stuck.txt".into(), &5.into()));
    assert!(!upload["reason"].as_str().unwrap().is_empty(), "{upload}");
    assert_eq!(status["health"], "failing", "{status}");
    let page = said(&mount, &["status", &mount.path().to_string_lossy()]);
    assert!(page.contains("failing") && page.contains("stuck.txt"), "{page}");
    store.start_again();
}

#[test]
fn without_a_folder_status_tells_of_every_mount() {
    let (_one, first) = folder_mounted(&[]);
    let (_other, second) = folder_mounted(&[]);
    // Some may be of other tests, and stand still: then it fails, and tells of all the same.
    let all = |arguments: &[&str]| run(&mut first.plan().command(arguments), WITHIN).stdout;
    let list: Value = serde_json::from_str(&all(&["status", "--json"])).unwrap();
    for mount in [&first, &second] {
        let dir = mount.path().to_str().unwrap();
        let found = list.as_array().unwrap().iter().find(|status| status["dir"] == dir);
        assert_eq!(found.unwrap()["health"], "ok");
    }
    assert!(all(&["status"]).contains(first.path().to_str().unwrap()));
}

/// A line of the log that has all of `words`.
fn logged(mount: &Mount, log: &Path, words: &[&str]) -> String {
    wait::until_some(&format!("{words:?} in the log"), SOON, || {
        assert!(mount.is_alive());
        let text = std::fs::read_to_string(log).unwrap_or_default();
        text.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
    })
}

#[test]
fn a_call_and_its_requests_carry_one_number_once_the_level_is_changed() {
    let (bucket, mount) = folder_mounted(&["--log-format", "json"]);
    let log = mount.state().with_file_name("log");
    std::fs::write(mount.join("before"), "x").unwrap();
    said(&mount, &["log-level", mount.path().to_str().unwrap(), "debug"]);
    let object = bucket.path().join("bucket/seen-later");
    std::fs::write(object, "bytes of the bucket").unwrap();
    assert_eq!(std::fs::read(mount.join("seen-later")).unwrap().len(), 19);
    said(&mount, &["log-level", mount.path().to_str().unwrap(), "info"]);
    std::fs::write(mount.join("after"), "x").unwrap();

    let parse = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let request = parse(&logged(&mount, &log, &["\"kind\":\"get\"", "\"asked\"", "seen-later"]));
    let number = request["request"].as_u64().unwrap();
    let of_call = format!("\"request\":{number},");
    let call = parse(&logged(&mount, &log, &[&of_call, "answered", "\"op\":\"read\""]));
    assert_eq!((&call["level"], &call["bytes"]), (&"debug".into(), &19.into()));
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("before") && !text.contains("\"after\""), "{text}");

    let mut wrong = mount.plan().command(["log-level", mount.path().to_str().unwrap(), "loud"]);
    let refused = run(&mut wrong, WITHIN);
    assert!(!refused.status.success() && refused.stderr.contains("not a level"), "{refused:?}");
}

#[test]
fn slow_calls_are_told_by_name_with_their_requests_in_a_file_of_their_own() {
    let folder = Scratch::new();
    let slow = folder.path().join("slow.log");
    let flags = ["--slow-log", "0ms", "--slow-log-file", slow.to_str().unwrap()];
    let (bucket, mount) = folder_mounted(&flags);
    std::fs::write(bucket.path().join("bucket/big"), vec![7; 4096]).unwrap();
    assert_eq!(std::fs::read(mount.join("big")).unwrap().len(), 4096);
    let line = logged(&mount, &slow, &["op=\"read\"", "path=big", "bytes=4096"]);
    assert!(line.contains("requests=1") && line.contains("took="), "{line}");
    let text = std::fs::read_to_string(&slow).unwrap();
    assert!(text.lines().all(|line| line.contains("a slow call")), "{text}");
}

#[test]
fn a_log_that_is_full_is_kept_once_also_one_that_mounts_share() {
    let folder = Scratch::new();
    let slow = folder.path().join("slow.log");
    // As large as they may be.
    let fill = |path: &Path| std::fs::File::create(path).unwrap().set_len(16 << 20).unwrap();
    fill(&slow);
    let bucket = folder.folder("bucket");
    std::fs::write(bucket.join("file"), b"bytes").unwrap();
    let plan = || Plan::of_url(&format!("file://{}", bucket.display()));
    let flags = ["--slow-log", "0ms", "--slow-log-file", slow.to_str().unwrap()];
    let mounts = [(); 2].map(|()| {
        let plan = plan().flags(flags);
        fill(&plan.state().with_file_name("log"));
        plan.mount()
    });
    for mount in &mounts {
        assert_eq!(std::fs::read(mount.join("file")).unwrap(), b"bytes");
        let name = mount.path().to_str().unwrap();
        logged(mount, &slow, &[name, "op=\"read\""]);
        let old = mount.state().with_file_name("log.old");
        assert_eq!(old.metadata().unwrap().len(), 16 << 20);
    }
    assert_eq!(folder.path().join("slow.log.old").metadata().unwrap().len(), 16 << 20);
}

/// The answer to `request`, head and body.
fn asked(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let _ = stream.shutdown(Shutdown::Both);
    answer
}

#[test]
fn metrics_are_served_and_written() {
    let folder = Scratch::new();
    let file = folder.path().join("quayfs.prom");
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let flags = ["--metrics-listen", &address, "--metrics-file", file.to_str().unwrap()];
    let (_bucket, mount) = folder_mounted(&flags);
    std::fs::write(mount.join("a"), "bytes").unwrap();

    let plain = asked(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
    for line in [
        "quayfs_fuse_write_bytes_total 5",
        "quayfs_health{state=\"ok\"} 1",
        "quayfs_request_duration_seconds_count{kind=\"put\"}",
        "quayfs_call_duration_seconds_bucket{operation=\"write\",le=\"+Inf\"} 1",
    ] {
        assert!(plain.contains(line), "{line} in {plain}");
    }
    assert!(asked(&address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(asked(&address, "PUT /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    // Who says nothing holds up nobody.
    let _silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert!(asked(&address, "GET /metrics HTTP/1.1\r\n\r\n").contains("quayfs_info"));

    wait::until("the metrics to be written", SOON, || file.exists());
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.ends_with("# EOF\n") && written.contains("quayfs_info{"), "{written}");
}

#[test]
fn an_address_that_is_taken_is_a_reason_not_to_mount() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = Scratch::new();
    let url = format!("file://{}", folder.folder("bucket").display());
    let refused = Plan::of_url(&url).flags(["--metrics-listen", &address]).attempt().refused();
    assert!(refused.stderr.contains("--metrics-listen"), "{}", refused.report());
}

#[test]
fn access_log_has_a_line_for_each_request_of_its_own() {
    let scratch = Scratch::new();
    let file = scratch.path().join("access.log");
    let (_folder, mount) = folder_mounted(&["--access-log", file.to_str().unwrap()]);
    std::fs::write(mount.join("a b\nput ok 9 1.0 forged"), b"bytes").unwrap();
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    wait::until("a line", SOON, || lines().contains("Z put ok 5 "));
    let put = lines();
    let put = put.lines().find(|line| line.contains("Z put ok 5 ")).unwrap();
    let words: Vec<&str> = put.splitn(6, ' ').collect();
    assert_eq!(words[1..4], ["put", "ok", "5"], "{put}");
    assert!(words[0].ends_with('Z') && words[4].parse::<f64>().is_ok(), "{put}");
    assert!(
        words[5].starts_with("file://") && words[5].ends_with("/a b\\nput ok 9 1.0 forged"),
        "{put}"
    );
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);

    std::fs::rename(&file, scratch.path().join("access.log.1")).unwrap();
    said(&mount, &["reload", mount.path().to_str().unwrap()]);
    std::fs::write(mount.join("next"), b"bytes").unwrap();
    wait::until("a line in a new file", SOON, || lines().contains("/next\n"));
    assert!(!lines().contains("forged"));
    mount.umount();
}
