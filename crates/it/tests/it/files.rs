//! What programs do to files and folders every day.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use testkit::{append, close, noise, overwrite, read_at, wait, write_new};

use crate::{TTL, errno, mounted, names};

#[test]
fn a_new_file_is_an_object_of_its_own_path() {
    let (bucket, mount) = mounted();
    fs::create_dir_all(mount.join("a/b")).unwrap();
    write_new(&mount.join("a/b/c.txt"), b"hello").unwrap();
    assert_eq!(fs::read(mount.join("a/b/c.txt")).unwrap(), b"hello");
    assert_eq!(bucket.get("a/b/c.txt").as_deref(), Some(&b"hello"[..]));
}

#[test]
fn an_overwritten_file_has_only_the_new_bytes() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    write_new(&path, &noise(1, 300_000)).unwrap();
    overwrite(&path, b"short").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(bucket.get("file").as_deref(), Some(&b"short"[..]));
}

#[test]
fn appended_bytes_come_after_those_that_were_there() {
    let (bucket, mount) = mounted();
    bucket.put("log", b"one\n");
    let path = mount.join("log");
    wait::until("the object to appear", TTL, || path.exists());
    append(&path, b"two\n").unwrap();
    append(&path, b"three\n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
    assert_eq!(bucket.get("log").as_deref(), Some(&b"one\ntwo\nthree\n"[..]));
}

#[test]
fn truncation_cuts_and_growth_adds_zeros() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let mut want = noise(1, 400_000);
    write_new(&path, &want).unwrap();
    for len in [150_001, 600_000, 0, 70_000] {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        want.resize(usize::try_from(len).unwrap(), 0);
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
        close(file).unwrap();
        assert!(fs::read(&path).unwrap() == want, "at {len}");
        assert!(bucket.get("file").unwrap() == want, "the object at {len}");
    }
}

#[test]
fn written_bytes_are_read_through_any_handle_before_the_close() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let mut writer = File::create(&path).unwrap();
    writer.write_all(b"not closed").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"not closed");
    assert_eq!(fs::metadata(&path).unwrap().len(), 10);
    assert_eq!(names(mount.path()), ["file"]);
    close(writer).unwrap();
    assert_eq!(bucket.get("file").as_deref(), Some(&b"not closed"[..]));
}

#[test]
fn two_handles_write_into_one_file() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    write_new(&path, &vec![b'.'; 300_000]).unwrap();
    let one = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    one.write_all_at(b"one", 10).unwrap();
    other.write_all_at(b"other", 200_000).unwrap();
    assert_eq!(read_at(&other, 10, 3).unwrap(), b"one");
    assert_eq!(read_at(&one, 200_000, 5).unwrap(), b"other");
    close(one).unwrap();
    other.write_all_at(b"later", 299_995).unwrap();
    close(other).unwrap();

    let mut want = vec![b'.'; 300_000];
    want[10..13].copy_from_slice(b"one");
    want[200_000..200_005].copy_from_slice(b"other");
    want[299_995..].copy_from_slice(b"later");
    assert!(bucket.get("file").unwrap() == want);
}

#[test]
fn a_removed_file_is_gone_here_and_in_the_bucket() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("file"), b"bytes").unwrap();
    fs::remove_file(mount.join("file")).unwrap();
    assert_eq!(errno(File::open(mount.join("file"))), Errno::NOENT);
    assert_eq!(bucket.get("file"), None);
    assert_eq!(errno(fs::remove_file(mount.join("file"))), Errno::NOENT);
}

#[test]
fn a_file_removed_while_open_is_used_on_and_leaves_no_object() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let bytes = noise(1, 300_000);
    write_new(&path, &bytes).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    assert!(read_at(&file, 0, 300_000).unwrap() == bytes);
    file.write_all_at(b"still", 5).unwrap();
    assert_eq!(read_at(&file, 5, 5).unwrap(), b"still");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    close(file).unwrap();
    assert_eq!(bucket.get("file"), None);
    assert_eq!(names(mount.path()), Vec::<String>::new());
}

