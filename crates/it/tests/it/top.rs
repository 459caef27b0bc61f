//! The live view, looked at in a terminal of its own.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testkit::{Mount, Plan, Scratch, quayfs, root_folder, run, wait};

const WITHIN: Duration = Duration::from_mins(1);

fn mounted() -> (Scratch, Mount) {
    let folder = Scratch::new();
    let url = format!("file://{}", folder.folder("bucket").display());
    (folder, Plan::of_url(&url).mount())
}

/// What is on the screen after `steps` with `quayfs top`, which ends with `status`.
fn screen(mount: &Mount, steps: &[&str], status: i32) -> String {
    let mut command = Command::new("python3");
    command.arg(root_folder().join("scripts/screen")).args(["--size", "100x30"]).args(steps);
    command.arg("--").arg(quayfs()).arg("top").arg(mount.path());
    let finished = run(&mut command, WITHIN);
    assert_eq!(finished.status.code(), Some(status), "{}", finished.report());
    finished.stdout.clone()
}

#[test]
fn all_that_goes_on_is_on_the_screen() {
    let (_folder, mount) = mounted();
    let (done, path) = (Arc::new(AtomicBool::new(false)), mount.join("hot.bin"));
    let over = Arc::clone(&done);
    let busy = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            fs::write(&path, vec![7; 64 << 10]).unwrap();
            wait::moment(Duration::from_millis(20));
        }
    });
    let steps = ["see:hot.bin", "type:\\t", "see:put", "type:\\t", "see:create"];
    let calls = screen(&mount, &steps, 0);
    done.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    for words in ["ok", "read", "written", "to the store", "█", "p99", "q quit"] {
        assert!(calls.contains(words), "{words} in\n{calls}");
    }
}

#[test]
fn keys_do_what_the_help_says_and_the_terminal_is_given_back() {
    let (_folder, mount) = mounted();
    let steps = [
        "see:no file is read",
        "type:?",
        "see:toggle this help",
        "type:?",
        "gone:toggle this help",
        "type:p",
        "see:paused",
        "type:p",
        "gone:paused",
        "type:\\x1b[D",
        "see:disk free",
        "type:\\x1b[D",
        "see:everything is in the bucket",
        "resize:30x8",
        "see:make the terminal larger",
        "resize:80x24",
        "see:everything is in the bucket",
        "type:q",
        "end",
    ];
    assert_eq!(screen(&mount, &steps, 0).trim(), "", "nothing of it stays");
}

#[test]
fn whoever_ends_it_finds_the_terminal_as_it_was() {
    let (_folder, mount) = mounted();
    let left = screen(&mount, &["see:q quit", "signal:TERM", "end"], 128 + 15);
    assert_eq!(left.trim(), "");
    let left = screen(&mount, &["see:q quit", "type:\\x03", "end"], 0);
    assert_eq!(left.trim(), "");
}

#[test]
fn without_a_terminal_one_look_is_printed() {
    let (_folder, mount) = mounted();
    let once = run(mount.plan().command(["top", "--once"]).arg(mount.path()), WITHIN);
    assert!(once.ok().contains("from the store"), "{}", once.report());
    let refused = run(mount.plan().command(["top"]).arg(mount.path()), WITHIN);
    assert!(refused.stderr.contains("top --once"), "{}", refused.report());
}
