//! Attribute objects that are not ours to write, or that nobody could read any more.

use base::{FileKind, Ino};
use remote::fake::Op;
use remote::{ErrorKind as RemoteErrorKind, Key, Metadata, Trouble};

use super::attributes::{Kept, OBJECT, OTHER};
use super::{Bench, name};
use crate::bucket::attributes::book::shard;
use crate::bucket::attributes::line::Usual;
use crate::bucket::attributes::{place, sheet};
use crate::{ErrorKind, Namespace, RenameMode, SetAttr, XattrMode};

const NEWER: &str = r#"{"quayfs-attributes":2}"#;
const USUAL: Usual = Usual { uid: 0, gid: 0, file_mode: 0o644, folder_mode: 0o755 };

async fn chmod(bench: &Bench, ino: Ino) -> Result<(), ErrorKind> {
    let change = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    bench.bucket.set_attr(ino, change).await.map(drop).map_err(|error| error.kind)
}

async fn set_xattr(bench: &Bench, ino: Ino, name: &[u8], bytes: usize) -> Result<(), ErrorKind> {
    let value = vec![1; bytes];
    let set = bench.bucket.set_xattr(ino, name, &value, XattrMode::Set);
    set.await.map_err(|error| error.kind)
}

/// Names whose entries are in the same shard as that of `like`, that among them.
fn alike(like: &str) -> impl Iterator<Item = String> {
    let at = shard(like.as_bytes());
    let more = (0..).map(|number| format!("file{number}"));
    let more = more.filter(move |name| shard(name.as_bytes()) == at);
    std::iter::once(like.to_owned()).chain(more)
}

#[tokio::test]
async fn what_only_a_newer_program_understands_is_left_alone_and_who_changes_it_is_told() {
    let bench = Bench::new();
    bench.put(OBJECT, NEWER);
    bench.put("f", "1");
    let ino = bench.ino(Ino::ROOT, "f").await;
    assert_eq!(chmod(&bench, ino).await, Err(ErrorKind::Unsupported));
    assert_eq!(set_xattr(&bench, ino, b"user.a", 1).await, Err(ErrorKind::Unsupported));
    assert_eq!(bench.stat("f").await.mode, 0o644, "what failed did nothing");
    // What is made and written says what it can.
    bench.mkdir(Ino::ROOT, "d").await;
    bench.write(Ino::ROOT, "new", "1").await;
    bench.bucket.symlink(Ino::ROOT, &name("link"), b"f", OTHER).await.unwrap();
    bench.sync().await;
    assert_eq!(bench.fake.bytes(&Key::from(OBJECT)).unwrap(), NEWER);
    assert_eq!(bench.again().stat("link").await.kind, FileKind::Symlink);
}

#[tokio::test]
async fn a_part_that_only_a_newer_program_understands_is_left_alone() {
    let (fake, ledger) = (remote::fake::Fake::new(), Kept::default());
    let bench = Bench::with_ledger(&fake, &ledger);
    let other = (0..100).map(|n| format!("g{n}")).find(|g| shard(g.as_bytes()) != shard(b"f"));
    let other = other.unwrap();
    for file in ["f", &other] {
        bench.fake.insert(&Key::from(file), "1", Metadata::new());
    }
    let (f, g) = (bench.ino(Ino::ROOT, "f").await, bench.ino(Ino::ROOT, &other).await);
    assert_eq!(chmod(&bench, f).await, Ok(()), "nothing is in the way yet");
    let part = place::shard("1f", shard(b"f"));
    let part = Key::new(part);
    fake.insert(&part, NEWER, Metadata::new());
    fake.insert(&Key::from(OBJECT), sheet::write_split(USUAL, "1f"), Metadata::new());
    let failed = bench.bucket.sync(None).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Unsupported);
    assert_eq!(fake.bytes(&part).unwrap(), NEWER);
    assert!(!ledger.left().is_empty(), "it waits for a program that can");

    assert_eq!(chmod(&bench, g).await, Ok(()));
    assert!(bench.bucket.sync(None).await.is_err());
    assert_eq!(bench.again().stat(&other).await.mode, 0o600, "the other parts are written");
    let again = bench.again();
    let f = again.ino(Ino::ROOT, "f").await;
    assert_eq!(chmod(&again, f).await, Err(ErrorKind::Unsupported));
    again.sync().await;
    assert_eq!(fake.bytes(&part).unwrap(), NEWER);
}

#[tokio::test]
async fn a_folder_with_attributes_of_a_newer_program_is_renamed_and_they_go_along() {
    let bench = Bench::new();
    bench.put("z/f", "1");
    let z = bench.ino(Ino::ROOT, "z").await;
    let f = bench.ino(z, "f").await;
    assert_eq!(chmod(&bench, f).await, Ok(()));
    bench.put("z/.quayfs-attributes", NEWER);
    let (from, to) = (name("z"), name("zz"));
    let renamed = bench.bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace);
    renamed.await.unwrap();
    assert_eq!(bench.keys(), ["zz/.quayfs-attributes", "zz/f"]);
    assert_eq!(bench.fake.bytes(&Key::from("zz/.quayfs-attributes")).unwrap(), NEWER);
}

