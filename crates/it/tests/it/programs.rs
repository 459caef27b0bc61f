//! Real programs on a mount: what they make there they find again, also after a remount.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{MinIo, Mount, Plan, Scratch, python, run, same_trees};

use crate::{mounted, mounted_with};

const WITHIN: Duration = Duration::from_mins(3);

/// Runs `script` in `bash` in the folder `dir`, with `arguments` as `$1` and on; it stops at the first
/// command that fails. Returns what it printed.
fn bash(dir: &Path, script: &str, arguments: &[&OsStr]) -> String {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script, "bash"]).args(arguments).current_dir(dir);
    // Nothing of who runs the tests.
    command.env("HOME", dir).env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_AUTHOR_NAME", "a").env("GIT_AUTHOR_EMAIL", "a@example.org");
    command.env("GIT_COMMITTER_NAME", "a").env("GIT_COMMITTER_EMAIL", "a@example.org");
    run(&mut command, WITHIN).ok().to_owned()
}

/// Runs a script of `py/` with the mount's path.
fn python_script(name: &str, arguments: &[&OsStr]) -> String {
    let mut command = Command::new(python());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(name)).args(arguments);
    run(&mut command, WITHIN).ok().to_owned()
}

fn remounted(mount: Mount) -> Mount {
    mount.umount().mount()
}

#[test]
fn programs_find_what_they_made_on_a_mount_that_does_not_wait() {
    for program in [git, tar, rsync, sqlite, make] {
        program(&["--commit", "async"]);
    }
}

#[test]
fn git_clones_commits_collects_and_finds_nothing_wrong() {
    git(&[]);
}

fn git(flags: &[&str]) {
    let (_bucket, mount) = mounted_with(flags);
    let local = mount.plan().folder("source");
    let source = r"
        git init -q -b main .
        for i in 1 2 3; do
            mkdir -p folder/$i
            seq $((i * 1000)) > folder/$i/numbers
            printf '#!/bin/sh\necho %s\n' $i > script-$i
            chmod +x script-$i
            git add -A
            git commit -qm commit-$i
        done
        git tag first HEAD~2
    ";
    bash(&local, source, &[]);
    let work = r#"
        git clone -q "$1" clone
        cd clone
        [ "$(git log --format=%s | tr '\n' ' ')" = "commit-3 commit-2 commit-1 " ]
        echo changed >> folder/1/numbers
        git mv folder/2/numbers folder/2/renamed
        git rm -q script-3
        git commit -qam "on the mount"
        git checkout -q -b other first
        echo new > new
        git add new
        git commit -qm "beside"
        git checkout -q main
        git merge -q -m merged other
        git gc -q --prune=now
        git fsck --strict --no-progress
        git status --porcelain
    "#;
    assert_eq!(bash(mount.path(), work, &[local.as_os_str()]), "");
    let mount = remounted(mount);
    let after = "git fsck --strict --no-progress; git status --porcelain; git log -1 --format=%s";
    assert_eq!(bash(&mount.join("clone"), after, &[]), "merged\n");
}

#[test]
fn what_tar_unpacks_tar_finds_unchanged() {
    tar(&[]);
}

