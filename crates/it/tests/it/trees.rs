//! Whole trees are copied in and out by `cp`, and every object is what others expect.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{is_long, noise, run, same_trees, sha256_tree};

use crate::mounted;

const WITHIN: Duration = Duration::from_mins(9);
const SMALL_FILES: u64 = 1000;

#[test]
pub(crate) fn a_tree_copied_in_and_out_is_the_same_and_every_object_has_its_key_and_bytes() {
    let large_mib = if is_long() { 1024 } else { 200 };
    let (bucket, mount) = mounted();
    let source = mount.plan().folder("source");
    make_tree(&source, large_mib);

    copy(&source, &mount.join("tree"));
    same_trees(&source, &mount.join("tree"));
    let want = sha256_tree(&source);
    assert_eq!(want.len() as u64, SMALL_FILES + 1);
    assert_eq!(bucket.sha256_tree("tree/"), want);
    assert_eq!(bucket.unfinished_uploads(), 0);

    // Out again, once from the cache and once from the bucket alone.
    let plan = mount.umount();
    let out = plan.folder("out");
    let fresh = plan.folder("fresh-state");
    let mount = plan.mount();
    copy(&mount.join("tree"), &out.join("from-cache"));
    same_trees(&source, &out.join("from-cache"));
    let mount = mount.umount().state_in(&fresh).mount();
    copy(&mount.join("tree"), &out.join("from-bucket"));
    same_trees(&source, &out.join("from-bucket"));
    mount.umount();
}

#[test]
pub(crate) fn a_tree_is_packed_unpacked_and_removed_in_place() {
    let (bucket, mount) = mounted();
    let script = "mkdir -p src/a/b; for i in 1 2 3 4 5; do echo $i > src/a/b/$i; done; \
        tar czf packed.tgz src; mkdir out; tar xzf packed.tgz -C out; \
        diff -r src out/src; rm -r src out; [ \"$(ls)\" = packed.tgz ]";
    run(Command::new("sh").args(["-ec", script]).current_dir(mount.path()), WITHIN).ok();
    assert_eq!(bucket.keys(), ["packed.tgz"]);
}

/// Folders of small files of many sizes, and one large file.
fn make_tree(folder: &Path, large_mib: u64) {
    for number in 0..SMALL_FILES {
        let inner = folder.join(format!("folder {}/ü{}", number % 10, number % 3));
        fs::create_dir_all(&inner).unwrap();
        let len = usize::try_from(number * number % 50_000).unwrap();
        fs::write(inner.join(format!("file {number}")), noise(number, len)).unwrap();
    }
    let mut large = fs::File::create(folder.join("large")).unwrap();
    for mib in 0..large_mib {
        large.write_all(&noise(mib, 1 << 20)).unwrap();
    }
    // Not a multiple of any block, part or granule.
    large.write_all(b"and a bit").unwrap();
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-r").args([from, to]), WITHIN).ok();
}