#[tokio::test]
async fn extended_attributes_end_before_nobody_could_read_them() {
    const LARGE: usize = 63 << 10;
    let bench = Bench::new();
    let names: Vec<String> = alike("f").take(110).collect();
    let elsewhere = (0..100).map(|n| format!("g{n}")).find(|g| shard(g.as_bytes()) != shard(b"f"));
    let elsewhere = elsewhere.unwrap();
    for file in names.iter().chain([&elsewhere]) {
        bench.fake.insert(&Key::from(file.as_str()), "1", Metadata::new());
    }
    let mut refused = 0;
    for file in &names {
        let ino = bench.ino(Ino::ROOT, file).await;
        for attribute in [&b"user.a"[..], b"user.b"] {
            match set_xattr(&bench, ino, attribute, LARGE).await {
                Ok(()) => assert_eq!(refused, 0, "{file}"),
                Err(kind) => {
                    assert_eq!(kind, ErrorKind::AttributesTooLarge);
                    refused += 1;
                }
            }
        }
    }
    assert!((100..200).contains(&refused), "{refused}");
    // Of another part there is room, and for what is small; what is there can be taken away.
    let ino = bench.ino(Ino::ROOT, &elsewhere).await;
    assert_eq!(set_xattr(&bench, ino, b"user.a", LARGE).await, Ok(()));
    let last = bench.ino(Ino::ROOT, names.last().unwrap()).await;
    assert_eq!(chmod(&bench, last).await, Ok(()));
    bench.sync().await;

    let again = bench.again();
    assert_eq!(again.stat(names.last().unwrap()).await.mode, 0o600);
    let first = again.ino(Ino::ROOT, &names[0]).await;
    assert_eq!(again.bucket.xattr(first, b"user.b").await.unwrap().len(), LARGE);
    again.bucket.remove_xattr(first, b"user.b").await.unwrap();
    again.sync().await;
    let last = again.ino(Ino::ROOT, names.last().unwrap()).await;
    assert_eq!(set_xattr(&again, last, b"user.a", LARGE).await, Ok(()), "of what was taken away");
}

#[tokio::test]
async fn what_nobody_could_read_any_more_is_not_written() {
    let (fake, ledger) = (remote::fake::Fake::new(), Kept::default());
    let bench = Bench::with_ledger(&fake, &ledger);
    let mut files = Vec::new();
    for file in alike("f").take(110) {
        // Nothing is said of a file before its bytes are there.
        let ino = bench.create(Ino::ROOT, &file).await;
        for attribute in [&b"user.a"[..], b"user.b"] {
            set_xattr(&bench, ino, attribute, 63 << 10).await.unwrap();
        }
        files.push(ino);
    }
    for &file in &files {
        bench.upload(file, "1").await;
    }
    let full = bench.bucket.sync(None).await.unwrap_err();
    assert_eq!(full.kind, ErrorKind::Remote(remote::ErrorKind::Full));
    assert!(!ledger.left().is_empty(), "it is kept here");
    for &file in &files[40..] {
        bench.bucket.remove_xattr(file, b"user.a").await.unwrap();
    }
    bench.sync().await;
    assert!(ledger.left().is_empty());
    let again = bench.again();
    let first = again.ino(Ino::ROOT, "f").await;
    assert_eq!(again.bucket.xattr(first, b"user.b").await.unwrap().len(), 63 << 10);
}

#[tokio::test]
async fn what_may_not_be_read_is_left_alone_and_who_is_not_known_is_shown_nothing() {
    let before = Bench::new();
    before.put("f", "1");
    before.chmod(before.ino(Ino::ROOT, "f").await, 0o600).await;
    before.sync().await;
    let of = |trouble| {
        let bench = before.again();
        bench.fake.refuse_next(Op::GetWhole, RemoteErrorKind::Denied, trouble);
        bench
    };
    let bench = of(Trouble::Denied);
    let shown = bench.bucket.lookup(Ino::ROOT, &name("f")).await.unwrap().attr;
    assert_eq!(shown.mode, 0o644, "as if nothing were said of it");
    assert_eq!(chmod(&bench, shown.ino).await, Err(ErrorKind::Unsupported));
    let bench = of(Trouble::BadCredentials);
    let shown = bench.bucket.lookup(Ino::ROOT, &name("f")).await;
    assert_eq!(shown.unwrap_err().kind, ErrorKind::Remote(RemoteErrorKind::Denied));
    let shown = bench.bucket.lookup(Ino::ROOT, &name("f")).await.unwrap().attr;
    assert_eq!(shown.mode, 0o600, "they are good again");
}
