//! What people fetch, drop and pin by hand: `quayfs warm`, `evict`, `pin`, `unpin`.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{
    Finished, MinIo, Mount, Opening, Plan, Program, Shape, SlowLink, noise, root_folder, run, wait,
};

use crate::SOON;

const WITHIN: Duration = Duration::from_mins(1);
const MIB: usize = 1 << 20;

/// A folder with these files, by their sizes, mounted with these flags.
fn mounted(files: &[(&str, usize)], flags: &[&str]) -> (PathBuf, Mount) {
    let place = Plan::of_url("file:///");
    let store = place.folder("store");
    for (seed, (name, bytes)) in (1..).zip(files) {
        let path = store.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, noise(seed, *bytes)).unwrap();
    }
    let url = format!("file://{}", store.display());
    (store, place.instead_of_url(&url).flags(flags).mount())
}

fn quayfs<S: AsRef<OsStr>>(mount: &Mount, arguments: impl IntoIterator<Item = S>) -> Finished {
    run(&mut mount.plan().command(arguments), WITHIN)
}

/// What the command says of a path in the mount, and whether it succeeded.
fn told(mount: &Mount, command: &[&str], path: &str) -> (Value, bool) {
    let path = mount.join(path).into_os_string();
    let arguments = command.iter().map(|word| (*word).into()).chain(["--json".into(), path]);
    let finished = quayfs(mount, arguments.collect::<Vec<_>>());
    let said = serde_json::from_str(&finished.stdout);
    (said.unwrap_or_else(|_| panic!("{}", finished.report())), finished.status.success())
}

fn warm(mount: &Mount, path: &str) -> Value {
    let (said, is_done) = told(mount, &["warm"], path);
    assert!(is_done, "{said}");
    said
}

/// Drops what is cached; a file that was just closed is given back by the kernel in a moment.
fn evict(mount: &Mount, path: &str) -> Value {
    wait::until_some("nothing to be in use", SOON, || {
        let (said, is_done) = told(mount, &["evict"], path);
        assert!(is_done, "{said}");
        let is_used =
            said["kept"].as_array().unwrap().iter().any(|kept| kept["reason"] == "in use");
        (!is_used).then_some(said)
    })
}

#[test]
fn what_is_warmed_is_read_without_the_store() {
    let (store, mount) = mounted(&[("a/one", 3 * MIB), ("a/b/two", 20 * MIB), ("c", MIB)], &[]);
    let said = warm(&mount, "a");
    assert_eq!((&said["files"], &said["brought_bytes"]), (&json!(2), &json!(23 * MIB)));
    let got = mount.counter("remote_get_bytes");
    assert_eq!(got, 23 << 20, "each byte once");
    for name in ["a/one", "a/b/two"] {
        assert!(fs::read(mount.join(name)).unwrap() == fs::read(store.join(name)).unwrap());
    }
    assert_eq!(mount.counter("remote_get_bytes"), got);
    let again = warm(&mount, "a");
    assert_eq!((&again["brought_bytes"], &again["here_bytes"]), (&json!(0), &json!(23 * MIB)));
}

#[test]
fn only_the_regions_that_were_asked_for_come() {
    let (_store, mount) = mounted(&[("big", 64 * MIB), ("small", 1000)], &[]);
    let regions = ["warm", "--region", "0-128KiB", "--region", "32MiB-33MiB"];
    let (said, is_done) = told(&mount, &regions, "");
    assert!(is_done, "{said}");
    assert_eq!(said["brought_bytes"], (128 << 10) + MIB + 1000);
    assert_eq!(mount.counter("remote_get_bytes"), (128 << 10) + (1 << 20) + 1000);
}

#[test]
fn patterns_and_lists_name_files() {
    let (_store, mount) =
        mounted(&[("r/1/a.bam", 1000), ("r/2/b.bam", 1000), ("r/2/c.txt", 1000)], &[]);
    assert_eq!(warm(&mount, "r/**/*.bam")["files"], 2);
    let missed = quayfs(&mount, [OsStr::new("warm"), mount.join("r/*.bam").as_os_str()]);
    assert!(!missed.status.success() && missed.stderr.contains("no file matches this pattern"));
    let list = mount.plan().folder("lists").join("list");
    let names = ["r/2/c.txt", "r/1/a.bam"].map(|name| mount.join(name).display().to_string());
    fs::write(&list, format!("{}\0", names.join("\0"))).unwrap();
    let arguments = ["warm", "--json", "-0", "--from-file"].map(OsStr::new);
    let finished = quayfs(&mount, arguments.into_iter().chain([list.as_os_str()]));
    let said: Value = serde_json::from_str(finished.ok()).unwrap();
    assert_eq!(
        (&said["files"], &said["brought_bytes"], &said["here_bytes"]),
        (&json!(2), &json!(1000), &json!(1000))
    );
}

