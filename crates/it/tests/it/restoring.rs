//! `quayfs recover --restore`: bytes of the recovery folder go back to where they belong, or elsewhere, and nothing is
//! replaced by them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;
use testkit::{Bucket, Finished, MinIo, Opening, Plan, Program, noise, run, wait};

use crate::{SOON, TTL};

const WITHIN: Duration = Duration::from_mins(1);

fn recover(plan: &Plan, arguments: &[&str]) -> Finished {
    let mut command = plan.command(["recover"]);
    command.args(["--path-style", "--region", "us-east-1"]);
    run(command.args(arguments).arg("--cache-dir").arg(plan.state()), WITHIN)
}

fn kept(plan: &Plan) -> Vec<Value> {
    let listed: Value = serde_json::from_str(recover(plan, &["--list", "--json"]).ok()).unwrap();
    listed["kept"].as_array().unwrap().clone()
}

fn kept_names(plan: &Plan) -> Vec<String> {
    kept(plan).iter().map(|kept| kept["name"].as_str().unwrap().to_owned()).collect()
}

/// A mount that made the file `d/file`, mode 640, of `old` into `ours`, while another client put `theirs` there.
fn conflict(old: &[u8], ours: &[u8], theirs: &[u8]) -> (Bucket<'static>, Plan) {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).mount();
    fs::create_dir(mount.join("d")).unwrap();
    fs::write(mount.join("d/file"), old).unwrap();
    fs::set_permissions(mount.join("d/file"), fs::Permissions::from_mode(0o640)).unwrap();
    wait::until("the mode to be in the bucket", SOON, || mount.status()["pending_attributes"] == 0);
    assert!(fs::read(mount.join("d/file")).unwrap() == old);
    let mut program = Program::open(&mount.join("d/file"), Opening::Edit).unwrap();
    program.write_at(ours, 0).unwrap();
    bucket.put("d/file", theirs);
    program.close().unwrap_err();
    wait::until("the edit to be kept", SOON, || !kept(mount.plan()).is_empty());
    (bucket, mount.umount())
}

#[test]
fn other_version_is_not_replaced_by_a_restore() {
    let (bucket, plan) = conflict(b"old bytes", b"OUR", b"theirs");
    let listed = &kept(&plan)[0];
    assert_eq!(listed["origin"]["key"], "d/file", "{listed}");
    let table = recover(&plan, &["--list"]);
    let meant = format!("meant for {}/d/file (endpoint {})", bucket.url(), bucket.endpoint());
    assert!(table.ok().contains(&meant), "{}", table.report());

    let refused = recover(&plan, &["--restore", "d_file"]);
    assert!(!refused.status.success() && refused.stderr.contains("--as"), "{}", refused.report());
    assert_eq!(bucket.get("d/file").as_deref(), Some(&b"theirs"[..]));
    assert_eq!(kept_names(&plan), ["d_file"]);
}

#[test]
fn restored_file_has_its_bytes_and_mode_once_the_name_is_free() {
    let old = noise(1, 300_000);
    let (bucket, plan) = conflict(&old, b"OUR", b"theirs");
    bucket.delete("d/file");
    let said = recover(&plan, &["--restore", "d_file"]);
    assert!(said.ok().contains("restored d/file"), "{}", said.report());
    let want = [&b"OUR"[..], &old[3..]].concat();
    assert!(bucket.get("d/file").unwrap() == want);
    assert_eq!(kept_names(&plan), [""; 0]);
    let again = recover(&plan, &["--restore", "d_file"]);
    assert!(again.stderr.contains("nothing in the recovery folder"), "{}", again.report());
    let mount = plan.mount();
    wait::until("the file to have its mode", TTL, || {
        let file = fs::metadata(mount.join("d/file"));
        file.is_ok_and(|file| file.permissions().mode() & 0o7777 == 0o640)
    });
}

