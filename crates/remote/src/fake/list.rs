//! Listings of objects in memory, page by page; pure.

use std::collections::BTreeMap;

use crate::{Entry, Key, ListRequest, Meta, Metadata, Page};

/// One page of `objects`.
pub(super) fn list<T>(
    objects: &BTreeMap<Key, T>,
    meta_of: impl Fn(&T) -> &Meta,
    request: &ListRequest,
) -> Page {
    let prefix = request.prefix.as_bytes();
    let (from, past) = match (&request.continuation, &request.start_after) {
        (Some(token), _) => (decode(token), true),
        (None, Some(key)) => (key.as_bytes().to_vec(), false),
        (None, None) => (Vec::new(), false),
    };
    let mut entries: Vec<Entry> = Vec::new();
    let keys = objects.range(Key::from(&from[..])..).skip_while(|(key, _)| {
        // Behind an earlier page's folded prefix all of it is done with.
        let done = past && from.ends_with(b"/") && request.delimited && from != prefix;
        key.as_bytes() == from && !from.is_empty() || done && key.as_bytes().starts_with(&from)
    });
    for (key, object) in keys.filter(|(key, _)| key.as_bytes().starts_with(prefix)) {
        let rest = &key.as_bytes()[prefix.len()..];
        let slash = rest.iter().position(|&byte| byte == b'/').filter(|_| request.delimited);
        let entry = if let Some(slash) = slash {
            Entry::Prefix(Key::from(&key.as_bytes()[..=prefix.len() + slash]))
        } else {
            let meta = Meta { metadata: Metadata::new(), ..meta_of(object).clone() };
            Entry::Object(key.clone(), meta)
        };
        if entries.last() == Some(&entry) {
            continue;
        }
        if entries.len() == usize::from(request.entries_max.max(1)) {
            let next = entries.last().map(|last| encode(last.key()));
            return Page { entries, next };
        }
        entries.push(entry);
    }
    Page { entries, next: None }
}

/// A page in an order of its own: the last keys come first, though each page is sorted in itself.
pub(super) fn backwards(request: &ListRequest, mut list: impl FnMut(&ListRequest) -> Page) -> Page {
    let all = ListRequest { continuation: None, entries_max: u16::MAX, ..request.clone() };
    let Page { mut entries, next } = list(&all);
    assert!(next.is_none() && request.start_after.is_none(), "more than there is here");
    if let Some(token) = &request.continuation {
        let before = decode(token);
        entries.retain(|entry| entry.key().as_bytes() < &before[..]);
    }
    let first = entries.len().saturating_sub(usize::from(request.entries_max.max(1)));
    let page = entries.split_off(first);
    let next = page.first().filter(|_| !entries.is_empty()).map(|first| encode(first.key()));
    Page { entries: page, next }
}

fn encode(key: &Key) -> String {
    key.as_bytes().iter().map(|&byte| char::from(byte)).collect()
}

fn decode(token: &str) -> Vec<u8> {
    token.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(u8::MAX)).collect()
}
