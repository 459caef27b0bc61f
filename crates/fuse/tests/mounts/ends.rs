//! How mounts begin and end: in the mount table, busy, dead, forced.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base::Metrics;
use quayfs_fuse::{
    MountErrorKind, MountOptions, Session, Unmount, check_mount_point, is_dead, mounted_at, mounts,
    our_mount, unmount_path,
};
use rustix::mount::MountFlags;

use crate::memory::Manner;
use crate::rig::{Place, Rig, Via, by_both_ways, mount, runtime};

by_both_ways! {
    a_mount_is_in_the_table_until_it_is_unmounted
    unmounting_twice_is_unmounting_once
    an_unmounter_leaves_a_later_mount_at_the_same_place_alone
    a_mount_that_is_never_served_is_unmounted
    a_mount_with_open_files_is_busy_and_goes_lazily
    a_lazy_unmount_lets_a_pending_request_end
    a_forced_unmount_ends_a_request_that_never_ends
    a_session_that_is_dropped_unmounts
    a_mount_whose_daemon_is_gone_is_seen_and_cleared_away
    what_cannot_be_mounted_says_why
    requests_before_serving_wait_for_it
}

fn a_mount_is_in_the_table_until_it_is_unmounted(via: Via) {
    let mut rig = Rig::with(via, &MountOptions::new("s3://a bucket/\\x"));
    let entry = mounted_at(&rig.dir()).unwrap().unwrap();
    assert_eq!(entry.source, "s3://a bucket/\\x");
    assert_eq!(entry.file_system, "fuse.quayfs");
    assert!(entry.is_ours());
    assert_eq!(entry.path, rig.dir().canonicalize().unwrap());
    assert!(mounts().unwrap().contains(&entry));
    assert!(!is_dead(&rig.dir()));

    std::os::unix::fs::symlink("mount", rig.beside("link")).unwrap();
    unmount_path(&rig.beside("link"), Unmount::Normal).unwrap();
    rig.wait();
    assert_eq!(mounted_at(&rig.dir()).unwrap(), None);
    let error = unmount_path(&rig.dir(), Unmount::Normal).unwrap_err();
    assert_eq!(error.kind, MountErrorKind::NotMounted);
}

fn unmounting_twice_is_unmounting_once(via: Via) {
    let mut rig = Rig::new(via);
    let unmounter = rig.session().unmounter();
    rig.session().unmount(Unmount::Normal).unwrap();
    unmounter.unmount(Unmount::Normal).unwrap();
    rig.wait();
    unmounter.unmount(Unmount::Force).unwrap();
}

fn an_unmounter_leaves_a_later_mount_at_the_same_place_alone(via: Via) {
    let mut rig = Rig::new(via);
    let unmounter = rig.session().unmounter();
    rig.session().unmount(Unmount::Normal).unwrap();
    rig.wait();

    let runtime = runtime();
    let (later, _) = mount(via, &rig.dir(), &MountOptions::new("later"), &runtime);
    unmounter.unmount(Unmount::Force).unwrap();
    assert_eq!(mounted_at(&rig.dir()).unwrap().unwrap().source, "later");
    drop(later);
}

fn a_mount_that_is_never_served_is_unmounted(via: Via) {
    let (place, runtime) = (Place::new(), runtime());
    let (mounted, _) = mount(via, &place.mount(), &MountOptions::new("memory"), &runtime);
    assert_eq!(mounted.path(), place.mount().canonicalize().unwrap());
    drop(mounted);
    assert_eq!(mounted_at(&place.mount()).unwrap(), None);
}

fn a_mount_with_open_files_is_busy_and_goes_lazily(via: Via) {
    let mut rig = Rig::new(via);
    rig.memory.add("file", b"bytes", Manner::Quick);
    let file = File::open(rig.path("file")).unwrap();
    let error = rig.session().unmount(Unmount::Normal).unwrap_err();
    assert_eq!(error.kind, MountErrorKind::Busy);
    assert!(error.to_string().contains("files on it are open"));

    rig.session().unmount(Unmount::Lazy).unwrap();
    assert_eq!(mounted_at(&rig.dir()).unwrap(), None);
    assert_eq!(std::io::read_to_string(&file).unwrap(), "bytes", "open files are still served");
    drop(file);
    rig.wait();
}

