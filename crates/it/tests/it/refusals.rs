//! What cannot work is refused in time, with one clear complaint, and nothing is left behind.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::Duration;

use testkit::{
    Finished, Login, MinIo, Parrot, Plan, Scratch, mounted_at, noise, run, wait, write_new,
};

use crate::mounted;

/// What `--deadline 3s` may take with all that is around it.
const WITHIN: Duration = Duration::from_secs(20);

/// The first line says `problem`, and is short.
fn first_line(plan: Plan, problem: &str) {
    let finished = plan.flags(["--deadline", "3s"]).attempt().refused();
    let line = finished.stderr.lines().next().unwrap_or_default();
    assert!(line.ends_with(problem), "not {problem}: {}", finished.report());
    assert!(line.chars().count() <= 160, "{}", finished.report());
    // The store's own words, once.
    assert!(finished.stderr.lines().count() <= 5, "{}", finished.report());
}

#[test]
fn failed_aws_login_names_profile_and_remedy() {
    let bucket = MinIo::shared().bucket();
    let folder = Scratch::new();
    let config = folder.path().join("config");
    let session = "sso_region = eu-west-1\nsso_start_url = https://lab.example/start\n";
    let profile = "sso_session = lab\nsso_account_id = 123456789012\nsso_role_name = reader\n";
    fs::write(
        &config,
        format!(
            "[profile lab]\nregion = eu-west-1\n[profile bad]\n{profile}[sso-session lab]\n{session}\
             [profile proc]\ncredential_process = /bin/false\n"
        ),
    )
    .unwrap();
    let config = config.display().to_string();
    for (name, problem) in [
        ("Lab", format!("no profile \"Lab\" in {config}; there are bad, lab, proc")),
        ("lab", format!("profile \"lab\" in {config} has no credentials")),
        (
            "bad",
            "the SSO session of profile \"bad\" has ended: run aws sso login --profile bad".into(),
        ),
        ("proc", "the credential_process of profile \"proc\" failed (exit status: 1)".into()),
    ] {
        let plan = Plan::of(&bucket).without_login().env("AWS_CONFIG_FILE", &config);
        let plan = plan.env("HOME", folder.path().to_str().unwrap());
        first_line(plan.flags(["--aws-profile", name]), &problem);
    }
}

#[test]
fn wrong_credentials_are_told_apart() {
    let bucket = MinIo::shared().bucket();
    let wrong = |user: &str, secret: &str| {
        Plan::of(&bucket).login(&Login { user: user.into(), secret: secret.into() })
    };
    let Login { user, .. } = Login::root();
    first_line(wrong("unknown", "not-the-secret"), "the store does not know this access key");
    first_line(wrong(&user, "not-the-secret"), "the secret key does not belong to the access key");
    let token = Plan::of(&bucket).env("AWS_SESSION_TOKEN", "not-a-token");
    first_line(token, "the session token is not valid");
    first_line(Plan::of(&bucket).without_login(), "no credentials were found");
}

#[test]
fn expired_token_is_told_as_expired() {
    let bucket = MinIo::shared().bucket();
    let answer = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>";
    let store = Parrot::answering("400 Bad Request", "application/xml", answer);
    let plan = Plan::of(&bucket).instead("--endpoint", &store.url());
    first_line(plan, "the session token has expired");
}

#[test]
fn machine_without_account_has_no_azure_credentials() {
    let machine = Parrot::answering("403 Forbidden", "application/json", r#"{"error":"denied"}"#);
    let plan = Plan::of_url("az://lab/c");
    let plan = plan.env("IDENTITY_ENDPOINT", &machine.url()).env("IDENTITY_HEADER", "secret");
    first_line(plan, "no credentials were found");
}

#[test]
fn port_of_console_is_told_from_port_of_store() {
    let bucket = MinIo::shared().bucket();
    for status in ["200 OK", "403 Forbidden", "405 Method Not Allowed"] {
        let console =
            Parrot::answering(status, "text/html; charset=utf-8", "<!doctype html><p>Console");
        let url = console.url();
        let plan = Plan::of(&bucket).instead("--endpoint", &url);
        first_line(plan, &format!("{url} answered with a web page"));
    }
}

#[test]
fn store_without_key_service_is_told_so() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).flags(["--sse", "kms"]);
    first_line(plan, "the store cannot encrypt with a key of a key service (KMS)");
}

