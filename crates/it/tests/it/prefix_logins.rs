//! Credentials that are for a prefix of a bucket only, as institutes hand them out.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::io::Errno;
use testkit::{Bucket, Login, MinIo, Mount, Plan, noise, run, wait, write_new};

use crate::errno;
use crate::fusion::Launcher;

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn a_prefix_is_mounted_by_who_may_see_nothing_else() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("team/theirs", b"bytes");
    let login = store.of_prefix(bucket.name(), "team");
    let url = format!("{}/team", bucket.url());
    let mount = Plan::of(&bucket).instead_of_url(&url).login(&login).mount();
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");
    write_new(&mount.join("ours"), b"ours").unwrap();
    mount.umount();
    assert_eq!(bucket.get("team/ours").as_deref(), Some(&b"ours"[..]));
}

#[test]
fn a_prefix_is_reached_through_folders_that_may_not_be_looked_at() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("lab/team/theirs", b"bytes");
    bucket.put("lab/others/secret", b"secret");
    bucket.put("file", b"secret");
    let login = store.of_prefix(bucket.name(), "lab/team");
    let mount = Plan::of(&bucket).instead_of_url("all").login(&login).mount();
    let top = mount.join("s3").join(bucket.name());
    assert_eq!(
        errno(fs::read_dir(&top).and_then(Iterator::collect::<Result<Vec<_>, _>>)),
        Errno::ACCESS
    );
    let team = top.join("lab/team");
    assert_eq!(fs::read(team.join("theirs")).unwrap(), b"bytes");
    let names: Vec<_> =
        fs::read_dir(&team).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["theirs"]);
    fs::create_dir_all(team.join("work/ab/cdef")).unwrap();
    write_new(&team.join("work/ab/cdef/ours"), b"ours").unwrap();
    fs::rename(team.join("work/ab/cdef/ours"), team.join("moved")).unwrap();
    fs::remove_dir(team.join("work/ab/cdef")).unwrap();
    OpenOptions::new().append(true).open(team.join("theirs")).unwrap();
    let before = bucket.keys();
    for name in ["new", "lab/new", "lab/others", "lab"] {
        assert_eq!(errno(fs::create_dir(top.join(name))), Errno::EXIST, "{name}");
        assert_eq!(errno(fs::remove_dir(top.join(name))), Errno::ACCESS, "{name}");
    }
    mount.umount();
    assert_eq!(bucket.keys(), before);
    assert_eq!(bucket.get("lab/team/moved").as_deref(), Some(&b"ours"[..]));
}

#[test]
fn a_prefix_with_nothing_in_it_is_filled_and_what_is_open_there_is_removed() {
    let store = MinIo::start();
    let bucket = store.bucket();
    let login = store.of_prefix(bucket.name(), "team");
    let mount = Plan::of(&bucket).instead_of_url("all").login(&login).mount();
    let team = mount.join("s3").join(bucket.name()).join("team");
    assert_eq!(errno(fs::remove_dir(&team)), Errno::ACCESS);
    fs::create_dir_all(team.join("runs/ab")).unwrap();
    let bytes = noise(1, 40 << 20);
    bucket.put("team/large", &bytes);
    let mut large = wait::until_some("the object to appear", WITHIN, || {
        fs::File::open(team.join("large")).ok()
    });
    fs::remove_file(team.join("large")).unwrap();
    let mut found = Vec::new();
    large.read_to_end(&mut found).unwrap();
    assert!(found == bytes);
    drop(large);
    mount.umount();
    assert_eq!(bucket.keys(), ["team/runs/", "team/runs/ab/"]);
}

#[test]
fn a_task_runs_in_a_prefix_with_nothing_else_allowed() {
    let store = MinIo::start();
    let bucket = store.bucket();
    let login = store.of_prefix(bucket.name(), "team");
    task_runs_in_prefix(&bucket, &login);
    let launcher = Launcher::by(&login, &bucket);
    let ran = run(&mut launcher.task_in(&bucket, "taem/runs/ab", (&[], "", "true")), WITHIN);
    assert!(!ran.status.success(), "{}", ran.report());
    assert!(ran.stderr.contains("may not look into it"), "{}", ran.report());
}

#[test]
fn a_task_runs_in_a_prefix_where_the_rest_may_only_be_read() {
    let store = MinIo::start();
    let bucket = store.bucket();
    task_runs_in_prefix(&bucket, &store.writer_of_prefix(bucket.name(), "team"));
}

fn task_runs_in_prefix(bucket: &Bucket<'_>, login: &Login) {
    bucket.put("team/in.txt", b"input\n");
    let launcher = Launcher::by(login, bucket);
    let body = "cat in.txt in.txt > made.txt; mkdir sub; echo 1 > sub/a; mv sub/a b; ln -s in.txt link.txt\n\
                chmod 750 b; rm -r sub";
    let stage = "    ln -s TOP/team/in.txt in.txt";
    let folder = "team/runs/ab/cdef";
    let outputs = ["made.txt", "link.txt", "b"];
    let ran = run(&mut launcher.task_in(bucket, folder, (&outputs, stage, body)), WITHIN);
    assert!(ran.status.success(), "{}", ran.report());
    for (name, want) in
        [("made.txt", "input\ninput\n"), ("link.txt", "input\n"), ("b", "1\n"), (".exitcode", "0")]
    {
        let found = bucket.get(&format!("{folder}/{name}"));
        assert_eq!(found.as_deref(), Some(want.as_bytes()), "{name}");
    }
}

#[test]
fn of_all_buckets_a_prefix_is_written_where_the_rest_may_only_be_read() {
    let store = MinIo::start();
    let bucket = store.bucket();
    bucket.put("team/theirs", b"bytes");
    bucket.put("data/theirs", b"bytes");
    let login = store.writer_of_prefix(bucket.name(), "team");
    // Something is said of the folder, where these credentials may not say anything.
    let others = Plan::of(&bucket).mount();
    fs::set_permissions(others.join("team"), fs::Permissions::from_mode(0o700)).unwrap();
    others.umount();
    let mount = Plan::of(&bucket).instead_of_url("all").login(&login).mount();
    let top = mount.join("s3").join(bucket.name());
    for place in ["", "data/"] {
        assert_eq!(
            errno(write_new(&top.join(format!("{place}new")), b"x")),
            Errno::ROFS,
            "{place}"
        );
        assert_eq!(errno(fs::create_dir(top.join(format!("{place}new")))), Errno::ROFS, "{place}");
    }
    assert_eq!(errno(OpenOptions::new().append(true).open(top.join("data/theirs"))), Errno::ROFS);
    assert_eq!(errno(fs::remove_file(top.join("data/theirs"))), Errno::ROFS);
    let is_read_only = |mount: &Mount| mount.status()["stores"][0]["read_only"] == "credentials";
    assert!(is_read_only(&mount));
    write_new(&top.join("team/ours"), b"ours").unwrap();
    assert!(!is_read_only(&mount));
    fs::create_dir(top.join("team/folder")).unwrap();
    assert_eq!(errno(fs::rename(top.join("team/ours"), top.join("data/ours"))), Errno::ROFS);
    assert_eq!(errno(fs::rename(top.join("data/theirs"), top.join("team/taken"))), Errno::ROFS);
    mount.umount();
    assert_eq!(bucket.keys(), ["data/theirs", "team/folder/", "team/ours", "team/theirs"]);
}
