//! A folder of the local disk mounted as if it were a bucket.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use testkit::{Mount, Plan, append, close, noise, overwrite, wait, write_new};

use crate::{SOON, TTL, names};

fn mounted() -> (PathBuf, Mount) {
    let place = Plan::of_url("file:///");
    let store = place.folder("store");
    let url = format!("file://{}", store.display());
    let mount = place.instead_of_url(&url).mount();
    (store, mount)
}

#[test]
fn a_file_written_through_the_mount_is_a_plain_file_in_the_folder() {
    let (store, mount) = mounted();
    let mut bytes = noise(1, 3_000_000);
    fs::create_dir(mount.join("folder")).unwrap();
    write_new(&mount.join("folder/file"), &bytes).unwrap();
    assert!(fs::read(store.join("folder/file")).unwrap() == bytes);

    append(&mount.join("folder/file"), b"more").unwrap();
    bytes.extend(b"more");
    let file = fs::File::options().write(true).open(mount.join("folder/file")).unwrap();
    file.write_all_at(b"edit", 1_000_000).unwrap();
    close(file).unwrap();
    bytes[1_000_000..1_000_004].copy_from_slice(b"edit");
    assert!(fs::read(store.join("folder/file")).unwrap() == bytes);
    assert!(fs::read(mount.join("folder/file")).unwrap() == bytes);

    fs::rename(mount.join("folder/file"), mount.join("moved")).unwrap();
    assert!(fs::read(store.join("moved")).unwrap() == bytes);
    assert!(!store.join("folder/file").exists());
    fs::remove_file(mount.join("moved")).unwrap();
    assert!(!store.join("moved").exists());
}

#[test]
fn a_file_put_into_the_folder_appears_in_the_mount() {
    let (store, mount) = mounted();
    fs::create_dir_all(store.join("a/b")).unwrap();
    for version in 0..3 {
        let bytes = noise(version, 500_000 + usize::try_from(version).unwrap());
        // Replaced by rename, as anyone does who does not want readers to see half of it.
        fs::write(store.join("a/b/.file.tmp"), &bytes).unwrap();
        fs::rename(store.join("a/b/.file.tmp"), store.join("a/b/file")).unwrap();
        wait::until("the file to be read", TTL, || {
            fs::read(mount.join("a/b/file")).is_ok_and(|read| read == bytes)
        });
    }
    fs::remove_file(store.join("a/b/file")).unwrap();
    wait::until("the file to disappear", TTL, || !mount.join("a/b/file").exists());
}

#[test]
fn a_cached_file_of_a_folder_is_read_without_the_daemon() {
    let (_store, mount) = mounted();
    let bytes = noise(1, 4 << 20);
    write_new(&mount.join("file"), &bytes).unwrap();
    let file = wait::until_some("an open in passthrough", SOON, || {
        let before = mount.counter("passthrough_opens");
        let file = fs::File::open(mount.join("file")).unwrap();
        (before < mount.counter("passthrough_opens")).then_some(file)
    });
    let before = mount.counter("fuse_reads");
    assert!(testkit::read_at(&file, 0, 4 << 20).unwrap() == bytes);
    assert_eq!(mount.counter("fuse_reads"), before);
}

#[test]
fn nothing_of_ours_shows_in_the_mount() {
    let (_store, mount) = mounted();
    overwrite(&mount.join("file"), b"bytes").unwrap();
    let mount = mount.umount().mount();
    assert_eq!(names(mount.path()), ["file"]);
}
