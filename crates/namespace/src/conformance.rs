//! The promises of `Namespace`, as checks that any implementation can be run against.

use std::sync::Arc;

use base::{ByteRange, FileKind, Ino, Name, Timestamp};
use bytes::Bytes;
use futures::future::BoxFuture;
use remote::{Condition, PutOptions, Remote};

use crate::{
    Abandoned, Entry, Error, ErrorKind, Listed, Namespace, NewNode, Owner, Published, RenameMode,
    SetAttr, Target,
};

/// An empty volume and the store below it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Under test.
    pub namespace: Arc<dyn Namespace>,
    /// Takes the uploads.
    pub remote: Arc<dyn Remote>,
}

/// A promise, by name, so that a failure says which one broke.
pub type Check = (&'static str, fn(Volume) -> BoxFuture<'static, ()>);

macro_rules! checks {
    ($($check:ident,)*) => {
        /// Every promise.
        pub const ALL: &[Check] =
            &[$((stringify!($check), |volume| Box::pin($check(volume))),)*];
    };
}

checks! {
    the_root_is_a_folder_with_nothing_in_it,
    a_created_file_is_there_at_once,
    a_taken_name_is_not_given_again,
    a_published_file_has_the_bytes_that_were_uploaded,
    an_edit_replaces_just_the_version_it_was_made_from,
    an_unlinked_file_lives_on_without_a_name,
    a_folder_is_made_and_removed_but_not_while_something_is_in_it,
    files_and_folders_are_not_taken_for_one_another,
    an_empty_folder_moves,
    a_renamed_file_keeps_its_number_and_its_bytes,
    a_rename_replaces_only_where_it_may,
    a_rename_onto_itself_does_nothing,
    a_file_that_replaces_another_before_its_upload_takes_its_place,
    a_number_in_use_is_not_given_to_a_new_file_of_the_same_name,
    attributes_stay_as_they_were_set,
    times_given_to_a_new_file_stay_when_it_is_uploaded,
    listings_are_complete,
    a_forgotten_file_comes_back_with_its_number,
    a_name_may_be_any_bytes,
    abandoned_bytes_leave_the_file_as_it_was,
    what_is_said_of_abandoned_bytes_stays_and_their_time_if_there_are_none,
}

/// Runs every check, each on a volume of its own that `make` makes.
pub async fn run(make: impl Fn() -> Volume) {
    for (name, check) in ALL {
        if let Err(failed) = tokio::spawn(check(make())).await {
            panic!("{name}: {failed}");
        }
    }
}

const NODE: NewNode = NewNode { mode: 0o640, owner: Owner { uid: 7, gid: 8 } };

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a good name")
}

fn kind<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.expect_err("this must fail").kind
}

impl Volume {
    async fn lookup(&self, text: &str) -> Result<Entry, Error> {
        self.namespace.lookup(Ino::ROOT, &name(text)).await
    }

    async fn create(&self, text: &str) -> Ino {
        let made = self.namespace.create(Ino::ROOT, &name(text), NODE).await;
        made.expect("the name is free").attr.ino
    }

    async fn mkdir(&self, text: &str) -> Ino {
        let made = self.namespace.mkdir(Ino::ROOT, &name(text), NODE).await;
        made.expect("the name is free").attr.ino
    }

    async fn upload(&self, ino: Ino, text: &str) -> Target {
        let target = self.namespace.target(ino).expect("it has a name");
        let size = text.len() as u64;
        let noted = SetAttr { size: Some(size), ..SetAttr::default() };
        self.namespace.set_attr(ino, noted).await.expect("it is a file");
        let options =
            PutOptions { condition: target.condition.clone(), metadata: target.metadata.clone() };
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let version = self.remote.put(&target.key, bytes, &options).await.expect("nobody else");
        let published = Published { key: target.key.clone(), version, size };
        let identity = self.namespace.publish(ino, published);
        let content = self.namespace.content(ino).await.expect("it is a file");
        assert_eq!(content.identity, Some(identity));
        target
    }

