//! Bytes of a file in every way that programs have to read, write, map, grow, cut and copy them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use testkit::{
    Bucket, Mount, Plan, Scratch, SharedMap, close, forget_pages, noise, python, read_at, run,
    wait, write_new,
};

use crate::{TTL, mounted, mounted_with};

const WITHIN: Duration = Duration::from_mins(2);
/// More than a mount's pieces of anything.
pub(crate) const LEN: usize = 20_000_000;
/// Through the page cache of the mount, and on the backing file where that is possible.
pub(crate) const BOTH_WAYS: [&[&str]; 2] = [&[], &["--no-passthrough"]];

/// A mount of a bucket with one object, `file`.
pub(crate) fn with_object(flags: &[&str], len: usize) -> (Bucket<'static>, Mount, Vec<u8>) {
    let (bucket, mount) = mounted_with(flags);
    let bytes = noise(1, len);
    bucket.put("file", &bytes);
    wait::until("the object to appear", TTL, || mount.join("file").exists());
    (bucket, mount, bytes)
}

pub(crate) fn edited(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

pub(crate) fn made(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}

/// Runs a script of Python with `arguments`; what a program does between open and close is then
/// seen by no child of another test.
pub(crate) fn script(text: &str, arguments: &[&Path]) -> String {
    run(Command::new(python()).arg("-c").arg(text).args(arguments), WITHIN).ok().to_owned()
}

#[test]
pub(crate) fn ranges_are_copied_from_and_to_files_in_any_state() {
    let (bucket, mount, bytes) = with_object(&[], LEN);
    let text = "
import os, sys
source = os.open(sys.argv[1], os.O_RDONLY)
target = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
at = 0
while copied := os.copy_file_range(source, target, 1 << 30, at, at):
    at += copied
print(at)
# Within one file that is being written, and beyond its end.
left = 5000
while left:
    done = 5000 - left
    left -= os.copy_file_range(target, target, left, 100 + done, at - 1000 + done)
os.close(target)
";
    let copied = script(text, &[&mount.join("file"), &mount.join("copy")]);
    assert_eq!(copied.trim(), LEN.to_string());
    let mut want = bytes.clone();
    want.resize(LEN + 4000, 0);
    want.copy_within(100..5100, LEN - 1000);
    assert!(bucket.get("copy").unwrap() == want, "the copy");
    assert!(bucket.get("file").unwrap() == bytes, "the source");

    // Into the middle of what is not here, from what is not in the bucket.
    bucket.put("far", &noise(2, LEN));
    wait::until("the object to appear", TTL, || mount.join("far").exists());
    let near = made(&mount.join("near"));
    near.write_all_at(&noise(3, 300_000), 0).unwrap();
    let far = edited(&mount.join("far"));
    let mut offsets = (7, 9_999_999);
    let mut left = 299_000;
    while 0 < left {
        let (from, to) = (Some(&mut offsets.0), Some(&mut offsets.1));
        let copied = rustix::fs::copy_file_range(&near, from, &far, to, left).unwrap();
        assert!(0 < copied);
        left -= copied;
    }
    close(far).unwrap();
    let mut want = noise(2, LEN);
    want[9_999_999..9_999_999 + 299_000].copy_from_slice(&noise(3, 300_000)[7..299_007]);
    assert!(bucket.get("far").unwrap() == want, "the middle");
}

#[test]
fn cp_copies_with_and_without_holes() {
    let (bucket, mount) = mounted();
    let mut want = vec![0; 6_000_000];
    want[3_000_000..3_000_100].fill(7);
    let local = mount.plan().folder("local").join("sparse");
    let file = File::create(&local).unwrap();
    file.set_len(6_000_000).unwrap();
    file.write_all_at(&[7; 100], 3_000_000).unwrap();
    let cp = |how: &str, from: &Path, to: &Path| {
        run(Command::new("cp").arg(how).args([from, to]), WITHIN).ok();
    };
    cp("--sparse=auto", &local, &mount.join("in"));
    cp("--sparse=always", &mount.join("in"), &mount.join("always"));
    cp("--sparse=never", &mount.join("always"), &mount.join("never"));
    cp("--reflink=never", &mount.join("always"), &mount.join("plain"));
    cp("--sparse=auto", &mount.join("plain"), &local.with_extension("back"));
    for name in ["in", "always", "never", "plain"] {
        assert!(bucket.get(name).unwrap() == want, "{name}");
    }
    assert!(fs::read(local.with_extension("back")).unwrap() == want, "back");
}

#[test]
pub(crate) fn what_is_written_through_a_shared_mapping_is_read_and_uploaded() {
    for flags in BOTH_WAYS {
        let (bucket, mount, mut want) = with_object(flags, 3_000_000);
        let file = edited(&mount.join("file"));
        let map = SharedMap::writable(&file, want.len());
        for at in [0, 1_234_567, 2_999_990] {
            map.write(at, b"mapped");
            want[at..at + 6].copy_from_slice(b"mapped");
            assert_eq!(read_at(&file, at as u64, 6).unwrap(), b"mapped");
        }
        file.write_all_at(b"written", 2_000_000).unwrap();
        want[2_000_000..2_000_007].copy_from_slice(b"written");
        assert!(map.bytes() == want, "the mapping sees the write {flags:?}");
        map.sync().unwrap();
        assert!(bucket.get("file").unwrap() == want, "after msync {flags:?}");
        map.write(500_000, b"later");
        want[500_000..500_005].copy_from_slice(b"later");
        drop(map);
        close(file).unwrap();
        assert!(bucket.get("file").unwrap() == want, "after the close {flags:?}");
        assert!(fs::read(mount.join("file")).unwrap() == want, "the file {flags:?}");
    }
}

#[test]
fn a_private_mapping_is_nobody_elses() {
    let (bucket, mount, bytes) = with_object(&[], 1_000_000);
    let text = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
map = mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE)
map[5000:5007] = b'private'
os.pwrite(file, b'shared', 900000)
assert map[900000:900006] == b'shared' and map[5000:5007] == b'private'
assert os.pread(file, 7, 5000) != b'private'
map.close()
os.close(file)
";
    script(text, &[&mount.join("file")]);
    let mut want = bytes;
    want[900_000..900_006].copy_from_slice(b"shared");
    assert!(bucket.get("file").unwrap() == want);
}