#[test]
fn filters_choose_among_the_files_below_a_path() {
    let files = [("r/a.bam", 2000), ("r/b.bam", 10), ("r/tmp/c.bam", 2000), ("r/d.txt", 2000)];
    let (_store, mount) = mounted(&files, &[]);
    let filters = ["--include", "*.bam", "--exclude", "tmp/*", "--min-size", "1KB"];
    let (said, is_done) = told(&mount, &[&["warm"], &filters[..]].concat(), "r");
    assert!(is_done, "{said}");
    assert_eq!((&said["files"], &said["brought_bytes"]), (&json!(1), &json!(2000)));
    let (said, _) = told(&mount, &["warm", "--max-size", "10B"], "r");
    assert_eq!((&said["files"], &said["brought_bytes"]), (&json!(1), &json!(10)));
    assert_eq!(mount.counter("remote_get_bytes"), 2010);
}

#[test]
fn what_is_in_no_mount_is_told_once_by_the_name_that_it_was_given() {
    let (store, mount) = mounted(&[("a", 1000), ("b", 1000), ("folder/c", 1000)], &[]);
    let named =
        [store.join("a"), store.join("b"), store.join("folder"), mount.plan().folder("empty")];
    let paths = named.iter().map(|path| path.as_os_str());
    let said = quayfs(&mount, [OsStr::new("evict")].into_iter().chain(paths));
    assert!(!said.status.success(), "{}", said.report());
    assert_eq!(said.stderr.lines().count(), named.len(), "{}", said.report());
    for path in &named {
        let line = format!("quayfs: {}: not mounted", path.display());
        assert_eq!(
            said.stderr.lines().filter(|told| *told == line).count(),
            1,
            "{}",
            said.report()
        );
    }
}

#[test]
fn a_terminal_shows_how_far_a_warming_is_and_then_what_came_of_it() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    for (seed, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        bucket.put(&format!("files/{name}"), &noise(seed, MIB));
    }
    let link =
        SlowLink::to(store.address(), Shape { total_rate: Some(2 << 20), ..Shape::default() });
    let plan = Plan::of(&bucket).instead("--endpoint", &link.endpoint());
    let mount = plan.flags(["--deadline", "300s"]).mount();
    for (size, bar) in [("100x10", "░"), ("50x10", "% ")] {
        let mut command = Command::new("python3");
        command.arg(root_folder().join("scripts/screen")).args(["--size", size]);
        let bar = format!("see:{bar}");
        command.args([&*bar, "see:/s", "see:left", "end", "--"]);
        command.arg(testkit::quayfs()).args(["warm", "--jobs", "1"]).arg(mount.join("files"));
        let said = run(&mut command, WITHIN);
        assert_eq!(said.ok().lines().count(), 1, "the bar is gone: {}", said.report());
        assert!(said.ok().starts_with("4 files: 4 MiB fetched at "), "{}", said.report());
        evict(&mount, "files");
    }
}

#[test]
fn a_cache_that_is_too_small_is_said_to_be_instead_of_filled_again_and_again() {
    let files = [("a", 3 * MIB), ("b", 3 * MIB), ("c", 3 * MIB)];
    let (_store, mount) = mounted(&files, &["--cache-size", "4MiB"]);
    let (said, is_done) = told(&mount, &["warm", "--jobs", "1"], "");
    assert!(!is_done);
    assert_eq!(said["room_bytes"], 4 << 20);
    assert_eq!(said["files"], 1, "{said}");
    let complaint = quayfs(&mount, [OsStr::new("warm"), mount.path().as_os_str()]);
    assert!(complaint.stderr.contains("--cache-size"), "{}", complaint.report());
}

#[test]
fn file_beyond_the_cache_displaces_nothing() {
    let files = [("small", 2 * MIB), ("large", 12 * MIB)];
    let (_store, mount) = mounted(&files, &["--cache-size", "4MiB"]);
    assert_eq!(warm(&mount, "small")["brought_bytes"], 2 * MIB);
    let (said, is_done) = told(&mount, &["warm"], "large");
    assert!(!is_done, "{said}");
    assert_eq!((&said["brought_bytes"], &said["room_bytes"]), (&json!(0), &json!(4 << 20)));
    assert_eq!(warm(&mount, "small")["here_bytes"], 2 * MIB);
}

