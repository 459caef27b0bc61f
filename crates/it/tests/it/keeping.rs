//! What is not in a listing outlives the mount and is seen by others: modes, owners, times, links,
//! special files, extended attributes.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, fchown, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, XattrFlags, fsetxattr,
    getxattr, listxattr, lsetxattr, makedev, mknodat, removexattr, renameat_with, setxattr,
    utimensat,
};
use rustix::io::Errno;
use testkit::{Bucket, MinIo, Mount, Plan, Shape, SlowLink, run, wait, write_new};

use crate::{SOON, TTL, mounted_with};

const TRUSTED: &str = "--trusted-xattrs";

const WITHIN: Duration = Duration::from_mins(1);

/// A bucket and a mount of it that keeps every kind of attribute.
fn mounted() -> (Bucket<'static>, Mount) {
    mounted_with(&[TRUSTED])
}

/// Another mount of `bucket`, with a state folder of its own.
fn mounted_again(bucket: &Bucket<'_>) -> Mount {
    Plan::of(bucket).flags([TRUSTED]).mount()
}

/// Everything that `stat` says and a store could lose.
fn look(path: &Path) -> String {
    let at = fs::symlink_metadata(path).unwrap();
    let target = fs::read_link(path).unwrap_or_default();
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = String::from_utf8(names[..length].to_vec()).unwrap();
    format!(
        "{:o} {}:{} {} {}.{:09} {}.{:09} {:x} {target:?} {names:?}",
        at.mode(),
        at.uid(),
        at.gid(),
        at.len(),
        at.mtime(),
        at.mtime_nsec(),
        at.atime(),
        at.atime_nsec(),
        at.rdev(),
    )
}

fn set_times(path: &Path) {
    let at = |secs, nsec| Timespec { tv_sec: secs, tv_nsec: nsec };
    let times = Timestamps {
        last_access: at(1_234_567_890, 1),
        last_modification: at(981_173_106, 987_654_321),
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

const EVERYTHING: [&str; 7] =
    ["file", "folder", "folder/inner", "link", "fifo", "device", "theirs"];

/// One of everything in `folder`, unlike anybody's defaults.
fn make_everything(folder: &Path) {
    let at = |name: &str| folder.join(name);
    write_new(&at("file"), b"bytes").unwrap();
    fs::create_dir(at("folder")).unwrap();
    write_new(&at("folder/inner"), b"more bytes").unwrap();
    symlink("folder/inner", at("link")).unwrap();
    let (cwd, mode) = (CWD, Mode::from_raw_mode(0o640));
    mknodat(cwd, at("fifo"), FileType::Fifo, mode, 0).unwrap();
    mknodat(cwd, at("device"), FileType::CharacterDevice, mode, makedev(1, 3)).unwrap();
    for name in EVERYTHING {
        if name == "link" {
            lchown(at(name), Some(1234), Some(5678)).unwrap();
            lsetxattr(at(name), "trusted.of-link", b"1", XattrFlags::empty()).unwrap();
        } else {
            chown(at(name), Some(1234), Some(5678)).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o710)).unwrap();
        }
        if name == "file" || name == "folder" || name == "theirs" {
            setxattr(at(name), "user.origin", b"\x00\xffbytes", XattrFlags::CREATE).unwrap();
        }
        set_times(&at(name));
    }
    // Their entries are changed last.
    set_times(&at("folder"));
}

fn looks(folder: &Path) -> Vec<String> {
    EVERYTHING.iter().map(|name| format!("{name} {}", look(&folder.join(name)))).collect()
}

