//! A store that moves to another address, under its name.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use testkit::{Login, MinIo, Plan, quayfs, wait};

use crate::SOON;

/// Mounts in a world with its own list of hosts, reads, waits until the store has moved, and reads again.
const SCRIPT: &str = r#"
hosts=$1 quayfs=$2 url=$3 folder=$4 state=$5 endpoint=$6 signs=$7
mount --bind "$hosts" /etc/hosts
"$quayfs" mount "$url" "$folder" --cache-dir "$state" --endpoint "$endpoint" --path-style \
    --region us-east-1 --log-file "$signs/log"
trap '"$quayfs" umount "$folder"' EXIT
cat "$folder/before" >"$signs/read"
until [ -e "$signs/moved" ]; do sleep 0.1; done
cat "$folder/after" >"$signs/read-again"
"#;

/// A store at this address of the machine.
fn store_at(address: &str, port: u16) -> MinIo {
    MinIo::start_at(SocketAddr::new(address.parse().expect("an address"), port))
}

#[test]
fn a_store_is_followed_to_another_address_under_its_name() {
    let port = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    let (first, second) = (store_at("127.0.0.2", port), store_at("127.0.0.3", port));
    let bucket = first.bucket();
    bucket.put("before", b"here");
    let plan = Plan::of_url(&bucket.url()).login(&Login::root());
    let name = bucket.url().trim_start_matches("s3://").to_owned();
    let signs = plan.folder("signs");
    fs::write(signs.join("after"), "there").unwrap();
    let there = format!("it/{name}");
    second.mc(&["mb", &there]).ok();
    let after = signs.join("after");
    second.mc(&["cp", after.to_str().unwrap(), &format!("{there}/after")]).ok();

    let hosts = signs.join("hosts");
    fs::write(&hosts, "127.0.0.2 store.test\n").unwrap();
    let mut shell = plan.other_command("unshare".as_ref());
    shell.args(["--mount", "bash", "-euc", SCRIPT, "bash"]).arg(&hosts).arg(quayfs());
    shell.arg(bucket.url()).arg(plan.path()).arg(plan.state());
    shell.arg(format!("http://store.test:{port}")).arg(&signs);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = shell.spawn().expect("there is unshare");
    let read = |name: &str| fs::read_to_string(signs.join(name)).unwrap_or_default();
    wait::until("the first store to be read", SOON, || read("read") == "here");
    // The same file: it is mounted over that of the machine.
    fs::write(&hosts, "127.0.0.3 store.test\n").unwrap();
    first.stop();
    fs::write(signs.join("moved"), "").unwrap();
    assert!(running.wait().unwrap().success());
    assert_eq!(read("read-again"), "there");
}
