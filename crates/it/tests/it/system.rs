//! quayfs as a part of the system: tables of mounts, service managers, limits.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Finished, Plan, mounted_at, quayfs, root_folder, run, wait, write_new};

use crate::SOON;

const WITHIN: Duration = Duration::from_mins(1);

/// A folder as a bucket, in surroundings that say where the state is.
fn planned() -> (Plan, PathBuf) {
    let plan = Plan::of_url("file:///");
    let store = plan.folder("store");
    let state = plan.state().to_str().unwrap().to_owned();
    (plan.env("QUAYFS_CACHE_DIR", &state), store)
}

/// Runs `script` where mounts are seen by nobody else, and mount(8) finds our names for the binary. What
/// is still mounted at its end goes with it.
fn in_own_world(plan: &Plan, script: &str) -> Finished {
    let names = plan.folder("sbin");
    for name in ["mount.quayfs", "umount.fuse.quayfs"] {
        symlink(quayfs(), names.join(name)).unwrap();
    }
    let script = format!(
        "set -e
        place=$(readlink -f /sbin)
        mount -t overlay none -o lowerdir={}:\"$place\" \"$place\"
        {script}",
        names.display()
    );
    let mut command = plan.other_command("unshare".as_ref());
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    run(command.arg(quayfs()), WITHIN)
}

#[test]
fn a_line_of_the_table_is_mounted_with_its_options_and_unmounting_waits_for_the_bucket() {
    let (plan, store) = planned();
    fs::write(store.join("old"), b"bytes").unwrap();
    let table = plan.folder("").join("fstab");
    let (dir, other) = (plan.path().to_owned(), plan.folder("other"));
    let line = format!(
        "file://{} {} quayfs _netdev,nofail,x-systemd.automount,noatime,allow_other,commit=async,file_mode=640 0 0\n\
         file://{0} {} quayfs noauto,ro,noexec,user 0 0\n",
        store.display(),
        dir.display(),
        other.display()
    );
    fs::write(&table, line).unwrap();
    let script = format!(
        "mount -a -T {table}
        mount -a -T {table}
        test \"$(grep -c ' {dir} ' /proc/self/mountinfo)\" = 1
        grep ' {dir} ' /proc/self/mountinfo | grep -q allow_other
        test \"$(stat -c %a {dir}/old)\" = 640
        ! grep -q ' {other} ' /proc/self/mountinfo
        mount -T {table} {other}
        grep ' {other} ' /proc/self/mountinfo | grep ' ro,' | grep nosuid | grep nodev | grep -q noexec
        umount {other}
        echo more > {dir}/new
        umount {dir}
        test \"$(cat {}/new)\" = more
        ! pgrep -f '[d]etach.*{dir}'",
        store.display(),
        table = table.display(),
        dir = dir.display(),
        other = other.display(),
    );
    in_own_world(&plan, &script).ok();
}

#[test]
fn a_line_that_is_wrong_says_so_and_mount_fails_as_it_does() {
    let (plan, store) = planned();
    let source = format!("file://{}", store.display());
    let mount = |options: &str| {
        let script = format!("mount -t quayfs {source} {} -o {options}", plan.path().display());
        let _ = fs::remove_dir_all(plan.folder("sbin"));
        in_own_world(&plan, &script)
    };
    let said = mount("ro,alow_other");
    assert_eq!(said.status.code(), Some(32), "{}", said.report());
    let word = "unknown mount option alow_other; did you mean allow-other?";
    assert!(said.stderr.contains(word), "{}", said.report());
    let said = mount("uid=me");
    assert_eq!(said.status.code(), Some(32), "{}", said.report());
    assert!(said.stderr.contains("option uid=me: no such user"), "{}", said.report());
}