    async fn write(&self, text: &str, bytes: &str) -> Ino {
        let ino = self.create(text).await;
        self.upload(ino, bytes).await;
        ino
    }

    async fn read(&self, ino: Ino) -> String {
        let content = self.namespace.content(ino).await.expect("it is a file");
        let mut bytes = Vec::new();
        for extent in content.extents {
            assert_eq!(extent.range.start(), bytes.len() as u64);
            let range = ByteRange::at(extent.object_offset, extent.range.len());
            let range = range.expect("an extent is not empty");
            let body = self.remote.get(&extent.key, range, Some(&extent.version)).await;
            let mut body = body.expect("the object is there");
            while let Some(piece) = futures::StreamExt::next(&mut body).await {
                bytes.extend(piece.expect("the body is whole"));
            }
        }
        assert_eq!(content.size, bytes.len() as u64);
        String::from_utf8(bytes).expect("these tests write text")
    }

    async fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<Option<Ino>, Error> {
        let (from, to) = (name(from), name(to));
        self.namespace.rename((Ino::ROOT, &from), (Ino::ROOT, &to), mode).await
    }

    async fn names(&self, dir: Ino) -> Vec<String> {
        let entries = self.list(dir).await.expect("it is a folder");
        entries.iter().map(|entry| entry.name.to_string()).collect()
    }

    /// Every entry, sorted.
    async fn list(&self, dir: Ino) -> Result<Vec<Listed>, Error> {
        let mut entries = self.namespace.listing(dir).await?.all().await?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }
}

async fn the_root_is_a_folder_with_nothing_in_it(volume: Volume) {
    let attr = volume.namespace.attr(Ino::ROOT).await.expect("the root is there");
    assert_eq!((attr.ino, attr.kind, attr.nlink), (Ino::ROOT, FileKind::Directory, 2));
    assert_eq!(volume.namespace.parent(Ino::ROOT).expect("it holds itself"), Ino::ROOT);
    assert_eq!(volume.names(Ino::ROOT).await, Vec::<String>::new());
    assert_eq!(kind(volume.lookup("a").await), ErrorKind::NotFound);
}

async fn a_created_file_is_there_at_once(volume: Volume) {
    assert_eq!(volume.names(Ino::ROOT).await, Vec::<String>::new());
    let ino = volume.create("a").await;
    let attr = volume.lookup("a").await.expect("just created").attr;
    assert_eq!((attr.ino, attr.kind, attr.size, attr.nlink), (ino, FileKind::File, 0, 1));
    assert_eq!((attr.mode, attr.uid, attr.gid), (0o640, 7, 8));
    assert_eq!(volume.names(Ino::ROOT).await, ["a"]);
    assert_eq!(volume.namespace.parent(ino).expect("it has a name"), Ino::ROOT);
    let content = volume.namespace.content(ino).await.expect("it is a file");
    assert_eq!((content.identity, content.extents.len()), (None, 0));
}

async fn a_taken_name_is_not_given_again(volume: Volume) {
    volume.create("a").await;
    volume.write("b", "bytes").await;
    volume.mkdir("d").await;
    for taken in ["a", "b", "d"] {
        let create = volume.namespace.create(Ino::ROOT, &name(taken), NODE).await;
        assert_eq!(kind(create), ErrorKind::Exists, "{taken}");
        let mkdir = volume.namespace.mkdir(Ino::ROOT, &name(taken), NODE).await;
        assert_eq!(kind(mkdir), ErrorKind::Exists, "{taken}");
    }
}

async fn a_published_file_has_the_bytes_that_were_uploaded(volume: Volume) {
    let ino = volume.create("a").await;
    let target = volume.upload(ino, "some bytes").await;
    assert_eq!(target.condition, Condition::Absent);
    assert_eq!(volume.read(ino).await, "some bytes");
    assert_eq!(volume.lookup("a").await.expect("it is there").attr.size, 10);
    let empty = volume.write("empty", "").await;
    assert_eq!(volume.read(empty).await, "");
}

