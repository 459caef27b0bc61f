//! Keys are as long as the store takes them, with the prefix that is mounted.

use base::Ino;
use remote::Key;
use remote::fake::Op;

use super::{Bench, NODE, name};
use crate::{Error, ErrorKind, Namespace as _, NewNode, RenameMode};

/// The prefix that is mounted.
const PREFIX: &str = "lab/team/";

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind
}

/// A folder in a mount of [`PREFIX`] whose keys begin with so many bytes, with that.
async fn folder_of(bytes: usize) -> (Bench, Ino) {
    let bench = Bench::below(PREFIX);
    let (mut dir, mut left) = (Ino::ROOT, bytes - PREFIX.len());
    while left > 0 {
        let part = left.min(200);
        dir = bench.mkdir(dir, &"d".repeat(part - 1)).await;
        left -= part;
    }
    (bench, dir)
}

#[tokio::test]
async fn a_name_whose_key_is_too_long_with_the_mounted_prefix_is_refused_when_it_is_made() {
    let (bench, dir) = folder_of(1020).await;
    let calls = bench.fake.calls_total();
    let (long, short) = (name("12345"), name("1234"));
    assert_eq!(kind(bench.bucket.create(dir, &long, NODE).await), ErrorKind::NameTooLong);
    let link = bench.bucket.symlink(dir, &long, b"target", NODE.owner).await;
    assert_eq!(kind(link), ErrorKind::NameTooLong);
    let folder = bench.bucket.mkdir(dir, &long, NODE).await;
    assert_eq!(kind(folder), ErrorKind::NameTooLong);
    assert_eq!(bench.fake.calls_total(), calls, "nobody was asked");
    let folder = bench.bucket.mkdir(dir, &short, NODE).await;
    assert_eq!(kind(folder), ErrorKind::NameTooLong, "its marker");
    bench.bucket.create(dir, &short, NODE).await.unwrap();
}

#[tokio::test]
async fn where_the_mounted_prefix_is_too_long_no_name_is_made_and_the_mount_goes_on() {
    let bench = Bench::below(&"p".repeat(1100));
    let made = bench.bucket.create(Ino::ROOT, &name("f"), NODE).await;
    assert_eq!(kind(made), ErrorKind::NameTooLong);
    assert_eq!(kind(bench.lookup(Ino::ROOT, "f").await), ErrorKind::NameTooLong);
    assert!(bench.names(Ino::ROOT).await.is_empty());
    bench.chmod(Ino::ROOT, 0o700).await;
    bench.sync().await;
    assert!(bench.keys().is_empty(), "what is said of the top has no place either");
}

#[tokio::test]
async fn a_folder_has_an_attribute_object_if_its_key_fits_with_the_mounted_prefix() {
    let longest = ".quayfs-attributes.01234567.77".len();
    for (bytes, want) in [(1024 - longest, true), (1025 - longest, false)] {
        let (bench, dir) = folder_of(bytes).await;
        let owner = super::attributes::OTHER;
        bench.bucket.mkdir(dir, &name("f"), NewNode { mode: 0o700, owner }).await.unwrap();
        bench.sync().await;
        let is_object = |key: &Key| key.to_string().ends_with("d/.quayfs-attributes");
        let deepest =
            bench.fake.keys().into_iter().filter(is_object).map(|key| key.as_bytes().len());
        let has = deepest.max() == Some(bytes + ".quayfs-attributes".len());
        assert_eq!(has, want, "{bytes}");
        assert_eq!(bench.bucket.shared.attributes_pending(), 0);
    }
}

/// The key below `dir` that is just as long as the store takes it.
fn longest_below(dir: &str) -> String {
    let mut key = format!("{PREFIX}{dir}");
    while key.len() < 1024 {
        let part = (1024 - key.len()).min(200);
        key.push_str(&"e".repeat(part - 1));
        key.push(if key.len() < 1023 { '/' } else { 'f' });
    }
    key
}

/// A mount of [`PREFIX`] that waits for the bucket, and one that does not.
fn mounts() -> [Bench; 2] {
    [Bench::below(PREFIX), Bench::below_with(PREFIX, super::moved::options())]
}

async fn rename(bench: &Bench, from: &str, to: &str, mode: RenameMode) -> Result<(), Error> {
    let (from, to) = (name(from), name(to));
    let renamed = bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), mode).await;
    bench.sync().await;
    renamed.map(drop)
}