fn a_lazy_unmount_lets_a_pending_request_end(via: Via) {
    let mut rig = Rig::new(via);
    rig.memory.add("slow", b"slow", Manner::Gated);
    let path = rig.path("slow");
    let reader = thread::spawn(move || fs::read(path).unwrap());
    rig.memory.wait_for_gated(1);
    rig.session().unmount(Unmount::Lazy).unwrap();
    assert_eq!(mounted_at(&rig.dir()).unwrap(), None);
    rig.memory.gate.add_permits(1000);
    assert_eq!(reader.join().unwrap(), b"slow");
    rig.wait();
}

fn a_forced_unmount_ends_a_request_that_never_ends(via: Via) {
    let mut rig = Rig::new(via);
    rig.memory.add("slow", b"slow", Manner::Gated);
    let path = rig.path("slow");
    let reader = thread::spawn(move || fs::read(path).map_err(|error| error.raw_os_error()));
    rig.memory.wait_for_gated(1);
    rig.session().unmount(Unmount::Force).unwrap();
    assert!(reader.join().unwrap().is_err());
    rig.wait();
    assert_eq!(mounted_at(&rig.dir()).unwrap(), None);
}

fn a_session_that_is_dropped_unmounts(via: Via) {
    let mut rig = Rig::new(via);
    rig.memory.add("file", b"bytes", Manner::Quick);
    let file = File::open(rig.path("file")).unwrap();
    drop(rig.session.take());
    assert_eq!(mounted_at(&rig.dir()).unwrap(), None);
    assert!(file.metadata().is_err());
}

fn a_mount_whose_daemon_is_gone_is_seen_and_cleared_away(via: Via) {
    let place = Place::new();
    dead_mount(&place);
    assert!(is_dead(&place.mount()));
    assert!(our_mount(&place.mount()).unwrap().is_ours());
    check_mount_point(&place.mount()).unwrap();

    let runtime = runtime();
    let (mounted, _) = mount(via, &place.mount(), &MountOptions::new("alive"), &runtime);
    assert_eq!(mounted_at(&place.mount()).unwrap().unwrap().source, "alive");
    drop(mounted);
    assert_eq!(mounted_at(&place.mount()).unwrap(), None, "nothing is left below");
}

#[test]
fn a_dead_mount_can_be_unmounted() {
    let place = Place::new();
    dead_mount(&place);
    unmount_path(&place.mount(), Unmount::Normal).unwrap();
    assert!(!is_dead(&place.mount()));
}

fn what_cannot_be_mounted_says_why(via: Via) {
    let rig = Rig::new(via);
    fs::write(rig.beside("file"), b"").unwrap();
    for (path, want) in [
        (rig.dir(), MountErrorKind::AlreadyMounted),
        (rig.beside("file"), MountErrorKind::NotADirectory),
        (rig.beside("none"), MountErrorKind::NotFound),
        (rig.beside("none/none"), MountErrorKind::NotFound),
    ] {
        let runtime = runtime();
        let options = via.options(&MountOptions::new("memory"));
        let metrics = Arc::new(Metrics::new());
        let error = Session::mount(&path, &options, runtime.handle().clone(), metrics).unwrap_err();
        assert_eq!(error.kind, want, "{error}");
        assert_eq!(check_mount_point(&path).unwrap_err().kind, want);
        assert!(error.to_string().starts_with(path.to_str().unwrap()));
    }
}

fn requests_before_serving_wait_for_it(via: Via) {
    let (place, runtime) = (Place::new(), runtime());
    let (mounted, _) = mount(via, &place.mount(), &MountOptions::new("memory"), &runtime);
    let (sender, receiver) = mpsc::channel();
    let path = place.mount().join("file");
    let reader = thread::spawn(move || {
        sender.send(()).unwrap();
        fs::read(path).unwrap()
    });
    receiver.recv_timeout(Duration::from_secs(20)).unwrap();
    let memory = crate::memory::Memory::new();
    memory.add("file", b"bytes", Manner::Quick);
    let session = mounted.serve(Arc::new(crate::memory::Served(memory))).unwrap();
    assert_eq!(reader.join().unwrap(), b"bytes");
    session.unmount(Unmount::Force).unwrap();
    session.wait().unwrap();
}

/// Closing the device is what the end of a daemon does.
fn dead_mount(place: &Place) {
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let data = std::ffi::CString::new(data).unwrap();
    let flags = MountFlags::empty();
    rustix::mount::mount("dead", place.mount(), "fuse.quayfs", flags, data.as_c_str()).unwrap();
}