#[test]
fn restore_as_another_path_keeps_both_versions() {
    let (bucket, plan) = conflict(b"old bytes", b"OUR", b"theirs");
    for (path, why) in [
        ("d/file", "exists"),
        ("d/../x", "plain path"),
        ("none/x", "no such file"),
        ("d/file/x", ""),
    ] {
        let refused = recover(&plan, &["--restore", "d_file", "--as", path]);
        assert!(!refused.status.success(), "{path}: {}", refused.report());
        assert!(refused.stderr.contains(why), "{path}: {}", refused.report());
    }
    assert_eq!(kept_names(&plan), ["d_file"]);
    recover(&plan, &["--restore", "d_file", "--as", "d/ours %%1"]).ok();
    assert_eq!(bucket.get("d/file").as_deref(), Some(&b"theirs"[..]));
    let mount = plan.mount();
    assert_eq!(fs::read(mount.join("d/ours %%1")).unwrap(), b"OUR bytes");
    let mode = fs::metadata(mount.join("d/ours %%1")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert_eq!(kept_names(mount.plan()), [""; 0]);
}

#[test]
fn file_with_zeros_of_unknown_origin_is_not_restored() {
    let bucket = MinIo::shared().bucket();
    let old = noise(1, 20 << 20);
    bucket.put("big", &old);
    let mount = Plan::of(&bucket).mount();
    wait::until("the object to appear", TTL, || mount.join("big").exists());
    let mut program = Program::open(&mount.join("big"), Opening::Edit).unwrap();
    program.write_at(b"our edit", 7 << 20).unwrap();
    mount.kill();
    let plan = mount.abandon().mount().umount();
    program.close().unwrap_err();
    assert_eq!(kept_names(&plan), ["big"]);
    // Nothing says which of its zeros the program had written when the daemon was killed.
    let refused = recover(&plan, &["--restore", "big"]);
    assert!(refused.stderr.contains("is not known"), "{}", refused.report());
    assert!(bucket.get("big").unwrap() == old);
    assert_eq!(kept_names(&plan), ["big"]);
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
fn file_with_bytes_that_are_nowhere_is_not_restored() {
    let bucket = MinIo::shared().bucket();
    bucket.put("file", &noise(1, 3 << 20));
    let mount = Plan::of(&bucket).mount();
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    let mut program = Program::open(&mount.join("file"), Opening::Edit).unwrap();
    bucket.delete("file");
    // Whole granules, so that nothing of the old bytes is fetched.
    program.write_at(&noise(2, 128 << 10), 1 << 20).unwrap();
    program.close().unwrap_err();
    let plan = mount.umount();
    let kept = kept_names(&plan);
    let refused = recover(&plan, &["--restore", &kept[0]]);
    assert!(refused.stderr.contains("were never on this machine"), "{}", refused.report());
    assert_eq!(bucket.get("file"), None);
    assert_eq!(kept_names(&plan), kept);
}

#[test]
fn file_without_a_place_in_its_note_tells_how_to_copy_it() {
    let (_bucket, plan) = conflict(b"old bytes", b"OUR", b"theirs");
    let note = plan.state().join("recovery/d_file.quayfs-note");
    let text = fs::read_to_string(&note).unwrap();
    let old: Vec<&str> = text.lines().filter(|line| !line.starts_with("restore: ")).collect();
    assert_eq!(old.len() + 1, text.lines().count(), "{text}");
    fs::write(&note, old.join("\n")).unwrap();
    let refused = recover(&plan, &["--restore", "d_file"]);
    let path = plan.state().join("recovery/d_file");
    let advice = format!("copy {} into a mount", path.display());
    assert!(refused.stderr.contains(&advice), "{}", refused.report());
    assert_eq!(kept_names(&plan), ["d_file"]);
}

#[test]
fn file_is_not_restored_into_another_bucket() {
    let (_bucket, plan) = conflict(b"old bytes", b"OUR", b"theirs");
    let other = MinIo::shared().bucket();
    let endpoint = other.endpoint();
    let refused = recover(&plan, &[&other.url(), "--restore", "d_file", "--endpoint", endpoint]);
    assert!(refused.stderr.contains("it belongs to"), "{}", refused.report());
    assert_eq!((other.get("d/file"), kept_names(&plan)), (None, vec!["d_file".to_owned()]));
}
