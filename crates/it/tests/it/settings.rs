//! Settings in files, variables and flags, as the commands take them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use testkit::{Plan, run, write_new};

use crate::errno;

const WITHIN: Duration = Duration::from_mins(1);

/// A plan to mount a folder, the folder, and the user's configuration file, which says `text`; `URL` in
/// it stands for what will be mounted.
fn planned(text: &str) -> (Plan, PathBuf, PathBuf) {
    let plan = Plan::of_url("file:///");
    let store = plan.folder("store");
    let url = format!("file://{}", store.display());
    let file = plan.folder("settings/quayfs").join("config.toml");
    fs::write(&file, text.replace("URL", &url)).unwrap();
    let home = plan.folder("settings");
    let plan = plan.instead_of_url(&url).env("XDG_CONFIG_HOME", home.to_str().unwrap());
    (plan, store, file)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_mount_does_as_the_file_says_and_more_so_for_its_own_bucket() {
    let text = "[general]\nfile-mode = 640\ndir-mode = \"750\"\n\
                [bucket.\"URL\"]\nread-only = true\nfile-mode = 600\n\
                [bucket.\"URL-other\"]\nfile-mode = 666\n";
    let (plan, store, _) = planned(text);
    fs::create_dir(store.join("folder")).unwrap();
    fs::write(store.join("file"), b"bytes").unwrap();
    let mount = plan.mount();
    assert_eq!(mode(&mount.join("file")), 0o600);
    assert_eq!(mode(&mount.join("folder")), 0o750);
    assert_eq!(errno(write_new(&mount.join("new"), b"bytes")), Errno::ROFS);
}

#[test]
fn a_variable_is_stronger_than_the_file_and_a_flag_than_both() {
    let (plan, store, _) = planned("[general]\nread-only = true\nfile-mode = 600\numask = 22\n");
    fs::write(store.join("file"), b"bytes").unwrap();
    let plan = plan.env("QUAYFS_FILE_MODE", "666").env("QUAYFS_UMASK", "77");
    let mount = plan.flags(["--read-only=false", "--umask", "26"]).mount();
    assert_eq!(mode(&mount.join("file")), 0o640);
    write_new(&mount.join("new"), b"bytes").unwrap();
}

#[test]
fn a_mistake_in_the_file_is_told_with_its_line_and_nothing_is_mounted() {
    let (plan, _, file) = planned("[general]\n# mine\nfile-mod = 600\n");
    let refused = plan.attempt().refused();
    let want = format!("{}:3: unknown setting file-mod; did you mean file-mode?", file.display());
    assert!(refused.stderr.contains(&want), "{}", refused.report());

    let (plan, _, file) = planned("[bucket.\"URL\"]\nmetadata-ttl = \"soon\"\n");
    let refused = plan.attempt().refused();
    let want = format!("{}:2: metadata-ttl: soon: not a time like", file.display());
    assert!(refused.stderr.contains(&want), "{}", refused.report());
}

#[test]
fn a_variable_that_is_nearly_a_setting_is_told() {
    let (plan, _, _) = planned("");
    let attempt = plan.env("QUAYFS_CACHE_SIEZ", "1G").attempt();
    let said = &attempt.finished.stderr;
    assert!(
        said.contains("QUAYFS_CACHE_SIEZ is no setting; did you mean QUAYFS_CACHE_SIZE?"),
        "{said}"
    );
    attempt.ok();
}

#[test]
fn config_shows_every_value_with_who_gave_it() {
    let (plan, store, file) = planned("[general]\ncommit = \"async\"\n[bucket.\"URL\"]\nuid = 7\n");
    let url = format!("file://{}", store.display());
    let plan = plan.env("QUAYFS_PART_SIZE", "5MiB");
    let said = run(&mut plan.command(["config", &url, "--json", "--deadline", "9s"]), WITHIN);
    let told: serde_json::Value = serde_json::from_str(said.ok()).unwrap();
    let settings = &told["settings"];
    for (name, value, from) in [
        ("commit", "async", "file"),
        ("uid", "7", "file"),
        ("part-size", "5MiB", "environment"),
        ("deadline", "9s", "flag"),
        ("umask", "0", "default"),
    ] {
        assert_eq!(
            (&settings[name]["value"], &settings[name]["from"]),
            (&value.into(), &from.into())
        );
    }
    assert_eq!(settings["uid"]["line"], 4);
    assert_eq!(settings["uid"]["bucket"], url);
    assert_eq!(settings["part-size"]["variable"], "QUAYFS_PART_SIZE");

    // What people read is a configuration file that means the same.
    let said = run(&mut plan.command(["config", &url, "--deadline", "9s"]), WITHIN);
    assert!(said.ok().contains(&format!("# {}:2", file.display())), "{}", said.report());
    let copy = file.with_file_name("copy.toml");
    fs::write(&copy, said.ok()).unwrap();
    let said =
        run(&mut plan.command(["config", "--json", "--config", copy.to_str().unwrap()]), WITHIN);
    let copied: serde_json::Value = serde_json::from_str(said.ok()).unwrap();
    for name in ["commit", "uid", "part-size", "deadline", "umask"] {
        assert_eq!(copied["settings"][name]["value"], settings[name]["value"], "{name}");
    }
}

#[test]
fn recovery_looks_where_the_file_says_that_the_state_is() {
    let (plan, store, file) = planned("");
    let state = plan.folder("").join("elsewhere");
    fs::write(&file, format!("[general]\ncache-dir = \"{}\"\n", state.display())).unwrap();
    let url = format!("file://{}", store.display());
    run(&mut plan.command(["recover", &url]), WITHIN).ok();
    assert!(state.join("state.db").is_file());
}

#[test]
fn who_has_credentials_that_others_may_read_is_told_and_they_are_used() {
    let plan = Plan::of_url("file:///");
    let file = plan.folder("secrets").join("lab.env");
    fs::write(&file, "AccountName=lab;AccountKey=aHVzaA==").unwrap();
    let url = "az://lab/slides";
    let path = file.to_str().unwrap();
    // Nobody answers there.
    let flags = ["--azure-credentials-file", path, "--endpoint", "http://127.0.0.1:1/lab"];
    for (open, is_told) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(open)).unwrap();
        let place = plan.folder("place");
        let mount = ["mount", url, place.to_str().unwrap(), "--deadline", "1s", "--cache-dir"];
        for mut command in [plan.command(["doctor", url]), plan.command(mount)] {
            if command.get_args().any(|argument| argument == "mount") {
                command.arg(plan.state());
            }
            let said = run(command.args(flags), WITHIN);
            let warning =
                format!("{path} has credentials, and others may read it (its mode is 644)");
            assert_eq!(
                said.stderr.matches(&warning).count(),
                usize::from(is_told),
                "{}",
                said.report()
            );
            assert!(!said.stderr.contains("aHVzaA"), "{}", said.report());
            assert!(!said.status.success(), "{}", said.report());
        }
    }
}
