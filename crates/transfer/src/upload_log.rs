//! Which uploads in parts are not over, in the journal: their parts are in the bucket, where nobody sees
//! them and somebody pays for them.
//!
//! ```text
//!   1  volume NUL  since NUL  upload NUL  key
//! ```
//!
//! `since` is when it was about to begin, in seconds since 1970, and `upload` how the store names it, empty
//! before that is known. Several volumes may share a state folder: each looks after its own.

use std::collections::HashMap;
use std::sync::Arc;

use base::{Clock, Timestamp};
use parking_lot::Mutex;
use remote::{Key, UploadId};
use store::{OpId, OpKind, Replayed, Store};

/// The version of the payload's format.
const FORMAT: u8 = 1;

/// By so much the store's clock may differ from ours.
const CLOCKS_DIFFER_SECS: i64 = 60;

/// So long after it was noted an upload may have been begun: all tries of that have an end.
const BEGINS_WITHIN_SECS: i64 = 300;

/// So many are remembered that are to be removed; the journal has the others, for the next process.
const LEFT_MAX: usize = 1000;

/// How often an upload is removed that a dead process has left: a request for it, or a part of it, may have
/// been on its way the first time.
const LOOKS: u32 = 2;

/// What the journal has of uploads in parts.
#[derive(Debug)]
pub struct UploadLog {
    store: Store,
    clock: Arc<dyn Clock>,
    /// What the payloads of this volume begin with.
    head: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Being begun, by their keys, and how many.
    beginning: HashMap<Key, usize>,
    /// Begun, and not over. Those that could not be noted have no number.
    under_way: HashMap<(Key, UploadId), Option<OpId>>,
    /// To be removed.
    left: Vec<Left>,
}

/// An upload that nobody completes.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    /// `None` if it could not be noted.
    op: Option<OpId>,
    pub(crate) key: Key,
    pub(crate) which: Which,
    /// How often it is still to be looked for.
    looks: u32,
}

/// Which of the uploads of a key it is.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    /// This.
    Named(UploadId),
    /// If any, one that was begun between these times, by the store's clock.
    Between(Timestamp, Timestamp),
}

/// An upload that is about to begin.
#[derive(Debug)]
pub(crate) struct Beginning<'a> {
    log: &'a UploadLog,
    key: &'a Key,
    since: Timestamp,
    op: Option<OpId>,
}

impl UploadLog {
    /// What the journal of `store` has of `volume`, which has no NUL in its name.
    pub fn new(store: &Store, clock: Arc<dyn Clock>, volume: &str) -> UploadLog {
        let head = [&[FORMAT], volume.as_bytes(), &[0]].concat();
        UploadLog { store: store.clone(), clock, head, state: Mutex::default() }
    }

    /// What mounts of this volume that are dead have left is ours to remove.
    pub(crate) fn adopt(&self) -> store::Result<()> {
        let is_ours =
            |kind, payload: &[u8]| kind == OpKind::Upload && payload.starts_with(&self.head);
        self.store.journal().replay(&is_ours, &mut |op| {
            // What is not understood is of a newer program.
            if let Some((since, upload, key)) = parse(&op.payload[self.head.len()..]) {
                self.adopt_one(op.id, since, upload, key);
            }
            Replayed::Kept
        })
    }

    fn adopt_one(&self, op: OpId, since: Timestamp, upload: Option<UploadId>, key: Key) {
        let op = Some(op);
        let which = if let Some(upload) = upload {
            self.forget_nameless(&key, since);
            Which::Named(upload)
        } else {
            let latest = since.secs + 2 * CLOCKS_DIFFER_SECS + BEGINS_WITHIN_SECS;
            let until = latest.min(self.at(1).secs);
            Which::Between(since, Timestamp { secs: until, nanos: 0 })
        };
        self.leave(Left { op, key, which, looks: LOOKS });
    }

    /// The name of the upload of `key` that was noted at `since` is known: nothing else is to be looked
    /// for.
    fn forget_nameless(&self, key: &Key, since: Timestamp) {
        let is_it = |left: &mut Left| {
            left.key == *key && matches!(left.which, Which::Between(begun, _) if begun == since)
        };
        let known: Vec<Left> = self.state.lock().left.extract_if(.., is_it).collect();
        for left in known {
            self.strike(left.op);
        }
    }

    /// To be called before an upload of `key` is begun.
    pub(crate) fn begin<'a>(&'a self, key: &'a Key) -> Beginning<'a> {
        // No upload that begins from now on has begun before this.
        let since = self.at(-1);
        *self.state.lock().beginning.entry(key.clone()).or_default() += 1;
        let op = self.note(key, since, None);
        Beginning { log: self, key, since, op }
    }