#[test]
fn impossible_name_of_bucket_names_rule() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).instead_of_url("s3://Lab");
    first_line(plan, "\"Lab\" is no name of a bucket: bucket names are lower case");
}

#[test]
fn empty_prefix_is_noted() {
    let bucket = MinIo::shared().bucket();
    bucket.put("data/file", b"bytes");
    let at = |path: &str| Plan::of(&bucket).instead_of_url(&format!("{}/{path}", bucket.url()));
    let attempt = at("dota").attempt();
    let said = attempt.finished.stderr.clone();
    assert!(said.contains("note: nothing is below") && said.contains("/dota"), "{said}");
    attempt.ok().umount();
    let attempt = at("data").attempt();
    assert!(!attempt.finished.stderr.contains("note:"), "{}", attempt.finished.report());
    attempt.ok().umount();
}

#[test]
fn mount_over_files_is_noted() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).flags(["-o", "nonempty"]);
    let file = plan.path().join("file");
    fs::write(&file, b"bytes").unwrap();
    let attempt = plan.attempt();
    let said = attempt.finished.stderr.clone();
    assert!(said.contains("is not empty: its files are hidden"), "{said}");
    let _plan = attempt.ok().umount();
    assert_eq!(fs::read(&file).unwrap(), b"bytes");
}

#[test]
fn used_port_and_file_of_metrics_are_named() {
    let bucket = MinIo::shared().bucket();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let plan = Plan::of(&bucket).flags(["--metrics-listen", &address]);
    check(plan, &[&["--metrics-listen"], &[&address]]);
    let plan = Plan::of(&bucket).flags(["--metrics-file", "/no/such/folder/metrics"]);
    check(plan, &[&["--metrics-file"], &["/no/such/folder/metrics"]]);
}

#[test]
fn a_bucket_that_is_not_there() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).instead_of_url("s3://no-such-bucket");
    check(plan, &[&["no-such-bucket"], &["does not exist", "no such bucket", "not found"]]);
}

#[test]
fn an_object_that_is_taken_for_a_folder() {
    let bucket = MinIo::shared().bucket();
    bucket.put("scans/slide.svs", b"a slide");
    let at = |path: &str| Plan::of(&bucket).instead_of_url(&format!("{}/{path}", bucket.url()));
    check(at("scans/slide.svs"), &[&["scans/slide.svs is an object, not a folder: mount "]]);
    // What nothing is in yet is a folder, and an empty object may be the mark of one.
    bucket.put("marked", b"");
    for path in ["scans/slide", "marked"] {
        at(path).mount().umount();
    }
    let folder = Scratch::new();
    fs::write(folder.path().join("file"), b"bytes").unwrap();
    let url = format!("file://{}/file", folder.path().display());
    check(
        Plan::of(&bucket).instead_of_url(&url),
        &[&["/file is a file, not a folder: mount file:///"]],
    );
}

#[test]
fn a_secret_key_that_is_wrong() {
    let bucket = MinIo::shared().bucket();
    let login = Login { secret: "not-the-secret".into(), ..Login::root() };
    let words = ["credential", "secret", "signature", "access key", "AWS_SECRET_ACCESS_KEY"];
    check(Plan::of(&bucket).login(&login), &[&words]);
}

#[test]
fn an_access_key_that_nobody_knows() {
    let bucket = MinIo::shared().bucket();
    let login = Login { user: "nobody-knows".into(), secret: "not-the-secret".into() };
    check(Plan::of(&bucket).login(&login), &[&["credential", "access key", "AWS_ACCESS_KEY_ID"]]);
}

#[test]
fn no_credentials_at_all() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).without_login();
    check(plan, &[&["credential"], &["AWS_ACCESS_KEY_ID", "--aws-profile", "--anonymous"]]);
}

