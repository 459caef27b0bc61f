//! URLs that `quayfs share` prints, read by curl.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{
    Cloud, Emulator, Finished, MinIo, Mount, Parrot, Plan, Scratch, close, quayfs, run, write_new,
};

use crate::{USER, mounted};

/// Bound for one command on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

/// A name with characters that URLs escape.
const NAME: &str = "a b+ü%&=~'()*!@:$,;.txt";

fn share(mount: &Mount, path: &Path, more: &[&str]) -> Finished {
    let mut command = mount.plan().command(["share"]);
    run(command.arg(path).args(more), WITHIN)
}

/// Returns what curl reads from `url`; `None` if the store refuses.
fn fetch(url: &str, more: &[&str]) -> Option<String> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail"]).args(more).arg(url);
    let finished = run(&mut command, WITHIN);
    finished.status.success().then_some(finished.stdout)
}

#[test]
fn s3_object_is_read_by_its_url_alone() {
    let (bucket, mount) = mounted();
    let file = mount.join("runs").join(NAME);
    fs::create_dir(mount.join("runs")).unwrap();
    write_new(&file, b"bytes of a file").unwrap();
    let shared = share(&mount, &file, &["--expires", "10m"]);
    let url = shared.ok().trim();
    assert!(
        url.starts_with(&format!("{}/{}/runs/a%20b", bucket.endpoint(), bucket.name())),
        "{url}"
    );
    assert!(url.contains("X-Amz-Expires=600"), "{url}");
    assert_eq!(fetch(url, &[]).as_deref(), Some("bytes of a file"));
    assert_eq!(fetch(url, &["--range", "0-4"]).as_deref(), Some("bytes"));
    let other = url.replace("X-Amz-Expires=600", "X-Amz-Expires=601");
    assert_eq!(fetch(&other, &[]), None, "the signature covers the expiry");
    assert_eq!(fetch(url.split('?').next().unwrap(), &[]), None);

    let shared = share(&mount, &file, &["--json"]);
    let shared: Value = serde_json::from_str(shared.ok()).unwrap();
    assert_eq!(fetch(shared["url"].as_str().unwrap(), &[]).as_deref(), Some("bytes of a file"));
    assert!(shared["expires"].is_i64() && shared["credentials_end"].is_null(), "{shared}");

    write_new(&mount.join("empty"), b"").unwrap();
    let shared = share(&mount, &mount.join("empty"), &[]);
    assert_eq!(fetch(shared.ok().trim(), &[]).as_deref(), Some(""));
    mount.umount();
}

#[test]
fn url_is_refused_where_none_would_work() {
    let store = MinIo::start();
    let bucket = store.bucket();
    let mount = Plan::of(&bucket).flags(["--commit", "async"]).mount();
    let refused = |mount: &Mount, path: &Path, more: &[&str], want: &str| {
        let finished = share(mount, path, more);
        assert!(!finished.status.success(), "{}", finished.report());
        assert!(finished.stderr.contains(want), "{}", finished.report());
        assert_eq!(finished.stdout, "");
    };
    let path = mount.join("file");
    let mut file = File::create_new(&path).unwrap();
    store.freeze();
    file.write_all(b"bytes").unwrap();
    close(file).unwrap();
    refused(&mount, &path, &[], "not uploaded yet: `quayfs sync` waits for that");
    store.thaw();
    run(mount.plan().command(["sync"]).arg(&path), WITHIN).ok();
    share(&mount, &path, &[]).ok();
    refused(&mount, mount.path(), &[], "only files can be shared");
    refused(&mount, &mount.join("missing"), &[], "No such file");
    refused(&mount, &path, &["--expires", "8d"], "from 1s to 7d");
    mount.umount();

    let folder = Scratch::new();
    let mount = Plan::of_url(&format!("file://{}", folder.path().display())).mount();
    write_new(&mount.join("file"), b"bytes").unwrap();
    refused(&mount, &mount.join("file"), &[], "a file of a local folder has no URL");
    mount.umount();
}

#[test]
fn url_is_for_the_user_that_mounted() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(["--allow-other"]).mount();
    let file = mount.join("file");
    write_new(&file, b"bytes").unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", "nogroup", "--clear-groups"]);
    let refused = run(command.arg(quayfs()).arg("share").arg(&file), WITHIN);
    assert!(!refused.status.success(), "{}", refused.report());
    assert!(refused.stderr.contains("mounted by another user"), "{}", refused.report());
    mount.umount();
}

#[test]
fn azure_blob_is_read_by_its_url_alone() {
    let azure = Emulator::start(Cloud::Azure);
    let bucket = azure.bucket();
    bucket.put(&format!("runs/{NAME}"), b"bytes of a file");
    let mount = azure.plan(&format!("{}/runs", bucket.url())).mount();
    let shared = share(&mount, &mount.join(NAME), &[]);
    let url = shared.ok().trim();
    assert_eq!(fetch(url, &[]).as_deref(), Some("bytes of a file"));
    assert_eq!(fetch(&url.replace("sp=r", "sp=rw"), &[]), None, "the signature covers the rights");
    assert_eq!(fetch(url.split('?').next().unwrap(), &[]), None);
    mount.umount();
}

#[test]
fn google_object_has_a_url_if_a_service_account_signs() {
    let google = Emulator::start(Cloud::Google);
    let bucket = google.bucket();
    bucket.put("runs/file.txt", b"bytes of a file");
    let mount = google.plan(&bucket.url()).mount();
    let refused = share(&mount, &mount.join("runs/file.txt"), &[]);
    assert!(refused.stderr.contains("no credentials to sign with"), "{}", refused.report());
    mount.umount();

    let giver = Parrot::saying(r#"{"access_token": "token", "expires_in": 3600}"#);
    let (_, endpoint) = google.env();
    let plan = Plan::of_url(&bucket.url()).flags(["--endpoint", &endpoint]);
    let file = plan.folder("login").join("key.json");
    let text = json!({
        "type": "service_account",
        "client_email": "me@project",
        "private_key": include_str!("../../../remote/src/gcs/test-key.pem"),
        "token_uri": giver.url(),
    });
    fs::write(&file, text.to_string()).unwrap();
    let mount = plan.env("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap()).mount();
    let shared = share(&mount, &mount.join("runs/file.txt"), &[]);
    let url = shared.ok().trim();
    let want = format!("{endpoint}/{}/runs/file.txt?X-Goog-Algorithm=", bucket.name());
    assert!(url.starts_with(&want), "{url}");
    // The emulator does not check signatures; a test of the crate does.
    assert_eq!(fetch(url, &[]).as_deref(), Some("bytes of a file"));
    mount.umount();
}
