//! Mounts that may not write, and mounts by people who are not root.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Mode, XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use testkit::{Login, MinIo, Mount, Plan, Scratch, run, wait, write_new};

use crate::{USER, errno, mounted_with};

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn a_mount_for_reading_refuses_every_change() {
    let (bucket, mount) = mounted_with(&["--read-only"]);
    bucket.put("folder/file", b"bytes");
    testkit::wait::until("the object to appear", crate::TTL, || mount.join("folder/file").exists());
    refuses_changes(&mount);
    assert_eq!(bucket.keys(), ["folder/file"]);
}

#[test]
fn credentials_that_may_not_write_make_a_mount_for_reading_and_it_says_so() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("folder/file", b"bytes");
    let attempt = Plan::of(&bucket).login(&store.reader()).attempt();
    let said = attempt.finished.stderr.to_lowercase();
    let is_said = said.contains("read-only") || said.contains("read only");
    assert!(is_said, "{}", attempt.finished.report());
    let mount = attempt.ok();
    refuses_changes(&mount);
    assert_eq!(bucket.keys(), ["folder/file"]);
    assert_eq!(mount.status()["stores"][0]["read_only"], "credentials");
    let mut status = mount.plan().command(["status"]);
    let page = run(status.arg(mount.path()), WITHIN);
    let line =
        format!("{} is mounted read-only, because these credentials cannot write", bucket.url());
    assert!(page.ok().contains(&line), "{}", page.report());
    mount.umount();
}

