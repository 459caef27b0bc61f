//! Requests and replies, passthrough and invalidations.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use base::{ByteRange, Counter, Ino};
use quayfs_fuse::{MountOptions, OpenReply, PassthroughWish, SetIdBits, mounted_at};

use crate::memory::Manner;
use crate::rig::{Rig, Via, by_both_ways};

by_both_ways! {
    what_is_written_is_read_back
    bytes_read_are_counted
    a_long_listing_is_whole_and_what_did_not_fit_is_given_back
    a_panic_ends_its_request_and_the_mount_lives
    a_reply_to_another_request_is_an_error_not_data
    answers_that_take_long_hold_up_no_others
    passthrough_reads_do_not_reach_the_service
    a_writer_joins_a_passthrough_reader_and_its_writes_reach_the_service
    passthrough_that_is_not_wished_for_is_not_there
    an_invalidated_node_is_read_anew
    an_invalidated_name_is_looked_up_anew
    times_before_1970_survive_both_ways
    extended_attributes_are_measured_as_the_system_call_has_it
    root_reads_ahead_as_far_as_asked
    a_read_only_mount_takes_no_changes
    the_kernel_asks_for_no_capabilities_where_the_service_clears_bits
}

const EIO: Option<i32> = Some(5);

fn what_is_written_is_read_back(via: Via) {
    let rig = Rig::new(via);
    let path = rig.path("file");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::metadata(&path).unwrap().len(), 3_000_000);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes[..10]);
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());

    assert_eq!(rig.metrics.value(Counter::FuseWriteBytes), 3_000_000);
    // The largest write is a MiB, or a quarter of one through a ring.
    let writes = if via == Via::Device { 3 } else { 12 };
    assert_eq!(rig.metrics.value(Counter::FuseWrites), writes);
    assert!(rig.metrics.value(Counter::FuseRequests) > 5);
    let space = rustix::fs::statvfs(rig.dir()).unwrap();
    assert_eq!((space.f_bsize, space.f_blocks, space.f_bavail), (4096, 100, 50));
}

fn bytes_read_are_counted(via: Via) {
    let rig = Rig::new(via);
    rig.memory.add("file", &[7; 5000], Manner::Quick);
    assert_eq!(fs::read(rig.path("file")).unwrap(), [7; 5000]);
    assert_eq!(rig.metrics.value(Counter::FuseReadBytes), 5000);
    assert_eq!(rig.metrics.value(Counter::FuseReads), rig.memory.asked("read"));
}

fn a_long_listing_is_whole_and_what_did_not_fit_is_given_back(via: Via) {
    let rig = Rig::new(via);
    let names: BTreeSet<String> =
        (0..3000).map(|n| format!("a-name-of-some-length-{n:05}")).collect();
    for name in &names {
        rig.memory.add(name, b"", Manner::Quick);
    }
    // Asking for attributes meanwhile makes the kernel want them with the names.
    let listed: BTreeSet<String> = fs::read_dir(rig.dir())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            assert!(entry.metadata().unwrap().is_file());
            entry.file_name().into_string().unwrap()
        })
        .collect();
    assert_eq!(listed, names);
    assert!(rig.memory.asked("readdirplus") > 1);

    let notifier = rig.session().notifier();
    for name in &names {
        notifier.inval_entry(Ino::ROOT, name.as_bytes()).unwrap();
    }
    rig.memory.wait_for_no_references();
}

fn a_panic_ends_its_request_and_the_mount_lives(via: Via) {
    let rig = Rig::new(via);
    rig.memory.add("now", b"x", Manner::Panics);
    rig.memory.add("later", b"x", Manner::PanicsLater);
    rig.memory.add("good", b"good", Manner::Quick);
    for name in ["now", "later", "now", "later", "now", "now", "now"] {
        assert_eq!(fs::read(rig.path(name)).unwrap_err().raw_os_error(), EIO);
    }
    assert_eq!(fs::read(rig.path("good")).unwrap(), b"good");
    assert!(rig.metrics.value(Counter::FusePanics) >= 7);
}

