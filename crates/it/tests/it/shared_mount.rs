//! Questions of ordinary users about a mount of root that all users of the machine share.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::getxattr;
use rustix::io::Errno;
use serde_json::{Value, json};
use testkit::{Bucket, Finished, MinIo, Mount, Plan, close, quayfs, run, wait, write_new};

use crate::{SOON, USER};

/// Bound for one command on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

fn shared(store: &MinIo) -> (Bucket<'_>, Mount) {
    shared_with(store, "2s")
}

fn shared_with<'a>(store: &'a MinIo, deadline: &str) -> (Bucket<'a>, Mount) {
    let bucket = store.bucket();
    let flags = ["--allow-other", "--dir-mode", "1777", "--commit", "async"];
    // Long, so that names are known while the store does not answer.
    let times = ["--metadata-ttl", "1h", "--deadline", deadline];
    let mount = Plan::of(&bucket).flags(flags).flags(times).mount();
    (bucket, mount)
}

/// Runs a command as an ordinary user.
fn as_user(program: &Path, words: &[&str], path: &Path) -> Finished {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", "nogroup", "--clear-groups"]);
    run(command.arg(program).args(words).arg(path), WITHIN)
}

fn by_user(words: &[&str], path: &Path) -> Finished {
    as_user(&quayfs(), words, path)
}

fn write_as_user(path: &Path) {
    as_user(Path::new("sh"), &["-c", "echo bytes >> \"$0\""], path).ok();
}

/// Appends to `path` while `store` does not answer, so that the upload stays pending.
fn append_unanswered(store: &MinIo, path: &Path) {
    let mut file = File::options().append(true).open(path).unwrap();
    store.freeze();
    file.write_all(b"more").unwrap();
    close(file).unwrap();
}

fn info_as_user(path: &Path) -> Value {
    serde_json::from_str(by_user(&["info", "--json"], path).ok()).unwrap()
}

/// Makes a directory that only root may read, and returns the path of a file in it.
fn hidden(mount: &Mount) -> PathBuf {
    let dir = mount.join("hidden");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    dir.join("secret-name")
}

#[test]
fn user_waits_for_uploads_on_a_mount_of_root() {
    let (bucket, mount) = shared(MinIo::shared());
    let file = mount.join("alice");
    write_as_user(&file);
    by_user(&["sync"], &file).ok();
    assert_eq!(bucket.get("alice").as_deref(), Some(&b"bytes\n"[..]));
    by_user(&["sync"], mount.path()).ok();
    mount.umount();
}

#[test]
fn user_sees_the_state_of_paths_that_it_may_read() {
    let (_bucket, mount) = shared(MinIo::shared());
    let file = mount.join("alice");
    write_as_user(&file);
    by_user(&["sync"], &file).ok();
    let info = info_as_user(&file);
    let url = info["url"].as_str().unwrap();
    assert!(url.starts_with("s3://") && url.ends_with("/alice"), "{info}");
    assert_eq!((&info["kind"], &info["bytes"]), (&"file".into(), &6.into()), "{info}");
    assert_eq!(info["upload"], Value::Null, "{info}");
    assert_eq!(info["storage_class"], "STANDARD", "{info}");
    assert!(info["version"].is_string() && info["store_error"].is_null(), "{info}");
    assert_eq!(info_as_user(mount.path())["kind"], "directory");
    for path in [mount.path(), &file] {
        let status = by_user(&["status"], path);
        assert!(status.ok().contains("ok, mounted for"), "{}", status.report());
        let status: Value =
            serde_json::from_str(by_user(&["status", "--json"], path).ok()).unwrap();
        assert_eq!((&status["health"], &status["pending_uploads"]), (&"ok".into(), &0.into()));
    }

    let file = hidden(&mount);
    write_new(&file, b"secret").unwrap();
    for words in [&["info"][..], &["sync"], &["status"]] {
        for path in [&*file, file.parent().unwrap()] {
            let refused = by_user(words, path);
            assert!(!refused.status.success(), "{}", refused.report());
        }
    }
    mount.umount();
}