#[test]
fn a_machine_that_hands_out_no_credentials() {
    let store = MinIo::shared();
    // Whoever asks it as a metadata service is refused, as by a machine whose service is switched off.
    let plan = Plan::of(&store.bucket())
        .without_login()
        .env("AWS_EC2_METADATA_DISABLED", "false")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &store.endpoint());
    let words: &[&[&str]] = &[
        &["no credentials were found"],
        &["metadata service"],
        &["AWS_ACCESS_KEY_ID"],
        // What it answered.
        &["CredentialsFailed"],
    ];
    check(plan, words);
}

#[test]
fn an_endpoint_where_nobody_listens() {
    let bucket = MinIo::shared().bucket();
    // The port was free a moment ago; nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan = Plan::of(&bucket).instead("--endpoint", &format!("http://{port}"));
    check(plan, &[&[&port.to_string()], &["reach", "connect", "answer"]]);
}

#[test]
fn a_state_folder_in_a_mount_of_another_bucket() {
    let (bucket, mount) = crate::mounted();
    let other = MinIo::shared().bucket();
    let plan = Plan::of(&other).state_in(&mount.join("state"));
    check(plan, &[&["must not be in"], &["a mount of quayfs"]]);
    assert_eq!(bucket.keys(), [""; 0], "nothing was made there");
}

#[test]
fn an_endpoint_without_tls_that_is_asked_with_it() {
    let bucket = MinIo::shared().bucket();
    let endpoint = bucket.endpoint().replace("http:", "https:");
    let plan = Plan::of(&bucket).instead("--endpoint", &endpoint);
    check(plan, &[&["cannot reach https://"], &["http:// without TLS"]]);
}

#[test]
fn an_endpoint_that_is_no_url() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).instead("--endpoint", "store.example:9000");
    check(plan, &[&["--endpoint must be a URL"], &["https://store.example:9000"]]);
}

#[test]
fn an_endpoint_that_accepts_and_says_nothing() {
    let bucket = MinIo::shared().bucket();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    let plan = Plan::of(&bucket).instead("--endpoint", &format!("http://{port}"));
    check(plan, &[&[&port.to_string()], &["reach", "connect", "answer", "time"]]);
}

#[test]
fn an_endpoint_whose_name_nobody_knows() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket).instead("--endpoint", "http://no-such-host.invalid:9000");
    check(plan, &[&["no-such-host.invalid"], &["reach", "connect", "resolve", "answer", "name"]]);
}

#[test]
fn a_mount_point_that_is_not_there() {
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket);
    let path = plan.path().join("missing");
    let words = ["does not exist", "no such", "mkdir"];
    check(plan.at(&path), &[&["missing"], &words]);
    assert!(!path.exists());
}

#[test]
fn a_mount_point_that_is_a_file() {
    let bucket = MinIo::shared().bucket();
    let folder = Scratch::new();
    let path = folder.path().join("plain");
    fs::write(&path, b"bytes").unwrap();
    check(
        Plan::of(&bucket).at(&path),
        &[&["plain"], &["not a directory", "not a folder", "is a file"]],
    );
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
}

#[test]
fn a_mount_point_that_is_in_use() {
    let (bucket, mount) = mounted();
    testkit::write_new(&mount.join("file"), b"bytes").unwrap();
    let attempt = Plan::of(&bucket).flags(["--deadline", "3s"]).at(mount.path()).attempt();
    let finished = &attempt.finished;
    assert!(!finished.status.success(), "{}", finished.report());
    says(finished, &[&["already", "busy", "in use"], &["umount", "mounted"]]);
    assert!(mounted_at(mount.path()), "the mount that was there is not touched");
    assert_eq!(fs::read(mount.join("file")).unwrap(), b"bytes");
    mount.umount();
}

#[test]
fn a_url_of_an_unknown_kind() {
    for url in ["ftp://host/path", "bucket", "/path", "s3:/bucket", "S3//x", ""] {
        check(Plan::of_url(url), &[&["s3://"], &["file://"]]);
    }
    check(Plan::of_url("s3://"), &[&["s3://bucket"]]);
    check(Plan::of_url("file://folder"), &[&["file:///"]]);
}