fn tar(flags: &[&str]) {
    let (_bucket, mount) = mounted_with(flags);
    let local = mount.plan().folder("source");
    let make = r"
        mkdir -p tree/deep/deeper tree/empty
        seq 100000 > tree/deep/numbers
        : > tree/deep/deeper/nothing
        chmod 4711 tree/deep/numbers
        chmod 600 tree/deep/deeper/nothing
        chmod 2750 tree/deep
        chmod 1777 tree/empty
        ln -s ../deep/numbers tree/empty/link
        ln -s /nowhere/at/all tree/dangling
        mkfifo tree/pipe
        chown -h 1234:4321 tree/deep/numbers tree/dangling
        touch -d '2001-02-03 04:05:06.123456789 UTC' tree/deep/numbers
        touch -h -d '2002-02-03 04:05:06 UTC' tree/dangling
        touch -d '1999-12-31 23:59:59 UTC' tree/deep tree/empty
        tar --format=posix -cf tree.tar tree
    ";
    bash(&local, make, &[]);
    let archive = local.join("tree.tar");
    let unpack = r#"tar -xpf "$1"; tar --compare -f "$1""#;
    assert_eq!(bash(mount.path(), unpack, &[archive.as_os_str()]), "");
    let mount = remounted(mount);
    let compare = r#"tar --compare -f "$1"; tar --format=posix -cf - tree | tar -xpf - -C "$2""#;
    let back = mount.plan().folder("back");
    assert_eq!(bash(mount.path(), compare, &[archive.as_os_str(), back.as_os_str()]), "");
    assert_eq!(bash(&back, r#"tar --compare -f "$1""#, &[archive.as_os_str()]), "");
}

#[test]
fn rsync_transfers_nothing_the_second_time() {
    rsync(&[]);
}

fn rsync(flags: &[&str]) {
    let (_bucket, mount) = mounted_with(flags);
    let local = mount.plan().folder("source");
    let make = r"
        mkdir -p tree/one/two tree/empty
        for i in $(seq 20); do seq $((i * 50)) > tree/one/$i; done
        ln -s one/1 tree/link
        chmod 750 tree/one/two
        chmod 755 tree/one/7
        touch -d '2001-02-03 04:05:06.5 UTC' tree/one/3 tree/one/two
    ";
    bash(&local, make, &[]);
    let sync = r#"rsync -a --itemize-changes "$1"/tree/ copy/"#;
    let first = bash(mount.path(), sync, &[local.as_os_str()]);
    assert!(20 <= first.lines().count(), "{first}");
    assert_eq!(bash(mount.path(), sync, &[local.as_os_str()]), "");
    let mount = remounted(mount);
    assert_eq!(bash(mount.path(), sync, &[local.as_os_str()]), "");
    // From the mount as well.
    let back = r#"rsync -a --itemize-changes copy/ "$1"/tree/"#;
    assert_eq!(bash(mount.path(), back, &[local.as_os_str()]), "");
}

#[test]
fn sqlite_keeps_its_database_in_every_journal_mode() {
    sqlite(&[]);
}

fn sqlite(flags: &[&str]) {
    let (_bucket, mut mount) = mounted_with(flags);
    for mode in ["delete", "truncate", "persist", "wal"] {
        let script = r#"
            sqlite3 "$1.db" "PRAGMA journal_mode=$1; CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB);"
            for round in 1 2 3; do
                sqlite3 "$1.db" "
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                    INSERT INTO t (x) SELECT randomblob(200) FROM n;
                    UPDATE t SET x = randomblob(300) WHERE id % 7 = 0;
                    DELETE FROM t WHERE id % 11 = 0;
                    BEGIN; DELETE FROM t; ROLLBACK;"
            done
            sqlite3 "$1.db" "VACUUM; PRAGMA integrity_check; SELECT count(*) FROM t;"
        "#;
        let said = bash(mount.path(), script, &[OsStr::new(mode)]);
        assert_eq!(said, format!("{mode}\nok\n1364\n"));
        mount = remounted(mount);
        let script = r#"sqlite3 "$1.db" "PRAGMA integrity_check; SELECT count(*) FROM t;""#;
        assert_eq!(bash(mount.path(), script, &[OsStr::new(mode)]), "ok\n1364\n", "{mode}");
    }
}

#[test]
fn two_connections_of_sqlite_share_a_database() {
    let (_bucket, mount) = mounted();
    for mode in ["delete", "wal"] {
        let script = r#"
            sqlite3 "$1.db" "PRAGMA journal_mode=$1; CREATE TABLE t (x);" > /dev/null
            for writer in 1 2 3; do
                for i in $(seq 5); do
                    sqlite3 -cmd '.timeout 60000' "$1.db" "INSERT INTO t VALUES ($writer)"
                done &
            done
            wait
            sqlite3 "$1.db" "PRAGMA integrity_check; SELECT count(*) FROM t;"
        "#;
        assert_eq!(bash(mount.path(), script, &[OsStr::new(mode)]), "ok\n15\n", "{mode}");
    }
}

#[test]
fn hdf5_files_are_made_grown_and_changed_in_place() {
    let (_bucket, mount) = mounted();
    let path = mount.join("data.h5");
    python_script("hdf5.py", &[OsStr::new("write"), path.as_os_str()]);
    let mount = remounted(mount);
    python_script("hdf5.py", &[OsStr::new("check"), mount.join("data.h5").as_os_str()]);
}

#[test]
fn a_geotiff_is_changed_in_place() {
    let (_bucket, mount) = mounted();
    let path = mount.join("image.tif");
    python_script("geotiff.py", &[OsStr::new("write"), path.as_os_str()]);
    let mount = remounted(mount);
    python_script("geotiff.py", &[OsStr::new("check"), mount.join("image.tif").as_os_str()]);
}

#[test]
fn ten_processors_of_scenes_at_once_make_in_place_what_they_make_on_a_disk() {
    let bucket = MinIo::shared().bucket();
    let local = Scratch::new();
    let names: Vec<String> = (0..10).map(|number| format!("S2A_MSIL1C_{number}.SAFE")).collect();
    let folders: Vec<_> = names.iter().map(|name| local.path().join(name)).collect();
    let folders: Vec<&OsStr> = folders.iter().map(|folder| folder.as_os_str()).collect();
    python_script("scene.py", &[&[OsStr::new("make"), OsStr::new("256")], &*folders].concat());
    let mount = Plan::of(&bucket).flags(["--profile", "pipeline"]).mount();
    bash(local.path(), r#"cp -r -- *.SAFE "$1""#, &[mount.path().as_os_str()]);
    python_script("scene.py", &[&[OsStr::new("process")], &*folders].concat());
    // With nothing of them here.
    mount.umount();
    let mount = Plan::of(&bucket).flags(["--profile", "pipeline"]).mount();
    let all = r#"
        for scene in *_MSIL1C_*.SAFE; do "$1" "$2" process "$scene" & started+=($!); done
        for one in "${started[@]}"; do wait "$one"; done
    "#;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py/scene.py");
    bash(mount.path(), all, &[python().as_os_str(), script.as_os_str()]);
    same_trees(local.path(), mount.path());
    let mount = remounted(mount);
    same_trees(local.path(), mount.path());
    mount.umount();
    let keys = bucket.keys();
    assert!(
        !keys.iter().any(|key| key.contains("unfinished") || key.contains(".part.")),
        "{keys:?}"
    );
}

#[test]
fn make_builds_a_project_once() {
    make(&[]);
}

fn make(flags: &[&str]) {
    let (_bucket, mount) = mounted_with(flags);
    let project = r#"
        mkdir project
        cd project
        for i in 1 2 3; do
            printf '#include "all.h"\nint f%s(void) { return %s; }\n' $i $i > f$i.c
        done
        echo 'int f1(void); int f2(void); int f3(void);' > all.h
        printf '#include "all.h"\nint main(void) { return f1() + f2() + f3() - 6; }\n' > main.c
        printf '%b\n' 'objects = f1.o f2.o f3.o main.o' \
            'program: libf.a main.o' '\tcc -o $@ main.o libf.a' \
            'libf.a: f1.o f2.o f3.o' '\tar rcs $@ $^' \
            '$(objects): all.h' > Makefile
        make -s -j2
        ./program
        make -q
    "#;
    bash(mount.path(), project, &[]);
    let mount = remounted(mount);
    let again = "make -q; ./program; touch f2.c; ! make -q; make -s; make -q; ./program";
    bash(&mount.join("project"), again, &[]);
}

#[test]
fn pip_installs_a_package() {
    let (_bucket, mount) = mounted_with(&["--allow-other"]);
    let local = mount.plan().folder("source");
    python_script("wheel.py", &[local.as_os_str()]);
    let install = r#"
        "$1" -m pip install --quiet --disable-pip-version-check --no-index --no-cache-dir \
            --target packages "$2"/quay_example-1.0-py3-none-any.whl
        cd packages
        "$1" -c 'import quay_example; print(quay_example.answer())'
    "#;
    let python = python();
    let said = bash(mount.path(), install, &[python.as_os_str(), local.as_os_str()]);
    assert_eq!(said, "42\n");
    let mount = remounted(mount);
    let use_it = r#""$1" -c 'import quay_example; print(quay_example.answer())'"#;
    assert_eq!(bash(&mount.join("packages"), use_it, &[python.as_os_str()]), "42\n");
    assert!(fs::metadata(mount.join("packages/quay_example-1.0.dist-info/RECORD")).is_ok());
}
