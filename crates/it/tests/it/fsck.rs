//! What `quayfs fsck` finds in a state folder and in a bucket, and what it puts right.

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Finished, Plan, noise, run, write_new};

const WITHIN: Duration = Duration::from_mins(1);

fn fsck(plan: &Plan, arguments: &[&str]) -> Finished {
    let mut command = plan.command(["fsck", "--json", "--cache-dir"]);
    run(command.arg(plan.state()).args(arguments), WITHIN)
}

fn found(finished: &Finished) -> Value {
    let found = serde_json::from_str(&finished.stdout);
    found.unwrap_or_else(|_| panic!("{}", finished.report()))
}

/// A folder that was mounted and of which a file of 1 MiB was read: it is cached, and the mount is gone.
fn cached() -> (PathBuf, Plan) {
    let place = Plan::of_url("file:///");
    let store = place.folder("store");
    fs::write(store.join("file"), noise(1, 1 << 20)).unwrap();
    let mount = place.instead_of_url(&format!("file://{}", store.display())).mount();
    fs::read(mount.join("file")).unwrap();
    (store, mount.umount())
}

/// The backing files of cached versions.
fn objects(plan: &Plan) -> Vec<PathBuf> {
    let folders = fs::read_dir(plan.state().join("objects")).unwrap().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
    files.map(|file| file.path()).collect()
}

#[test]
fn what_a_mount_left_in_order_has_no_flaws_and_one_at_work_is_left_alone() {
    let (_store, plan) = cached();
    let checked = fsck(&plan, &[]);
    assert_eq!(found(&checked), json!({ "local": [], "bucket": null }));
    checked.ok();
    let mount = plan.mount();
    let refused = fsck(mount.plan(), &[]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("in use"), "{}", refused.report());
}

#[test]
fn cached_bytes_that_are_wrong_are_found_and_fetched_again_after_a_repair() {
    let (store, plan) = cached();
    let [object] = &objects(&plan)[..] else { panic!("one file was cached") };
    let file = fs::File::options().write(true).open(object).unwrap();
    file.write_all_at(b"rot", 300_000).unwrap();
    drop(file);
    let checked = fsck(&plan, &[]);
    assert!(!checked.status.success());
    let flaws = found(&checked);
    let [flaw] = &flaws["local"].as_array().unwrap()[..] else { panic!("{flaws}") };
    assert_eq!(flaw["what"], "1 granules do not match their checksums");
    assert_eq!((&flaw["about"], &flaw["repaired"]), (&json!("cache"), &json!(false)));
    let repaired = fsck(&plan, &["--repair"]);
    assert_eq!(found(&repaired)["local"][0]["repaired"], true);
    repaired.ok();
    assert_eq!(found(&fsck(&plan, &[]))["local"], json!([]));
    let mount = plan.mount();
    assert!(fs::read(mount.join("file")).unwrap() == fs::read(store.join("file")).unwrap());
}

#[test]
fn bytes_of_which_nothing_is_recorded_go_to_the_recovery_folder_and_records_without_bytes_go() {
    let (_store, plan) = cached();
    fs::write(plan.state().join("staged/77-1"), noise(3, 5000)).unwrap();
    fs::remove_file(&objects(&plan)[0]).unwrap();
    let told = ["recorded, and not there", "staged bytes of which nothing is recorded"];
    assert_eq!(whats(&found(&fsck(&plan, &[]))), told);
    assert!(plan.state().join("staged/77-1").exists(), "looking changes nothing");
    fsck(&plan, &["--repair"]).ok();
    assert_eq!(found(&fsck(&plan, &[]))["local"], json!([]));
    let kept = fs::read(plan.state().join("recovery/unknown-77-1")).unwrap();
    assert!(kept == noise(3, 5000));
}

#[test]
fn what_others_put_into_the_state_folder_is_told_and_files_of_it_are_kept() {
    let (store, plan) = cached();
    let state = plan.state().to_owned();
    let [pipe] = &objects(&plan)[..] else { panic!("one file was cached") };
    let free = ["objects/00", "objects/01"].into_iter().find(|path| !state.join(path).exists());
    let files =
        ["objects/notes", free.unwrap(), "objects/ab/notes", "staged/notes", "staged/a.side"];
    let folders = ["objects/mine", "objects/cd/mine", "staged/mine"];
    for path in folders {
        fs::create_dir_all(state.join(path)).unwrap();
        fs::write(state.join(path).join("inside"), b"theirs").unwrap();
    }
    fs::create_dir_all(state.join("objects/ab")).unwrap();
    for path in files {
        fs::write(state.join(path), path).unwrap();
    }
    symlink("/nowhere", state.join("staged/link")).unwrap();
    fs::remove_file(pipe).unwrap();
    run(Command::new("mkfifo").arg(pipe), WITHIN).ok();

    let flaws = found(&fsck(&plan, &[]));
    let is_told = |path: &Path, what: &str| {
        let all = flaws["local"].as_array().unwrap();
        all.iter().any(|flaw| {
            flaw["path"] == path.to_str().unwrap() && flaw["what"].as_str().unwrap().contains(what)
        })
    };
    assert!(is_told(pipe, "recorded, and not a file"), "{flaws}");
    assert!(is_told(pipe, "a pipe that quayfs did not put here, and leaves here"), "{flaws}");
    for path in &files[..3] {
        assert!(is_told(&state.join(path), "a file that quayfs did not put here"), "{flaws}");
    }
    for path in folders {
        assert!(is_told(&state.join(path), "a folder that quayfs did not put here"), "{flaws}");
    }
    assert!(is_told(&state.join("staged/link"), "a link that quayfs did not put here"), "{flaws}");

    let repaired = fsck(&plan, &["--repair"]);
    assert!(!repaired.status.success(), "what is left is told: {}", repaired.report());
    let left = found(&fsck(&plan, &[]));
    let places = left["local"].as_array().unwrap().iter().map(|flaw| flaw["path"].clone());
    let stay = [&folders[..], &["staged/link"]].concat();
    let mut stay: Vec<_> = stay.iter().map(|path| json!(state.join(path))).collect();
    stay.push(json!(pipe));
    let is_alike =
        places.clone().count() == stay.len() && places.clone().all(|path| stay.contains(&path));
    assert!(is_alike, "{left}");
    let kept = fs::read_dir(state.join("recovery")).unwrap().flatten();
    let texts = kept.map(|kept| fs::read_to_string(kept.path()).unwrap());
    let texts: Vec<String> = texts.filter(|text| files.contains(&&text[..])).collect();
    assert_eq!(texts.len(), files.len(), "{texts:?}");
    // Nor do they keep a mount from its work.
    let mount = plan.mount();
    write_new(&mount.join("new"), b"new").unwrap();
    assert!(fs::read(store.join("new")).unwrap() == b"new");
    assert!(fs::read(mount.join("new")).unwrap() == b"new");
    // Not even where a cached version belongs.
    assert!(fs::read(mount.join("file")).unwrap() == noise(1, 1 << 20));
    let pipes = fs::read_dir(state.join("recovery")).unwrap().flatten();
    let pipes = pipes.filter(|kept| kept.file_type().unwrap().is_fifo()).count();
    assert_eq!(pipes, 1, "what was in the way is kept");
}