#[test]
fn what_is_evicted_is_gone_and_what_is_needed_stays() {
    let (_store, mount) = mounted(&[("one", 2 * MIB), ("two", MIB), ("open", MIB)], &[]);
    warm(&mount, "");
    assert_eq!(mount.status()["cache"]["cached_bytes"], 4 << 20);
    let open = fs::File::open(mount.join("open")).unwrap();
    let mut dirty = Program::open(&mount.join("new"), Opening::Whole).unwrap();
    dirty.write(b"not in the bucket").unwrap();
    let (said, is_done) = told(&mount, &["evict"], "");
    assert!(is_done, "{said}");
    assert_eq!((&said["files"], &said["freed_bytes"]), (&json!(2), &json!(3 << 20)), "{said}");
    let kept: Vec<&Value> = said["kept"].as_array().unwrap().iter().collect();
    let reason = |name: &str| {
        let ends = |kept: &&&Value| kept["path"].as_str().unwrap().ends_with(name);
        kept.iter().find(ends).map(|kept| kept["reason"].as_str().unwrap())
    };
    assert_eq!((reason("/open"), reason("/new")), (Some("in use"), Some("not in the bucket yet")));
    assert_eq!(mount.status()["cache"]["cached_bytes"], 1 << 20);
    drop(open);
    dirty.close().unwrap();
    assert_eq!(evict(&mount, "open")["freed_bytes"], 1 << 20);
    assert_eq!(fs::read(mount.join("new")).unwrap(), b"not in the bucket");
}

#[test]
fn what_is_pinned_stays_whatever_else_is_read_and_after_the_next_mount() {
    let files = [("keep/a", MIB), ("keep/b", MIB), ("other/1", 3 * MIB), ("other/2", 3 * MIB)];
    let (store, mount) = mounted(&files, &["--cache-size", "6MiB"]);
    let (said, is_done) = told(&mount, &["pin"], "keep");
    assert!(is_done, "{said}");
    assert_eq!(
        (&said[0]["pinned"]["files"], &said[0]["pinned"]["brought_bytes"]),
        (&json!(2), &json!(2 * MIB))
    );
    assert_eq!(mount.status()["cache"]["pinned_bytes"], 2 << 20);
    let read_others = |mount: &Mount| {
        for name in ["other/1", "other/2", "other/1"] {
            fs::read(mount.join(name)).unwrap();
        }
    };
    let all_here = |mount: &Mount, bytes: usize| {
        let said = warm(mount, "keep");
        assert_eq!((&said["brought_bytes"], &said["here_bytes"]), (&json!(0), &json!(bytes)));
    };
    read_others(&mount);
    all_here(&mount, 2 * MIB);
    assert_eq!(evict(&mount, "keep")["kept"][0]["reason"], "pinned");

    // What comes into the folder while nothing is mounted is pinned with the rest.
    let plan = mount.umount();
    fs::write(store.join("keep/later"), noise(9, MIB)).unwrap();
    let mount = plan.mount();
    let pinned = || mount.status()["cache"]["pinned_bytes"] == 3 << 20;
    wait::until("the new file to be pinned", SOON, pinned);
    wait::until("the new file to be here", SOON, || warm(&mount, "keep")["brought_bytes"] == 0);
    read_others(&mount);
    all_here(&mount, 3 * MIB);

    let listed = |mount: &Mount| {
        let state = mount.state().as_os_str();
        let arguments = ["pin", "--list", "--json", "--cache-dir"].map(OsStr::new);
        let finished = quayfs(mount, arguments.into_iter().chain([state]));
        serde_json::from_str::<Value>(finished.ok()).unwrap()
    };
    assert_eq!(
        (&listed(&mount)[0]["path"], &listed(&mount)[0]["files"]),
        (&json!("/keep"), &json!(3))
    );
    let unpin = |path: &str| quayfs(&mount, [OsStr::new("unpin"), mount.join(path).as_os_str()]);
    assert!(!unpin("keep/a").status.success(), "it is not pinned by this name");
    unpin("keep").ok();
    assert_eq!(listed(&mount), json!([]));
    assert_eq!(mount.status()["cache"]["pinned_bytes"], 0);
    evict(&mount, "keep");
    assert_eq!(warm(&mount, "keep")["brought_bytes"], 3 * MIB);
}