async fn an_edit_replaces_just_the_version_it_was_made_from(volume: Volume) {
    let ino = volume.write("a", "old").await;
    let content = volume.namespace.content(ino).await.expect("it is a file");
    let target = volume.upload(ino, "newer").await;
    let version = content.extents[0].version.clone();
    assert_eq!(target.condition, Condition::Is(version));
    assert_eq!(volume.read(ino).await, "newer");
    let newer = volume.namespace.content(ino).await.expect("it is a file");
    assert_ne!(content.identity, newer.identity, "other bytes have another identity");
}

async fn an_unlinked_file_lives_on_without_a_name(volume: Volume) {
    let local = volume.create("local").await;
    let stored = volume.write("stored", "bytes").await;
    for (text, ino) in [("local", local), ("stored", stored)] {
        let unlinked = volume.namespace.unlink(Ino::ROOT, &name(text)).await;
        assert_eq!(unlinked.expect("it was there"), ino);
        assert_eq!(kind(volume.lookup(text).await), ErrorKind::NotFound);
        assert_eq!(volume.namespace.attr(ino).await.expect("not forgotten").nlink, 0);
        assert_eq!(kind(volume.namespace.target(ino)), ErrorKind::NotFound);
        volume.namespace.content(ino).await.expect("not forgotten");
        let again = volume.namespace.unlink(Ino::ROOT, &name(text)).await;
        assert_eq!(kind(again), ErrorKind::NotFound);
        volume.namespace.forget(ino);
        assert_eq!(kind(volume.namespace.attr(ino).await), ErrorKind::Stale);
    }
    assert_eq!(volume.names(Ino::ROOT).await, Vec::<String>::new());
}

async fn a_folder_is_made_and_removed_but_not_while_something_is_in_it(volume: Volume) {
    let dir = volume.mkdir("d").await;
    let attr = volume.lookup("d").await.expect("just made").attr;
    assert_eq!((attr.ino, attr.kind, attr.mode), (dir, FileKind::Directory, 0o640));
    let made = volume.namespace.create(dir, &name("f"), NODE).await;
    let file = made.expect("the folder is empty").attr.ino;
    assert_eq!(volume.names(dir).await, ["f"]);
    assert_eq!(volume.namespace.parent(file).expect("it has a name"), dir);

    let rmdir = volume.namespace.rmdir(Ino::ROOT, &name("d")).await;
    assert_eq!(kind(rmdir), ErrorKind::NotEmpty, "an unpublished file is a file");
    volume.upload(file, "bytes").await;
    let rmdir = volume.namespace.rmdir(Ino::ROOT, &name("d")).await;
    assert_eq!(kind(rmdir), ErrorKind::NotEmpty);
    volume.namespace.unlink(dir, &name("f")).await.expect("it is there");
    assert_eq!(volume.names(dir).await, Vec::<String>::new());
    let rmdir = volume.namespace.rmdir(Ino::ROOT, &name("d")).await;
    assert_eq!(rmdir.expect("it is empty"), dir);
    assert_eq!(kind(volume.lookup("d").await), ErrorKind::NotFound);
    let create = volume.namespace.create(dir, &name("f"), NODE).await;
    assert_eq!(kind(create), ErrorKind::NotFound);
}

