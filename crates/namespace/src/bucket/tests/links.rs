//! Link counts, times of folders, and what a new node has from its folder.

use std::time::Duration;

use base::{Attr, Ino};

use remote::Key;

use super::{Bench, NODE, name};
use crate::{Namespace, NewNode, Owner, RenameMode, SetAttr};

const LATER: Duration = Duration::from_secs(7);

async fn attr(bench: &Bench, ino: Ino) -> Attr {
    bench.bucket.attr(ino).await.unwrap()
}

#[tokio::test]
async fn a_folder_has_a_link_for_each_folder_in_it() {
    let bench = Bench::new();
    let top = bench.mkdir(Ino::ROOT, "top").await;
    let other = bench.mkdir(Ino::ROOT, "other").await;
    assert_eq!(attr(&bench, Ino::ROOT).await.nlink, 4);
    bench.mkdir(top, "one").await;
    bench.mkdir(top, "two").await;
    let file = bench.create(top, "file").await;
    assert_eq!((attr(&bench, top).await.nlink, attr(&bench, file).await.nlink), (4, 1));
    let (one, free) = (name("one"), name("free"));
    bench.bucket.rename((top, &one), (other, &free), RenameMode::Replace).await.unwrap();
    assert_eq!((attr(&bench, top).await.nlink, attr(&bench, other).await.nlink), (3, 3));
    bench.bucket.rmdir(top, &name("two")).await.unwrap();
    assert_eq!(attr(&bench, top).await.nlink, 2);
    bench.put("top/theirs/file", "bytes");
    bench.expire();
    bench.names(top).await;
    assert_eq!(attr(&bench, top).await.nlink, 3);
}

#[tokio::test]
async fn a_removed_file_has_no_link_and_the_time_of_its_removal() {
    let bench = Bench::new();
    let file = bench.write(Ino::ROOT, "file", "bytes").await;
    let over = bench.write(Ino::ROOT, "over", "bytes").await;
    for (gone, remove) in [(file, true), (over, false)] {
        let before = attr(&bench, gone).await;
        bench.clock.advance(LATER);
        if remove {
            bench.bucket.unlink(Ino::ROOT, &name("file")).await.unwrap();
        } else {
            bench.create(Ino::ROOT, "new").await;
            let spot = |text| (Ino::ROOT, name(text));
            let (from, to) = (spot("new"), spot("over"));
            let renamed =
                bench.bucket.rename((from.0, &from.1), (to.0, &to.1), RenameMode::Replace);
            renamed.await.unwrap();
        }
        let after = attr(&bench, gone).await;
        assert_eq!((before.nlink, after.nlink), (1, 0));
        assert!(before.ctime < after.ctime && before.mtime == after.mtime);
    }
}

#[tokio::test]
async fn the_times_of_a_folder_change_with_its_names_and_with_nothing_else() {
    let bench = Bench::new();
    let top = bench.mkdir(Ino::ROOT, "top").await;
    let file = bench.create(top, "file").await;
    let mut before = attr(&bench, top).await.mtime;
    let mut step = async |changes: bool, what: &str| {
        let now = attr(&bench, top).await;
        assert_eq!(before != now.mtime, changes, "{what}");
        assert_eq!(now.mtime, now.ctime);
        before = now.mtime;
        bench.clock.advance(LATER);
    };
    bench.clock.advance(LATER);
    bench.upload(file, "bytes").await;
    bench.bucket.set_attr(file, SetAttr { mode: Some(0o600), ..SetAttr::default() }).await.unwrap();
    step(false, "what becomes of a file in it").await;
    bench.mkdir(top, "folder").await;
    step(true, "mkdir").await;
    bench.create(top, "new").await;
    step(true, "create").await;
    let (from, to) = (name("new"), name("newer"));
    bench.bucket.rename((top, &from), (top, &to), RenameMode::Replace).await.unwrap();
    step(true, "rename").await;
    bench.bucket.unlink(top, &to).await.unwrap();
    step(true, "unlink").await;
    bench.bucket.rmdir(top, &name("folder")).await.unwrap();
    step(true, "rmdir").await;
}

#[tokio::test]
async fn what_is_made_in_a_set_gid_folder_has_its_group() {
    let bench = Bench::new();
    let owner = Owner { uid: 5, gid: 6 };
    let node = NewNode { mode: 0o2775, owner };
    let shared = bench.bucket.mkdir(Ino::ROOT, &name("shared"), node).await.unwrap().attr.ino;
    let file = bench.create(shared, "file").await;
    let folder = bench.mkdir(shared, "folder").await;
    let (file, folder) = (attr(&bench, file).await, attr(&bench, folder).await);
    assert_eq!((file.uid, file.gid, file.mode), (NODE.owner.uid, 6, NODE.mode));
    assert_eq!((folder.gid, folder.mode), (6, NODE.mode | 0o2000));
    // So that others see it too.
    let marker = bench.fake.meta(&Key::from("shared/folder/")).unwrap().metadata;
    assert_eq!(marker["gid"], "6");
}
