//! Large folders and whole trees are listed, by other people's programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{MinIo, Mount, Plan, Shape, SlowLink, is_long, python, run, wait};

use crate::mounted;

const WITHIN: Duration = Duration::from_mins(9);

/// Reads a folder with the C library while others change it, goes back to places that it noted, and
/// begins anew.
const SEEK: &str = r"
import ctypes, os, sys
folder = sys.argv[1].encode()
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
libc.closedir.argtypes = libc.readdir.argtypes = libc.telldir.argtypes = [ctypes.c_void_p]
libc.rewinddir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]

stream = libc.opendir(folder)
assert stream

def next_name():
    ctypes.set_errno(0)
    entry = libc.readdir(stream)
    if not entry:
        assert ctypes.get_errno() == 0, os.strerror(ctypes.get_errno())
        return None
    return ctypes.string_at(entry + 19)

def rest():
    noted = []
    while True:
        place = libc.telldir(stream)
        name = next_name()
        if name is None:
            return noted
        noted.append((place, name))

def path(name):
    return os.path.join(folder, name)

first = [(libc.telldir(stream), next_name()) for _ in range(700)]
assert first[0][1] == b'.' and first[1][1] == b'..', first[:2]
# Removed and made both before and behind the place that was reached.
for number in (5, 500, 4000):
    os.unlink(path(b'n%05d' % number))
for name in (b'a-new', b'n00006-new', b'z-new'):
    open(path(name), 'w').close()
os.rename(path(b'n00007'), path(b'z-moved'))
noted = first + rest()
names = [name for _, name in noted]
assert len(set(names)) == len(names), 'an entry twice'
changed = {b'n%05d' % number for number in (5, 7, 500, 4000)}
stay = {b'n%05d' % number for number in range(5000)} - changed
assert stay <= set(names), sorted(stay - set(names))[:9]

# To go to the very beginning is to begin anew.
for place, name in noted[:1:-97] + noted[1::61]:
    libc.seekdir(stream, place)
    assert libc.telldir(stream) == place
    assert next_name() == name, (place, name)

libc.rewinddir(stream)
again = {name for _, name in rest()}
new = {b'a-new', b'n00006-new', b'z-new', b'z-moved'}
assert again == stay | new | {b'.', b'..'}, again ^ (stay | new)
libc.closedir(stream)
";

#[test]
fn a_place_in_an_open_folder_stays_while_others_make_and_remove_entries() {
    let (bucket, mount) = mounted();
    bucket.put_many("folder/n", 5000, "x");
    let folder = mount.join("folder");
    run(Command::new(python()).args(["-c", SEEK]).arg(&folder), WITHIN).ok();
    // In the kernel's cache nothing is left of what was.
    assert_eq!(crate::names(&folder).len(), 5000);
}

#[test]
fn the_pages_of_a_large_folder_are_asked_for_side_by_side() {
    let count = if is_long() { 100_000 } else { 8000 };
    let store = MinIo::shared();
    let bucket = store.bucket();
    bucket.put_many("folder/file-", count, "");
    let link = SlowLink::to(store.address(), Shape::default());
    let mount = Plan::of(&bucket).instead("--endpoint", &link.endpoint()).mount();
    let before = mount.counter("remote_lists");
    // Two pages say that the folder is large, if the first of them does not take longer: then this
    // may be a store where a beginning costs much.
    link.hold_answers_to("continuation-token");
    let folder = mount.join("folder");
    let began = wait::now();
    let listing = std::thread::spawn(move || fs::read_dir(folder).unwrap().count());
    wait::until("the second page to be asked for", WITHIN, || 1 <= link.held());
    wait::moment(began.elapsed());
    // Those at its beginning do not wait for those elsewhere.
    link.hold_answers_to("start-after");
    wait::until("a page elsewhere to be asked for", WITHIN, || 1 <= link.held());
    wait::until("the others to come meanwhile", WITHIN, || {
        before + 4 <= mount.counter("remote_lists")
    });
    link.release();
    assert_eq!(listing.join().unwrap(), count);
    let asked = mount.counter("remote_lists") - before;
    assert!(asked <= count as u64 / 1000 * 3 / 2 + 20, "{asked} LISTs");
    mount.umount();
}

#[test]
fn a_mount_asks_for_the_names_of_the_folders_that_the_last_one_used() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    bucket.put("a/b/file", b"x");
    bucket.put("other/file", b"x");
    let mount = Plan::of(&bucket).flags(["--metadata-ttl", "1h"]).mount();
    assert_eq!(mount.counter("remote_lists"), 1, "only whether there is such a bucket");
    assert_eq!(fs::read(mount.join("a/b/file")).unwrap(), b"x");
    let mount = mount.umount().mount();
    wait::until("a/ and a/b/ to be asked for", WITHIN, || 3 <= mount.counter("remote_lists"));
    assert_eq!(fs::read(mount.join("a/b/file")).unwrap(), b"x");
    assert_eq!(fs::read(mount.join("other/file")).unwrap(), b"x");
    let mount = mount.umount().mount();
    wait::until("other/ to be asked for, too", WITHIN, || 4 <= mount.counter("remote_lists"));
    mount.umount();
}

#[test]
fn find_and_du_over_many_small_folders_cost_a_request_for_a_thousand_files() {
    let (bucket, mount) = mounted();
    let local = mount.plan().folder("local").join("tree");
    for folder in 0..400 {
        let inner = local.join(format!("f{:02}/g{:02}", folder / 20, folder % 20));
        fs::create_dir_all(&inner).unwrap();
        for file in 0..10 {
            fs::write(inner.join(format!("{file}.txt")), vec![b'x'; folder * 7 + file]).unwrap();
        }
    }
    let target = format!("it/{}/tree", bucket.name());
    MinIo::shared()
        .mc(&["cp", "--quiet", "--recursive", &format!("{}/", local.display()), &target])
        .ok();

    let mount = mount.umount().mount();
    let before = requests(&mount);
    let want = described(&local);
    assert_eq!(want.len(), 4421);
    assert_eq!(described(&mount.join("tree")), want);
    let asked = requests(&mount) - before;
    eprintln!("find: {asked} requests");
    assert!(asked <= 40, "{asked} requests for 421 folders");

    let before = requests(&mount);
    assert_eq!(sizes(&mount.join("tree")), sizes(&local));
    let asked = requests(&mount) - before;
    eprintln!("du: {asked} requests");
    assert!(asked <= 40, "{asked} requests for 421 folders");
}

/// HEADs and LISTs.
fn requests(mount: &Mount) -> u64 {
    mount.counter("remote_heads") + mount.counter("remote_lists")
}

/// Path, kind and size of everything in a folder, as `find` has it; folders have no size.
fn described(folder: &Path) -> BTreeSet<String> {
    let mut find = Command::new("find");
    find.arg(".").args(["-type", "d", "-printf", "%p d\n", "-o", "-printf", "%p %y %s\n"]);
    lines(find.current_dir(folder))
}

/// The apparent sizes of all files, as `du` has them.
fn sizes(folder: &Path) -> BTreeSet<String> {
    let all =
        lines(Command::new("du").args(["-a", "--apparent-size", "-B1", "."]).current_dir(folder));
    all.into_iter().filter(|line| line.contains(".txt")).collect()
}

fn lines(command: &mut Command) -> BTreeSet<String> {
    run(command, WITHIN).ok().lines().map(str::to_owned).collect()
}
