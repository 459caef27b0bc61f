//! What is made of the commands' own declaration: completions and manual pages.

use std::fs;
use std::process::Command;
use std::time::Duration;

use testkit::{Scratch, quayfs, run};

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn every_shell_completes_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(Command::new(quayfs()).args(["completions", shell]), WITHIN);
        for word in ["mount", "umount", "cache-size", "read-only", "aws-profile"] {
            assert!(said.ok().contains(word), "{shell}: {word}");
        }
    }
    let said = run(Command::new(quayfs()).args(["completions", "tcsh"]), WITHIN);
    assert!(said.stderr.contains("neither bash nor zsh nor fish"), "{}", said.report());
}

#[test]
fn bash_takes_the_completions_and_offers_flags() {
    let script = "source <($0 completions bash)
        COMP_WORDS=(quayfs mount --cache-) COMP_CWORD=2
        _quayfs quayfs --cache- mount; echo \"${COMPREPLY[@]}\"";
    let said = run(Command::new("bash").args(["-c", script]).arg(quayfs()), WITHIN);
    assert_eq!(said.ok().trim(), "--cache-dir --cache-size", "{}", said.report());
    let script = "source <($0 completions bash)
        COMP_WORDS=(quayfs mount --commit '') COMP_CWORD=3
        _quayfs quayfs '' --commit; echo \"${COMPREPLY[@]}\"";
    let said = run(Command::new("bash").args(["-c", script]).arg(quayfs()), WITHIN);
    assert_eq!(said.ok().trim(), "close async", "{}", said.report());
}

#[test]
fn there_is_a_page_for_every_command_that_people_see() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("man/man1");
    run(Command::new(quayfs()).arg("man").arg(&folder), WITHIN).ok();
    let help = run(Command::new(quayfs()).arg("--help"), WITHIN);
    let (_, commands) = help.ok().split_once("Commands:").unwrap();
    let (commands, _) = commands.split_once("Options:").unwrap();
    let mut names: Vec<&str> =
        commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.retain(|name| *name != "help");
    assert!(names.contains(&"mount"), "{names:?}");
    for name in names {
        let page = fs::read_to_string(folder.join(format!("quayfs-{name}.1"))).unwrap();
        assert!(page.starts_with(".TH") && page.contains(".SH \"NAME\""), "{name}");
    }
    let page = fs::read_to_string(folder.join("quayfs-mount.1")).unwrap();
    assert!(page.contains("\\fB\\-\\-cache\\-size <BYTES>\\fR"), "{page}");
    assert!(page.contains("\nquayfs mount s3://my\\-bucket ~/data\n"), "{page}");
    assert!(!page.contains("detach"), "{page}");
}