#[test]
fn a_file_that_was_opened_and_not_read_is_no_flaw() {
    let place = Plan::of_url("file:///");
    let store = place.folder("store");
    fs::write(store.join("file"), noise(1, 1 << 20)).unwrap();
    let mount = place.instead_of_url(&format!("file://{}", store.display())).mount();
    drop(fs::File::open(mount.join("file")).unwrap());
    let plan = mount.umount();
    assert_eq!(objects(&plan).len(), 1, "there is a backing file");
    fsck(&plan, &[]).ok();
}

/// What is wrong, in words.
fn whats(value: &Value) -> Vec<String> {
    let flaws = value["local"].as_array().unwrap();
    flaws.iter().map(|flaw| flaw["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let plan = Plan::of_url("file:///");
    let nowhere = plan.folder("").join("nowhere");
    let said = run(plan.command(["fsck", "--repair", "--cache-dir"]).arg(&nowhere), WITHIN);
    assert!(!said.status.success() && said.stderr.contains("no state folder"), "{}", said.report());
    assert!(!nowhere.exists());
}

#[test]
fn without_a_database_nothing_is_known_of_what_is_there() {
    let (_store, plan) = cached();
    fs::write(plan.state().join("staged/77-1"), noise(3, 5000)).unwrap();
    fs::remove_file(database(&plan)).unwrap();
    let told =
        ["cached bytes of which nothing is recorded", "staged bytes of which nothing is recorded"];
    assert_eq!(whats(&found(&fsck(&plan, &[]))), told);
    fsck(&plan, &["--repair"]).ok();
    assert_eq!(found(&fsck(&plan, &[]))["local"], json!([]));
    assert!(fs::read(plan.state().join("recovery/unknown-77-1")).unwrap() == noise(3, 5000));
}

#[test]
fn a_database_that_cannot_be_read_is_set_aside_and_that_is_said() {
    let (store, plan) = cached();
    fs::write(database(&plan), noise(5, 65536)).unwrap();
    let checked = fsck(&plan, &[]);
    assert!(!checked.status.success(), "{}", checked.report());
    let repaired = fsck(&plan, &["--repair"]);
    let flaws = found(&repaired);
    assert_eq!(flaws["local"][0]["about"], "database", "{flaws}");
    assert!(whats(&flaws)[0].contains("begun anew, with the old one at"), "{flaws}");
    let aside = flaws["local"][0]["aside"].as_str().unwrap();
    assert!(Path::new(aside).exists(), "{flaws}");
    repaired.ok();
    let mount = plan.mount();
    assert!(fs::read(mount.join("file")).unwrap() == fs::read(store.join("file")).unwrap());
}

fn database(plan: &Plan) -> PathBuf {
    plan.state().join("state.db")
}

#[test]
fn attributes_of_what_is_not_there_are_told() {
    let (store, plan) = cached();
    let mount = plan.mount();
    for name in ["kept", "gone"] {
        write_new(&mount.join(name), b"bytes").unwrap();
        fs::set_permissions(mount.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let plan = mount.umount();
    let url = format!("file://{}", store.display());
    let of_bucket = |plan: &Plan| found(&fsck(plan, &[&url]))["bucket"].clone();
    assert_eq!(of_bucket(&plan), json!({ "objects": 3, "attribute_objects": 1, "flaws": [] }));
    fs::remove_file(store.join("gone")).unwrap();
    let told = of_bucket(&plan);
    assert_eq!(told["flaws"][0]["what"], "speaks of gone, which is not there", "{told}");
    fs::write(attributes_of(&store), b"nonsense").unwrap();
    let told = fsck(&plan, &[&url]);
    assert!(!told.status.success());
    let what = found(&told)["bucket"]["flaws"][0]["what"].clone();
    assert!(what.as_str().unwrap().contains("not understood"), "{what}");
}

fn attributes_of(store: &Path) -> PathBuf {
    store.join(".quayfs-attributes")
}