async fn files_and_folders_are_not_taken_for_one_another(volume: Volume) {
    let file = volume.create("f").await;
    let dir = volume.mkdir("d").await;
    let namespace = &volume.namespace;
    let unlink = namespace.unlink(Ino::ROOT, &name("d")).await;
    assert_eq!(kind(unlink), ErrorKind::IsDirectory);
    let rmdir = namespace.rmdir(Ino::ROOT, &name("f")).await;
    assert_eq!(kind(rmdir), ErrorKind::NotDirectory);
    assert_eq!(kind(volume.list(file).await), ErrorKind::NotDirectory);
    assert_eq!(kind(namespace.lookup(file, &name("x")).await), ErrorKind::NotDirectory);
    assert_eq!(kind(namespace.content(dir).await), ErrorKind::IsDirectory);
    assert_eq!(kind(namespace.target(dir)), ErrorKind::IsDirectory);
    let over = volume.rename("f", "d", RenameMode::Replace).await;
    assert_eq!(kind(over), ErrorKind::IsDirectory);
    let over = volume.rename("d", "f", RenameMode::Replace).await;
    assert_eq!(kind(over), ErrorKind::NotDirectory);
}

async fn an_empty_folder_moves(volume: Volume) {
    let dir = volume.mkdir("a").await;
    let moved = volume.rename("a", "b", RenameMode::Replace).await;
    assert_eq!(moved.expect("nothing is in the way"), None);
    assert_eq!(volume.names(Ino::ROOT).await, ["b"]);
    assert_eq!(volume.lookup("b").await.expect("just moved").attr.ino, dir);
    let made = volume.namespace.create(dir, &name("f"), NODE).await.expect("a good folder");
    volume.upload(made.attr.ino, "bytes").await;
    assert_eq!(volume.names(dir).await, ["f"]);
    let empty = volume.mkdir("c").await;
    let onto_full = volume.rename("c", "b", RenameMode::Replace).await;
    assert_eq!(kind(onto_full), ErrorKind::NotEmpty);
    assert_eq!(volume.lookup("c").await.expect("it did not move").attr.ino, empty);
}

async fn a_renamed_file_keeps_its_number_and_its_bytes(volume: Volume) {
    let dir = volume.mkdir("d").await;
    let local = volume.create("local").await;
    let stored = volume.write("stored", "bytes").await;
    for (text, ino) in [("local", local), ("stored", stored)] {
        let (from, to) = (name(text), name("moved"));
        let rename = volume.namespace.rename((Ino::ROOT, &from), (dir, &to), RenameMode::NoReplace);
        assert_eq!(rename.await.expect("nothing is in the way"), None);
        assert_eq!(kind(volume.lookup(text).await), ErrorKind::NotFound);
        let moved = volume.namespace.lookup(dir, &to).await.expect("just moved");
        assert_eq!(moved.attr.ino, ino);
        assert_eq!(volume.namespace.parent(ino).expect("it has a name"), dir);
        volume.upload(ino, "edited").await;
        assert_eq!(volume.read(ino).await, "edited");
        volume.namespace.unlink(dir, &to).await.expect("it is there");
    }
}

async fn a_rename_replaces_only_where_it_may(volume: Volume) {
    let a = volume.write("a", "bytes of a").await;
    let b = volume.write("b", "bytes of b").await;
    let refused = volume.rename("a", "b", RenameMode::NoReplace).await;
    assert_eq!(kind(refused), ErrorKind::Exists);
    let replaced = volume.rename("a", "b", RenameMode::Replace).await;
    assert_eq!(replaced.expect("files replace files"), Some(b));
    assert_eq!(volume.namespace.attr(b).await.expect("not forgotten").nlink, 0);
    assert_eq!(volume.lookup("b").await.expect("just moved").attr.ino, a);
    assert_eq!(volume.read(a).await, "bytes of a");
    assert_eq!(volume.names(Ino::ROOT).await, ["b"]);
    let nothing = volume.rename("a", "c", RenameMode::Replace).await;
    assert_eq!(kind(nothing), ErrorKind::NotFound);
}

async fn a_rename_onto_itself_does_nothing(volume: Volume) {
    let ino = volume.write("a", "bytes").await;
    let renamed = volume.rename("a", "a", RenameMode::Replace).await;
    assert_eq!(renamed.expect("nothing to do"), None);
    assert_eq!(volume.lookup("a").await.expect("it stayed").attr.ino, ino);
    assert_eq!(volume.read(ino).await, "bytes");
}

