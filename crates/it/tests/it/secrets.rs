//! Keys and passwords are where their owner put them, and nowhere else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use testkit::{Bucket, Cloud, Emulator, Login, MinIo, Parrot, Plan, python, run, wait, write_new};

use crate::{SOON, TTL, USER, finds};

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

#[test]
fn a_signature_of_azure_is_told_nowhere() {
    let azure = Emulator::start(Cloud::Azure);
    let container = azure.bucket();
    let (_, connection) = azure.env();
    let word = |name: &str| connection.split(name).nth(1).unwrap().split(';').next().unwrap();
    let script = "import datetime, sys
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
print(generate_account_sas(sys.argv[1], sys.argv[2], ResourceTypes(True, True, True),
    AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
    datetime.datetime(2099, 1, 1)))";
    let mut python = Command::new(python());
    python.args(["-c", script, word("AccountName="), word("AccountKey=")]);
    let token = run(&mut python, SOON).ok().trim().to_owned();
    let signature = token.split("sig=").nth(1).unwrap().split('&').next().unwrap();
    let plain = signature.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    let plan = Plan::of_url(&container.url()).env("AZURE_STORAGE_SAS_TOKEN", &token);
    let plan = plan.flags(["--endpoint", word("BlobEndpoint=")]);
    check(plan, &container, &[signature, &plain]);
}

#[test]
fn a_key_of_google_and_its_tokens_are_told_nowhere() {
    let google = Emulator::start(Cloud::Google);
    let bucket = google.bucket();
    let token = "ya29.an-access-token-of-the-test";
    let giver = Parrot::saying(&format!(r#"{{"access_token": "{token}", "expires_in": 3600}}"#));
    let key = include_str!("../../../remote/src/gcs/test-key.pem");
    let (_, endpoint) = google.env();
    let plan = Plan::of_url(&bucket.url()).flags(["--endpoint", &endpoint]);
    let file = plan.folder("login").join("key.json");
    let text = serde_json::json!({
        "type": "service_account",
        "client_email": "me@project",
        "private_key": key,
        "token_uri": giver.url(),
    });
    fs::write(&file, text.to_string()).unwrap();
    let plan = plan.env("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap());
    let line = key.lines().nth(3).unwrap();
    check(plan, &bucket, &[line, token]);
    assert!(!giver.heard().is_empty(), "the token was asked for");
}

#[test]
fn nobody_looks_into_the_memory_of_a_mount() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).by_user(USER).mount();
    let pid = mount.status()["pid"].as_u64().expect("status tells the process");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert_eq!(uid.split_whitespace().nth(1), Some("65534"), "{uid}");
    // What could be read by others of this user belongs to root then (`PR_SET_DUMPABLE` in prctl(2)).
    let memory = fs::metadata(format!("/proc/{pid}/mem")).unwrap();
    assert_eq!(memory.uid(), 0);
    mount.umount();
}