#[test]
pub(crate) fn everything_that_can_be_said_of_a_name_is_there_after_a_remount() {
    let (bucket, mount) = mounted();
    bucket.put("theirs", b"of somebody else");
    wait::until("their object to appear", TTL, || mount.join("theirs").exists());
    make_everything(mount.path());
    let before = looks(mount.path());
    let mount = mount.umount().mount();
    assert_eq!(looks(mount.path()), before);
    let mut value = [0; 16];
    let length = getxattr(mount.join("file"), "user.origin", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"\x00\xffbytes");
    assert_eq!(fs::read(mount.join("link")).unwrap(), b"more bytes");
    assert!(fs::metadata(mount.join("fifo")).unwrap().file_type().is_fifo());
    // In another folder of state, in the order of a listing.
    let other = mounted_again(&bucket);
    let listed = run(Command::new("ls").arg("-ln").arg(other.path()), WITHIN);
    let listed = listed.ok();
    assert!(listed.contains("link -> folder/inner"), "{listed}");
    assert_eq!(looks(other.path()), before);
}

#[test]
fn everything_that_can_be_said_of_names_goes_with_a_folder_that_moves_or_changes_places() {
    let (bucket, mount) = mounted();
    bucket.put("old/theirs", b"of somebody else");
    wait::until("their object to appear", TTL, || mount.join("old/theirs").exists());
    make_everything(&mount.join("old"));
    let before = looks(&mount.join("old"));
    fs::rename(mount.join("old"), mount.join("new")).unwrap();
    assert_eq!(looks(&mount.join("new")), before);
    let mount = mount.umount().mount();
    assert_eq!(looks(&mount.join("new")), before);

    fs::create_dir(mount.join("other")).unwrap();
    write_new(&mount.join("other/file"), b"of the other").unwrap();
    fs::set_permissions(mount.join("other/file"), fs::Permissions::from_mode(0o604)).unwrap();
    let other = look(&mount.join("other/file"));
    let exchange = RenameFlags::EXCHANGE;
    renameat_with(CWD, mount.join("new"), CWD, mount.join("other"), exchange).unwrap();
    for mount in [&mount, &mounted_again(&bucket)] {
        let places = [looks(&mount.join("other")), vec![look(&mount.join("new/file"))]];
        assert_eq!(places, [before.clone(), vec![other.clone()]]);
    }
    let mount = mount.umount().mount();
    assert_eq!(looks(&mount.join("other")), before);
    assert_eq!(look(&mount.join("new/file")), other);
}