fn a_reply_to_another_request_is_an_error_not_data(via: Via) {
    let rig = Rig::new(via);
    rig.memory.add("confused", b"x", Manner::Confused);
    assert_eq!(fs::read(rig.path("confused")).unwrap_err().raw_os_error(), EIO);
}

fn answers_that_take_long_hold_up_no_others(via: Via) {
    let rig = Rig::new(via);
    let slow = MountOptions::new("").threads * 4;
    for n in 0..slow {
        rig.memory.add(&format!("slow{n}"), b"slow", Manner::Gated);
    }
    rig.memory.add("quick", b"quick", Manner::Quick);
    let readers: Vec<_> = (0..slow)
        .map(|n| rig.path(&format!("slow{n}")))
        .map(|path| thread::spawn(move || fs::read(path).unwrap()))
        .collect();
    rig.memory.wait_for_gated(slow);

    assert_eq!(fs::read(rig.path("quick")).unwrap(), b"quick");
    rig.memory.gate.add_permits(1000);
    for reader in readers {
        assert_eq!(reader.join().unwrap(), b"slow");
    }
}

fn passthrough_reads_do_not_reach_the_service(via: Via) {
    let rig = Rig::new(via);
    let ino = rig.memory.add("file", b"from the service", Manner::Quick);
    fs::write(rig.beside("backing"), b"from the backing").unwrap();
    let passthrough = rig.passthrough.clone().expect("root on this kernel has passthrough");
    let backing = passthrough.register(File::open(rig.beside("backing")).unwrap().as_fd()).unwrap();
    rig.memory.open_as(ino, OpenReply::Passthrough(backing.id()));

    let mut file = File::open(rig.path("file")).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "from the backing");
    assert_eq!(rig.memory.asked("read"), 0);

    drop(file);
    assert_eq!(rig.memory.asked("flush"), 0, "a reader's close has nothing to say");
    drop(backing);
    assert!(File::open(rig.path("file")).is_err(), "a closed number opens nothing");
}

fn a_writer_joins_a_passthrough_reader_and_its_writes_reach_the_service(via: Via) {
    let rig = Rig::new(via);
    let ino = rig.memory.add("file", b"service", Manner::Quick);
    fs::write(rig.beside("backing"), b"backing").unwrap();
    let beside = OpenOptions::new().read(true).write(true).open(rig.beside("backing")).unwrap();
    let passthrough = rig.passthrough.clone().expect("root on this kernel has passthrough");
    let backing = passthrough.register(beside.as_fd()).unwrap();
    drop(beside);

    rig.memory.open_as(ino, OpenReply::Passthrough(backing.id()));
    let mut reader = File::open(rig.path("file")).unwrap();
    rig.memory.open_as(ino, OpenReply::PassthroughDirect(backing.id()));
    let mut writer = OpenOptions::new().read(true).write(true).open(rig.path("file")).unwrap();

    writer.write_all(b"SER").unwrap();
    assert_eq!(rig.memory.asked("write"), 1);
    assert_eq!(rig.memory.bytes(ino), b"SERvice");
    let mut text = String::new();
    writer.seek(SeekFrom::Start(0)).unwrap();
    writer.read_to_string(&mut text).unwrap();
    assert_eq!(text, "SERvice", "reads of the joined handle are requests");
    text.clear();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "backing", "reads of the first handle are not");
}

fn passthrough_that_is_not_wished_for_is_not_there(via: Via) {
    let mut options = MountOptions::new("memory");
    options.passthrough = PassthroughWish::Off;
    assert!(Rig::with(via, &options).passthrough.is_none());
}

