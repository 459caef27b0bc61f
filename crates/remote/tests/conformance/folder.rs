//! What a folder promises beyond `Remote`: to the people and programs that look into it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use base::ByteRange;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use quayfs_remote::{
    Condition, Entry, ErrorKind, Folder, Key, ListRequest, Metadata, PutOptions, Remote,
};

#[tokio::test]
async fn objects_are_ordinary_files_and_the_other_way_round() {
    let (dir, folder) = open();
    put(&folder, "a/b.txt", "from us").await;
    assert_eq!(fs::read(dir.path().join("a/b.txt")).unwrap(), b"from us");

    fs::create_dir_all(dir.path().join("x/y")).unwrap();
    fs::write(dir.path().join("x/y/z"), "from them").unwrap();
    assert_eq!(read(&folder, "x/y/z").await, "from them");
    assert_eq!(names(&folder).await, ["a/b.txt", "x/y/z"]);
}

#[tokio::test]
async fn what_cannot_be_a_file_is_not_among_the_files() {
    let (dir, folder) = open();
    for key in ["a//b", "../up", "./x", "nul\0", ".quayfs/lock", &"n".repeat(300)] {
        put(&folder, key, key).await;
        assert_eq!(read(&folder, key).await, key);
    }
    assert_eq!(entries_of(dir.path()), [".quayfs"]);
    assert!(!dir.path().parent().unwrap().join("up").exists());
}

#[tokio::test]
async fn nothing_is_written_before_the_first_object() {
    let (dir, folder) = open();
    assert!(names(&folder).await.is_empty());
    assert_eq!(folder.head(&key("a")).await.unwrap_err().kind, ErrorKind::NotFound);
    folder.delete(&key("a")).await.unwrap();
    assert!(entries_of(dir.path()).is_empty());
}

#[tokio::test]
async fn a_missing_folder_is_named_in_the_error() {
    let error = Folder::open(Path::new("/does/not/exist")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}

#[tokio::test]
async fn links_lead_nowhere() {
    let (dir, folder) = open();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "1").unwrap();
    symlink(outside.path(), dir.path().join("link")).unwrap();
    symlink(outside.path().join("secret"), dir.path().join("file")).unwrap();
    assert!(names(&folder).await.is_empty());
    for path in ["link/secret", "file"] {
        assert_eq!(folder.head(&key(path)).await.unwrap_err().kind, ErrorKind::NotFound);
    }
    for path in ["link/new", "file", "link"] {
        put(&folder, path, "mine").await;
        assert_eq!(read(&folder, path).await, "mine");
        folder.delete(&key(path)).await.unwrap();
    }
    assert_eq!(entries_of(outside.path()), ["secret"]);
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"1");
    assert!(dir.path().join("link").is_symlink() && dir.path().join("file").is_symlink());
}

#[tokio::test]
async fn an_empty_folder_of_others_is_an_object_and_stays_one() {
    let (dir, folder) = open();
    fs::create_dir_all(dir.path().join("theirs/deep")).unwrap();
    assert_eq!(names(&folder).await, ["theirs/deep/"]);
    let meta = folder.head(&key("theirs/deep/")).await.unwrap();
    assert_eq!(meta.size, 0);
    for below in ["theirs/deep/a", "theirs/deep/er/a", "theirs/deep//a", "theirs/deep/x/"] {
        // As it was left: not yet written down by us.
        fs::remove_dir(dir.path().join("theirs/deep")).unwrap();
        fs::create_dir(dir.path().join("theirs/deep")).unwrap();
        put(&folder, below, "").await;
        assert_eq!(names(&folder).await, ["theirs/deep/", below]);
        folder.delete(&key(below)).await.unwrap();
        assert_eq!(names(&folder).await, ["theirs/deep/"]);
    }
    folder.delete(&key("theirs/deep/")).await.unwrap();
    assert!(!dir.path().join("theirs").exists());
}

#[tokio::test]
async fn a_folder_goes_with_its_last_key_unless_it_is_one() {
    let (dir, folder) = open();
    put(&folder, "kept/", "").await;
    assert!(dir.path().join("kept").is_dir());
    put(&folder, "kept/a/b/c", "1").await;
    folder.delete(&key("kept/a/b/c")).await.unwrap();
    assert!(dir.path().join("kept").is_dir());
    assert!(!dir.path().join("kept/a").exists());
    folder.delete(&key("kept/")).await.unwrap();
    assert_eq!(entries_of(dir.path()), [".quayfs"]);
}

#[tokio::test]
async fn a_folder_removed_by_others_takes_its_object_along() {
    let (dir, folder) = open();
    put(&folder, "d/", "").await;
    fs::remove_dir(dir.path().join("d")).unwrap();
    assert!(names(&folder).await.is_empty());
}

#[tokio::test]
async fn a_key_beside_its_folder_is_plain_again_once_it_can_be() {
    let (dir, folder) = open();
    put(&folder, "x/y", "below").await;
    put(&folder, "x", "beside").await;
    assert_eq!(names(&folder).await, ["x", "x/y"]);
    folder.delete(&key("x/y")).await.unwrap();
    put(&folder, "x", "plain").await;
    assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"plain");
    assert!(entries_of(&dir.path().join(".quayfs/keys")).is_empty());
}