#[test]
fn a_folder_with_something_in_it_is_not_removed() {
    let (bucket, mount) = mounted();
    let folder = mount.join("folder");
    fs::create_dir(&folder).unwrap();
    assert_eq!(errno(fs::create_dir(&folder)), Errno::EXIST);
    write_new(&folder.join("file"), b"bytes").unwrap();
    assert_eq!(errno(fs::remove_dir(&folder)), Errno::NOTEMPTY);
    assert_eq!(errno(fs::remove_file(&folder)), Errno::ISDIR);
    fs::remove_file(folder.join("file")).unwrap();
    assert!(folder.is_dir(), "a folder made by mkdir stays when its last entry goes");
    fs::remove_dir(&folder).unwrap();
    assert!(!folder.exists());
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn a_renamed_file_has_its_new_name_only() {
    let (bucket, mount) = mounted();
    let bytes = noise(1, 300_000);
    write_new(&mount.join("old"), &bytes).unwrap();
    fs::create_dir(mount.join("folder")).unwrap();
    fs::rename(mount.join("old"), mount.join("folder/new")).unwrap();
    assert!(!mount.join("old").exists());
    assert!(fs::read(mount.join("folder/new")).unwrap() == bytes);
    assert_eq!(bucket.get("old"), None);
    assert!(bucket.get("folder/new").unwrap() == bytes);
}

#[test]
fn a_file_renamed_over_another_replaces_it() {
    let (bucket, mount) = mounted();
    let path = mount.join("result");
    write_new(&path, b"old").unwrap();
    let reader = File::open(&path).unwrap();
    write_new(&mount.join("result.tmp"), b"newer").unwrap();
    fs::rename(mount.join("result.tmp"), &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    assert_eq!(read_at(&reader, 0, 9).unwrap(), b"old", "what was open stays what it was");
    assert_eq!(names(mount.path()), ["result"]);
    assert_eq!(bucket.get("result").as_deref(), Some(&b"newer"[..]));
    assert_eq!(bucket.get("result.tmp"), None);
}

#[test]
fn a_file_renamed_while_open_is_written_under_its_new_name() {
    let (bucket, mount) = mounted();
    let mut file = File::create(mount.join("old")).unwrap();
    file.write_all(b"before ").unwrap();
    fs::rename(mount.join("old"), mount.join("new")).unwrap();
    file.write_all(b"after").unwrap();
    close(file).unwrap();
    assert_eq!(bucket.get("new").as_deref(), Some(&b"before after"[..]));
    assert_eq!(bucket.get("old"), None);
}

#[test]
fn an_exclusive_create_fails_on_a_name_that_is_taken() {
    let (bucket, mount) = mounted();
    bucket.put("theirs", b"bytes");
    wait::until("the object to appear", TTL, || mount.join("theirs").exists());
    write_new(&mount.join("ours"), b"bytes").unwrap();
    for name in ["theirs", "ours"] {
        assert_eq!(errno(write_new(&mount.join(name), b"other")), Errno::EXIST);
        assert_eq!(bucket.get(name).as_deref(), Some(&b"bytes"[..]));
    }
}

#[test]
fn the_disk_has_room_and_says_so() {
    let (_bucket, mount) = mounted();
    let told = rustix::fs::statvfs(mount.path()).unwrap();
    assert!(told.f_bsize > 0 && told.f_blocks > 0);
    assert!(1 << 30 <= told.f_bavail * told.f_frsize, "programs check for room before they write");
    assert!(255 <= told.f_namemax);
}

#[test]
fn a_folder_of_3000_objects_is_listed_whole_and_once() {
    let (bucket, mount) = mounted();
    bucket.put_many("many/object-", 3000, "x");
    bucket.put_many("many/folder/inner-", 3, "x");
    wait::until("the folder to appear", TTL, || mount.join("many").exists());
    let mut want: Vec<String> = (0..3000).map(|number| format!("object-{number:05}")).collect();
    want.insert(0, "folder".to_owned());
    wait::until("the listing to be whole", TTL, || names(&mount.join("many")).len() == want.len());
    assert_eq!(names(&mount.join("many")), want);
    assert_eq!(fs::read(mount.join("many/object-02999")).unwrap(), b"x");
}

#[test]
fn names_may_hold_spaces_and_letters_of_any_script() {
    let (bucket, mount) = mounted();
    let names_here =
        ["two words", "grüße.txt", "日本語", "emoji 🦀", "a+b=c&d%20e?#", "tab\there", "-"];
    for name in names_here {
        write_new(&mount.join(name), name.as_bytes()).unwrap();
        assert_eq!(bucket.get(name).as_deref(), Some(name.as_bytes()), "{name}");
    }
    let theirs = "theirs: ü (1) 'quoted' \"twice\"";
    bucket.put(theirs, b"bytes");
    wait::until("the object to appear", TTL, || mount.join(theirs).exists());
    let mut want: Vec<&str> = names_here.iter().copied().chain([theirs]).collect();
    want.sort_unstable();
    wait::until("all to be listed", TTL, || names(mount.path()).len() == want.len());
    assert_eq!(names(mount.path()), want);
    assert_eq!(fs::read(mount.join(theirs)).unwrap(), b"bytes");
}

#[test]
fn an_empty_file_is_an_empty_object_and_back() {
    let (bucket, mount) = mounted();
    write_new(&mount.join("ours"), b"").unwrap();
    assert_eq!(bucket.head("ours").unwrap().size, 0);
    bucket.put("theirs", b"");
    wait::until("the object to appear", TTL, || mount.join("theirs").exists());
    assert_eq!(fs::read(mount.join("theirs")).unwrap(), b"");
    append(&mount.join("theirs"), b"no longer").unwrap();
    assert_eq!(bucket.get("theirs").as_deref(), Some(&b"no longer"[..]));
}

#[test]
fn a_key_that_is_a_folder_marker_is_a_folder() {
    let (bucket, mount) = mounted();
    bucket.put("empty/", b"");
    wait::until("the folder to appear", TTL, || mount.join("empty").is_dir());
    assert_eq!(names(&mount.join("empty")), Vec::<String>::new());
    fs::create_dir(mount.join("made")).unwrap();
    // Another client sees the empty folder that was made here.
    assert_eq!(bucket.keys(), ["empty/", "made/"]);
}

#[test]
fn a_file_is_not_entered_and_a_folder_is_not_read() {
    let (_bucket, mount) = mounted();
    write_new(&mount.join("file"), b"bytes").unwrap();
    fs::create_dir(mount.join("folder")).unwrap();
    assert_eq!(errno(File::open(mount.join("file/inside"))), Errno::NOTDIR);
    assert_eq!(errno(OpenOptions::new().write(true).open(mount.join("folder"))), Errno::ISDIR);
    let folder = File::open(mount.join("folder"));
    assert_eq!(errno(folder.and_then(|mut folder| folder.read(&mut [0]))), Errno::ISDIR);
    assert_eq!(errno(fs::rename(mount.join("file"), mount.join("folder"))), Errno::ISDIR);
    assert_eq!(errno(fs::rename(mount.join("folder"), mount.join("file"))), Errno::NOTDIR);
}

#[test]
fn the_time_of_a_file_is_that_of_its_last_write_and_does_not_jump() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"bytes").unwrap();
    let written = times(&path);
    close(file).unwrap();
    assert_eq!(times(&path), written, "the upload changed the time");
    fs::read(&path).unwrap();
    // After the time to live the attributes are asked for again.
    bucket.put("later", b"");
    wait::until("the time to live to pass", TTL, || mount.join("later").exists());
    assert_eq!(times(&path), written, "a fresh look changed the time");
}

fn times(path: &Path) -> (i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec())
}

/// The daemon holds a descriptor for each file that is open for writing.
#[test]
fn create_fails_with_enfile_if_the_daemon_has_no_descriptor() {
    let (_bucket, mount) = mounted();
    write_new(&mount.join("before"), b"").unwrap();
    let pid = mount.status()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap();
    let in_use = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    // The daemon has our hard limit, which not even root may raise everywhere.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(1 << 16);
    let limit = |current| {
        let limit = Rlimit { current: Some(current), maximum };
        prlimit(Pid::from_raw(pid), Resource::Nofile, limit).unwrap();
    };
    limit(in_use + 100);
    let create = |number: u32| File::create(mount.join(format!("{number}")));
    let mut files = Vec::new();
    let refused = loop {
        match create(u32::try_from(files.len()).unwrap()) {
            Ok(file) => files.push(file),
            refused => break errno(refused),
        }
        assert!(files.len() < 1000, "there is no limit");
    };
    assert_eq!(refused, Errno::NFILE);
    limit(most);
    create(1001).unwrap();
    for file in files {
        close(file).unwrap();
    }
}