fn an_invalidated_node_is_read_anew(via: Via) {
    let rig = Rig::new(via);
    let ino = rig.memory.add("file", b"old bytes", Manner::Quick);
    let file = File::open(rig.path("file")).unwrap();
    let notifier = rig.session().notifier();
    assert_eq!(text(&file), "old bytes");
    rig.memory.replace(ino, b"new bytes");
    assert_eq!(text(&file), "old bytes", "cached");
    notifier.inval_attr(ino).unwrap();
    assert_eq!(text(&file), "old bytes", "only the attributes are asked for anew");
    notifier.inval_inode_range(ino, ByteRange::new(0, 4096).unwrap()).unwrap();
    assert_eq!(text(&file), "new bytes");
    rig.memory.replace(ino, b"newest bytes");
    notifier.inval_inode(ino).unwrap();
    assert_eq!(fs::metadata(rig.path("file")).unwrap().len(), 12);
    assert_eq!(text(&file), "newest bytes");
    notifier.inval_inode(Ino(999_999)).unwrap();
}

fn an_invalidated_name_is_looked_up_anew(via: Via) {
    let rig = Rig::new(via);
    assert!(!rig.path("new").exists());
    rig.memory.add("new", b"", Manner::Quick);
    assert!(!rig.path("new").exists(), "the kernel remembers that it was not there");
    rig.session().notifier().inval_entry(Ino::ROOT, b"new").unwrap();
    assert!(rig.path("new").exists());
}

fn times_before_1970_survive_both_ways(via: Via) {
    let rig = Rig::new(via);
    rig.memory.add("file", b"", Manner::Quick);
    let path = rig.path("file");
    for (ms, want) in
        [(500, (-1, 500_000_000)), (1000, (-1, 0)), (86_400_001, (-86_401, 999_000_000))]
    {
        let time = UNIX_EPOCH - Duration::from_millis(ms);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
        let got = fs::metadata(&path).unwrap();
        assert_eq!((got.mtime(), got.mtime_nsec()), want);
    }
}

fn extended_attributes_are_measured_as_the_system_call_has_it(via: Via) {
    let rig = Rig::new(via);
    rig.memory.add("file", b"", Manner::Quick);
    let path = rig.path("file");
    let length = rustix::fs::getxattr_query(&path, "user.note").unwrap();
    assert_eq!(length, 5);
    let mut short = [0u8; 3];
    let error = rustix::fs::getxattr(&path, "user.note", &mut short).unwrap_err();
    assert_eq!(error, rustix::io::Errno::RANGE);
    let mut value = [0u8; 5];
    assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value).unwrap(), 5);
    assert_eq!(&value, b"hello");
}

fn root_reads_ahead_as_far_as_asked(via: Via) {
    let mut options = MountOptions::new("memory");
    options.read_ahead_bytes = 4 << 20;
    let rig = Rig::with(via, &options);
    let device = mounted_at(&rig.dir()).unwrap().unwrap().device;
    let knob = fs::read_to_string(format!("/sys/class/bdi/{device}/read_ahead_kb")).unwrap();
    assert_eq!(knob.trim(), "4096");
}

fn a_read_only_mount_takes_no_changes(via: Via) {
    let mut options = MountOptions::new("memory");
    options.read_only = true;
    let rig = Rig::with(via, &options);
    let error = File::create(rig.path("new")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(Path::new(&rig.dir()).is_dir());
}

fn the_kernel_asks_for_no_capabilities_where_the_service_clears_bits(via: Via) {
    let mut options = MountOptions::new("memory");
    options.set_id_bits = SetIdBits::ServiceClears;
    let rig = Rig::with(via, &options);
    rig.memory.add("file", b"", Manner::Quick);
    let mut file = OpenOptions::new().write(true).open(rig.path("file")).unwrap();
    for _ in 0..100 {
        file.write_all(b"x").unwrap();
    }
    assert_eq!(rig.memory.asked("write"), 100);
    assert!(rig.memory.asked("getxattr") <= 1);
}

fn text(file: &File) -> String {
    let mut bytes = [0; 64];
    let count = file.read_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}