async fn a_file_that_replaces_another_before_its_upload_takes_its_place(volume: Volume) {
    let old = volume.write("file", "old").await;
    let version = {
        let content = volume.namespace.content(old).await.expect("it is a file");
        content.extents[0].version.clone()
    };
    let new = volume.create("temporary").await;
    let replaced = volume.rename("temporary", "file", RenameMode::Replace).await;
    assert_eq!(replaced.expect("files replace files"), Some(old));
    assert_eq!(volume.names(Ino::ROOT).await, ["file"]);
    let target = volume.upload(new, "new").await;
    assert_eq!(target.condition, Condition::Is(version), "the upload replaces the object");
    assert_eq!(volume.read(new).await, "new");

    let third = volume.create("third").await;
    volume.rename("third", "file", RenameMode::Replace).await.expect("files replace files");
    volume.rename("file", "fourth", RenameMode::Replace).await.expect("nothing is in the way");
    assert_eq!(volume.names(Ino::ROOT).await, ["fourth"], "what it replaced does not come back");
    let target = volume.upload(third, "third").await;
    assert_eq!(target.condition, Condition::Absent);
}

async fn a_number_in_use_is_not_given_to_a_new_file_of_the_same_name(volume: Volume) {
    let moved = volume.create("x").await;
    volume.rename("x", "y", RenameMode::Replace).await.expect("nothing is in the way");
    let second = volume.create("x").await;
    assert_ne!(second, moved);
    volume.namespace.unlink(Ino::ROOT, &name("x")).await.expect("it is there");
    let third = volume.create("x").await;
    assert!(third != moved && third != second, "the unlinked file may be open");
}

async fn attributes_stay_as_they_were_set(volume: Volume) {
    let ino = volume.create("a").await;
    let mtime = Timestamp { secs: 1_234_567_890, nanos: 123_456_789 };
    let change = SetAttr {
        mode: Some(0o4711),
        uid: Some(1),
        gid: Some(2),
        mtime: Some(mtime),
        ..SetAttr::default()
    };
    volume.upload(ino, "bytes").await;
    volume.namespace.set_attr(ino, change).await.expect("it is there");
    let set = volume.namespace.attr(ino).await.expect("it is there");
    assert_eq!((set.mode, set.uid, set.gid, set.mtime), (0o4711, 1, 2, mtime));
    let target = volume.namespace.target(ino).expect("it has a name");
    let options = PutOptions { condition: target.condition, metadata: target.metadata };
    let bytes = Bytes::from_static(b"more bytes");
    let version = volume.remote.put(&target.key, bytes, &options).await.expect("nobody else");
    volume.namespace.publish(ino, Published { key: target.key, version, size: 10 });
    let published = volume.lookup("a").await.expect("it is there").attr;
    assert_eq!((published.mode, published.mtime, published.size), (0o4711, mtime, 10));
    volume.rename("a", "b", RenameMode::Replace).await.expect("nothing is in the way");
    let moved = volume.lookup("b").await.expect("it is there").attr;
    assert_eq!((moved.mode, moved.mtime, moved.size), (0o4711, mtime, 10));
}

async fn times_given_to_a_new_file_stay_when_it_is_uploaded(volume: Volume) {
    let ino = volume.create("a").await;
    let (atime, mtime) = (Timestamp { secs: 1, nanos: 2 }, Timestamp { secs: 3, nanos: 4 });
    let change = SetAttr { atime: Some(atime), mtime: Some(mtime), ..SetAttr::default() };
    volume.namespace.set_attr(ino, change).await.expect("it is there");
    let target = volume.namespace.target(ino).expect("it has a name");
    let options = PutOptions { condition: target.condition, metadata: target.metadata };
    let version =
        volume.remote.put(&target.key, Bytes::new(), &options).await.expect("nobody else");
    volume.namespace.publish(ino, Published { key: target.key, version, size: 0 });
    let published = volume.lookup("a").await.expect("it is there").attr;
    assert_eq!((published.atime, published.mtime), (atime, mtime));

    let read = volume.write("b", "bytes").await;
    let read = volume.namespace.attr(read).await.expect("it is there");
    assert_eq!(read.atime, read.mtime, "the time of the upload needs no entry of its own");
}