#[test]
fn another_mount_sees_a_changed_mode_soon() {
    let (bucket, one) = mounted();
    write_new(&one.join("file"), b"bytes").unwrap();
    let other = Plan::of(&bucket).mount();
    assert_eq!(fs::metadata(other.join("file")).unwrap().mode() & 0o7777, 0o644);
    fs::set_permissions(one.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    wait::until("the mode to get across", SOON, || {
        fs::metadata(other.join("file")).unwrap().mode() & 0o7777 == 0o600
    });
}

#[test]
fn an_fsync_of_a_folder_has_its_attributes_in_the_bucket() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("file"), b"bytes").unwrap();
    fs::set_permissions(mount.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::File::open(mount.path()).unwrap().sync_all().unwrap();
    mount.kill();
    let text = String::from_utf8(bucket.get(".quayfs-attributes").unwrap()).unwrap();
    assert!(text.contains(r#""mode":"600""#), "{text}");
}

#[test]
fn a_mode_changed_just_before_a_kill_is_there_after_the_next_mount() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("file"), b"bytes").unwrap();
    fs::File::open(mount.path()).unwrap().sync_all().unwrap();
    fs::set_permissions(mount.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    setxattr(mount.join("file"), "user.a", b"1", XattrFlags::empty()).unwrap();
    mount.kill();
    let mount = mount.abandon().mount();
    let of = |mount: &Mount| {
        let mut value = [0; 8];
        let length = getxattr(mount.join("file"), "user.a", &mut value[..]);
        (fs::metadata(mount.join("file")).unwrap().mode() & 0o7777, length)
    };
    assert_eq!(of(&mount), (0o600, Ok(1)));
    mount.umount();
    assert_eq!(of(&Plan::of(&bucket).mount()), (0o600, Ok(1)), "and in the bucket");
}

#[test]
fn what_is_said_by_descriptors_through_which_nothing_is_changed_stays() {
    for flags in [["--commit", "close"], ["--commit", "async"]] {
        // What a close forgets is asked for again at once.
        let (bucket, mount) = mounted_with(&[&flags[..], &["--metadata-ttl", "0s"]].concat());
        let path = mount.join("stamp");
        write_new(&path, b"").unwrap();
        set_times(&path);
        let touched = fs::metadata(&path).unwrap().mtime();
        let stamp = fs::File::create(&path).unwrap();
        assert_ne!(stamp.metadata().unwrap().mtime(), touched, "cut to the size that it has");
        testkit::close(stamp).unwrap();
        assert_ne!(fs::metadata(&path).unwrap().mtime(), touched, "and closed");

        let stamp = fs::File::create(&path).unwrap();
        stamp.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        fchown(&stamp, Some(1234), Some(5678)).unwrap();
        fsetxattr(&stamp, "user.origin", b"value", XattrFlags::CREATE).unwrap();
        set_times(&path);
        let before = look(&path);
        testkit::close(stamp).unwrap();
        assert_eq!(look(&path), before);
        let mount = mount.umount().mount();
        assert_eq!(look(&mount.join("stamp")), before, "and in the bucket");
        assert_eq!(look(&Plan::of(&bucket).mount().join("stamp")), before, "for others, too");
    }
}

#[test]
fn what_is_said_of_a_file_survives_a_kill_before_its_upload() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let link = SlowLink::to(store.address(), Shape::default());
    let plan = Plan::of(&bucket).instead("--endpoint", &link.endpoint());
    let mount = plan.flags(["--commit", "async"]).mount();
    fs::create_dir(mount.join("folder")).unwrap();
    link.stop_requests_to(&format!("PUT /{}/folder/private", bucket.name()));
    let file = mount.join("folder/private");
    write_new(&file, b"bytes").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&file, Some(1234), Some(5678)).unwrap();
    setxattr(&file, "user.origin", b"value", XattrFlags::CREATE).unwrap();
    set_times(&file);
    let before = look(&file);
    mount.kill();
    link.release();
    assert_eq!(bucket.get("folder/private"), None, "not uploaded before the kill");
    let mount = mount.abandon().mount();
    assert_eq!(look(&mount.join("folder/private")), before);
    let mount = mount.umount().mount();
    assert_eq!(look(&mount.join("folder/private")), before, "and in the bucket");
    mount.umount();
}

#[test]
fn the_time_of_a_folder_does_not_go_far_back_with_a_kill() {
    let (_bucket, mount) = mounted();
    fs::create_dir(mount.join("folder")).unwrap();
    set_times(&mount.join("folder"));
    fs::File::open(mount.path()).unwrap().sync_all().unwrap();
    let long_ago = fs::metadata(mount.join("folder")).unwrap().mtime();
    write_new(&mount.join("folder/file"), b"bytes").unwrap();
    mount.kill();
    let mount = mount.abandon().mount();
    assert_ne!(fs::metadata(mount.join("folder")).unwrap().mtime(), long_ago);
    mount.umount();
}

