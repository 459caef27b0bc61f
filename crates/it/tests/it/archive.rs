//! Objects in an archive: an error at once, said in the log, and everything else goes on.

use std::fs::{self, File};
use std::time::Duration;

use rustix::io::Errno;
use testkit::{
    Bucket, Cloud, Emulator, Fault, Faults, MinIo, Moto, Plan, Weather, noise, read_at, wait,
};

use crate::{TTL, errno};

/// A request that is answered at once, with all that is around it.
const WITHIN: Duration = Duration::from_secs(20);

#[test]
fn what_a_listing_says_to_be_archived_is_not_opened_before_it_is_restored() {
    let store = Moto::start();
    let bucket = store.bucket();
    is_not_opened_before_it_is_restored(&bucket, Plan::of(&bucket));
}

#[test]
fn what_azure_says_to_be_archived_is_not_opened_before_it_is_restored() {
    let store = Emulator::start(Cloud::Azure);
    let bucket = store.bucket();
    is_not_opened_before_it_is_restored(&bucket, store.plan(&bucket.url()));
}

fn is_not_opened_before_it_is_restored(bucket: &Bucket<'_>, plan: Plan) {
    let bytes = noise(1, 300_000);
    bucket.put_archived("folder/cold", &bytes);
    bucket.put("folder/warm", &bytes);
    bucket.put_archived("alone", &bytes);
    let mount = plan.mount();
    let path = mount.join("alone");
    let opened = wait::within("the open", WITHIN, move || File::open(path));
    assert_eq!(errno(opened), Errno::BUSY, "without a listing");
    assert_eq!(crate::names(&mount.join("folder")), ["cold", "warm"]);
    for _ in 0..2 {
        let path = mount.join("folder/cold");
        let opened = wait::within("the open", WITHIN, move || File::open(path));
        assert_eq!(errno(opened), Errno::BUSY);
    }
    assert!(fs::read(mount.join("folder/warm")).unwrap() == bytes);
    assert_eq!(fs::metadata(mount.join("folder/cold")).unwrap().len(), 300_000);
    bucket.restore("folder/cold");
    assert!(fs::read(mount.join("folder/cold")).unwrap() == bytes);
    mount.umount();
}

#[test]
fn an_archived_file_is_busy_at_once_while_others_are_read() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let (small, large) = (noise(1, 100_000), noise(2, 20_000_000));
    bucket.put("cold", &small);
    bucket.put("warm", &large);
    let proxy = Faults::before(store.address(), Weather::calm());
    let name = bucket.name();
    proxy.always(&format!("GET /{name}/cold"), Fault::Archived);
    proxy.always(&format!("PUT /{name}/moved"), Fault::Archived);
    let mount = Plan::of(&bucket).instead("--endpoint", &proxy.endpoint()).mount();
    let log = mount.plan().folder("").join("log");
    wait::until("the objects to appear", TTL, || mount.join("warm").exists());
    assert_eq!(fs::metadata(mount.join("cold")).unwrap().len(), 100_000);

    // Who reads the other one in the middle of it does not notice.
    let warm = File::open(mount.join("warm")).unwrap();
    assert!(read_at(&warm, 0, 100_000).unwrap() == large[..100_000]);
    for _ in 0..3 {
        let path = mount.join("cold");
        let read = wait::within("the read", WITHIN, move || fs::read(path));
        assert_eq!(errno(read), Errno::BUSY);
    }
    let (old, new) = (mount.join("cold"), mount.join("moved"));
    let moved = wait::within("the rename", WITHIN, move || fs::rename(old, new));
    assert_eq!(errno(moved), Errno::BUSY);
    assert!(fs::read(mount.join("warm")).unwrap() == large);
    assert!(mount.join("cold").exists() && !mount.join("moved").exists());
    let said = fs::read_to_string(log).unwrap();
    let line = said.lines().find(|line| line.contains("archived") && line.contains("cold"));
    assert!(line.is_some_and(|line| line.contains("restored")), "{said}");

    // Somebody has restored it.
    proxy.no_more();
    assert!(fs::read(mount.join("cold")).unwrap() == small);
    fs::rename(mount.join("cold"), mount.join("moved")).unwrap();
    assert!(bucket.get("moved").unwrap() == small);
    drop(warm);
    mount.umount();
}