#[test]
fn a_folder_that_is_not_there() {
    check(
        Plan::of_url("file:///no/such/folder"),
        &[&["/no/such/folder"], &["does not exist", "no such"]],
    );
}

#[test]
fn folders_that_lie_in_one_another() {
    let scratch = Scratch::new();
    let objects = scratch.folder("objects");
    let url = format!("file://{}", objects.display());
    let apart = || Plan::of_url(&url);
    let words: &[&[&str]] = &[&["must not be in"], &[objects.to_str().unwrap()]];
    check(apart().state_in(&scratch.folder("objects/state")), words);
    check(apart().state_in(scratch.path()), words);
    check(apart().at(&objects), words);
    check(apart().at(&scratch.folder("objects/mount")), words);
    let bucket = MinIo::shared().bucket();
    let plan = Plan::of(&bucket);
    let state = plan.path().join("state");
    check(plan.state_in(&state), &[&["must not be in"], &["state folder"]]);
}

#[test]
fn an_unmount_of_what_is_in_use_says_by_whom() {
    let (_bucket, mount) = crate::mounted();
    let file = fs::File::create(mount.join("open")).unwrap();
    let link = mount.plan().folder("links").join("link");
    symlink(mount.path(), &link).unwrap();
    let by_link = run(mount.plan().command(["umount"]).arg(&link), WITHIN);
    let us = format!("({})", std::process::id());
    for refused in [mount.try_umount(), by_link] {
        assert!(!refused.status.success(), "{}", refused.report());
        for word in ["busy", "used by", &us] {
            assert!(refused.stderr.contains(word), "{word}: {}", refused.report());
        }
    }
    drop(file);
    mount.umount();
}

#[test]
fn an_unmount_of_what_another_mount_is_in_names_that() {
    let (_bucket, outer) = crate::mounted();
    let (scratch, dir) = (Scratch::new(), outer.join("inner"));
    fs::create_dir(&dir).unwrap();
    let inner = Plan::of_url(&format!("file://{}", scratch.path().display())).at(&dir).mount();
    let refused = outer.try_umount();
    assert!(!refused.status.success(), "{}", refused.report());
    for word in ["busy", "used by the mount at", &dir.display().to_string()] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.report());
    }
    inner.umount();
    outer.umount();
}

#[test]
fn an_unmount_of_what_a_container_has_mounted_too_says_who_keeps_its_daemon() {
    let (bucket, mount) = crate::mounted();
    let mut unshare = mount.plan().other_command("unshare".as_ref());
    unshare.args(["--mount", "--propagation", "private", "cat"]);
    let mut container = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) = (container.stdin.take().unwrap(), container.stdout.take().unwrap());
    // It answers when it has its own mounts.
    to.write_all(b"!").unwrap();
    from.read_exact(&mut [0]).unwrap();
    write_new(&mount.join("file"), b"bytes").unwrap();
    let unmounted = mount.try_umount();
    assert!(unmounted.status.success(), "{}", unmounted.report());
    for word in ["other mount namespaces", &format!("cat ({})", container.id())] {
        assert!(unmounted.stderr.contains(word), "{word}: {}", unmounted.report());
    }
    assert_eq!(bucket.get("file").as_deref(), Some(&b"bytes"[..]));
    drop(to);
    container.wait().unwrap();
    wait::until("the daemon to end", WITHIN, || !mount.is_alive());
}