#[test]
pub(crate) fn a_mapped_file_is_cut_and_grown() {
    let text = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
reader = os.open(sys.argv[1], os.O_RDONLY)
map = mmap.mmap(file, 40960)
map[0:40960] = b'm' * 40960
os.ftruncate(file, 5000)
os.ftruncate(file, 40960)
assert map[0:40960] == b'm' * 5000 + bytes(35960), 'the mapping'
assert os.pread(reader, 50000, 0) == b'm' * 5000 + bytes(35960), 'a reader'
map[30000:30004] = b'tail'
map.flush()
map.close()
os.close(file)
";
    let mut want = vec![0; 40960];
    want[..5000].fill(b'm');
    want[30_000..30_004].copy_from_slice(b"tail");
    for flags in BOTH_WAYS {
        let (bucket, mount, _) = with_object(flags, 40_960);
        script(text, &[&mount.join("file")]);
        assert!(bucket.get("file").unwrap() == want, "{flags:?}");
    }
}

#[test]
fn direct_io_reads_and_writes_what_others_see() {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    for flags in BOTH_WAYS {
        let (bucket, mount, mut want) = with_object(flags, 2_000_000);
        let path = mount.join("file");
        let cached = edited(&path);
        let open = OpenOptions::new().read(true).write(true).custom_flags(direct).open(&path);
        let file = open.unwrap();
        assert!(read_at(&file, 0, 3_000_000).unwrap() == want, "{flags:?}");
        cached.write_all_at(b"cached", 100_000).unwrap();
        want[100_000..100_006].copy_from_slice(b"cached");
        file.write_all_at(&[9; 8192], 4096).unwrap();
        want[4096..12_288].fill(9);
        file.write_all_at(b"no alignment", 77_777).unwrap();
        want[77_777..77_789].copy_from_slice(b"no alignment");
        for (who, file) in [("direct", &file), ("cached", &cached)] {
            assert!(read_at(file, 0, 3_000_000).unwrap() == want, "{who} {flags:?}");
        }
        close(file).unwrap();
        close(cached).unwrap();
        assert!(bucket.get("file").unwrap() == want, "the object {flags:?}");
    }
}

#[test]
pub(crate) fn several_programs_append_whole_records_to_one_file() {
    let text = "
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
name = os.path.basename(sys.argv[2])
for number in range(200):
    os.write(file, f'{name} {number:04} {name * 50}\\n'.encode())
os.close(file)
";
    for is_read_meanwhile in [false, true] {
        let (bucket, mount) = mounted();
        let path = mount.join("log");
        write_new(&path, b"first line\n").unwrap();
        let reader = is_read_meanwhile.then(|| File::open(&path).unwrap());
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let path = &path;
                scope.spawn(move || script(text, &[path, Path::new(name)]));
            }
        });
        let log = String::from_utf8(bucket.get("log").unwrap()).unwrap();
        assert_eq!(log.lines().count(), 1 + 4 * 200);
        for name in ["a", "b", "c", "d"] {
            let lines: Vec<&str> = log.lines().filter(|line| line.starts_with(name)).collect();
            let want = (0..200).map(|number| format!("{name} {number:04} {}", name.repeat(50)));
            assert!(lines == want.collect::<Vec<_>>(), "the records of {name}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), log);
        drop(reader);
    }
}

