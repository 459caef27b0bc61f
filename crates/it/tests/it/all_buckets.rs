//! All buckets at once: each is attached when it is first used, and each is a file system of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use testkit::{Bucket, Cloud, Emulator, Login, MinIo, Mount, Plan, close, noise, wait, write_new};

use crate::{SOON, errno};

fn all_of(bucket: &Bucket<'_>) -> Plan {
    Plan::of(bucket).instead_of_url("all")
}

fn names(folder: impl AsRef<Path>) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn buckets_of_several_stores_are_in_one_mount() {
    let (google, azure) = (Emulator::start(Cloud::Google), Emulator::start(Cloud::Azure));
    let buckets = [MinIo::shared().bucket(), google.bucket(), azure.bucket()];
    let mut plan = all_of(&buckets[0]);
    for emulator in [&google, &azure] {
        let (name, value) = emulator.env();
        plan = plan.env(name, &value);
    }
    let mount = plan.env("GOOGLE_CLOUD_PROJECT", "test").mount();
    assert_eq!(names(mount.path()), ["az", "gs", "s3"].map(String::from).into());
    for bucket in &buckets {
        let names = names(mount.join(bucket.url().replacen("://", "/", 1)).parent().unwrap());
        assert!(names.contains(bucket.name()), "{}: the store tells of it", bucket.url());
    }
    for bucket in &buckets {
        let folder = mount.join(bucket.url().replacen("://", "/", 1));
        bucket.put("theirs/read me", b"from outside");
        assert_eq!(fs::read(folder.join("theirs/read me")).unwrap(), b"from outside");
        let bytes = noise(1, 3_000_000);
        write_new(&folder.join("ours"), &bytes).unwrap();
        assert!(bucket.get("ours").unwrap() == bytes, "{}", bucket.url());
        fs::rename(folder.join("ours"), folder.join("theirs/moved")).unwrap();
        assert_eq!(bucket.keys(), ["theirs/moved", "theirs/read me"], "{}", bucket.url());
        assert!(names(folder.parent().unwrap()).contains(bucket.name()), "{}", bucket.url());
    }
    mount.umount();
}

#[test]
fn each_bucket_has_the_credentials_that_the_configuration_names_for_it() {
    let azure = Emulator::start(Cloud::Azure);
    let (mine, other) = (azure.bucket(), azure.bucket());
    let plan = all_of(&mine).without_login();
    let folder = plan.folder("secrets");
    let (_, connection) = azure.env();
    fs::write(folder.join("good"), &connection).unwrap();
    let wrong = connection.replace("AccountKey=", "AccountKey=AAAA");
    fs::write(folder.join("wrong"), wrong).unwrap();
    let section = |url: &str, file: &str| {
        format!("[bucket.\"{url}\"]\nazure-credentials-file = {:?}\n", folder.join(file))
    };
    let account = other.url().rsplit_once('/').unwrap().0.to_owned();
    let config = [section(&account, "wrong"), section(&mine.url(), "good")].concat();
    fs::write(folder.join("config.toml"), config).unwrap();
    mine.put("file", b"bytes");
    // The environment has other credentials, which do not count.
    let config = folder.join("config.toml");
    let plan = plan.env("QUAYFS_CONFIG", config.to_str().unwrap());
    let mount = plan.env("AZURE_STORAGE_KEY", "AAAA").mount();
    let within = |bucket: &Bucket<'_>| mount.join(bucket.url().replacen("://", "/", 1));
    assert_eq!(fs::read(within(&mine).join("file")).unwrap(), b"bytes");
    assert_eq!(errno(fs::metadata(within(&other))), Errno::ACCESS);
    mount.umount();
}

#[test]
fn the_buckets_of_an_account_are_listed_and_are_attached_when_they_are_entered() {
    let minio = MinIo::start();
    let buckets = [minio.bucket(), minio.bucket(), minio.bucket()];
    let all: BTreeSet<String> = buckets.iter().map(|bucket| bucket.name().to_owned()).collect();
    let mount = all_of(&buckets[0]).mount();
    let folder = mount.join("s3");
    assert_eq!(names(&folder), all);
    buckets[1].put("theirs", b"bytes");
    assert_eq!(fs::read(folder.join(buckets[1].name()).join("theirs")).unwrap(), b"bytes");
    assert_eq!(names(&folder), all, "each is shown once");
    // What `ls -l` does.
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_dir());
        let inside = fs::metadata(entry.path()).unwrap().ino();
        assert_eq!(fs::metadata(entry.path()).unwrap().ino(), inside);
    }
    assert_eq!(names(&folder), all);
    mount.umount();
}

#[test]
fn buckets_that_may_not_be_listed_are_entered_by_name() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    bucket.put("file", b"bytes");
    minio.mc(&["anonymous", "set", "public", &format!("it/{}", bucket.name())]).ok();
    let mount = all_of(&bucket).without_login().flags(["--anonymous"]).mount();
    assert_eq!(names(mount.join("s3")), BTreeSet::new());
    let folder = mount.join("s3").join(bucket.name());
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"bytes");
    assert_eq!(names(mount.join("s3")), [bucket.name().to_owned()].into(), "it is attached");
    mount.umount();
}

