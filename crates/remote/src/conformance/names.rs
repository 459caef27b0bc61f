//! Checks of names that change in one step, and of folders that are things of their own.

use futures::FutureExt as _;

use super::bench::{Bench, Check, metadata, plainly, when};
use crate::{Condition, Entry, ErrorKind, Folders, Moves, Original, PutOptions, Version};

pub(super) const ALL: &[Check] = &[
    ("an_object_is_renamed_in_one_step", |bench| an_object_is_renamed(bench).boxed()),
    ("a_rename_keeps_to_its_conditions", |bench| a_rename_keeps_to_its_conditions(bench).boxed()),
    ("a_folder_is_renamed_with_all_below_it", |bench| a_folder_is_renamed(bench).boxed()),
    ("a_folder_goes_where_none_is", |bench| a_folder_goes_where_none_is(bench).boxed()),
    ("a_folder_is_made_told_of_and_removed", |bench| a_folder_is_made_and_removed(bench).boxed()),
];

async fn an_object_is_renamed(bench: &Bench<'_>) {
    if bench.remote.personality().naming.moves != Moves::Atomic {
        return;
    }
    let (from, to) = (bench.key("a/from"), bench.key("b/to"));
    let options = PutOptions { metadata: metadata(&[("mode", "33188")]), ..plainly() };
    let version = bench.ok(bench.remote.put(&from, "bytes".into(), &options).await);
    let original = Original { key: &from, version: &version, size: 5 };
    let renamed = bench.ok(bench.remote.rename(original, &to, &Condition::Absent).await);
    bench.fails(bench.remote.head(&from).await, ErrorKind::NotFound);
    let meta = bench.ok(bench.remote.head(&to).await);
    assert_eq!((meta.version, meta.metadata), (renamed, options.metadata));
    assert_eq!(bench.whole(&to).await, "bytes");
}

async fn a_rename_keeps_to_its_conditions(bench: &Bench<'_>) {
    if bench.remote.personality().naming.moves != Moves::Atomic {
        return;
    }
    let (from, to) = (bench.key("from"), bench.key("to"));
    let version = bench.put(&from, "bytes").await;
    let theirs = bench.put(&to, "theirs").await;
    let stale = Version::new(&format!("{}0", version.as_str()));
    let rename = async |version: &Version, condition: Condition| {
        let original = Original { key: &from, version, size: 5 };
        bench.remote.rename(original, &to, &condition).await
    };
    bench.fails(rename(&stale, Condition::Always).await, ErrorKind::Changed);
    bench.fails(rename(&version, Condition::Absent).await, ErrorKind::Changed);
    bench.fails(rename(&version, Condition::Is(version.clone())).await, ErrorKind::Changed);
    assert_eq!(bench.whole(&to).await, "theirs");
    bench.ok(rename(&version, Condition::Is(theirs)).await);
    assert_eq!(bench.whole(&to).await, "bytes");
    bench.fails(rename(&version, Condition::Always).await, ErrorKind::NotFound);
}

async fn a_folder_is_renamed(bench: &Bench<'_>) {
    if bench.remote.personality().naming.folders != Folders::Real {
        return;
    }
    let f = bench.put(&bench.key("a/f"), "1").await;
    bench.put(&bench.key("a/sub/g"), "2").await;
    bench.put(&bench.key("ab"), "3").await;
    let renamed = bench.remote.rename_folder(&bench.key("a/"), &bench.key("c/d/")).await;
    bench.ok(renamed);
    bench.fails(bench.remote.head(&bench.key("a/f")).await, ErrorKind::NotFound);
    bench.fails(bench.remote.head(&bench.key("a/")).await, ErrorKind::NotFound);
    let moved = bench.ok(bench.remote.head(&bench.key("c/d/f")).await);
    assert_eq!(moved.version, f, "it is the same version");
    assert_eq!(bench.whole(&bench.key("c/d/sub/g")).await, "2");
    assert_eq!(bench.whole(&bench.key("ab")).await, "3");
}

async fn a_folder_goes_where_none_is(bench: &Bench<'_>) {
    if bench.remote.personality().naming.folders != Folders::Real {
        return;
    }
    bench.put(&bench.key("a/f"), "1").await;
    bench.put(&bench.key("b/f"), "2").await;
    let renamed = bench.remote.rename_folder(&bench.key("a/"), &bench.key("b/")).await;
    bench.fails(renamed, ErrorKind::Changed);
    let renamed = bench.remote.rename_folder(&bench.key("none/"), &bench.key("c/")).await;
    bench.fails(renamed, ErrorKind::NotFound);
    assert_eq!(bench.whole(&bench.key("b/f")).await, "2");
}

async fn a_folder_is_made_and_removed(bench: &Bench<'_>) {
    if bench.remote.personality().naming.folders != Folders::Real {
        return;
    }
    let folder = bench.key("d/e/");
    bench.fails(bench.remote.head(&folder).await, ErrorKind::NotFound);
    bench.ok(bench.remote.put(&folder, "".into(), &when(Condition::Absent)).await);
    let again = bench.remote.put(&folder, "".into(), &when(Condition::Absent)).await;
    bench.fails(again, ErrorKind::Changed);
    bench.ok(bench.remote.put(&folder, "".into(), &plainly()).await);
    assert_eq!(bench.ok(bench.remote.head(&folder).await).size, 0);
    let entries = bench.list(bench.request(true)).await;
    assert_eq!(entries.last(), Some(&Entry::Prefix(bench.key("d/"))));
    bench.ok(bench.remote.delete(&bench.key("d/")).await);
    bench.ok(bench.remote.head(&bench.key("d/")).await);
    bench.ok(bench.remote.delete(&folder).await);
    bench.fails(bench.remote.head(&folder).await, ErrorKind::NotFound);
}
