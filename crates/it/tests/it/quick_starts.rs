//! The quick starts and other pages that tell people what to type do what they say, block by block, with
//! the programs they name.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{
    Containers, Login, MinIo, Scratch, engine, nextflow, python, quayfs, root_folder, run, tool,
};

use crate::slides;

/// Longer than the runner itself gives a page, so that it is the one to say what hung.
const WITHIN: Duration = Duration::from_mins(10);

#[test]
fn genomics() {
    typed("genomics", &[]);
}

#[test]
fn rna_seq() {
    typed("rna-seq", &[]);
}

#[test]
fn pathology() {
    typed("pathology", &[("SLIDE", &slides::made_slide())]);
}

#[test]
fn earth_observation() {
    typed("earth-observation", &[]);
}

#[test]
fn machine_learning() {
    typed("machine-learning", &[]);
}

#[test]
fn home_and_software_folders() {
    typed("home-and-software", &[]);
}

#[test]
fn pipelines() {
    let containers = Containers::new();
    let settings = containers.env();
    let settings = settings.each_ref().map(|(name, path)| (*name, path.as_path()));
    typed_of("pipelines", "pipelines", &settings);
}

#[test]
fn configuration() {
    let place = Scratch::new();
    run(&mut runner(&place, &root_folder().join("docs/configuration.md")), WITHIN).ok();
}

#[test]
fn a_page_whose_output_is_another_fails() {
    let place = Scratch::new();
    let page = place.path().join("page.md");
    for (text, agrees) in [("one\n…\nfour\n", true), ("one\ntwo\nthree\n", false)] {
        fs::write(
            &page,
            format!(
                "```sh run\nseq -f %g 1 4 | sed s/1/one/\\;s/4/four/\n```\n\n```text\n{text}```\n"
            ),
        )
        .unwrap();
        let ran = run(&mut runner(&place, &page), WITHIN);
        assert_eq!(ran.status.success(), agrees, "{}", ran.report());
    }
    fs::write(&page, "```sh run\nfalse\n```\n").unwrap();
    assert!(!run(&mut runner(&place, &page), WITHIN).status.success());
}

#[test]
fn what_a_page_leaves_running_is_ended() {
    let place = Scratch::new();
    let page = place.path().join("page.md");
    // It outlives every limit, and whoever waits for the end of its output waits for it.
    fs::write(&page, "```sh run\nsleep infinity &\n```\n").unwrap();
    run(&mut runner(&place, &page), WITHIN).ok();
}

/// Types the blocks of a quick start, after the script of its name has filled the bucket; `arguments` are what
/// that script wants.
fn typed(name: &str, arguments: &[(&str, &Path)]) {
    typed_of(&format!("quick-starts/{name}"), name, arguments);
}

/// As [`typed`], of any page.
fn typed_of(page: &str, name: &str, arguments: &[(&str, &Path)]) {
    let place = Scratch::new();
    let page = root_folder().join(format!("docs/{page}.md"));
    let before = root_folder().join(format!("crates/it/quick-starts/{name}.sh"));
    let mut command = runner(&place, &page);
    command.arg(before).envs(arguments.iter().copied());
    let printed = run(&mut command, WITHIN).ok().to_owned();
    assert!(printed.contains(" blocks"), "{printed}");
}

/// The runner of pages in a home folder of its own, with the shared store as the only one it knows.
fn runner(place: &Scratch, page: &Path) -> Command {
    let home = place.folder("home");
    let mut command = Command::new(python());
    command.arg(root_folder().join("scripts/run-page")).arg(page).current_dir(&home).env_clear();
    let Login { user, secret } = Login::root();
    let store = MinIo::shared();
    command.envs([("LC_ALL", "C.UTF-8"), ("AWS_REGION", "us-east-1")]);
    command.env("HOME", &home).env("PATH", path_of(&programs(place)));
    // A state folder that goes away with the test.
    command.env("QUAYFS_CACHE_DIR", place.path().join("state"));
    command.env("AWS_ACCESS_KEY_ID", &user).env("AWS_SECRET_ACCESS_KEY", &secret);
    command.env("AWS_ENDPOINT_URL", store.endpoint());
    command.env("MC_HOST_store", format!("http://{user}:{secret}@{}", store.address()));
    command
}

/// A folder with the programs that pages name and the system does not have.
fn programs(place: &Scratch) -> PathBuf {
    let folder = place.folder("programs");
    let ours = [("quayfs", quayfs()), ("mc", tool("mc"))];
    let engines = ["cwltool", "miniwdl"].map(|name| (name, engine(name)));
    for (name, program) in ours.into_iter().chain(engines) {
        // Another page may have been typed in the same place.
        let _ = symlink(program, folder.join(name));
    }
    let nextflow = nextflow(Command::new("java"), &place.folder("nextflow"));
    write_program(&folder.join("nextflow"), &nextflow);
    folder
}

/// A program that does what a command does, with whatever arguments come behind its own.
fn write_program(path: &Path, command: &Command) {
    let quoted = |word: &OsStr| format!("'{}'", word.to_str().unwrap());
    let mut words = vec!["exec env".to_owned()];
    for (name, value) in command.get_envs() {
        words.push(format!("{}={}", name.to_str().unwrap(), quoted(value.unwrap())));
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    testkit::write_program(path, &format!("#!/bin/sh\n{} \"$@\"\n", words.join(" ")));
}

/// Where programs are looked for: ours, the Python of the tests, the system's.
fn path_of(programs: &Path) -> OsString {
    let python = python();
    let mut folders = vec![programs.to_path_buf()];
    folders.extend(python.parent().map(Path::to_path_buf));
    folders
        .extend(env::split_paths("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    env::join_paths(folders).unwrap()
}
