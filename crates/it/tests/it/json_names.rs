//! Names that are not UTF-8 in what programs read: JSON has text only, and no name may be lost in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Finished, Mount, Plan, run, write_new};

const WITHIN: Duration = Duration::from_mins(1);

/// `café`, as it was written before there was Unicode, and how that is told.
const ODD: &[u8] = b"caf\xe9";
const SPELLED: &str = "%%!caf%E9";

/// A mount whose folder, state folder and one file have such a name.
fn mounted() -> Mount {
    let place = Plan::of_url("file:///");
    let url = format!("file://{}", place.folder("store").display());
    let (path, state) = (odd(&place.folder("at")), odd(&place.folder("states")));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&state).unwrap();
    // Whatever the disk has room for.
    let plan = place.instead_of_url(&url).flags(["--cache-size", "64MiB"]);
    let mount = plan.at(&path).state_in(&state).mount();
    write_new(&odd(mount.path()), b"bytes").unwrap();
    mount
}

fn odd(folder: &Path) -> PathBuf {
    folder.join(OsStr::from_bytes(ODD))
}

fn quayfs(plan: &Plan, words: &[&str], path: Option<&Path>) -> Finished {
    let path = path.map(Path::as_os_str);
    run(&mut plan.command(words.iter().map(OsStr::new).chain(path)), WITHIN)
}

fn told(plan: &Plan, words: &[&str], path: Option<&Path>) -> Value {
    let said = quayfs(plan, words, path);
    serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.report()))
}

/// Whether `value` is a path that ends so.
fn ends(value: &Value, end: &str) -> bool {
    value.as_str().is_some_and(|path| path.ends_with(end))
}

#[test]
fn a_mount_is_told_with_names_that_are_not_utf_8() {
    let mount = mounted();
    let status = mount.status();
    assert!(ends(&status["cache"]["dir"], &format!("/states/{SPELLED}")), "{status}");
    let is_it = |mount: &&Value| ends(&mount["dir"], &format!("/at/{SPELLED}"));
    for words in [&["status", "--json"][..], &["list", "--json"]] {
        let all = told(mount.plan(), words, None);
        assert!(all.as_array().unwrap().iter().find(is_it).is_some(), "{all}");
    }
}

#[test]
fn files_are_told_with_names_that_are_not_utf_8() {
    let mount = mounted();
    let (plan, path) = (mount.plan(), odd(mount.path()));
    let file = format!("/{SPELLED}/{SPELLED}");
    let pinned = told(plan, &["pin", "--json"], Some(&path));
    assert!(ends(&pinned[0]["path"], &file), "{pinned}");
    // The state folder is found by what the mount says of itself.
    let pins = told(plan, &["pin", "--list", "--json"], None);
    assert_eq!(pins[0]["path"], format!("/{SPELLED}"), "{pins}");
    let kept = told(plan, &["evict", "--json"], Some(&path));
    assert!(ends(&kept["kept"][0]["path"], &file), "{kept}");
    let missed = told(plan, &["warm", "--json"], Some(&odd(&path)));
    assert!(ends(&missed["failed"][0]["path"], &format!("{file}/{SPELLED}")), "{missed}");
}

#[test]
fn a_state_folder_is_told_with_names_that_are_not_utf_8_and_they_are_discarded_by_these() {
    let plan = mounted().umount();
    let state = plan.state();
    for place in ["staged", "recovery"] {
        fs::write(odd(&state.join(place)), b"bytes").unwrap();
    }
    let flaws = told(&plan, &["fsck", "--json", "--cache-dir"], Some(state));
    assert!(ends(&flaws["local"][0]["path"], &format!("{SPELLED}/staged/{SPELLED}")), "{flaws}");
    let list = || told(&plan, &["recover", "--list", "--json", "--cache-dir"], Some(state));
    let kept = list()["kept"][0].clone();
    assert_eq!(kept["name"], SPELLED);
    assert!(ends(&kept["path"], &format!("{SPELLED}/recovery/{SPELLED}")), "{kept}");
    let mut words: Vec<OsString> =
        ["recover", "--discard", SPELLED, "--cache-dir"].map(Into::into).into();
    words.push(state.into());
    run(&mut plan.command(&words), WITHIN).ok();
    assert_eq!(list()["kept"], json!([]));
}