#[test]
fn user_sees_no_names_that_it_may_not_read() {
    let store = MinIo::start();
    let (bucket, mount) = shared(&store);
    let (file, own) = (hidden(&mount), mount.join("alice"));
    write_as_user(&own);
    by_user(&["sync"], mount.path()).ok();
    store.stop();
    write_new(&file, b"bytes").unwrap();
    let failed = by_user(&["sync"], mount.path());
    assert!(!failed.status.success(), "{}", failed.report());
    assert!(failed.stderr.contains("the user that mounted can see which"), "{}", failed.report());
    assert!(!failed.stderr.contains("secret-name"), "{}", failed.report());

    write_as_user(&own);
    let failed = by_user(&["sync"], &own);
    assert!(failed.stderr.contains("alice"), "{}", failed.report());
    let info = info_as_user(&own);
    assert!(info["upload"].is_string() && info["upload_error"].is_string(), "{info}");
    let mut command = mount.plan().command(["info", "--json"]);
    let root: Value = serde_json::from_str(run(command.arg(&file), WITHIN).ok()).unwrap();
    assert!(root["upload_error"].is_string(), "{root}");

    store.start_again();
    mount.umount();
    assert_eq!(bucket.get("hidden/secret-name").as_deref(), Some(&b"bytes"[..]));
}

#[test]
fn info_shows_cache_pin_and_programs() {
    let store = MinIo::start();
    let (bucket, mount) = shared(&store);
    bucket.put("dir/file", &testkit::noise(1, 300_000));
    let path = mount.join("dir/file");
    let info = || -> Value {
        let mut command = mount.plan().command(["info", "--json"]);
        serde_json::from_str(run(command.arg(&path), WITHIN).ok()).unwrap()
    };
    let before = info();
    assert_eq!((&before["cached_bytes"], &before["pinned"]), (&0.into(), &false.into()));
    assert_eq!((&before["handles"], &before["open_by"]), (&0.into(), &Value::Array(vec![])));
    let mut command = mount.plan().command(["pin"]);
    run(command.arg(mount.join("dir")), WITHIN).ok();
    let file = File::open(&path).unwrap();
    let after = info();
    assert_eq!((&after["cached_bytes"], &after["pinned"]), (&300_000.into(), &true.into()));
    assert_eq!(after["handles"], 1);
    let own = format!("({})", std::process::id());
    assert!(after["open_by"][0].as_str().unwrap().ends_with(&own), "{after}");
    drop(file);

    append_unanswered(&store, &path);
    let pending = info();
    assert!(pending["upload"].is_string() && pending["pending_files"] == 1, "{pending}");
    assert!(pending["store_error"].is_string() && pending["version"].is_string(), "{pending}");
    let mut command = mount.plan().command(["info"]);
    let page = run(command.arg(mount.join("dir")), WITHIN);
    assert!(page.ok().contains("1 file pending below"), "{}", page.report());
    store.thaw();
    mount.umount();
}

#[test]
fn wait_for_uploads_is_polled_by_its_path_alone() {
    let store = MinIo::start();
    let (_bucket, mount) = shared_with(&store, "1min");
    let (path, other) = (mount.join("file"), mount.join("other"));
    write_new(&path, b"bytes").unwrap();
    write_new(&other, b"bytes").unwrap();
    run(mount.plan().command(["sync"]).arg(mount.path()), WITHIN).ok();
    append_unanswered(&store, &path);
    let ask = |path: &Path, name: &str| -> Result<Value, Errno> {
        let mut value = vec![0; 64 << 10];
        let length = getxattr(path, name, &mut value[..])?;
        Ok(serde_json::from_slice(&value[..length]).unwrap())
    };
    let begun = ask(&path, "quayfs.sync").unwrap();
    assert_eq!(begun["done"], false, "{begun}");
    let name = format!("quayfs.sync.{}", begun["ticket"]);
    assert_eq!(ask(&other, &name), Err(Errno::NODATA));
    assert_eq!(ask(&path, &name).unwrap()["done"], false);
    store.thaw();
    wait::until("the wait to end", SOON, || {
        let wait = ask(&path, &name).unwrap();
        assert_eq!(wait["failed"], json!([]), "{wait}");
        wait["done"] == true
    });
    assert_eq!(ask(&path, &name), Err(Errno::NODATA), "it is over");
    mount.umount();
}
