//! What a dead mount left is finished without another mount, listed and discarded; what is written is
//! brought to the bucket on demand.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::{
    Bucket, Finished, MinIo, Mount, Opening, Plan, Program, Shape, SlowLink, close, noise, run,
    wait, write_new,
};

use crate::crash::dead_while_uploading;
use crate::{mounted, names};

const WITHIN: Duration = Duration::from_mins(1);

fn recover(plan: &Plan, arguments: &[&str]) -> Finished {
    let mut command = plan.command(["recover"]);
    run(command.args(arguments).arg("--cache-dir").arg(plan.state()), WITHIN)
}

fn recover_through(link: &SlowLink, plan: &Plan, url: &str) -> Finished {
    let flags = ["--path-style", "--region", "us-east-1", "--endpoint"];
    recover(plan, &[&[url][..], &flags, &[&link.endpoint()]].concat())
}

fn listed(plan: &Plan) -> Value {
    serde_json::from_str(recover(plan, &["--list", "--json"]).ok()).unwrap()
}

fn no_names() -> Value {
    serde_json::json!([])
}

fn nothing() -> Value {
    serde_json::json!({ "waiting": [], "changes": [], "working": [], "kept": [] })
}

#[test]
fn what_was_on_its_way_is_uploaded_without_a_mount() {
    let bytes = noise(1, 600_000);
    let (bucket, link, mount) = dead_while_uploading(&bytes);
    link.release();
    let plan = mount.umount();
    let list = listed(&plan);
    let [waiting] = &list["waiting"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!((&waiting["key"], &waiting["bytes"]), (&"file".into(), &bytes.len().into()));
    assert_eq!(waiting["fate"], "uploaded");
    let table = recover(&plan, &["--list"]);
    assert!(table.ok().contains("uploads it as file"), "{}", table.report());
    let said = recover_through(&link, &plan, &bucket.url());
    assert!(said.ok().contains("uploaded 1 file left over"), "{}", said.report());
    assert!(bucket.get("file").unwrap() == bytes);
    let again = recover_through(&link, &plan, &bucket.url());
    assert_eq!(again.ok().trim(), "nothing was left to finish", "{}", again.report());
    assert_eq!(listed(&plan), nothing());
}

#[test]
fn what_a_mount_of_all_buckets_left_in_a_prefix_is_uploaded_by_who_may_write_that_only() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("team/theirs", b"bytes");
    let login = store.writer_of_prefix(bucket.name(), "team");
    let plan = Plan::of(&bucket).instead_of_url("all").login(&login);
    let mount = plan.flags(["--commit", "async"]).mount();
    let team = mount.join("s3").join(bucket.name()).join("team");
    let mut file = fs::File::create(team.join("ours")).unwrap();
    store.freeze();
    file.write_all(b"ours").unwrap();
    close(file).unwrap();
    mount.kill();
    store.thaw();
    let plan = mount.umount();
    let url = bucket.url();
    let endpoint = format!("http://{}", store.address());
    let flags = [&url, "--path-style", "--region", "us-east-1", "--endpoint", &endpoint];
    let reader = store.reader();
    let mut command = plan.command(["recover"]);
    command.args(flags).arg("--cache-dir").arg(plan.state());
    command.env("AWS_ACCESS_KEY_ID", &reader.user).env("AWS_SECRET_ACCESS_KEY", &reader.secret);
    let said = run(&mut command, WITHIN);
    assert!(!said.status.success(), "{}", said.report());
    assert_eq!(listed(&plan)["kept"], no_names(), "it waits");
    let said = recover(&plan, &flags);
    assert!(said.ok().contains("uploaded 1 file left over"), "{}", said.report());
    assert_eq!(bucket.get("team/ours").as_deref(), Some(&b"ours"[..]));
}