#[test]
fn a_file_cut_to_nothing_while_others_read_it_is_what_is_written_then() {
    for flags in BOTH_WAYS {
        let (bucket, mount, bytes) = with_object(flags, 3_000_000);
        assert!(fs::read(mount.join("file")).unwrap() == bytes);
        let reader = File::open(mount.join("file")).unwrap();
        assert!(read_at(&reader, 0, 3_000_000).unwrap() == bytes);
        let writer = File::create(mount.join("file")).unwrap();
        assert_eq!(read_at(&reader, 0, 10).unwrap(), b"", "{flags:?}");
        writer.write_all_at(b"new", 5).unwrap();
        assert_eq!(read_at(&reader, 0, 100).unwrap(), b"\0\0\0\0\0new", "{flags:?}");
        assert_eq!(reader.metadata().unwrap().size(), 8);
        close(writer).unwrap();
        assert_eq!(bucket.get("file").unwrap(), b"\0\0\0\0\0new");
        assert_eq!(read_at(&reader, 2, 100).unwrap(), b"\0\0\0new", "{flags:?}");
    }
}

#[test]
fn a_file_is_cut_and_written_while_others_open_and_close_it() {
    for flags in BOTH_WAYS {
        // A folder answers at once, so that there are many rounds.
        let objects = Scratch::new();
        let plan = Plan::of_url(&format!("file://{}", objects.path().display()));
        let mount = plan.flags(flags).mount();
        fs::write(mount.join("file"), noise(1, 300_000)).unwrap();
        let path = mount.join("file");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let file = File::open(&path).unwrap();
                        read_at(&file, 0, 1000).unwrap();
                    }
                });
            }
            let file = edited(&path);
            let cut = (0..700).try_for_each(|round: u64| {
                let len = 200_000 + round * 997 % 100_000;
                file.set_len(len)?;
                if round.is_multiple_of(2) {
                    file.write_all_at(b"bytes", 100_000)?;
                }
                assert_eq!(file.metadata()?.len(), len);
                file.sync_all()
            });
            is_over.store(true, Ordering::Relaxed);
            cut.unwrap();
        });
        assert_eq!(mount.counter("uploads_failed"), 0, "{flags:?}");
        mount.umount();
    }
}

#[test]
fn reading_past_the_end_gives_nothing_and_writing_past_it_leaves_zeros() {
    let (bucket, mount, bytes) = with_object(&[], 1000);
    let file = edited(&mount.join("file"));
    assert_eq!(read_at(&file, 1000, 10).unwrap(), b"");
    assert_eq!(read_at(&file, 1 << 45, 10).unwrap(), b"");
    assert_eq!(read_at(&file, 990, 100).unwrap(), bytes[990..]);
    file.write_all_at(b"far", 500_000).unwrap();
    assert_eq!(read_at(&file, 500_003, 10).unwrap(), b"");
    let mut want = bytes;
    want.resize(500_000, 0);
    want.extend(b"far");
    assert!(read_at(&file, 0, 1_000_000).unwrap() == want, "the file");
    forget_pages(&file);
    assert!(read_at(&file, 0, 1_000_000).unwrap() == want, "and again");
    close(file).unwrap();
    assert!(bucket.get("file").unwrap() == want, "the object");
}

#[test]
fn several_programs_read_and_write_one_file() {
    // Each writes its own stripes, many times, and reads those of the others. A read beside a write may see
    // a part of it, as on any local disk, but never what was there before what it has seen already.
    let text = "
import os, sys
who = int(os.path.basename(sys.argv[2]))
file = os.open(sys.argv[1], os.O_RDWR)
seen = [bytes(4096)] * 64
for round in range(1, 41):
    for stripe in range(who, 64, 4):
        os.pwrite(file, bytes([round]) * 4096, stripe * 4096)
    for stripe in range(64):
        read = os.pread(file, 4096, stripe * 4096)
        if stripe % 4 == who:
            assert read == bytes([round]) * 4096, (who, round, stripe)
        assert len(read) == 4096 and max(read) <= 40, (who, round, stripe)
        assert all(old <= new for old, new in zip(seen[stripe], read)), (who, round, stripe)
        seen[stripe] = read
    if round % 10 == who:
        os.fsync(file)
os.close(file)
";
    let (bucket, mount) = mounted();
    write_new(&mount.join("shared"), &vec![0; 64 * 4096]).unwrap();
    std::thread::scope(|scope| {
        for who in ["0", "1", "2", "3"] {
            let path = mount.join("shared");
            scope.spawn(move || script(text, &[&path, Path::new(who)]));
        }
    });
    assert!(bucket.get("shared").unwrap() == vec![40; 64 * 4096]);
}

#[test]
fn files_without_a_name_are_not_offered() {
    let (_bucket, mount) = mounted();
    let opened = rustix::fs::open(mount.path(), OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR);
    assert_eq!(opened.err(), Some(Errno::OPNOTSUPP));
}
