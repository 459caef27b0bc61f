//! `quayfs ls` and `quayfs du` of a URL, without a mount, show what a mount shows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::{Finished, MinIo, Moto, Plan, run, wait};

use crate::SOON;

const WITHIN: Duration = Duration::from_mins(1);

fn asked(plan: &Plan, command: &str, url: &str, arguments: &[&str]) -> Finished {
    asked_at(&MinIo::shared().endpoint(), plan, &[&[command, url], arguments].concat())
}

fn asked_at(endpoint: &str, plan: &Plan, arguments: &[&str]) -> Finished {
    let mut asked = plan.command(arguments);
    asked.args(["--path-style", "--region", "us-east-1", "--endpoint", endpoint]);
    run(&mut asked, WITHIN)
}

/// All paths below `folder`, sorted; folders end in a slash.
fn tree(folder: &Path, above: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{above}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path(), &format!("{path}/")));
            found.push(format!("{path}/"));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn names_are_those_of_a_mount() {
    // A store that takes all keys.
    let store = Moto::start();
    let bucket = store.bucket();
    let ls = |plan: &Plan, url: &str, arguments: &[&str]| {
        asked_at(bucket.endpoint(), plan, &[&["ls", url], arguments].concat())
    };
    for key in ["a", "a-1", "a/x", "a/y/z", "d/%%odd", "d/empty/", "e//x", "plain file", "ünï/ж"]
    {
        bucket.put(key, b"bytes");
    }
    let long = "n".repeat(300);
    bucket.put(&format!("d/{long}"), b"bytes");
    let mount = Plan::of(&bucket).mount();
    let listed = ls(mount.plan(), &bucket.url(), &["-R"]);
    let mut lines: Vec<String> = listed.ok().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, tree(mount.path(), ""));
    let top = ls(mount.plan(), &bucket.url(), &[]);
    let mut lines: Vec<&str> = top.ok().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["%%=a", "a-1", "a/", "d/", "e/", "plain file", "ünï/"]);
    let below = ls(mount.plan(), &format!("{}/a/y", bucket.url()), &[]);
    assert_eq!(below.ok(), "z\n");
}

#[test]
fn long_form_has_modes_owners_and_links() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).mount();
    fs::create_dir(mount.join("d")).unwrap();
    fs::write(mount.join("d/file"), b"bytes").unwrap();
    fs::set_permissions(mount.join("d/file"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(mount.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink("file", mount.join("d/link")).unwrap();
    wait::until("the modes to be in the bucket", SOON, || {
        mount.status()["pending_attributes"] == 0
    });
    let listed = asked(mount.plan(), "ls", &bucket.url(), &["-l", "-R"]);
    for (start, end) in
        [("drwx------", "  d/"), ("-rw-r-----", "  d/file"), ("lrwxrwxrwx", "  d/link -> file")]
    {
        let has = listed.ok().lines().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(has, "{start} {end}: {}", listed.report());
    }
    let listed = asked(mount.plan(), "ls", &bucket.url(), &["-lR", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(listed.ok()).unwrap();
    let file = listed.iter().find(|entry| entry["path"] == "d/file").unwrap();
    assert_eq!((&file["bytes"], &file["mode"]), (&5.into(), &"640".into()), "{file}");
    let link = listed.iter().find(|entry| entry["path"] == "d/link").unwrap();
    assert_eq!((&link["type"], &link["target"]), (&"link".into(), &"file".into()), "{link}");
}

#[test]
fn sums_count_each_file_once_over_many_pages() {
    let bucket = MinIo::shared().bucket();
    bucket.put_many("many/n-", 1500, "0123456789");
    bucket.put("d/e/x", &[0; 1000]);
    bucket.put("d/y", &[0; 500]);
    bucket.put("top", &[0; 7]);
    let plan = Plan::of(&bucket);
    let du = |arguments: &[&str]| -> Vec<(String, u64, u64)> {
        let said = asked(&plan, "du", &bucket.url(), arguments);
        let sums: Vec<Value> = serde_json::from_str(said.ok()).unwrap();
        let number = |sum: &Value, name: &str| sum[name].as_u64().unwrap();
        sums.iter()
            .map(|sum| {
                let path = sum["path"].as_str().unwrap().to_owned();
                (path, number(sum, "files"), number(sum, "bytes"))
            })
            .collect()
    };
    let owned = |sums: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        sums.iter().map(|&(path, files, bytes)| (path.to_owned(), files, bytes)).collect()
    };
    let total = ("", 1503, 16_507);
    assert_eq!(du(&["-s", "--json"]), owned(&[total]));
    assert_eq!(du(&["--json"]), owned(&[("d", 2, 1500), ("many", 1500, 15_000), total]));
    let deep = [("d/e", 1, 1000), ("d", 2, 1500), ("many", 1500, 15_000), total];
    assert_eq!(du(&["-d", "5", "--json"]), owned(&deep));
    let said = asked(&plan, "du", &bucket.url(), &[]);
    assert!(said.ok().contains("1503 files  ."), "{}", said.report());
}

#[test]
fn object_is_listed_and_a_mistyped_prefix_is_an_error() {
    let bucket = MinIo::shared().bucket();
    bucket.put("d/file", b"bytes");
    let plan = Plan::of(&bucket);
    for command in ["ls", "du"] {
        let wrong = asked(&plan, command, &format!("{}/nosuch", bucket.url()), &[]);
        assert!(
            !wrong.status.success() && wrong.stderr.contains("nothing is in"),
            "{}",
            wrong.report()
        );
    }
    let object = format!("{}/d/file", bucket.url());
    assert_eq!(asked(&plan, "ls", &object, &[]).ok(), "file\n");
    assert!(asked(&plan, "du", &object, &[]).ok().contains("5 B"), "its size");
}

#[test]
fn local_folder_is_listed_folder_by_folder() {
    let plan = Plan::of_url("file:///");
    let folder = plan.folder("store");
    fs::create_dir_all(folder.join("d/e")).unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    for (name, bytes) in [("d/e/x", 10), ("d/y", 5), ("z", 1)] {
        fs::write(folder.join(name), vec![0; bytes]).unwrap();
    }
    let url = format!("file://{}", folder.display());
    let listed = run(&mut plan.command(["ls", "-R", &url]), WITHIN);
    let mut lines: Vec<&str> = listed.ok().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["d/", "d/e/", "d/e/x", "d/y", "empty/", "z"]);
    let summed = run(&mut plan.command(["du", "-d", "2", "--json", &url]), WITHIN);
    let sums: Vec<Value> = serde_json::from_str(summed.ok()).unwrap();
    let paths: Vec<_> = sums.iter().map(|sum| (&sum["path"], &sum["bytes"])).collect();
    let want = serde_json::json!([["d/e", 10], ["d", 15], ["empty", 0], ["", 16]]);
    assert_eq!(serde_json::to_value(paths).unwrap(), want);
}