#[test]
fn bytes_are_listed_although_the_database_is_damaged_or_gone() {
    let bytes = noise(1, 600_000);
    let (_bucket, link, mount) = dead_while_uploading(&bytes);
    link.release();
    let plan = mount.umount();
    let database = plan.state().join("state.db");
    // What SQLite has beside it would do instead of it.
    for beside in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(plan.state().join(beside));
    }
    let damage: [&dyn Fn() -> std::io::Result<()>; 2] =
        [&|| fs::write(&database, noise(2, 65536)), &|| fs::remove_file(&database)];
    for damage in damage {
        damage().unwrap();
        let list = listed(&plan);
        let [waiting] = &list["waiting"].as_array().unwrap()[..] else { panic!("{list}") };
        assert_eq!((&waiting["fate"], &waiting["bytes"]), (&"kept".into(), &bytes.len().into()));
        assert!(fs::read(waiting["path"].as_str().unwrap()).unwrap() == bytes);
    }
    let table = recover(&plan, &["--list"]);
    assert!(table.ok().contains("nothing is recorded of it"), "{}", table.report());
    let url = format!("file://{}", plan.folder("store").display());
    let said = recover(&plan, &[&url]);
    assert!(said.stderr.contains("1 file(s) are in the recovery folder"), "{}", said.report());
}