#[test]
fn options_are_taken_by_the_mount_command_too() {
    let (plan, store) = planned();
    let plan = plan.instead_of_url(&format!("file://{}", store.display()));
    fs::write(store.join("file"), b"bytes").unwrap();
    let mount = plan.flags(["-o", "file_mode=600,noexec,_netdev", "--file-mode", "640"]).mount();
    let mode = fs::metadata(mount.join("file")).unwrap().permissions().mode();
    // The flag says it more clearly.
    assert_eq!(mode & 0o777, 0o640);
    let program = mount.join("program");
    write_new(&program, b"#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Command::new(&program).status().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_service_manager_hears_when_the_mount_answers_and_when_it_ends() {
    for name in ["socket", "@"] {
        let (plan, store) = planned();
        let path = plan.folder("").join("socket");
        let (socket, name) = if name == "@" {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("quayfs-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
        } else {
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned())
        };
        socket.set_read_timeout(Some(SOON)).unwrap();
        let url = format!("file://{}", store.display());
        let plan = plan.instead_of_url(&url).env("NOTIFY_SOCKET", &name).flags(["--foreground"]);
        let (mut child, mount) = plan.in_foreground();

        let said = heard(&socket);
        assert!(said.starts_with("READY=1\nSTATUS=serving file:///"), "{said}");
        assert!(mounted_at(mount.path()), "it was not ready");
        write_new(&mount.join("file"), b"bytes").unwrap();
        run(Command::new("kill").args(["-TERM", &child.id().to_string()]), WITHIN).ok();
        let said = heard(&socket);
        assert!(said.starts_with("STOPPING=1\nSTATUS=uploading "), "{said}");
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read(store.join("file")).unwrap(), b"bytes");
    }
}

fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let length = socket.recv(&mut bytes).expect("the manager is told in time");
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn a_daemon_of_root_has_more_than_the_share_of_one_session() {
    let plan = Plan::of_url("file:///");
    let url = format!("file://{}", plan.folder("store").display());
    let mount = plan.instead_of_url(&url).mount();
    let pid = mount.status()["pid"].as_u64().unwrap();
    let group = fs::read_to_string(format!("/proc/{pid}/autogroup"));
    let Ok(group) = group else {
        assert!(!Path::new("/proc/self/autogroup").exists(), "this kernel has none");
        return;
    };
    wait::until("the share to be raised", SOON, || {
        fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap().contains("nice -10")
    });
    let ours = fs::read_to_string("/proc/self/autogroup").unwrap();
    assert!(!ours.contains("nice -10"), "{ours}");
    assert_ne!(group.split(' ').next(), ours.split(' ').next(), "it is its own");
}

/// Runs `script` as a container does that begins no session: the processes outside have no numbers there.
fn among_own_processes(plan: &Plan, script: &str) -> Finished {
    let mut command = plan.other_command("unshare".as_ref());
    command.args(["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount-proc", "sh", "-c", script]);
    run(command.arg(quayfs()).arg(plan.path()), WITHIN)
}

#[test]
fn a_mount_serves_where_no_session_was_begun() {
    let (plan, store) = planned();
    let script = format!(
        "\"$0\" mount --foreground file://{} \"$1\" &
        until grep -q \" $1 \" /proc/self/mountinfo; do kill -0 $! || exit 9; done
        until \"$0\" status \"$1\"; do kill -0 $! || exit 8; done
        echo bytes > \"$1/file\"
        \"$0\" umount \"$1\" && wait $!",
        store.display()
    );
    among_own_processes(&plan, &script).ok();
    assert_eq!(fs::read(store.join("file")).unwrap(), b"bytes\n");
}

#[test]
fn a_daemon_outside_is_asked_and_what_needs_its_process_says_so() {
    let (plan, store) = planned();
    let mount = plan.instead_of_url(&format!("file://{}", store.display())).mount();
    among_own_processes(mount.plan(), "\"$0\" status \"$1\"").ok();
    let refused = among_own_processes(mount.plan(), "\"$0\" umount \"$1\"");
    assert!(!refused.status.success(), "{}", refused.report());
    assert!(refused.stderr.contains("another namespace of processes"), "{}", refused.report());
    mount.umount();
}

#[test]
fn root_mounts_with_no_more_capabilities_than_its_unit_grants() {
    let unit = root_folder().join("dist/systemd/system/quayfs@.service");
    let unit = fs::read_to_string(unit).unwrap();
    let granted = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let granted = granted.unwrap().to_lowercase().replace("cap_", "+").replace(' ', ",");
    let plan = Plan::of_url("file:///");
    let store = plan.folder("store");
    let mut mount = plan.other_command("setpriv".as_ref());
    mount.args(["--no-new-privs", &format!("--bounding-set=-all,{granted}")]).arg(quayfs());
    mount.args(["mount", &format!("file://{}", store.display())]).arg(plan.path());
    run(mount.arg("--cache-dir").arg(plan.state()), WITHIN).ok();
    let file = plan.path().join("file");
    fs::write(&file, b"bytes").unwrap();
    std::os::unix::fs::chown(&file, Some(1234), None).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
    run(plan.command(["umount"]).arg(plan.path()), WITHIN).ok();
    assert_eq!(fs::read(store.join("file")).unwrap(), b"bytes");
}

