//! Listings: a walk over folders in byte order of the keys.
//!
//! Byte order of keys is the order of a depth-first walk that takes a folder as a name with `/`
//! behind: `a` < `a.txt` < `a/x` < `a0`.

use super::disk::Disk;
use super::fault::{Fault, Outcome};
use super::levels::{ListingId, Names};
use crate::{Entry, ErrorKind, Key, ListRequest, Page};

/// Where a listing stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    /// At its beginning.
    Nothing,
    /// Behind this key.
    Key(Vec<u8>),
    /// Behind all keys that begin with this.
    Prefix(Vec<u8>),
}

/// A walk in progress.
struct Walk<'a> {
    disk: &'a Disk,
    request: &'a ListRequest,
    listing: ListingId,
    after: After,
    stack: Vec<Frame>,
}

/// One folder on the way down.
struct Frame {
    prefix: Vec<u8>,
    names: Names,
    next: usize,
}

impl Disk {
    pub(super) fn list(&self, request: &ListRequest) -> Outcome<Page> {
        let (listing, after) = match (&request.continuation, &request.start_after) {
            (Some(token), _) => parse_token(token).ok_or_else(|| {
                Fault::new(ErrorKind::Unsupported, "not a continuation of this store")
            })?,
            (None, Some(key)) => (self.levels.new_listing(), After::Key(key.as_bytes().to_vec())),
            (None, None) => (self.levels.new_listing(), After::Nothing),
        };
        let mut walk = Walk { disk: self, request, listing, after, stack: Vec::new() };
        walk.begin()?;
        let mut entries = Vec::new();
        while let Some(entry) = walk.step()? {
            if entries.len() == usize::from(request.entries_max.max(1)) {
                walk.remember();
                let next = entries.last().map(|last| token(listing, last));
                return Ok(Page { entries, next });
            }
            entries.push(entry);
        }
        self.levels.forget(listing);
        Ok(Page { entries, next: None })
    }
}

impl Walk<'_> {
    fn begin(&mut self) -> Outcome<()> {
        let prefix = self.request.prefix.as_bytes();
        let end = prefix.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        self.enter(prefix[..end].to_vec())
    }

    fn enter(&mut self, prefix: Vec<u8>) -> Outcome<()> {
        let names = self.disk.names(self.listing, &prefix)?;
        let wanted = self.request.prefix.as_bytes();
        // At the top only what goes on like the wanted prefix; further down that is everything.
        let rest = wanted.strip_prefix(&prefix[..]).unwrap_or(b"");
        let next =
            names.partition_point(|name| name[..] < *rest || self.after.covers(&prefix, name));
        self.stack.push(Frame { prefix, names, next });
        Ok(())
    }

    fn step(&mut self) -> Outcome<Option<Entry>> {
        while let Some(frame) = self.stack.last_mut() {
            let Some(name) = frame.names.get(frame.next) else {
                self.stack.pop();
                continue;
            };
            frame.next += 1;
            let full = [&frame.prefix[..], name].concat();
            let is_folder = name.ends_with(b"/");
            if !full.starts_with(self.request.prefix.as_bytes()) {
                // Names are sorted: nothing further on at this level begins with it either.
                frame.next = frame.names.len();
            } else if is_folder && self.request.delimited {
                return Ok(Some(Entry::Prefix(Key::new(full))));
            } else if is_folder {
                self.enter(full)?;
            } else {
                let key = Key::new(full);
                // Gone since its folder was read: not an object any more.
                if let Some(found) = self.disk.find(&key)? {
                    return Ok(Some(Entry::Object(key, found.into_listed_meta())));
                }
            }
        }
        Ok(None)
    }

    /// Keeps the folders on the way down for the next page.
    fn remember(&self) {
        for Frame { prefix, names, .. } in &self.stack {
            self.disk.levels.remember(self.listing, prefix, names);
        }
    }
}

impl After {
    /// Whether `name` below `prefix`, a key or a folder, has nothing left to show.
    fn covers(&self, prefix: &[u8], name: &[u8]) -> bool {
        let full = [prefix, name].concat();
        match self {
            After::Nothing => false,
            // Of a folder that leads to the key, what is behind the key is left.
            After::Key(key) if name.ends_with(b"/") => full <= *key && !key.starts_with(&full),
            After::Key(key) => full <= *key,
            After::Prefix(prefix) => full <= *prefix || full.starts_with(prefix),
        }
    }
}

fn token(listing: ListingId, last: &Entry) -> String {
    let kind = match last {
        Entry::Object(..) => 'k',
        Entry::Prefix(_) => 'p',
    };
    let mut token = format!("{:x}{kind}", listing.0);
    for byte in last.key().as_bytes() {
        token.push(char::from_digit(u32::from(byte >> 4), 16).expect("below 16"));
        token.push(char::from_digit(u32::from(byte & 15), 16).expect("below 16"));
    }
    token
}

fn parse_token(token: &str) -> Option<(ListingId, After)> {
    let (listing, kind, hex) = match (token.split_once('k'), token.split_once('p')) {
        (Some((listing, hex)), _) => (listing, 'k', hex),
        (None, Some((listing, hex))) => (listing, 'p', hex),
        (None, None) => return None,
    };
    let listing = ListingId(u64::from_str_radix(listing, 16).ok()?);
    let digits = hex.chars().map(|c| c.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    let bytes = digits.chunks_exact(2).map(byte).collect::<Option<Vec<u8>>>()?;
    let after = if kind == 'k' { After::Key(bytes) } else { After::Prefix(bytes) };
    Some((listing, after))
}