#[test]
fn what_others_wrote_with_s3fs_gcsfuse_and_rclone_looks_as_they_meant_it() {
    let bucket = MinIo::shared().bucket();
    let said = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let s3fs = [("mode", "33216"), ("uid", "77"), ("gid", "88"), ("mtime", "981173106")];
    bucket.put_with("s3fs", b"bytes", &said(&s3fs));
    bucket.put_with("s3fs-link", b"s3fs", &said(&[("mode", "41471"), ("mtime", "981173106")]));
    bucket.put_with("gcsfuse-link", b"", &said(&[("gcsfuse_symlink_target", "s3fs")]));
    bucket.put_with("rclone", b"bytes", &said(&[("mtime", "981173106.5")]));
    bucket.put_with("gcsfuse", b"bytes", &said(&[("gcsfuse_mtime", "2001-02-03T04:05:06.5Z")]));
    bucket.put_with("folder/", b"", &said(&[("mode", "16832"), ("uid", "77")]));
    let alone_with = |flags: &[&str], name: &str, check: &dyn Fn(&Path)| {
        let mount = Plan::of(&bucket).flags(flags.iter().copied()).mount();
        check(&mount.join(name));
    };
    // The first name that is looked up in a folder is asked for by itself.
    let alone = |name: &str, check: &dyn Fn(&Path)| alone_with(&[], name, check);
    alone("s3fs", &|path| {
        let at = fs::metadata(path).unwrap();
        assert_eq!((at.mode(), at.uid(), at.gid(), at.mtime()), (0o100_700, 77, 88, 981_173_106));
    });
    for name in ["s3fs-link", "gcsfuse-link"] {
        alone(name, &|path| {
            assert_eq!(fs::read_link(path).unwrap(), Path::new("s3fs"));
        });
    }
    for name in ["rclone", "gcsfuse"] {
        alone(name, &|path| {
            let at = fs::metadata(path).unwrap();
            assert_eq!((at.mtime(), at.mtime_nsec()), (981_173_106, 500_000_000));
        });
    }
    // Which folders are at the top is told with the mount, unless nothing is believed.
    alone_with(&["--metadata-ttl", "0s"], "folder", &|path| {
        let at = fs::metadata(path).unwrap();
        assert_eq!((at.mode(), at.uid()), (0o040_700, 77));
    });
}

#[test]
fn with_attributes_off_the_bucket_has_no_hidden_objects() {
    let (bucket, mount) = mounted_with(&["--attributes", "off"]);
    write_new(&mount.join("file"), b"bytes").unwrap();
    symlink("file", mount.join("link")).unwrap();
    fs::set_permissions(mount.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    let refused = setxattr(mount.join("file"), "user.a", b"1", XattrFlags::empty());
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    mount.umount();
    assert_eq!(bucket.all_keys(), ["file", "link"]);
}

#[test]
fn extended_attributes_behave_as_on_a_local_disk() {
    let (_bucket, mount) = mounted();
    let path = mount.join("file");
    write_new(&path, b"bytes").unwrap();
    let set = |name: &str, value: &[u8], flags| setxattr(&path, name, value, flags);
    assert_eq!(set("user.a", b"1", XattrFlags::REPLACE), Err(Errno::NODATA));
    assert_eq!(set("user.a", b"12", XattrFlags::CREATE), Ok(()));
    assert_eq!(set("user.a", b"12", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.a", b"123", XattrFlags::REPLACE), Ok(()));
    let mut short = [0; 2];
    assert_eq!(getxattr(&path, "user.a", &mut short[..]), Err(Errno::RANGE));
    let mut names = [0; 64];
    let length = listxattr(&path, &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.a\0");
    assert_eq!(removexattr(&path, "user.a"), Ok(()));
    assert_eq!(removexattr(&path, "user.a"), Err(Errno::NODATA));
    assert_eq!(set("security.selinux", b"1", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    assert_eq!(set("user.large", &vec![1; 64 << 10], XattrFlags::empty()), Ok(()));
}

#[test]
fn set_uid_bits_go_when_somebody_else_writes_or_the_owner_changes() {
    let (_bucket, mount) = mounted_with(&["--allow-other"]);
    let path = mount.join("tool");
    write_new(&path, b"bytes").unwrap();
    let bits = || fs::metadata(&path).unwrap().mode() & 0o7777;
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let as_nobody = |script: &str| {
        let script = format!("{script} {}", path.display());
        run(
            Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "sh", "-c", &script]),
            WITHIN,
        )
        .ok();
    };
    set(0o6777);
    fs::OpenOptions::new().append(true).open(&path).unwrap();
    assert_eq!(bits(), 0o6777);
    as_nobody("printf x >>");
    assert_eq!(bits(), 0o777, "a write");
    set(0o6777);
    as_nobody("truncate -s 3");
    assert_eq!(bits(), 0o777, "a truncation");
    set(0o6777);
    chown(&path, Some(1234), None).unwrap();
    assert_eq!(bits(), 0o777, "another owner");
}