#[tokio::test]
async fn a_change_by_others_is_another_version() {
    let (dir, folder) = open();
    let version = put(&folder, "a", "12345").await;
    fs::write(dir.path().join("a"), "54321").unwrap();
    assert_ne!(folder.head(&key("a")).await.unwrap().version, version);
    let range = ByteRange::new(0, 5).unwrap();
    let stale = folder.get(&key("a"), range, Some(&version)).await.err().unwrap();
    assert_eq!(stale.kind, ErrorKind::Changed);
}

#[tokio::test]
async fn a_reader_never_sees_a_mixture() {
    let (dir, folder) = open();
    let old = vec![b'o'; 3 << 20];
    let version = put(&folder, "a", old.clone()).await;
    let range = ByteRange::new(0, old.len() as u64).unwrap();

    // Replaced: the reader has the old file to its end.
    let mut body = folder.get(&key("a"), range, Some(&version)).await.unwrap();
    let first = body.next().await.unwrap().unwrap();
    let version = put(&folder, "a", vec![b'n'; old.len()]).await;
    let rest: Vec<Bytes> = body.try_collect().await.unwrap();
    assert!(first == old[..first.len()] && rest.concat() == old[first.len()..]);

    // Written in place by another program: an error.
    let mut body = folder.get(&key("a"), range, Some(&version)).await.unwrap();
    body.next().await.unwrap().unwrap();
    fs::write(dir.path().join("a"), vec![b'x'; old.len()]).unwrap();
    let error = body.try_collect::<Vec<Bytes>>().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Changed);
}

#[tokio::test]
async fn a_failed_write_leaves_nothing_behind() {
    let (dir, folder) = open();
    put(&folder, "a", "1").await;
    let absent = PutOptions { condition: Condition::Absent, metadata: Metadata::new() };
    let error = folder.put(&key("a"), "2".into(), &absent).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Changed);
    assert!(entries_of(&dir.path().join(".quayfs/tmp")).is_empty());
    let upload = folder.upload_create(&key("b"), &absent).await.unwrap();
    folder.upload_abort(&key("b"), &upload).await.unwrap();
    assert!(entries_of(&dir.path().join(".quayfs/uploads")).is_empty());
}

#[tokio::test]
async fn a_replaced_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, folder) = open();
    let path = dir.path().join("private");
    fs::write(&path, "1").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    put(&folder, "private", "2").await;
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_mounts_of_one_folder_agree_on_who_was_first() {
    let (dir, first) = open();
    let second = Folder::open(dir.path()).unwrap();
    for round in 0..20 {
        let racers = [first.clone(), second.clone(), first.clone(), second.clone()];
        let options = PutOptions { condition: Condition::Absent, metadata: Metadata::new() };
        let puts = racers.map(|folder| {
            let options = options.clone();
            tokio::spawn(async move {
                folder.put(&key(&format!("sub/{round}")), "1".into(), &options).await
            })
        });
        let mut won = 0;
        for put in puts {
            match put.await.unwrap() {
                Ok(_) => won += 1,
                Err(error) => assert_eq!(error.kind, ErrorKind::Changed, "{error}"),
            }
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test]
async fn a_large_folder_is_listed_page_by_page() {
    let (dir, folder) = open();
    for i in 0..5000 {
        fs::write(dir.path().join(format!("f{i:05}")), "").unwrap();
    }
    let mut request = everything();
    request.entries_max = 100;
    let mut seen = Vec::new();
    loop {
        let page = folder.list(&request).await.unwrap();
        seen.extend(page.entries.iter().map(|entry| entry.key().to_string()));
        match page.next {
            Some(next) => request.continuation = Some(next),
            None => break,
        }
        // What goes away under way is not shown, what stays is shown once.
        if seen.len() == 1000 {
            fs::remove_file(dir.path().join("f04999")).unwrap();
        }
    }
    let want: Vec<String> = (0..4999).map(|i| format!("f{i:05}")).collect();
    assert_eq!(seen, want);
}

fn open() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    (dir, folder)
}

fn key(name: &str) -> Key {
    Key::from(name)
}

async fn put(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) -> quayfs_remote::Version {
    let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
    let bytes = Bytes::copy_from_slice(bytes.as_ref());
    folder.put(&key(name), bytes, &options).await.unwrap()
}

async fn read(folder: &Folder, name: &str) -> String {
    let size = folder.head(&key(name)).await.unwrap().size;
    let range = ByteRange::new(0, size).unwrap();
    let body = folder.get(&key(name), range, None).await.unwrap();
    let pieces: Vec<Bytes> = body.try_collect().await.unwrap();
    String::from_utf8(pieces.concat()).unwrap()
}

fn everything() -> ListRequest {
    ListRequest {
        prefix: Key::from(""),
        delimited: false,
        start_after: None,
        continuation: None,
        entries_max: 1000,
    }
}

async fn names(folder: &Folder) -> Vec<String> {
    let page = folder.list(&everything()).await.unwrap();
    assert_eq!(page.next, None);
    page.entries.iter().map(Entry::key).map(ToString::to_string).collect()
}

fn entries_of(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
