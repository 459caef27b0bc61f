//! What is said of a name moves with it, whenever the process dies.

use std::sync::Arc;

use base::{FileKind, Ino, Timestamp};
use remote::Key;
use remote::fake::Fake;

use super::crash::{self, Change, End, Memory, Mortal, bucket, objects, owned, until_death};
use super::name;
use crate::bucket::attributes::item::Label;
use crate::bucket::attributes::sheet::{self, Text};
use crate::{Bucket, Namespace, RenameMode, SetAttr, XattrMode};

const SWAP_FOLDERS: Change = Change {
    before: &[("a/f", "1"), ("a/sub/h", "3"), ("c/g", "22")],
    after: &[("a/g", "22"), ("c/f", "1"), ("c/sub/h", "3")],
    from: "a",
    to: "c",
    mode: RenameMode::Exchange,
};

/// Whether what is said is in the bucket when the names are changed, or in the journal alone.
#[derive(Clone, Copy, Debug)]
enum Said {
    Written,
    Noted,
}

/// What is said of something, and its names before and after the change.
struct Thing {
    mode: u16,
    before: &'static str,
    after: &'static str,
}

const MOVED: Thing = Thing { mode: 0o700, before: "a", after: "c" };
const SWAPPED: Thing = Thing { mode: 0o711, before: "c", after: "a" };
const BELOW: Thing = Thing { mode: 0o604, before: "a/f", after: "c/f" };

async fn ino(bucket: &Bucket, path: &str) -> Ino {
    let mut ino = Ino::ROOT;
    for part in path.split('/') {
        ino = bucket.lookup(ino, &name(part)).await.unwrap().attr.ino;
    }
    ino
}

async fn say(bucket: &Bucket, path: &str, mode: u16) {
    let ino = ino(bucket, path).await;
    let change = SetAttr {
        mode: Some(mode),
        uid: Some(7),
        mtime: Some(Timestamp { secs: i64::from(mode), nanos: 5 }),
        ..SetAttr::default()
    };
    bucket.set_attr(ino, change).await.unwrap();
    let value = mode.to_be_bytes();
    bucket.set_xattr(ino, b"user.w", &value, XattrMode::Set).await.unwrap();
}

async fn check(bucket: &Bucket, path: &str, mode: u16, when: &str) {
    let ino = ino(bucket, path).await;
    let attr = bucket.attr(ino).await.unwrap();
    let want = (mode, 7, Timestamp { secs: i64::from(mode), nanos: 5 });
    assert_eq!((attr.mode, attr.uid, attr.mtime), want, "{path} {when}");
    let value = bucket.xattr(ino, b"user.w").await.ok();
    assert_eq!(value, Some(mode.to_be_bytes().to_vec()), "{path} {when}");
}

/// The names of which the attribute object of the root says something.
fn labels(fake: &Fake) -> Vec<Label> {
    let Some(text) = fake.bytes(&Key::from(".quayfs-attributes")) else { return Vec::new() };
    match sheet::read(&text) {
        Text::Items { items, .. } => items.into_keys().collect(),
        other @ (Text::Split { .. } | Text::Unknown) => panic!("{other:?}"),
    }
}

fn shown(fake: &Fake) -> Vec<(String, String)> {
    let hidden = |key: &str| key.split('/').any(|part| part.starts_with(".quayfs-attributes"));
    objects(fake).into_iter().filter(|(key, _)| !hidden(key)).collect()
}

async fn prepared(change: &Change, things: &[Thing], said: Said) -> (Fake, Arc<Memory>) {
    let (fake, ledger) = (change.store(), Arc::new(Memory::default()));
    let before = bucket(Arc::new(fake.clone()), &ledger);
    for thing in things {
        say(&before, thing.before, thing.mode).await;
    }
    match said {
        Said::Written => before.sync(None).await.unwrap(),
        Said::Noted => {}
    }
    (fake, ledger)
}

async fn replay(bucket: &Bucket, ledger: &Memory) {
    let names = bucket.replay_attributes(ledger.all());
    assert_eq!(bucket.replay(names).await.waiting, 0);
}

/// Kills the process at every request of the change, and the next one at every request of its
/// replay; each thing has its own attributes after that, under one of its names, and nothing is
/// said of the other.
async fn is_carried_over_every_death(change: &Change, things: &[Thing], said: Said) {
    for first in 0.. {
        let mut second = 0;
        loop {
            let (fake, ledger) = prepared(change, things, said).await;
            let mortal = Mortal::new(&fake, first, End::Death);
            let dying = bucket(Arc::clone(&mortal) as _, &ledger);
            dying.replay_attributes(ledger.all());
            let made = until_death(&mortal, change.make(&dying)).await;
            drop(dying);
            let mortal = Mortal::new(&fake, second, End::Death);
            let dying = bucket(Arc::clone(&mortal) as _, &ledger);
            let replayed = until_death(&mortal, replay(&dying, &ledger)).await;
            drop(dying);
            let last = bucket(Arc::new(fake.clone()), &ledger);
            replay(&last, &ledger).await;
            last.sync(None).await.unwrap();
            assert_eq!(ledger.all(), []);

            let when = format!("killed at request {first}, then at {second}");
            let is_after = shown(&fake) == owned(change.after);
            assert!(is_after || shown(&fake) == owned(change.before), "{when}");
            assert!(is_after || made.is_none());
            let seen = bucket(Arc::new(fake.clone()), &Arc::default());
            let names = |thing: &Thing| if is_after { thing.after } else { thing.before };
            for thing in things {
                check(&seen, names(thing), thing.mode, &when).await;
            }
            for label in labels(&fake) {
                let text = String::from_utf8(label).unwrap();
                let bare = text.trim_end_matches('/');
                let attr = seen.attr(ino(&seen, bare).await).await.unwrap();
                assert_eq!(attr.kind == FileKind::Directory, bare != text, "{text} {when}");
                assert!(things.iter().any(|thing| names(thing) == bare), "{text} {when}");
            }
            if made.is_some() {
                return;
            }
            if replayed.is_some() {
                break;
            }
            second += 1;
        }
    }
}

#[tokio::test]
async fn what_is_said_of_a_folder_is_not_lost_when_its_rename_is_cut_short() {
    for said in [Said::Written, Said::Noted] {
        is_carried_over_every_death(&crash::FOLDER, &[MOVED, BELOW], said).await;
        is_carried_over_every_death(&crash::FOLDER, &[], said).await;
    }
}

#[tokio::test]
async fn what_is_said_of_a_folder_is_not_lost_when_its_move_onto_an_empty_one_is_cut_short() {
    const OVER: &Change = &crash::ONTO_EMPTY;
    for said in [Said::Written, Said::Noted] {
        is_carried_over_every_death(OVER, &[MOVED], said).await;
    }
}

#[tokio::test]
async fn what_is_said_of_a_file_is_not_lost_when_its_rename_is_cut_short() {
    for said in [Said::Written, Said::Noted] {
        is_carried_over_every_death(&crash::FILE, &[MOVED], said).await;
        is_carried_over_every_death(&crash::FILE_OVER, &[MOVED], said).await;
    }
}

#[tokio::test]
async fn what_is_said_of_names_that_change_places_goes_with_each_when_that_is_cut_short() {
    for said in [Said::Written, Said::Noted] {
        for change in [&crash::SWAP, &crash::SWAP_KINDS, &SWAP_FOLDERS] {
            is_carried_over_every_death(change, &[MOVED, SWAPPED], said).await;
        }
    }
}