#[tokio::test]
async fn directory_with_a_deep_key_is_not_renamed_to_a_longer_name() {
    for bench in mounts() {
        bench.fake.short_pages(2);
        for key in ["lab/team/dir/a", "lab/team/dir/b", "lab/team/dir/c", &longest_below("dir/")] {
            bench.put(key, "1");
        }
        bench.ino(Ino::ROOT, "dir").await;
        let before = bench.keys();
        for mode in [RenameMode::NoReplace, RenameMode::Replace] {
            let renamed = rename(&bench, "dir", "longer", mode).await;
            assert_eq!(kind(renamed), ErrorKind::NameTooLong);
        }
        assert_eq!(bench.fake.calls(Op::Copy), 0);
        assert_eq!(bench.keys(), before);
        assert_eq!(bench.names(Ino::ROOT).await, ["dir"]);
        rename(&bench, "dir", "rid", RenameMode::NoReplace).await.unwrap();
        assert!(bench.keys().contains(&longest_below("rid/")), "a name as long is taken");
    }
}

#[tokio::test]
async fn directory_that_is_refused_leaves_the_empty_one_of_its_new_name() {
    for bench in mounts() {
        bench.put(&longest_below("dir/"), "1");
        bench.put("lab/team/longer/", "");
        bench.ino(Ino::ROOT, "dir").await;
        let before = bench.keys();
        let renamed = rename(&bench, "dir", "longer", RenameMode::Replace).await;
        assert_eq!(kind(renamed), ErrorKind::NameTooLong);
        assert_eq!(bench.keys(), before);
        assert_eq!(bench.names(Ino::ROOT).await, ["dir", "longer"]);
    }
}

#[tokio::test]
async fn directory_with_a_deep_file_not_uploaded_is_not_renamed() {
    for bench in mounts() {
        let (mut dir, deep) = (Ino::ROOT, longest_below("dir/"));
        let mut parts: Vec<&str> = deep[PREFIX.len()..].split('/').collect();
        let file = parts.pop().unwrap();
        for part in parts {
            dir = bench.mkdir(dir, part).await;
        }
        bench.create(dir, file).await;
        bench.sync().await;
        assert_eq!(
            kind(rename(&bench, "dir", "longer", RenameMode::Replace).await),
            ErrorKind::NameTooLong
        );
        rename(&bench, "dir", "rid", RenameMode::Replace).await.unwrap();
    }
}

#[tokio::test]
async fn directories_with_a_deep_key_do_not_change_places() {
    for bench in mounts() {
        bench.put(&longest_below("dir/"), "1");
        bench.put("lab/team/longer/f", "2");
        let before = bench.keys();
        for (from, to) in [("dir", "longer"), ("longer", "dir")] {
            let renamed = rename(&bench, from, to, RenameMode::Exchange).await;
            assert_eq!(kind(renamed), ErrorKind::NameTooLong);
        }
        assert_eq!(bench.keys(), before);
        assert_eq!(bench.names(Ino::ROOT).await, ["dir", "longer"]);
    }
}

#[tokio::test]
async fn file_is_not_made_below_a_longer_name_that_its_directory_is_getting() {
    let bench = Bench::below_with(PREFIX, super::moved::options());
    let dirs: Vec<String> = (0..5).map(|_| "d".repeat(180)).collect();
    bench.put(&format!("{PREFIX}dir/{}/f", dirs.join("/")), "1");
    let gate = bench.fake.hold(Op::Copy);
    let (from, to) = (name("dir"), name("longer"));
    bench.ino(Ino::ROOT, "dir").await;
    let moved = bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::NoReplace);
    moved.await.unwrap();
    gate.arrived(1).await;
    let mut dir = bench.ino(Ino::ROOT, "longer").await;
    for part in &dirs {
        dir = bench.ino(dir, part).await;
    }
    let room = 1024 - format!("{PREFIX}longer/{}/", dirs.join("/")).len();
    let (long, longest) = ("n".repeat(room + 1), "n".repeat(room));
    let made = bench.bucket.create(dir, &name(&long), NODE).await;
    assert_eq!(kind(made), ErrorKind::NameTooLong);
    bench.create(dir, &longest).await;
    drop(gate);
    bench.sync().await;
}
