//! Keys and passwords are where their owner put them, and nowhere else.

use std::fs;
use std::path::Path;

use testkit::{Bucket, Cloud, Emulator, Login, MinIo, Plan, run, wait, write_new};

use crate::{SOON, TTL, finds};

/// Mounts, works, and looks for `secrets` in all that a mount tells or leaves.
fn check(plan: Plan, bucket: &Bucket<'_>, secrets: &[&str]) {
    let metrics = plan.folder("metrics").join("file");
    let metrics_flag = format!("--metrics-file={}", metrics.display());
    let mount = plan.flags(["--log-level", "trace", &metrics_flag]).mount();
    write_new(&mount.join("ours"), b"bytes").unwrap();
    fs::rename(mount.join("ours"), mount.join("moved")).unwrap();
    bucket.put("theirs", b"bytes");
    wait::until("the object to appear", TTL, || mount.join("theirs").exists());
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");

    let pid = mount.status()["pid"].as_u64().expect("status tells the process");
    let mut told = vec![
        ("arguments", fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap()),
        ("status as JSON", mount.status().to_string()),
    ];
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    let dir = mount.path().to_str().unwrap().to_owned();
    let url = bucket.url();
    for arguments in [&["status", &dir][..], &["list"], &["config", &url], &["doctor"]] {
        let finished = run(&mut mount.plan().command(arguments), SOON);
        told.push(("a command", format!("{}{}", finished.stdout, finished.stderr)));
    }
    let plan = mount.umount();
    told.push(("metrics", fs::read_to_string(&metrics).unwrap_or_default()));
    assert!(told.iter().all(|(what, text)| *what == "metrics" || !text.is_empty()));
    for secret in secrets {
        assert!(20 < secret.len() || secret.contains("secret"), "a word that is nowhere else");
        for (what, text) in &told {
            assert!(!text.contains(secret), "{what}: {text}");
        }
        assert!(!is_in(plan.state(), secret), "a secret is in the state folder or the log");
    }
    assert!(is_in(plan.state(), "theirs"), "the search finds what is there");
}

/// Whether a file below `folder` has `words` in it, the log among them.
fn is_in(folder: &Path, words: &str) -> bool {
    finds(folder, |bytes| bytes.windows(words.len()).any(|window| window == words.as_bytes()))
}

#[test]
fn a_key_of_s3_is_told_nowhere() {
    let bucket = MinIo::shared().bucket();
    let login = Login::root();
    check(Plan::of(&bucket), &bucket, &[&login.secret]);
}

#[test]
fn a_key_of_azure_is_told_nowhere() {
    let azure = Emulator::start(Cloud::Azure);
    let container = azure.bucket();
    let (_, connection) = azure.env();
    let key = connection.split("AccountKey=").nth(1).unwrap().split(';').next().unwrap();
    check(azure.plan(&container.url()), &container, &[key]);
}

#[test]
fn a_key_of_azure_in_a_file_is_told_nowhere() {
    let azure = Emulator::start(Cloud::Azure);
    let container = azure.bucket();
    let (_, connection) = azure.env();
    let key = connection.split("AccountKey=").nth(1).unwrap().split(';').next().unwrap();
    let plan = azure.plan(&container.url()).env("AZURE_STORAGE_KEY", "AAAA");
    let file = plan.folder("credentials").join("azure.env");
    fs::write(&file, format!("# ours\nexport AZURE_STORAGE_KEY='{key}'\n")).unwrap();
    let file = file.to_str().unwrap().to_owned();
    check(plan.flags(["--azure-credentials-file", &file]), &container, &[key]);
}
