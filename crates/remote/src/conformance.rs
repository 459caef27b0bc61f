//! The promises of [`Remote`], as checks that any implementation can be run against.
//!
//! Each check works below a prefix of its own and panics with the promise that broke. What a store
//! may lack (conditional writes, odd keys) is left out by its personality or by its refusal; what
//! it takes it must keep exactly.

mod lists;
mod reads;
mod uploads;
mod writes;

use base::ByteRange;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use futures::future::BoxFuture;

use crate::{
    Condition, Entry, ErrorKind, Key, ListRequest, Metadata, PutOptions, Remote, Result, Version,
};

/// A promise, by name.
pub type Check = (&'static str, for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, ()>);

/// Every promise.
pub fn all() -> impl Iterator<Item = Check> {
    [reads::ALL, writes::ALL, lists::ALL, uploads::ALL].into_iter().flatten().copied()
}

/// Runs every check below `prefix`, which is empty or ends in `/`, and under which nothing is yet.
///
/// # Panics
///
/// If a promise is broken.
pub async fn run(remote: &dyn Remote, prefix: &str) {
    run_but(remote, prefix, &[]).await;
}

/// As [`run`], but for the checks named in `known_broken`: what a store is known not to keep.
///
/// # Panics
///
/// If another promise is broken, or there is no check of such a name.
pub async fn run_but(remote: &dyn Remote, prefix: &str, known_broken: &[&str]) {
    for name in known_broken {
        assert!(all().any(|(known, _)| known == *name), "no check is named {name}");
    }
    for (name, check) in all().filter(|(name, _)| !known_broken.contains(name)) {
        tracing::debug!(name, "conformance check");
        check(&Bench { remote, prefix: Key::from(&format!("{prefix}{name}/")[..]), name }).await;
    }
}

/// Where one check works.
#[derive(Debug)]
pub struct Bench<'a> {
    remote: &'a dyn Remote,
    prefix: Key,
    name: &'static str,
}

/// No condition, no metadata.
fn plainly() -> PutOptions {
    when(Condition::Always)
}

fn when(condition: Condition) -> PutOptions {
    PutOptions { condition, metadata: Metadata::new() }
}

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Bytes that differ from place to place, so that shifted ones are noticed.
fn pattern(len: usize) -> Bytes {
    let byte = |i: usize| u8::try_from((i * 31 + i / 251) % 256).expect("below 256");
    (0..len).map(byte).collect()
}

impl Bench<'_> {
    fn key(&self, name: impl AsRef<[u8]>) -> Key {
        self.prefix.join(name.as_ref())
    }

    fn conditional(&self) -> bool {
        self.remote.personality().conditional_writes
    }

    /// The value of a call that must go through.
    #[track_caller]
    fn ok<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    #[track_caller]
    fn fails<T>(&self, result: Result<T>, want: ErrorKind) {
        match result {
            Ok(_) => panic!("{}: went through instead of: {want}", self.name),
            Err(error) => assert_eq!(error.kind, want, "{}: {error}", self.name),
        }
    }

    /// Puts `bytes` whatever is there.
    async fn put(&self, key: &Key, bytes: impl Into<Bytes>) -> Version {
        let put = self.remote.put(key, bytes.into(), &plainly()).await;
        self.ok(put)
    }

    /// As [`Bench::put`]; `None` if the store says that it does not take such a key.
    async fn try_put(&self, key: &Key, bytes: &'static [u8]) -> Option<Version> {
        match self.remote.put(key, Bytes::from_static(bytes), &plainly()).await {
            Err(error) if error.kind == ErrorKind::Unsupported => None,
            other => Some(self.ok(other)),
        }
    }

    async fn get(&self, key: &Key, start: u64, end: u64) -> Result<Bytes> {
        let range = ByteRange::new(start, end).expect("checks ask for something");
        collect(self.remote.get(key, range, None).await?).await
    }

    /// All bytes of the object, by way of its size.
    async fn whole(&self, key: &Key) -> Bytes {
        let meta = self.ok(self.remote.head(key).await);
        if meta.size == 0 {
            return Bytes::new();
        }
        let got = self.get(key, 0, meta.size).await;
        self.ok(got)
    }

    fn request(&self, delimited: bool) -> ListRequest {
        ListRequest {
            prefix: self.prefix.clone(),
            delimited,
            start_after: None,
            continuation: None,
            entries_max: 1000,
        }
    }

    /// Every line of a listing, page by page, each page checked on the way.
    async fn list(&self, mut request: ListRequest) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let page = self.ok(self.remote.list(&request).await);
            assert!(page.entries.len() <= usize::from(request.entries_max), "{}", self.name);
            entries.extend(page.entries);
            let ascending = entries.windows(2).all(|pair| pair[0].key() < pair[1].key());
            assert!(ascending, "{}: out of order: {entries:?}", self.name);
            match page.next {
                Some(next) => request.continuation = Some(next),
                None => return entries,
            }
        }
    }

    /// The keys and prefixes of a listing, without what all of them begin with.
    async fn names(&self, request: ListRequest) -> Vec<Vec<u8>> {
        let entries = self.list(request).await;
        let cut = self.prefix.as_bytes().len();
        entries.iter().map(|entry| entry.key().as_bytes()[cut..].to_vec()).collect()
    }
}

async fn collect(body: crate::Body) -> Result<Bytes> {
    let whole = body.try_fold(BytesMut::new(), |mut whole, piece| async move {
        whole.extend_from_slice(&piece);
        Ok(whole)
    });
    Ok(whole.await?.freeze())
}
