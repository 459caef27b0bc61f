//! Where one check works, and the calls and values that checks are written with.

use base::ByteRange;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use futures::future::BoxFuture;

use crate::{
    Condition, Entry, ErrorKind, Key, ListRequest, Metadata, PutOptions, Remote, Result, Version,
};

/// A promise, by name.
pub type Check = (&'static str, for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, ()>);

/// Where one check works.
#[derive(Debug)]
pub struct Bench<'a> {
    pub(super) remote: &'a dyn Remote,
    prefix: Key,
    name: &'static str,
}

impl<'a> Bench<'a> {
    pub(super) fn new(remote: &'a dyn Remote, prefix: Key, name: &'static str) -> Bench<'a> {
        Bench { remote, prefix, name }
    }

    pub(super) fn key(&self, name: impl AsRef<[u8]>) -> Key {
        self.prefix.join(name.as_ref())
    }

    pub(super) fn conditional(&self) -> bool {
        self.remote.personality().conditional_writes
    }

    /// The value of a call that must go through.
    #[track_caller]
    pub(super) fn ok<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    #[track_caller]
    pub(super) fn fails<T>(&self, result: Result<T>, want: ErrorKind) {
        match result {
            Ok(_) => panic!("{}: went through instead of: {want}", self.name),
            Err(error) => assert_eq!(error.kind, want, "{}: {error}", self.name),
        }
    }

    /// Puts `bytes` whatever is there.
    pub(super) async fn put(&self, key: &Key, bytes: impl Into<Bytes>) -> Version {
        let put = self.remote.put(key, bytes.into(), &plainly()).await;
        self.ok(put)
    }

    /// As [`Bench::put`]; `None` if the store says that it does not take such a key.
    pub(super) async fn try_put(&self, key: &Key, bytes: &'static [u8]) -> Option<Version> {
        match self.remote.put(key, Bytes::from_static(bytes), &plainly()).await {
            Err(error) if error.kind == ErrorKind::Unsupported => None,
            other => Some(self.ok(other)),
        }
    }

    pub(super) async fn get(&self, key: &Key, start: u64, end: u64) -> Result<Bytes> {
        let range = ByteRange::new(start, end).expect("checks ask for something");
        collect(self.remote.get(key, range, None).await?).await
    }

    /// All bytes of the object, by way of its size.
    pub(super) async fn whole(&self, key: &Key) -> Bytes {
        let meta = self.ok(self.remote.head(key).await);
        if meta.size == 0 {
            return Bytes::new();
        }
        let got = self.get(key, 0, meta.size).await;
        self.ok(got)
    }

    pub(super) fn request(&self, delimited: bool) -> ListRequest {
        ListRequest {
            prefix: self.prefix.clone(),
            delimited,
            start_after: None,
            continuation: None,
            entries_max: 1000,
        }
    }

    /// Every line of a listing, page by page, each page checked on the way.
    pub(super) async fn list(&self, mut request: ListRequest) -> Vec<Entry> {
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
    pub(super) async fn names(&self, request: ListRequest) -> Vec<Vec<u8>> {
        let entries = self.list(request).await;
        let cut = self.prefix.as_bytes().len();
        entries.iter().map(|entry| entry.key().as_bytes()[cut..].to_vec()).collect()
    }
}

/// No condition, no metadata.
pub(super) fn plainly() -> PutOptions {
    when(Condition::Always)
}

pub(super) fn when(condition: Condition) -> PutOptions {
    PutOptions { condition, metadata: Metadata::new() }
}

pub(super) fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Bytes that differ from place to place, so that shifted ones are noticed.
pub(super) fn pattern(len: usize) -> Bytes {
    let byte = |i: usize| u8::try_from((i * 31 + i / 251) % 256).expect("below 256");
    (0..len).map(byte).collect()
}

pub(super) async fn collect(body: crate::Body) -> Result<Bytes> {
    let whole = body.try_fold(BytesMut::new(), |mut whole, piece| async move {
        whole.extend_from_slice(&piece);
        Ok(whole)
    });
    Ok(whole.await?.freeze())
}
