//! Bytes that are promised to be uploaded to a file, while its object moves in one step and the process dies.

use std::sync::{Arc, Weak};

use base::Ino;
use remote::fake::Fake;
use remote::{Condition, Key, Metadata, UPLOAD_ID, Version};

use super::crash::{End, Memory, Mortal, bucket, until_death};
use super::moved::{late_bucket, options};
use super::name;
use crate::{Belongs, Bucket, Content, Namespace as _, RenameMode, Use, Users};

const UPLOAD: &str = "of-the-bytes";
const MAKER: &str = "of-the-object";

/// Somebody who has promised bytes of every file.
#[derive(Debug)]
struct Promise;

impl Users for Promise {
    fn in_use(&self, _: Ino) -> Use {
        Use::No
    }

    fn moved(&self, _: Ino, _: Content) {}

    fn promised(&self, _: Ino) -> Vec<String> {
        vec![UPLOAD.to_owned()]
    }
}

/// What others do between the death of the process and the next mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Nothing,
    /// They replace what has the new name, by an upload of their own.
    Replace,
    /// They remove it and make another file, with no upload's id.
    RemoveAndMake,
}

fn made_by(upload: &str) -> Metadata {
    [(UPLOAD_ID.to_owned(), upload.to_owned())].into()
}

async fn rename(bucket: &Bucket) {
    bucket.lookup(Ino::ROOT, &name("a")).await.unwrap();
    let (from, to) = (name("a"), name("b"));
    bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace).await.unwrap();
    bucket.sync(None).await.unwrap();
}

/// What is there after the next mount has finished what was begun.
struct After {
    fake: Fake,
    /// Where the promised bytes belong.
    belongs: Belongs,
    /// What others made.
    theirs: Option<Version>,
}

/// Lets the process die at that request. `None` if it had told of the rename by then.
async fn belongs_after(
    dying: Process,
    (requests, end): (u64, End),
    others: Others,
) -> Option<After> {
    let (fake, ledger) = (Fake::with_folders(), Arc::new(Memory::default()));
    let (a, b) = (Key::from("a"), Key::from("b"));
    let version = fake.insert(&a, "same", made_by(MAKER));
    let mortal = Mortal::new(&fake, requests, end);
    let process = dying(Arc::clone(&mortal), &ledger);
    let users: Arc<dyn Users> = Arc::new(Promise);
    process.attach(Arc::downgrade(&users) as Weak<dyn Users>);
    until_death(&mortal, rename(&process)).await;
    drop(process);
    if fake.bytes(&b).is_some() && ledger.left().is_empty() {
        return None;
    }
    let theirs = match others {
        _ if fake.bytes(&b).is_none() => None,
        Others::Nothing => None,
        Others::Replace => Some(fake.insert(&b, "othr", made_by("of-others"))),
        Others::RemoveAndMake => Some(fake.insert(&b, "othr", Metadata::new())),
    };
    let next = bucket(Arc::new(fake.clone()), &ledger);
    assert_eq!(next.replay(ledger.left()).await.waiting, 0);
    let noted = Belongs { key: a, condition: Condition::Is(version), said: Vec::new() };
    let belongs = next.carried(UPLOAD, noted).await.unwrap().expect("all is finished");
    next.carried_all();
    assert_eq!(ledger.left(), [], "killed at {requests}, {end:?}, {others:?}");
    Some(After { fake, belongs, theirs })
}

/// A mount that is about to die.
type Process = fn(Arc<Mortal>, &Arc<Memory>) -> Bucket;

#[tokio::test]
async fn bytes_follow_their_object_and_no_other_whenever_the_process_dies() {
    let dying: [Process; 2] = [
        |mortal, ledger| bucket(mortal, ledger),
        |mortal, ledger| late_bucket(mortal, ledger, options()),
    ];
    for (dying, end) in dying
        .into_iter()
        .flat_map(|dying| [End::Death, End::LastWords].into_iter().map(move |end| (dying, end)))
    {
        for others in [Others::Nothing, Others::Replace, Others::RemoveAndMake] {
            let mut met = 0;
            for requests in 0.. {
                let after = belongs_after(dying, (requests, end), others).await;
                let Some(After { fake, belongs, theirs }) = after else { break };
                let what = format!("killed at {requests}, {end:?}, {others:?}: {belongs:?}");
                let at = fake.meta(&belongs.key).map(|meta| Condition::Is(meta.version));
                match theirs {
                    Some(_) => {
                        met += 1;
                        assert_ne!(Some(&belongs.condition), at.as_ref(), "{what}");
                    }
                    None => assert_eq!(Some(&belongs.condition), at.as_ref(), "{what}"),
                }
            }
            let is_met = others == Others::Nothing || end == End::Death || 0 < met;
            assert!(is_met, "{others:?}: no death when the object had its new name");
        }
    }
}
