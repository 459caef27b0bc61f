//! Buckets of other clouds, judged by the clouds' own clients.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use serde_json::Value;
use testkit::{Cloud, Emulator, close, noise, run, wait, write_new};

use crate::TTL;

#[test]
fn a_bucket_of_googles_is_a_file_system_and_stays_a_bucket() {
    check(Cloud::Google);
}

#[test]
fn a_container_of_azures_is_a_file_system_and_stays_a_container() {
    check(Cloud::Azure);
}

#[test]
fn a_prefix_of_another_cloud_is_a_border() {
    for cloud in [Cloud::Google, Cloud::Azure] {
        let emulator = Emulator::start(cloud);
        let bucket = emulator.bucket();
        bucket.put("in/seen", b"1");
        bucket.put("out", b"2");
        let mount = emulator.plan(&format!("{}/in", bucket.url())).flags(["--part-size", "5MiB"]);
        let mount = mount.mount();
        let names = || -> Vec<String> {
            let entries = fs::read_dir(mount.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        assert_eq!(names(), ["seen"], "{cloud:?}");
        // In parts, which are to be nowhere in the end.
        let bytes = noise(1, 12_000_000);
        write_new(&mount.join("new"), &bytes).unwrap();
        assert_eq!(bucket.keys(), ["in/new", "in/seen", "out"], "{cloud:?}");
        assert!(bucket.get("in/new").unwrap() == bytes, "{cloud:?}");
        mount.umount();
    }
}

#[test]
fn a_blob_with_a_stale_checksum_is_read_whole() {
    let emulator = Emulator::start(Cloud::Azure);
    let bucket = emulator.bucket();
    // One that is read in one request, and one that is read in several.
    for (key, len) in [("small", 100_000), ("large", 30_000_000)] {
        let bytes = noise(1, len);
        bucket.put(key, &bytes);
        bucket.note_md5(key, "00112233445566778899aabbccddeeff");
        let mount = emulator.plan(&bucket.url()).mount();
        assert!(fs::read(mount.join(key)).unwrap() == bytes, "{key}");
        mount.umount();
    }
}

#[test]
fn info_has_the_details_of_an_object() {
    for cloud in [Cloud::Google, Cloud::Azure] {
        let emulator = Emulator::start(cloud);
        let bucket = emulator.bucket();
        bucket.put("in/a b", b"bytes");
        let mount = emulator.plan(&format!("{}/in", bucket.url())).mount();
        let info = run(mount.plan().command(["info", "--json"]).arg(mount.join("a b")), TTL);
        let info: Value = serde_json::from_str(info.ok()).unwrap();
        assert_eq!(info["url"], format!("{}/in/a b", bucket.url()), "{info}");
        assert_eq!((&info["key"], &info["bytes"]), (&"in/a b".into(), &5.into()), "{info}");
        assert!(info["store_error"].is_null() && info["storage_class"].is_string(), "{info}");
        mount.umount();
    }
}

/// Writes, edits, renames and removes through a mount, and looks at it from the other side.
fn check(cloud: Cloud) {
    let emulator = Emulator::start(cloud);
    let bucket = emulator.bucket();
    let mount = emulator.plan(&bucket.url()).mount();

    // Out: a file in one request, and one in parts.
    let (small, mut large) = (noise(1, 300_000), noise(2, 40_000_000));
    fs::create_dir(mount.join("a folder")).unwrap();
    write_new(&mount.join("a folder/small ü+%"), &small).unwrap();
    write_new(&mount.join("large"), &large).unwrap();
    assert!(bucket.get("a folder/small ü+%").unwrap() == small);
    assert!(bucket.get("large").unwrap() == large);

    // Edited in the middle.
    let file = fs::File::options().write(true).open(mount.join("large")).unwrap();
    file.write_all_at(b"edit", 20_000_000).unwrap();
    close(file).unwrap();
    large[20_000_000..20_000_004].copy_from_slice(b"edit");
    assert!(bucket.get("large").unwrap() == large);

    // In: what others put appears, and what they replace is replaced.
    for version in 3..5 {
        let theirs = noise(version, 500_000 + usize::try_from(version).unwrap());
        bucket.put("theirs/b/c", &theirs);
        wait::until("the object to be read", TTL, || {
            fs::read(mount.join("theirs/b/c")).is_ok_and(|read| read == theirs)
        });
    }

    // Renamed and removed.
    fs::rename(mount.join("a folder/small ü+%"), mount.join("moved")).unwrap();
    assert!(bucket.get("moved").unwrap() == small);
    assert!(bucket.get("a folder/small ü+%").is_none());
    fs::set_permissions(mount.join("moved"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::remove_file(mount.join("large")).unwrap();
    assert!(bucket.get("large").is_none());
    mount.umount();

    // All of it is there for the next mount, on another machine.
    let mount = emulator.plan(&bucket.url()).mount();
    assert!(fs::read(mount.join("moved")).unwrap() == small);
    assert_eq!(fs::metadata(mount.join("moved")).unwrap().permissions().mode() & 0o7777, 0o751);
    assert!(mount.join("a folder").is_dir() && !mount.join("large").exists());
    mount.umount();
}

#[test]
fn a_key_that_azure_refuses_is_told_at_once_in_plain_words() {
    let emulator = Emulator::start(Cloud::Azure);
    let bucket = emulator.bucket();
    let wrong = "d3Jvbmcga2V5IG9mIHRoZSBhY2NvdW50";
    let attempt = emulator.plan(&bucket.url()).env("AZURE_STORAGE_KEY", wrong).attempt();
    let said = attempt.finished.report();
    assert!(!attempt.finished.status.success(), "{said}");
    let first = attempt.finished.stderr.lines().next().unwrap_or_default();
    assert!(first.contains("does not accept these credentials"), "{said}");
    assert!(
        attempt.finished.stderr.contains("AZURE_STORAGE_KEY")
            && !attempt.finished.stderr.contains(wrong),
        "{said}"
    );
}
