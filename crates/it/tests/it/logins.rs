//! The ways in which people's tools are told who they are, and whom to trust.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::{Bucket, Login, MinIo, Moto, Parrot, Plan, Scratch, Tls, run, write_new};

use crate::SOON;

/// A mount of `bucket` by the profile `lab` of a configuration that says this.
fn by_profile(bucket: &Bucket<'_>, folder: &Path, config: &str) -> Plan {
    let file = folder.join("config");
    fs::write(&file, config).unwrap();
    let plan = Plan::of(bucket).without_login().flags(["--aws-profile", "lab"]);
    // Whoever looks elsewhere finds nothing that is good.
    let none = folder.join("none");
    fs::write(&none, "[default]\naws_access_key_id = nobody\naws_secret_access_key = hush\n")
        .unwrap();
    plan.env("AWS_CONFIG_FILE", file.to_str().unwrap())
        .env("AWS_SHARED_CREDENTIALS_FILE", none.to_str().unwrap())
}

/// Mounts and reads what is there.
fn reads(plan: Plan) {
    let mount = plan.mount();
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");
    mount.umount();
}

fn store_and_reader() -> (MinIo, Login) {
    let store = MinIo::start();
    let reader = store.reader();
    (store, reader)
}

#[test]
fn the_keys_of_a_profile_are_used() {
    let (store, Login { user, secret }) = store_and_reader();
    let (bucket, folder) = (store.bucket(), Scratch::new());
    bucket.put("theirs", b"bytes");
    let keys = format!("aws_access_key_id = {user}\naws_secret_access_key = {secret}\n");
    reads(by_profile(&bucket, folder.path(), &format!("[profile lab]\n{keys}")));
}

#[test]
fn a_program_that_a_profile_names_tells_the_keys() {
    let (store, Login { user, secret }) = store_and_reader();
    let (bucket, folder) = (store.bucket(), Scratch::new());
    bucket.put("theirs", b"bytes");
    let program = folder.path().join("program");
    let keys =
        format!(r#"{{"Version": 1, "AccessKeyId": "{user}", "SecretAccessKey": "{secret}"}}"#);
    testkit::write_program(&program, &format!("#!/bin/sh\necho '{keys}'\n"));
    let config = format!("[profile lab]\ncredential_process = {}\n", program.display());
    reads(by_profile(&bucket, folder.path(), &config));
}

#[test]
fn a_role_that_a_profile_names_is_taken_on() {
    // It knows everybody.
    let store = Moto::start();
    let (bucket, folder) = (store.bucket(), Scratch::new());
    bucket.put("theirs", b"bytes");
    let config = "[profile me]\naws_access_key_id = me\naws_secret_access_key = hush\n\
         [profile lab]\nrole_arn = arn:aws:iam::123456789012:role/lab\nsource_profile = me\n";
    let plan = by_profile(&bucket, folder.path(), config);
    let mount = plan.env("AWS_ENDPOINT_URL_STS", &store.endpoint()).mount();
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");
    let status = mount.status().to_string();
    assert!(status.contains("temporary access key"), "{status}");
    mount.umount();
}

#[test]
fn a_pod_is_known_by_the_token_of_its_cluster() {
    let store = Moto::start();
    let (bucket, folder) = (store.bucket(), Scratch::new());
    bucket.put("theirs", b"bytes");
    let token = folder.path().join("token");
    fs::write(&token, "a.web.token").unwrap();
    let security = Parrot::saying(
        r#"<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
            <AssumeRoleWithWebIdentityResult><Credentials>
            <AccessKeyId>ASIAWEBIDENTITYTEST</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>
            <SessionToken>a-session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
            </Credentials></AssumeRoleWithWebIdentityResult>
            </AssumeRoleWithWebIdentityResponse>"#,
    );
    // As the cluster sets them.
    let plan = Plan::of(&bucket)
        .without_login()
        .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/lab")
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap())
        .env("AWS_ENDPOINT_URL_STS", &security.url());
    let mount = plan.mount();
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");
    let status = mount.status().to_string();
    assert!(status.contains("ASIA…TEST"), "{status}");
    mount.umount();
    let heard = security.heard();
    let asked = &heard[0];
    assert!(asked.contains("AssumeRoleWithWebIdentity"), "{asked}");
    assert!(asked.contains("WebIdentityToken=a.web.token"), "{asked}");
}

#[test]
fn who_has_logged_in_by_single_sign_on_is_known() {
    let store = Moto::start();
    let (bucket, folder) = (store.bucket(), Scratch::new());
    bucket.put("theirs", b"bytes");
    let portal = Parrot::saying(
        r#"{"roleCredentials": {"accessKeyId": "ASIASINGLESIGNONTEST", "secretAccessKey": "hush",
            "sessionToken": "a-session", "expiration": 4102444800000}}"#,
    );
    let start = "https://lab.example/start";
    let config = format!(
        "[profile lab]\nsso_start_url = {start}\nsso_region = us-east-1\n\
         sso_account_id = 123456789012\nsso_role_name = reader\n"
    );
    let plan = by_profile(&bucket, folder.path(), &config);
    // Where `aws sso login` leaves its token.
    let cache = plan.folder("home").join(".aws/sso/cache");
    fs::create_dir_all(&cache).unwrap();
    let mut hash = Command::new("sh");
    hash.args(["-c", "printf %s \"$1\" | sha1sum | cut -d ' ' -f 1", "sh", start]);
    let name = format!("{}.json", run(&mut hash, SOON).ok().trim());
    let text = format!(
        r#"{{"startUrl": "{start}", "region": "us-east-1", "accessToken": "a-token",
            "expiresAt": "2099-01-01T00:00:00Z"}}"#
    );
    fs::write(cache.join(name), text).unwrap();
    let mount = plan.env("AWS_ENDPOINT_URL_SSO", &portal.url()).mount();
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");
    let status = mount.status().to_string();
    assert!(status.contains("ASIA…TEST"), "{status}");
    mount.umount();
    let heard = portal.heard();
    let asked = &heard[0];
    assert!(asked.starts_with("GET /federation/credentials?"), "{asked}");
    assert!(asked.contains("role_name=reader") && asked.contains("a-token"), "{asked}");
}

#[test]
fn an_authority_of_ones_own_is_believed_when_it_is_named() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    bucket.put("theirs", b"bytes");
    let door = Tls::before(store.address());
    let plan = || Plan::of(&bucket).instead("--endpoint", &door.endpoint());
    let refused = plan().attempt().refused();
    assert!(refused.stderr.contains("--ca-bundle"), "{}", refused.report());
    let mount = plan().flags(["--ca-bundle", door.authority().to_str().unwrap()]).mount();
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"bytes");
    write_new(&mount.join("ours"), b"bytes").unwrap();
    fs::rename(mount.join("ours"), mount.join("moved")).unwrap();
    assert_eq!(bucket.get("moved").as_deref(), Some(&b"bytes"[..]));
    mount.umount();
}