#[test]
fn systemd_takes_the_units() {
    let analyze = Path::new("/usr/bin/systemd-analyze");
    let scratch = testkit::Scratch::new();
    for (who, flag) in [("system", "--system"), ("user", "--user")] {
        let unit = root_folder().join("dist/systemd").join(who).join("quayfs@.service");
        let text = fs::read_to_string(&unit).unwrap();
        for line in [
            "Type=notify",
            "TimeoutStopSec=infinity",
            "RestartPreventExitStatus=174",
            // What stands in the file counts more.
            "Environment=QUAYFS_SHUTDOWN_TIMEOUT=10min\nEnvironmentFile=",
            // Wherever it is installed that systemd looks.
            "ExecStart=quayfs mount --foreground",
            // What a killed mount left there cannot be looked at, and is mounted over.
            "ExecStartPre=-/bin/mkdir",
        ] {
            assert!(text.contains(line), "{}: {line}", unit.display());
        }
        // A service of the system has none by itself, and would look for credentials nowhere.
        assert_eq!(text.contains("Environment=HOME=%h"), who == "system", "{}", unit.display());
        if !analyze.exists() {
            continue;
        }
        if who == "system" {
            // A sandbox of files would hide the mount from all other processes.
            for option in ["ProtectSystem=", "ProtectHome=", "PrivateTmp=", "PrivateMounts="] {
                let is_set = text.lines().any(|line| line.starts_with(option));
                assert!(!is_set, "{option}");
            }
            let copy = scratch.folder("security").join("quayfs@data.service");
            fs::write(&copy, &text).unwrap();
            let mut security = Command::new(analyze);
            // In tenths.
            security.args(["security", "--offline=true", "--threshold=50"]).arg(&copy);
            run(&mut security, WITHIN).ok();
        }
        // It looks whether the program is there, which it is where quayfs is installed.
        let copy = scratch.folder(who).join("quayfs@data.service");
        fs::write(&copy, text.replace("=quayfs", &format!("={}", quayfs().display()))).unwrap();
        let mut verify = Command::new(analyze);
        verify.args([flag, "--man=no", "verify"]).arg(&copy);
        verify.env("XDG_RUNTIME_DIR", scratch.path());
        let said = run(&mut verify, WITHIN);
        assert!(said.status.success() && !said.stderr.contains("quayfs@"), "{}", said.report());
    }
}

#[test]
fn as_many_files_may_be_open_as_the_system_allows() {
    let (plan, store) = planned();
    let url = format!("file://{}", store.display());
    let mut limited = plan.other_command("sh".as_ref());
    limited.args(["-c", "ulimit -Sn 64; ulimit -Hn 4000; exec \"$@\"", "sh"]).arg(quayfs());
    run(limited.args(["mount", &url]).arg(plan.path()), WITHIN).ok();
    assert!(mounted_at(plan.path()));
    let said = run(plan.command(["status", "--json"]).arg(plan.path()), WITHIN);
    let status: serde_json::Value = serde_json::from_str(said.ok()).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", status["pid"])).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let figures: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    run(plan.command(["umount"]).arg(plan.path()), WITHIN).ok();
    assert_eq!(figures, ["4000", "4000"]);
}

#[test]
fn all_mounts_are_listed_the_dead_among_them() {
    let mounted = || {
        let (plan, store) = planned();
        plan.instead_of_url(&format!("file://{}", store.display())).mount()
    };
    let (alive, dead) = (mounted(), mounted());
    dead.kill();
    let listed = |flags: &[&str]| run(alive.plan().command(["list"]).args(flags), WITHIN);
    let said = listed(&["--json"]);
    let mounts: Vec<serde_json::Value> = serde_json::from_str(said.ok()).unwrap();
    let at =
        |path: &Path| mounts.iter().find(|mount| mount["dir"] == path.to_str().unwrap()).unwrap();
    let of_alive = at(alive.path());
    assert_eq!((&of_alive["health"], &of_alive["pending_uploads"]), (&"ok".into(), &0.into()));
    assert_eq!(of_alive["pid"], alive.status()["pid"]);
    assert!(of_alive["source"].as_str().unwrap().starts_with("file:///"));
    let of_dead = at(dead.path());
    assert_eq!((&of_dead["health"], of_dead["pid"].is_null()), (&"dead".into(), true));

    let said = listed(&[]);
    let line = |path: &Path| {
        let line = said.ok().lines().find(|line| line.contains(path.to_str().unwrap()));
        line.unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line(alive.path())[2..], [of_alive["pid"].to_string(), "ok".into(), "0".into()]);
    assert_eq!(line(dead.path())[2..], ["-", "dead", "-"]);
}