#[test]
fn credentials_that_may_write_leave_nothing_in_an_untouched_bucket() {
    let (bucket, mount) = mounted_with(&[]);
    assert_eq!(bucket.keys(), Vec::<String>::new());
    mount.umount();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn trusted_attributes_of_a_bucket_are_not_shown_to_root() {
    let (bucket, mount) = mounted_with(&["--trusted-xattrs"]);
    let (name, value) = ("trusted.overlay.redirect", b"/etc");
    write_new(&mount.join("file"), b"bytes").unwrap();
    setxattr(mount.join("file"), name, value, XattrFlags::CREATE).unwrap();
    setxattr(mount.join("file"), "user.a", b"1", XattrFlags::CREATE).unwrap();
    mount.umount();

    let mount = Plan::of(&bucket).mount();
    let file = mount.join("file");
    let mut names = [0; 256];
    let length = listxattr(&file, &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.a\0");
    assert_eq!(getxattr(&file, name, &mut [0; 16][..]), Err(Errno::OPNOTSUPP));
    assert_eq!(setxattr(&file, name, value, XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    assert_eq!(removexattr(&file, name), Err(Errno::OPNOTSUPP));
}

#[test]
fn closed_folder_with_other_files_is_used_and_they_stay() {
    let folder = Scratch::new();
    let (bucket, state) = (folder.folder("bucket"), folder.folder("state"));
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(state.join("notes"), "mine").unwrap();
    let mount = Plan::of_url(&format!("file://{}", bucket.display())).state_in(&state).mount();
    write_new(&mount.join("file"), b"bytes").unwrap();
    mount.umount();
    assert_eq!(fs::read(state.join("notes")).unwrap(), b"mine");
}

/// Expects `folder/file` to hold `bytes`.
fn refuses_changes(mount: &Mount) {
    let file = mount.join("folder/file");
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
    assert_eq!(errno(write_new(&mount.join("new"), b"bytes")), Errno::ROFS);
    assert_eq!(errno(OpenOptions::new().append(true).open(&file)), Errno::ROFS);
    assert_eq!(errno(fs::create_dir(mount.join("new"))), Errno::ROFS);
    assert_eq!(errno(fs::remove_file(&file)), Errno::ROFS);
    assert_eq!(errno(fs::remove_dir(mount.join("folder"))), Errno::ROFS);
    assert_eq!(errno(fs::rename(&file, mount.join("new"))), Errno::ROFS);
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
}

#[test]
fn an_ordinary_user_mounts_reads_writes_and_unmounts() {
    let bucket = MinIo::shared().bucket();
    bucket.put("theirs", b"by the store's owner\n");
    let mount = Plan::of(&bucket).by_user(USER).mount();
    assert_eq!(mount.counter("passthrough_opens"), 0);
    let script = r#"
        [ "$(cat theirs)" = "by the store's owner" ]
        [ "$(stat -c %U theirs)" = nobody ]
        echo first > ours
        echo second >> ours
        mkdir folder
        mv ours folder/
        cat folder/ours folder/ours > both
        [ "$(wc -l < both)" = 4 ]
        rm theirs
    "#;
    // Only the user may enter, so it is the shell that goes there.
    let script = format!("cd '{}'\n{script}", mount.path().display());
    run(mount.plan().other_command(OsStr::new("sh")).args(["-ec", &script]), WITHIN).ok();
    assert_eq!(bucket.get("folder/ours").as_deref(), Some(&b"first\nsecond\n"[..]));
    assert_eq!(bucket.get("theirs"), None);

    // Not even root enters somebody else's mount unasked; that is the kernel's rule, and stays.
    assert_eq!(errno(fs::read_dir(mount.path())), Errno::ACCESS);
    mount.umount();
}

#[test]
fn others_enter_with_allow_other() {
    let (bucket, mount) = mounted_with(&["--allow-other"]);
    bucket.put("file", b"bytes");
    testkit::wait::until("the object to appear", crate::TTL, || mount.join("file").exists());
    assert_eq!(run(as_other("cat").arg(mount.join("file")), WITHIN).ok(), "bytes");
}

#[test]
fn what_says_nothing_of_itself_looks_as_the_flags_say() {
    let flags = ["--uid", "4711", "--gid", "4712", "--file-mode", "666", "--dir-mode", "777"];
    let (bucket, mount) = mounted_with(&[&flags[..], &["--umask", "027"]].concat());
    bucket.put("folder/file", b"bytes");
    testkit::wait::until("the object to appear", crate::TTL, || mount.join("folder/file").exists());
    let looks = |name: &str| {
        let metadata = fs::metadata(mount.join(name)).unwrap();
        (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
    };
    assert_eq!(looks("folder/file"), (0o640, 4711, 4712));
    assert_eq!(looks("folder"), (0o750, 4711, 4712));
    // What somebody makes here is his, with the mode he asks for, less his own umask.
    write_new(&mount.join("ours"), b"bytes").unwrap();
    assert_eq!(looks("ours"), (0o644, 0, 0));
}

#[test]
fn others_are_kept_out_without_allow_other() {
    let (bucket, mount) = mounted_with(&[]);
    bucket.put("file", b"bytes");
    testkit::wait::until("the object to appear", crate::TTL, || mount.join("file").exists());
    let said = run(as_other("cat").arg(mount.join("file")), WITHIN);
    assert!(!said.status.success() && said.stderr.contains("Permission denied"), "{said:?}");
}

#[test]
fn others_may_do_what_owners_and_modes_allow() {
    let (_bucket, mount) = mounted_with(&["--allow-other"]);
    write_new(&mount.join("private"), b"bytes").unwrap();
    fs::set_permissions(mount.join("private"), fs::Permissions::from_mode(0o600)).unwrap();
    let refused = |command: &mut Command| {
        let said = run(command, WITHIN);
        let is_refusal = |word| said.stderr.contains(word);
        let refused = is_refusal("Permission denied") || is_refusal("not permitted");
        assert!(!said.status.success() && refused, "{}", said.report());
    };
    refused(as_other("cat").arg(mount.join("private")));
    refused(as_other("touch").arg(mount.join("new")));
    refused(as_other("rm").arg("-f").arg(mount.join("private")));
    refused(as_other("chmod").arg("777").arg(mount.join("private")));
    refused(as_other("chown").arg(USER).arg(mount.join("private")));
    // In a folder that all may write to, but where each may remove only what is his own.
    fs::create_dir(mount.join("shared")).unwrap();
    fs::set_permissions(mount.join("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    write_new(&mount.join("shared/roots"), b"bytes").unwrap();
    run(as_other("touch").arg(mount.join("shared/his")), WITHIN).ok();
    assert_eq!(fs::metadata(mount.join("shared/his")).unwrap().uid(), 65534);
    refused(as_other("rm").arg("-f").arg(mount.join("shared/roots")));
    refused(as_other("mv").arg(mount.join("shared/roots")).arg(mount.join("shared/gone")));
    run(as_other("rm").arg(mount.join("shared/his")), WITHIN).ok();
}

#[test]
fn a_bucket_makes_nobody_root_and_opens_no_device_unless_flags_say_so() {
    let looked = |flags: &[&str]| {
        let (_bucket, mount) = mounted_with(&[&["--allow-other"], flags].concat());
        let program = mount.join("id");
        testkit::copy_program("/usr/bin/id".as_ref(), &program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        let id = run(as_other(program.to_str().unwrap()).arg("-u"), WITHIN);
        let (kind, mode) = (rustix::fs::FileType::CharacterDevice, Mode::from_raw_mode(0o666));
        let null = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(rustix::fs::CWD, mount.join("null"), kind, mode, null).unwrap();
        let opened = fs::File::open(mount.join("null")).map(drop);
        (id.ok().trim().to_owned(), opened.map_err(|error| Errno::from_io_error(&error)))
    };
    assert_eq!(looked(&[]), ("65534".to_owned(), Err(Some(Errno::ACCESS))));
    assert_eq!(looked(&["--suid", "--dev"]), ("0".to_owned(), Ok(())));
}

#[test]
fn who_is_not_root_is_told_that_set_uid_programs_and_devices_are_not_for_his_mounts() {
    for (asked, flag) in [
        (&["--suid"][..], "--suid"),
        (&["--dev"], "--dev"),
        (&["-o", "ro,suid"], "--suid"),
        (&["--dev", "--foreground"], "--dev"),
    ] {
        let plan = Plan::of_url("file:///srv").by_user(USER).flags(asked.iter().copied());
        let attempt = plan.attempt();
        let said = attempt.finished.report();
        assert!(!attempt.finished.status.success(), "{said}");
        assert!(said.contains(flag) && said.contains("mount as root"), "{said}");
    }
}

/// A command by somebody who is not root and owns nothing.
fn as_other(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", "nogroup", "--clear-groups", program]);
    command
}

#[test]
fn a_login_that_may_only_read_still_reads_through_a_prefix() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("prefix/folder/file", b"bytes");
    let url = format!("{}/prefix", bucket.url());
    let reader: Login = store.reader();
    let mount = Plan::of(&bucket).instead_of_url(&url).login(&reader).mount();
    refuses_changes(&mount);
}

#[test]
fn keys_that_are_replaced_in_their_file_are_taken_up() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("a", b"1");
    bucket.put("b", b"2");
    let (first, second) = (store.reader(), store.reader_called("quayfs-second-reader"));
    let folder = Scratch::new();
    let file = folder.path().join("credentials");
    let write = |Login { user, secret }: &Login| {
        let text =
            format!("[default]\naws_access_key_id = {user}\naws_secret_access_key = {secret}\n");
        fs::write(&file, text).unwrap();
    };
    write(&first);
    let plan = Plan::of(&bucket).without_login();
    let mount = plan.env("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap()).mount();
    assert_eq!(fs::read(mount.join("a")).unwrap(), b"1");
    write(&second);
    store.forget(&first);
    wait::until("the new keys to count", WITHIN, || {
        fs::read(mount.join("b")).is_ok_and(|read| read == b"2")
    });
    mount.umount();
}

#[test]
fn root_refuses_a_state_folder_that_another_user_can_change() {
    let scratch = Scratch::new();
    let bucket = MinIo::shared().bucket();
    let attempt = |state: &Path| Plan::of(&bucket).state_in(state).attempt();
    let user = Some(23456);

    let owned = scratch.folder("owned");
    chown(&owned, user, user).unwrap();
    let said = attempt(&owned).refused().stderr;
    assert!(said.contains(&format!("{} belongs to user 23456", owned.display())), "{said}");

    // A log that leads to a file of root.
    let linked = scratch.folder("linked");
    let target = scratch.path().join("target");
    fs::set_permissions(&linked, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&target, linked.join("quayfs.log")).unwrap();
    let said = attempt(&linked).refused().stderr;
    assert!(said.contains("quayfs.log is a symbolic link"), "{said}");
    assert!(!target.exists());

    // A folder above that its owner can replace.
    let above = scratch.folder("above");
    fs::create_dir(above.join("state")).unwrap();
    chown(&above, user, user).unwrap();
    let said = attempt(&above.join("state")).refused().stderr;
    assert!(said.contains(&format!("{} belongs to user 23456", above.display())), "{said}");
    chown(&above, Some(0), Some(0)).unwrap();
    attempt(&above.join("state")).ok().umount();
}

#[test]
fn root_follows_no_link_of_another_user_to_its_state_folder() {
    let scratch = Scratch::new();
    let bucket = MinIo::shared().bucket();
    let attempt = |state: &Path| Plan::of(&bucket).state_in(state).attempt();
    let user = Some(23456);
    let target = scratch.folder("target");
    let mode = |dir: &Path| fs::metadata(dir).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();

    // In a folder of the user, who can replace the link; and in one where nobody can remove the link of another user.
    let own = scratch.folder("own");
    let shared = scratch.folder("shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    for folder in [&own, &shared] {
        symlink(&target, folder.join("link")).unwrap();
        lchown(folder.join("link"), user, user).unwrap();
    }
    chown(&own, user, user).unwrap();
    for (link, words) in [
        (own.join("link"), format!("{} belongs to user 23456", own.display())),
        (
            shared.join("link"),
            format!("{}/link is a symbolic link of user 23456", shared.display()),
        ),
    ] {
        for state in [link.clone(), link.join("new/folder")] {
            let said = attempt(&state).refused().stderr;
            assert!(said.contains(&words), "{}: {said}", state.display());
            assert_eq!(mode(&target), 0o755, "{}", state.display());
            assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "{}", state.display());
        }
    }

    // A link of root is followed.
    lchown(shared.join("link"), Some(0), Some(0)).unwrap();
    attempt(&shared.join("link")).ok().umount();
    assert!(target.join("state.db").exists());
    assert_eq!(mode(&target), 0o700);
}