async fn listings_are_complete(volume: Volume) {
    // Keys sort otherwise: `a/` comes after `a-b` and `a.b`.
    volume.mkdir("a").await;
    for text in ["a.b", "b", "a-b", "A"] {
        volume.write(text, "bytes").await;
    }
    volume.create("a0").await;
    assert_eq!(volume.names(Ino::ROOT).await, ["A", "a", "a-b", "a.b", "a0", "b"]);
}

async fn a_forgotten_file_comes_back_with_its_number(volume: Volume) {
    let ino = volume.write("a", "bytes").await;
    volume.namespace.forget(ino);
    assert_eq!(volume.lookup("a").await.expect("it is there").attr.ino, ino);
    let listed = volume.list(Ino::ROOT).await.expect("it is a folder");
    assert_eq!(listed[0].ino, ino);
}

async fn a_name_may_be_any_bytes(volume: Volume) {
    for bytes in [&b" "[..], b"...", b"a b", b"\n", b"%2F", b"\xc3\xa9", &[b'x'; 255]] {
        let name = Name::new(bytes).expect("a good name");
        let made = volume.namespace.create(Ino::ROOT, &name, NODE).await;
        let ino = made.expect("the name is free").attr.ino;
        let found = volume.namespace.lookup(Ino::ROOT, &name).await.expect("just created");
        assert_eq!(found.attr.ino, ino);
    }
    assert_eq!(volume.names(Ino::ROOT).await.len(), 7);
}

async fn abandoned_bytes_leave_the_file_as_it_was(volume: Volume) {
    let local = volume.create("local").await;
    volume.namespace.abandon(local, Abandoned::Lost);
    assert_eq!(kind(volume.lookup("local").await), ErrorKind::NotFound);

    let stored = volume.write("stored", "bytes").await;
    let noted = SetAttr { size: Some(100), ..SetAttr::default() };
    let attr = volume.namespace.set_attr(stored, noted).await.expect("it is a file");
    assert_eq!(attr.size, 100);
    volume.namespace.abandon(stored, Abandoned::Unchanged);
    let found = volume.lookup("stored").await.expect("it is there").attr;
    assert_eq!((found.ino, found.size), (stored, 5));
    assert_eq!(volume.read(stored).await, "bytes");
}

async fn what_is_said_of_abandoned_bytes_stays_and_their_time_if_there_are_none(volume: Volume) {
    let stored = volume.write("stored", "bytes").await;
    let before = volume.lookup("stored").await.expect("it is there").attr.mtime;
    let given = Timestamp { secs: 1_000_000_000, nanos: 5 };
    for (why, mode, want) in
        [(Abandoned::Lost, 0o600, before), (Abandoned::Unchanged, 0o640, given)]
    {
        let noted = SetAttr { size: Some(100), ..SetAttr::default() };
        volume.namespace.set_attr(stored, noted).await.expect("it is a file");
        let said = SetAttr { mode: Some(mode), mtime: Some(given), ..SetAttr::default() };
        volume.namespace.set_attr(stored, said).await.expect("it is a file");
        volume.namespace.abandon(stored, why);
        let found = volume.lookup("stored").await.expect("it is there").attr;
        assert_eq!((found.ino, found.size, found.mode), (stored, 5, mode), "{why:?}");
        assert_eq!(found.mtime, want, "{why:?}");
    }
}