#[test]
fn a_bucket_is_a_file_system_of_its_own() {
    let minio = MinIo::shared();
    let (one, other) = (minio.bucket(), minio.bucket());
    let mount = all_of(&one).mount();
    let (here, there) = (mount.join("s3").join(one.name()), mount.join("s3").join(other.name()));
    write_new(&here.join("same"), b"here").unwrap();
    write_new(&there.join("same"), b"there").unwrap();
    assert_eq!(fs::read(here.join("same")).unwrap(), b"here");
    assert_eq!(fs::read(there.join("same")).unwrap(), b"there");
    let number = |path: &Path| fs::metadata(path.join("same")).unwrap().ino();
    assert_ne!(number(&here), number(&there), "the same name is not the same file");

    assert_eq!(errno(fs::rename(here.join("same"), there.join("new"))), Errno::XDEV);
    // `mv` copies then.
    testkit::run(
        std::process::Command::new("mv").arg(here.join("same")).arg(there.join("new")),
        SOON,
    )
    .ok();
    assert_eq!((one.keys(), other.keys()), (vec![], vec!["new".to_owned(), "same".to_owned()]));

    let before = number(&there);
    let mount = mount.umount().mount();
    let there = mount.join("s3").join(other.name());
    assert_eq!(number(&there), before, "inode numbers outlive the mount");
    mount.umount();
}

#[test]
fn what_is_pinned_in_one_of_all_buckets_is_kept() {
    let bucket = MinIo::shared().bucket();
    bucket.put("folder/file", &noise(1, 300_000));
    let mount = all_of(&bucket).mount();
    let folder = mount.join("s3").join(bucket.name()).join("folder");
    let pinned = |mount: &Mount| mount.status()["cache"]["pinned_bytes"].as_u64().unwrap();
    testkit::run(&mut mount.plan().command([Path::new("pin"), &folder]), SOON).ok();
    assert_eq!(pinned(&mount), 300_000_u64.next_multiple_of(4096));
    testkit::run(&mut mount.plan().command([Path::new("unpin"), &folder]), SOON).ok();
    assert_eq!(pinned(&mount), 0);
    let nowhere = mount.join("s3");
    let said = testkit::run(&mut mount.plan().command([Path::new("pin"), &nowhere]), SOON);
    assert!(!said.status.success() && said.stderr.contains("in no bucket"), "{}", said.report());
    mount.umount();
}

#[test]
fn what_is_no_bucket_is_not_there_and_none_is_made_by_mkdir() {
    let bucket = MinIo::shared().bucket();
    let mount = all_of(&bucket).mount();
    for name in ["s3/no-such-bucket-anywhere", "s3/.git", "nothing", "s3/x"] {
        assert_eq!(errno(fs::metadata(mount.join(name))), Errno::NOENT, "{name}");
    }
    for name in ["new", "s3/new-bucket-of-mine"] {
        assert_eq!(errno(fs::create_dir(mount.join(name))), Errno::PERM, "{name}");
    }
    let folder = mount.join("s3").join(bucket.name());
    assert_eq!(errno(fs::remove_dir(&folder)), Errno::PERM);
    assert!(
        mount.join("az/someaccount").is_dir(),
        "it shows with its containers whether it exists"
    );
    mount.umount();
}

#[test]
fn a_bucket_that_may_not_be_written_is_read_only_and_others_are_not_touched_by_it() {
    let minio = MinIo::start();
    let bucket = minio.bucket();
    bucket.put("file", b"bytes");
    let mount = all_of(&bucket).login(&minio.reader()).mount();
    let folder = mount.join("s3").join(bucket.name());
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"bytes");
    assert_eq!(errno(fs::write(folder.join("new"), b"x")), Errno::ROFS);
    assert_eq!(errno(fs::write(folder.join("file"), b"x")), Errno::ROFS);
    assert_eq!(errno(fs::remove_file(folder.join("file"))), Errno::ROFS);
    mount.umount();
    let mount =
        all_of(&bucket).login(&Login { secret: "wrong".to_owned(), ..Login::root() }).mount();
    let folder = mount.join("s3").join(bucket.name());
    assert_eq!(errno(fs::metadata(&folder)), Errno::ACCESS);
    assert_eq!(
        mount.status()["health"],
        "ok",
        "a name that is not for us is none of the mount's troubles"
    );
    mount.umount();
}

#[test]
fn what_a_killed_mount_of_all_buckets_had_acknowledged_gets_into_each() {
    let minio = MinIo::start();
    let buckets = [minio.bucket(), minio.bucket()];
    let flags = ["--commit", "async", "--metadata-ttl", "1h"];
    let mount = all_of(&buckets[0]).flags(flags).mount();
    let folders = buckets.each_ref().map(|bucket| mount.join("s3").join(bucket.name()));
    for folder in &folders {
        write_new(&folder.join("before"), b"1").unwrap();
    }
    testkit::run(&mut mount.plan().command([Path::new("sync"), mount.path()]), SOON).ok();
    let files = folders.each_ref().map(|folder| fs::File::create(folder.join("after")).unwrap());
    minio.freeze();
    let dirty = || mount.status()["cache"]["dirty_bytes"].as_u64().unwrap();
    for (folder, mut file) in folders.iter().zip(files) {
        file.write_all(b"2").unwrap();
        close(file).unwrap();
        fs::remove_file(folder.join("before")).unwrap();
    }
    assert_eq!(dirty(), 2 * 4096, "a block each, and each counted once");
    mount.kill();
    minio.thaw();
    let mount = mount.abandon().mount();
    // Nobody looks at them: what is left is finished all the same.
    for bucket in &buckets {
        wait::until("what was acknowledged to be in the bucket", SOON, || {
            bucket.keys() == ["after"]
        });
    }
    mount.umount();
}