    /// The upload is complete, or removed.
    pub(crate) fn over(&self, key: &Key, upload: &UploadId) {
        let known = self.state.lock().under_way.remove(&(key.clone(), upload.clone()));
        self.strike(known.flatten());
    }

    /// The upload could not be removed.
    pub(crate) fn stays(&self, key: &Key, upload: &UploadId) {
        let known = self.state.lock().under_way.remove(&(key.clone(), upload.clone()));
        if let Some(op) = known {
            self.leave(Left {
                op,
                key: key.clone(),
                which: Which::Named(upload.clone()),
                looks: 1,
            });
        }
    }

    /// What is to be removed. Who takes it says [what came of it](UploadLog::looked).
    pub(crate) fn take_left(&self) -> Vec<Left> {
        std::mem::take(&mut self.state.lock().left)
    }

    /// Whether an upload of `key` is under way from here, which is not to be taken for one that was left.
    pub(crate) fn is_under_way(&self, key: &Key) -> bool {
        let state = self.state.lock();
        state.beginning.contains_key(key) || state.under_way.keys().any(|(other, _)| other == key)
    }

    /// Somebody has looked for `left`, and has removed what was there; or could not.
    pub(crate) fn looked(&self, left: Left, is_removed: bool) {
        let looks = left.looks - u32::from(is_removed);
        match looks {
            0 => self.strike(left.op),
            looks => self.leave(Left { looks, ..left }),
        }
    }

    fn leave(&self, left: Left) {
        let mut state = self.state.lock();
        // Tried again and again, it is looked for once.
        if let Which::Between(began, latest) = left.which
            && let Some(known) = state.left.iter_mut().find(|known| known.key == left.key)
            && let Which::Between(since, until) = known.which
            && began <= until
        {
            (known.which, known.looks) = (Which::Between(since, latest), LOOKS);
            drop(state);
            return self.strike(left.op);
        }
        if state.left.len() < LEFT_MAX {
            state.left.push(left);
        }
    }

    /// Now, and more or less as much as clocks differ.
    fn at(&self, sign: i64) -> Timestamp {
        Timestamp { secs: self.clock.wall().secs + sign * CLOCKS_DIFFER_SECS, nanos: 0 }
    }

    fn note(&self, key: &Key, since: Timestamp, upload: Option<&UploadId>) -> Option<OpId> {
        let (since, upload) = (since.secs.to_string(), upload.map_or("", |upload| &upload.0));
        let rest = [since.as_bytes(), upload.as_bytes(), key.as_bytes()].join(&0);
        let noted = self.store.journal().append(OpKind::Upload, &[&self.head[..], &rest].concat());
        noted
            .inspect_err(|error| {
                // Only its parts would be left, and only by a crash: no reason to upload nothing.
                tracing::warn!(%key, %error, "an upload in parts is not in the journal");
            })
            .ok()
    }

    fn strike(&self, op: Option<OpId>) {
        if let Some(op) = op
            && let Err(error) = self.store.journal().done(op)
        {
            tracing::warn!(%error, "an upload that is over stays in the journal");
        }
    }
}

impl Beginning<'_> {
    /// It has begun.
    pub(crate) fn begun(self, upload: &UploadId) {
        let named = self.log.note(self.key, self.since, Some(upload));
        let op = match named {
            Some(_) => {
                self.log.strike(self.op);
                named
            }
            None => self.op,
        };
        self.log.state.lock().under_way.insert((self.key.clone(), upload.clone()), op);
    }

    /// It has not begun, unless an answer was lost.
    pub(crate) fn failed(self) {
        let which = Which::Between(self.since, self.log.at(1));
        self.log.leave(Left { op: self.op, key: self.key.clone(), which, looks: LOOKS });
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        if let Some(count) = state.beginning.get_mut(self.key) {
            *count -= 1;
            if *count == 0 {
                state.beginning.remove(self.key);
            }
        }
    }
}

fn parse(record: &[u8]) -> Option<(Timestamp, Option<UploadId>, Key)> {
    let mut fields = record.splitn(3, |&byte| byte == 0);
    let (since, upload, key) = (fields.next()?, fields.next()?, fields.next()?);
    let secs = str::from_utf8(since).ok()?.parse().ok()?;
    let upload = str::from_utf8(upload).ok()?;
    let upload = (!upload.is_empty()).then(|| UploadId(upload.to_owned()));
    Some((Timestamp { secs, nanos: 0 }, upload, Key::from(key)))
}