#[test]
fn a_daemon_keeps_nothing_that_the_shell_had_open() {
    let (_bucket, mount) = crate::mounted();
    write_new(&mount.join("open"), b"bytes").unwrap();
    let other = MinIo::shared().bucket();
    let plan = Plan::of(&other);
    let mut shell = plan.other_command("bash".as_ref());
    shell.arg("-c").arg(r#"exec 7< "$0"; exec "$@""#).arg(mount.join("open"));
    let command = plan.command(["mount"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.args(["--endpoint", other.endpoint(), "--path-style", "--region", "us-east-1"]);
    shell.args(["--cache-dir".as_ref(), plan.state().as_os_str()]);
    shell.arg(&*other.url()).arg(plan.path());
    run(&mut shell, WITHIN).ok();
    let unmounted = mount.try_umount();
    run(plan.command(["umount"]).arg(plan.path()), WITHIN).ok();
    unmounted.ok();
}

#[test]
fn a_proxy_is_not_asked_for_a_store_on_this_machine() {
    let bucket = MinIo::shared().bucket();
    // Nobody listens there.
    let proxy = "http://127.0.0.1:9";
    let plan = Plan::of(&bucket).env("HTTP_PROXY", proxy).env("http_proxy", proxy);
    let mount = plan.env("ALL_PROXY", proxy).env("NO_PROXY", "").mount();
    write_new(&mount.join("file"), b"bytes").unwrap();
    assert_eq!(bucket.get("file").as_deref(), Some(&b"bytes"[..]));
    mount.umount();
}

#[test]
fn flags_that_make_no_sense() {
    for (flags, word) in [
        (["--cache-size", "much"], "--cache-size"),
        (["--metadata-ttl", "never"], "--metadata-ttl"),
        (["--deadline", "soon"], "--deadline"),
        (["--no-such-flag", "x"], "--no-such-flag"),
        (["--part-size", "1"], "from 5MiB to 5GiB"),
        (["--deadline", "0s"], "from 1s to 24h"),
        (["--log-level", "loud"], "invalid value 'loud' for '--log-level <LEVEL>'"),
        (["-o", "log_level=quayfs_vfs=loud"], "option log_level=quayfs_vfs=loud: not a level"),
        (["-o", "memory_limit=1"], "option memory_limit=1: must be from 16MiB to 1TiB"),
    ] {
        let bucket = MinIo::shared().bucket();
        let finished = Plan::of(&bucket).flags(flags).attempt().refused();
        says(&finished, &[&[word]]);
    }
    let bucket = MinIo::shared().bucket();
    let finished = Plan::of(&bucket).env("QUAYFS_PART_SIZE", "1").attempt().refused();
    says(&finished, &[&["QUAYFS_PART_SIZE: part-size: 1: must be from 5MiB to 5GiB"]]);
}

#[test]
fn the_smallest_limits_that_are_taken_work() {
    let bucket = MinIo::shared().bucket();
    let flags = [
        ("--memory-limit", "16MiB"),
        ("--part-size", "5MiB"),
        ("--cache-size", "0"),
        ("--cache-size", "1MiB"),
        ("--dirty-limit", "1MiB"),
        ("--metadata-ttl", "0"),
        ("--deadline", "1s"),
    ];
    for (number, (flag, value)) in flags.into_iter().enumerate() {
        let mount = Plan::of(&bucket).flags([flag, value]).mount();
        let (path, bytes) = (mount.join(format!("file{number}")), noise(1, 20_000_000));
        let want = bytes.clone();
        wait::within(flag, WITHIN * 2, move || {
            write_new(&path, &bytes).unwrap();
            assert!(fs::read(&path).unwrap() == bytes);
        });
        assert!(bucket.get(&format!("file{number}")).unwrap() == want, "{flag}");
        mount.umount();
    }
}

/// Mounts by `plan`, which must fail in time, and say a word of each of `words`.
fn check(plan: Plan, words: &[&[&str]]) {
    let finished = plan.flags(["--deadline", "3s"]).attempt().refused();
    assert!(finished.took < WITHIN, "{}", finished.report());
    says(&finished, words);
}

/// Asserts that the complaint holds at least one of each choice of words, and is short.
fn says(finished: &Finished, words: &[&[&str]]) {
    let said = finished.stderr.to_lowercase();
    for choice in words {
        let is_said = choice.iter().any(|word| said.contains(&word.to_lowercase()));
        assert!(is_said, "none of {choice:?} in {}", finished.report());
    }
    // The usage that a wrong flag brings may be longer; a complaint of our own is one.
    assert!(said.lines().count() <= 8, "not one clear complaint: {}", finished.report());
}