#[test]
fn what_cannot_be_pinned_keeps_nothing_else_from_it() {
    let (_store, mount) = mounted(&[("a", 1000), ("b", 1000)], &[]);
    let outside = mount.plan().folder("outside");
    let [a, b] = ["a", "b"].map(|name| mount.join(name).into_os_string());
    let paths = [a, outside.into_os_string(), b];
    let of = |command: &[&str]| {
        let words = command.iter().map(Into::into);
        quayfs(&mount, words.chain(paths.iter().cloned()).collect::<Vec<_>>())
    };
    let pinned = of(&["pin", "--json"]);
    assert!(
        !pinned.status.success() && pinned.stderr.contains("not mounted"),
        "{}",
        pinned.report()
    );
    let said: Value = serde_json::from_str(&pinned.stdout).unwrap();
    assert_eq!((&said[0]["pinned"]["files"], &said[2]["pinned"]["files"]), (&json!(1), &json!(1)));
    assert!(said[1]["error"].as_str().unwrap().contains("not mounted"), "{said}");
    assert_eq!(of(&["unpin"]).stderr.lines().count(), 1);
    assert_eq!(mount.status()["cache"]["pinned_bytes"], 0);

    let missing = mount.plan().folder("outside").join("no/reference").into_os_string();
    let said = quayfs(&mount, ["pin".into(), missing]);
    assert!(said.stderr.contains("reference: No such file"), "{}", said.report());
}

#[test]
fn names_are_told_to_people_within_a_line_and_to_programs_as_they_are() {
    const ODD: &str = "two\nlines \u{1b}[2J";
    let (_store, mount) = mounted(&[(ODD, 1000)], &[]);
    let path = mount.join(ODD);
    let said = quayfs(&mount, [OsStr::new("pin"), path.as_os_str()]);
    assert!(said.ok().contains(r"two\nlines \u{1b}[2J: 1 file"), "{}", said.report());
    let said = quayfs(&mount, [OsStr::new("evict"), path.as_os_str()]);
    assert!(said.stderr.contains(r"two\nlines \u{1b}[2J: pinned"), "{}", said.report());
    let (said, _) = told(&mount, &["evict"], ODD);
    assert!(said["kept"][0]["path"].as_str().unwrap().ends_with(ODD), "{said}");
    let state = mount.state().as_os_str();
    let said =
        quayfs(&mount, ["pin", "--list", "--cache-dir"].map(OsStr::new).into_iter().chain([state]));
    assert!(said.ok().contains(r"  /two\nlines \u{1b}[2J  1 file"), "{}", said.report());
}

#[test]
fn a_pin_that_leaves_the_cache_too_little_is_refused_with_the_figures() {
    let files = [("small", MIB), ("large", 4 * MIB)];
    let (_store, mount) = mounted(&files, &["--cache-size", "4MiB"]);
    quayfs(&mount, [OsStr::new("pin"), mount.join("small").as_os_str()]).ok();
    let refused = quayfs(&mount, [OsStr::new("pin"), mount.join("large").as_os_str()]);
    assert!(!refused.status.success());
    for figure in ["4.0 MiB", "1.0 MiB are pinned", "--cache-size"] {
        assert!(refused.stderr.contains(figure), "{figure}: {}", refused.report());
    }
    assert_eq!(mount.status()["cache"]["pinned_bytes"], 1 << 20);
}

#[test]
fn unpin_all_ends_the_pins_of_all_mounts_of_a_user() {
    // No other test mounts as this user, whose mounts are all meant.
    let mounted = || {
        let plan = Plan::of_url("file:///");
        let store = plan.folder("store");
        for name in ["a", "b"] {
            fs::write(store.join(name), vec![1; 1000]).unwrap();
        }
        let url = format!("file://{}", store.display());
        plan.instead_of_url(&url).by_user("news").mount()
    };
    let (one, two) = (mounted(), mounted());
    let pinned = |mount: &Mount| mount.status()["cache"]["pinned_bytes"].as_u64().unwrap();
    for (mount, name) in [(&one, "a"), (&one, "b"), (&two, "a")] {
        quayfs(mount, [OsStr::new("pin"), mount.join(name).as_os_str()]).ok();
    }
    assert!(0 < pinned(&one) && 0 < pinned(&two));
    quayfs(&one, ["unpin", "--all"]).ok();
    assert_eq!((pinned(&one), pinned(&two)), (0, 0));
}