#[test]
fn what_a_mount_works_on_waits_for_no_other() {
    let (_bucket, mount) = mounted();
    let mut program = Program::open(&mount.join("file"), Opening::Whole).unwrap();
    program.write(&noise(1, 600_000)).unwrap();
    let list = listed(mount.plan());
    let [working] = &list["working"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!((&working["pid"], &working["files"]), (&mount.status()["pid"], &1.into()));
    assert_eq!(working["dir"], mount.path().to_str().unwrap());
    assert_eq!((&list["waiting"], &list["kept"]), (&no_names(), &no_names()));
    mount.kill();
    let dead = mount.abandon();
    let list = listed(&dead);
    assert_eq!(
        (&list["waiting"][0]["key"], &list["waiting"][0]["fate"]),
        (&"file".into(), &"kept".into())
    );
    program.close().unwrap_err();
    let plan = dead.mount().umount();
    assert_eq!(listed(&plan)["waiting"], serde_json::json!([]));
    assert_eq!(listed(&plan)["kept"][0]["name"], "file");
}

/// A mount that closes and changes at once, behind a link that lets nothing of its bucket through.
fn cut_off(before: impl FnOnce(&Bucket<'_>)) -> (Bucket<'static>, SlowLink, Mount) {
    let store = MinIo::shared();
    let bucket = store.bucket();
    before(&bucket);
    let link = SlowLink::to(store.address(), Shape::default());
    let plan = Plan::of(&bucket).instead("--endpoint", &link.endpoint());
    let mount = plan.flags(["--commit", "async", "--metadata-ttl", "1h"]).mount();
    // All that is there is known.
    for name in names(mount.path()) {
        fs::metadata(mount.join(name)).unwrap();
    }
    link.stop_requests_to(&format!("/{}", bucket.name()));
    (bucket, link, mount)
}

#[test]
fn changes_of_names_and_attributes_wait_are_listed_and_are_finished() {
    let (bucket, link, mount) = cut_off(|bucket| {
        for name in ["gone", "old", "changed"] {
            bucket.put(name, b"bytes");
        }
    });
    fs::remove_file(mount.join("gone")).unwrap();
    fs::rename(mount.join("old"), mount.join("new")).unwrap();
    symlink("changed", mount.join("link")).unwrap();
    fs::create_dir(mount.join("folder")).unwrap();
    fs::set_permissions(mount.join("changed"), fs::Permissions::from_mode(0o600)).unwrap();
    let status = mount.status();
    assert_eq!(status["pending_changes"], 4, "{status}");
    assert!(0 < status["pending_attributes"].as_u64().unwrap(), "{status}");
    let list = listed(mount.plan());
    assert_eq!((&list["changes"], &list["working"][0]["changes"]), (&no_names(), &4.into()));
    mount.kill();
    let plan = mount.umount();

    let list = listed(&plan);
    assert_eq!(list["working"], no_names());
    let changes = list["changes"].as_array().unwrap();
    let has = |want: Value| {
        let is_it = |change: &Value| want.as_object().unwrap().iter().all(|(k, v)| change[k] == *v);
        assert!(changes.iter().any(is_it), "{want} is not in {list}");
    };
    has(serde_json::json!({ "what": "remove", "key": "gone" }));
    has(serde_json::json!({ "what": "rename", "key": "old", "to": "new" }));
    has(serde_json::json!({ "what": "make", "key": "link", "kind": "link" }));
    has(serde_json::json!({ "what": "make", "key": "folder/", "kind": "folder" }));
    has(serde_json::json!({ "what": "attributes", "key": "" }));
    let volume = changes[0]["volume"].as_str().unwrap();
    assert!(volume.starts_with(&bucket.url()), "{volume}");
    let table = recover(&plan, &["--list"]);
    for line in
        ["  remove gone\n", "  rename old to new\n", "  make the link link\n", "in the top folder"]
    {
        assert!(table.ok().contains(line), "{}", table.report());
    }

    link.release();
    recover_through(&link, &plan, &bucket.url()).ok();
    assert_eq!(bucket.get("gone"), None);
    assert_eq!(bucket.get("new").as_deref(), Some(&b"bytes"[..]));
    assert_eq!(listed(&plan), nothing());
}

#[test]
fn what_waits_can_be_listed_of_one_bucket() {
    let (bucket, link, mount) = cut_off(|bucket| bucket.put("gone", b"bytes"));
    fs::remove_file(mount.join("gone")).unwrap();
    mount.kill();
    let plan = mount.umount();
    let of = |url: &str| {
        let flags = ["--list", "--json", "--region", "us-east-1", "--endpoint"];
        let said = recover(&plan, &[&[url][..], &flags, &[&link.endpoint()]].concat());
        serde_json::from_str::<Value>(said.ok()).unwrap()["changes"].as_array().unwrap().len()
    };
    assert_eq!((of(&bucket.url()), of("s3://another")), (1, 0));
}

#[test]
fn what_waits_for_a_bucket_that_is_gone_is_given_up_without_it_and_no_byte_is_lost() {
    let (bucket, link, mount) = cut_off(|bucket| bucket.put("gone", b"bytes"));
    fs::remove_file(mount.join("gone")).unwrap();
    write_new(&mount.join("file"), b"closed").unwrap();
    mount.kill();
    let plan = mount.umount();
    let give_up = |url: &str| {
        let flags = ["--give-up", "--region", "us-east-1", "--endpoint"];
        recover(&plan, &[&[url][..], &flags, &[&link.endpoint()]].concat())
    };
    let said = give_up("s3://another");
    assert_eq!(said.ok().trim(), "nothing waited for this bucket", "{}", said.report());
    let other = format!("something waits for {}", bucket.url());
    assert!(said.stderr.contains(&other), "{}", said.report());
    assert_eq!(listed(&plan)["waiting"][0]["key"], "file");

    let said = recover_through(&link, &plan, "s3://never-was");
    assert!(!said.status.success() && said.stderr.contains("--give-up"), "{}", said.report());
    let said = give_up(&bucket.url());
    assert!(said.ok().contains("given up: remove gone"), "{}", said.report());
    let list = listed(&plan);
    assert_eq!((&list["waiting"], &list["changes"]), (&no_names(), &no_names()), "{list}");
    let [kept] = &list["kept"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!(fs::read(kept["path"].as_str().unwrap()).unwrap(), b"closed");
    assert!(kept["reason"].as_str().unwrap().contains(&bucket.url()), "{kept}");
    recover(&plan, &["--discard", kept["name"].as_str().unwrap()]).ok();
    assert_eq!(listed(&plan), nothing());

    link.release();
    let mount = plan.mount();
    assert_eq!(names(mount.path()), ["gone"]);
    mount.umount();
}

#[test]
fn of_a_file_that_was_closed_and_written_again_both_fates_are_listed_and_come_true() {
    let bucket = MinIo::shared().bucket();
    let mount = Plan::of(&bucket).flags(["--commit", "async", "--upload-delay", "1h"]).mount();
    write_new(&mount.join("file"), b"ten bytes.").unwrap();
    let mut program = Program::open(&mount.join("file"), Opening::Append).unwrap();
    program.write(&noise(1, 100_000)).unwrap();
    mount.kill();
    drop(program);
    let plan = mount.umount();
    let list = listed(&plan);
    let fates: Vec<_> = list["waiting"].as_array().unwrap().iter().collect();
    let [sealed, newer] = fates[..] else { panic!("{list}") };
    assert_eq!((&sealed["fate"], &sealed["bytes"]), (&"uploaded".into(), &10.into()));
    assert_eq!((&newer["fate"], &newer["bytes"]), (&"kept".into(), &100_010.into()));
    let mount = plan.mount();
    assert_eq!(bucket.get("file").as_deref(), Some(&b"ten bytes."[..]));
    let list = listed(mount.plan());
    assert_eq!(list["kept"][0]["bytes"], 100_010, "{list}");
}

#[test]
fn a_daemon_that_a_forced_unmount_left_is_told_of_until_it_has_ended() {
    let (bucket, link, mount) = cut_off(|_| {});
    write_new(&mount.join("file"), b"bytes").unwrap();
    let pid = mount.status()["pid"].clone();
    let mut umount = mount.plan().command(["umount", "--force"]);
    let said = run(umount.arg(mount.path()), WITHIN);
    said.ok();
    for words in ["1 file (5 B) not uploaded", &format!("process {pid}, still"), "recover --list"] {
        assert!(said.stderr.contains(words), "{words}: {}", said.report());
    }
    let list = listed(mount.plan());
    let [working] = &list["working"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!((&working["pid"], &working["files"]), (&pid, &1.into()), "{list}");
    assert_eq!((&working["dir"], &list["waiting"]), (&Value::Null, &no_names()));
    let table = recover(mount.plan(), &["--list"]);
    assert!(table.ok().contains(&format!("process {pid}, whose mount")), "{}", table.report());
    link.release();
    wait::until("the daemon to end", WITHIN, || !mount.is_alive());
    assert_eq!(bucket.get("file").as_deref(), Some(&b"bytes"[..]));
    assert_eq!(listed(mount.plan()), nothing());
}

#[test]
fn what_cannot_be_finished_is_listed_with_its_reason_until_it_is_discarded() {
    let bytes = noise(1, 600_000);
    let (bucket, link, mount) = dead_while_uploading(&bytes);
    bucket.put("file", b"theirs");
    link.release();
    let plan = mount.umount();
    recover_through(&link, &plan, &bucket.url()).ok();
    assert_eq!(bucket.get("file").as_deref(), Some(&b"theirs"[..]));
    let list = listed(&plan);
    let [kept] = &list["kept"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!((&kept["name"], &kept["bytes"]), (&"file".into(), &bytes.len().into()));
    assert!(kept["reason"].as_str().unwrap().contains("cannot be finished"), "{kept}");
    assert!(std::fs::read(kept["path"].as_str().unwrap()).unwrap() == bytes);
    let table = recover(&plan, &["--list"]);
    assert!(table.ok().contains("cannot be finished"), "{}", table.report());

    let mount = plan.mount();
    assert_eq!(mount.status()["cache"]["recovery_files"], 1);
    let plan = mount.umount();
    for wrong in ["nothing", "../recovery/file", "file.quayfs-note"] {
        assert!(!recover(&plan, &["--discard", wrong]).status.success(), "{wrong}");
    }
    recover(&plan, &["--discard", "file"]).ok();
    assert_eq!(listed(&plan), nothing());
    assert_eq!(std::fs::read_dir(plan.state().join("recovery")).unwrap().count(), 0);
}

#[test]
fn what_others_put_into_the_recovery_folder_is_listed_and_discarded_like_the_rest() {
    let plan = Plan::of_url("file:///");
    let recovery = plan.state().join("recovery");
    fs::create_dir_all(recovery.join("folder/in")).unwrap();
    fs::write(recovery.join("file"), b"bytes").unwrap();
    // A note that is none, and one that would wait for somebody who writes.
    fs::create_dir(recovery.join("file.quayfs-note")).unwrap();
    run(Command::new("mkfifo").arg(recovery.join("pipe")), WITHIN).ok();
    run(Command::new("mkfifo").arg(recovery.join("pipe.quayfs-note")), WITHIN).ok();
    symlink("folder", recovery.join("link")).unwrap();
    let list = listed(&plan);
    let kept = |name: &str| {
        let all = list["kept"].as_array().unwrap().iter();
        all.filter(|kept| kept["name"] == name).map(|kept| kept["reason"].clone()).next()
    };
    assert_eq!(list["kept"].as_array().unwrap().len(), 4, "{list}");
    assert_eq!(kept("file").unwrap(), "there is no note of why it is here");
    for (name, kind) in [("folder", "a folder"), ("pipe", "a pipe"), ("link", "a link")] {
        assert_eq!(kept(name).unwrap(), format!("{kind} that quayfs did not put here"));
    }
    recover(&plan, &["--list"]).ok();
    recover(&plan, &["--discard", "link", "folder"]).ok();
    let wrong = recover(&plan, &["--discard", "nothing", "pipe"]);
    assert!(!wrong.status.success() && wrong.stderr.contains("nothing"), "{}", wrong.report());
    assert_eq!(listed(&plan)["kept"].as_array().unwrap().len(), 1);
    let outside = recover(&plan, &["--discard", ".."]);
    assert!(!outside.status.success() && plan.state().exists(), "{}", outside.report());
}

#[test]
fn a_sync_brings_what_is_below_a_path_to_the_bucket() {
    let (bucket, mount) = mounted();
    std::fs::create_dir_all(mount.join("in/deep")).unwrap();
    std::fs::create_dir(mount.join("out")).unwrap();
    let programs = ["in/deep/a", "in/b", "out/c"].map(|name| {
        let mut program = Program::open(&mount.join(name), Opening::Whole).unwrap();
        program.write(name.as_bytes()).unwrap();
        program
    });
    let sync = |path: &str| {
        let mut command = mount.plan().command(["sync"]);
        run(command.arg(mount.join(path)), WITHIN)
    };
    sync("in").ok();
    for name in ["in/deep/a", "in/b"] {
        assert_eq!(bucket.get(name).as_deref(), Some(name.as_bytes()), "{name}");
    }
    assert_eq!(bucket.get("out/c"), None, "nobody asked for it");
    sync("out/c").ok();
    assert_eq!(bucket.get("out/c").as_deref(), Some(&b"out/c"[..]));
    for program in programs {
        program.close().unwrap();
    }
    let outside = run(mount.plan().command(["sync", "/"]).current_dir("/"), WITHIN);
    assert!(
        !outside.status.success() && outside.stderr.contains("not mounted"),
        "{}",
        outside.report()
    );
}

#[test]
fn what_is_misspelt_is_said_not_to_be_there() {
    let (_bucket, mount) = mounted();
    let nothing = mount.join("nothing");
    let sync = run(mount.plan().command(["sync"]).arg(&nothing), WITHIN);
    let want = format!("{}: No such file or directory", nothing.display());
    assert!(!sync.status.success() && sync.stderr.contains(&want), "{}", sync.report());
    let state = mount.state().join("nowhere");
    for what in ["--list", "s3://bucket"] {
        let mut command = mount.plan().command(["recover", what, "--cache-dir"]);
        let said = run(command.arg(&state), WITHIN);
        let is_said = !said.status.success() && said.stderr.contains("no state folder");
        assert!(is_said, "{}", said.report());
        assert!(!state.exists());
    }
}

#[test]
fn a_sync_tells_what_could_not_be_uploaded() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("file"), b"ours").unwrap();
    let mut program = Program::open(&mount.join("file"), Opening::Append).unwrap();
    program.write(b" and more").unwrap();
    bucket.put("file", b"theirs");
    let mut command = mount.plan().command(["sync"]);
    let said = run(command.arg(mount.path()), WITHIN);
    assert!(!said.status.success(), "{}", said.report());
    for words in ["not everything could be uploaded", "trying again does not help"] {
        assert!(said.stderr.contains(words), "{}", said.report());
    }
    assert_eq!(bucket.get("file").as_deref(), Some(&b"theirs"[..]));
    let kept = &listed(mount.plan())["kept"][0];
    let reason = kept["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("become file in {}", bucket.url())), "{reason}");
    // Who has it open may write to it still.
    let name = kept["name"].as_str().unwrap();
    let early = recover(mount.plan(), &["--discard", name]);
    assert!(
        !early.status.success() && early.stderr.contains("still has it open"),
        "{}",
        early.report()
    );
    drop(program);
    wait::until("the file to be let go", WITHIN, || {
        recover(mount.plan(), &["--discard", name]).status.success()
    });
    assert_eq!(listed(mount.plan()), nothing());
}
