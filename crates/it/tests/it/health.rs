//! Health of a mount in its bad moments: a silent store, revoked credentials, a state folder that is gone.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::{MinIo, Mount, Plan, Scratch, noise, run, wait};

use crate::SOON;

/// A command of quayfs on a machine that is busy.
const WITHIN: Duration = Duration::from_mins(1);

/// The limits of what counts as stuck are 5 s and 10 s; a look takes a moment.
const STUCK_WITHIN: Duration = Duration::from_secs(25);

fn page(mount: &Mount) -> String {
    run(mount.plan().command(["status"]).arg(mount.path()), WITHIN).ok().to_owned()
}

/// The reasons of the health of a mount, a line each.
fn reasons(status: &Value) -> String {
    let reasons = status["health_why"].as_array().unwrap();
    reasons.iter().map(|why| why.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn silent_store_is_reported_with_the_calls_that_wait() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("dir/file", b"bytes");
    let folder = Scratch::new();
    let metrics = folder.path().join("metrics");
    let mount = Plan::of(&bucket).flags(["--metrics-file", metrics.to_str().unwrap()]).mount();
    assert_eq!(mount.status()["health"], "ok");
    store.freeze();
    let mut list = Command::new("ls");
    let list = list.arg(mount.join("dir")).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut list = list.unwrap();
    let status = wait::until_some("the store to be called silent", STUCK_WITHIN, || {
        let status = mount.status();
        reasons(&status).contains("has not answered for").then_some(status)
    });
    assert_eq!(status["health"], "degraded", "{status}");
    let why = reasons(&status);
    for words in [
        "a call of a program waits for",
        &format!("of dir by ls ({})", list.id()),
        "1 request waits, such as",
    ] {
        assert!(why.contains(words), "{words} in {why}");
    }
    let call = &status["in_flight"]["calls"][0];
    assert_eq!((&call["program"], &call["path"]), (&"ls".into(), &"dir".into()), "{status}");
    assert!(call["request"].as_str().unwrap().contains("dir"), "{call}");
    assert!(5.0 < status["in_flight"]["oldest_request_secs"].as_f64().unwrap(), "{status}");
    let page = page(&mount);
    for words in ["degraded", "calls        1 call waiting", "requests     1 request waiting"] {
        assert!(page.contains(words), "{words} in {page}");
    }
    let live = run(mount.plan().command(["top", "--once"]).arg(mount.path()), WITHIN);
    assert!(live.ok().contains("by ls ("), "{}", live.report());
    wait::until("the metrics to tell of it", SOON, || {
        let text = fs::read_to_string(&metrics).unwrap();
        text.contains("\nquayfs_calls_in_flight 1\n") && !text.contains("oldest_call_seconds 0\n")
    });

    store.thaw();
    list.wait().unwrap();
    wait::until("no call to wait", SOON, || mount.status()["in_flight"]["calls_count"] == 0);
    mount.umount();
}

#[test]
fn failed_request_is_reported_at_once() {
    let store = MinIo::start();
    let bucket = store.bucket();
    let mount = Plan::of(&bucket).flags(["--deadline", "1s", "--metadata-ttl", "1ms"]).mount();
    assert_eq!(mount.status()["health"], "ok");
    store.stop();
    let unseen = mount.join("unseen");
    assert!(wait::within("the look", WITHIN, move || fs::metadata(unseen)).is_err());
    let status = mount.status();
    let why = reasons(&status);
    assert_eq!(status["health"], "degraded", "{status}");
    assert!(why.contains("failed within the last two minutes") && why.contains("s ago"), "{why}");
    mount.umount();
}

#[test]
fn revoked_credentials_are_named_by_status_and_log() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("file", b"bytes");
    let reader = store.reader();
    let flags = ["--metadata-ttl", "1ms", "--deadline", "2s"];
    let mount = Plan::of(&bucket).login(&reader).flags(flags).mount();
    assert_eq!(fs::read(mount.join("file")).unwrap(), b"bytes");
    store.forget(&reader);
    wait::until("the store to refuse", SOON, || {
        fs::metadata(mount.join("other"))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    });
    let status = mount.status();
    assert_eq!(status["health"], "failing", "{status}");
    let why = reasons(&status);
    let key = status["credentials"][0]["name"].as_str().unwrap();
    let words = format!("no longer accepts access key {key}: InvalidAccessKeyId");
    assert!(why.contains(&words), "{words} in {why}");
    let log = mount.state().with_file_name("log");
    wait::until("the log to tell of it", SOON, || {
        fs::read_to_string(&log).unwrap().contains(&words)
    });
}

#[test]
fn state_folder_that_was_moved_is_reported() {
    let folder = Scratch::new();
    let bucket = folder.folder("bucket");
    let mount = Plan::of_url(&format!("file://{}", bucket.display())).mount();
    let (state, away) = (mount.state().to_owned(), mount.state().with_file_name("away"));
    fs::rename(&state, &away).unwrap();
    let status = mount.status();
    let page = page(&mount);
    fs::rename(&away, &state).unwrap();
    assert_eq!(status["health"], "failing", "{status}");
    let words = "it was moved or removed while mounted";
    assert!(reasons(&status).contains(words), "{status}");
    assert!(page.contains(words) && page.contains("nothing is known of"), "{page}");
    assert_eq!(mount.status()["health"], "ok");
    mount.umount();
}

#[test]
fn warmed_bytes_are_hits_when_they_are_read() {
    let bucket = MinIo::shared().bucket();
    let bytes = noise(1, 3_000_000);
    bucket.put("file", &bytes);
    let mount = Plan::of(&bucket).flags(["--no-passthrough"]).mount();
    run(mount.plan().command(["warm"]).arg(mount.path()), WITHIN).ok();
    assert!(fs::read(mount.join("file")).unwrap() == bytes);
    let status = mount.status();
    assert_eq!(status["hit_ratio"], 1.0, "{status}");
    assert!(page(&mount).contains("hit rate 100.0 %"));
    mount.umount();
}

#[test]
fn mount_is_shown_by_its_whole_path() {
    let folder = Scratch::new();
    let bucket = folder.folder("bucket");
    let mount = Plan::of_url(&format!("file://{}", bucket.display())).mount();
    let (parent, name) = (mount.path().parent().unwrap(), mount.path().file_name().unwrap());
    let whole = format!("on {}", mount.path().display());
    for words in [&["status"][..], &["top", "--once"]] {
        let asked = run(mount.plan().command(words).arg(name).current_dir(parent), WITHIN);
        assert!(asked.ok().contains(&whole), "{}", asked.report());
    }
    mount.umount();
}
