//! Whether a listing may be believed, and whether it comes to an end; pure.
//!
//! What a server says is not to be trusted. Keys of other folders, sizes that no file has, and names longer
//! than any store has would be shown, read, or removed as what they are not; and a server that always has
//! one page more, and nothing on it, would be asked for ever. So the place at which a listing goes on,
//! which is opaque to who lists, has with it how far the listing has come.

use crate::http::{decode, encode};
use crate::{Entry, Error, ErrorKind, Key, ListOrder, ListRequest, Meta, Page, Result};

/// So many pages in a row may tell nothing new: a store that looks for what is left between things that
/// were removed sends some, each of which costs a request.
const STILL_MAX: u32 = 1000;

/// Much longer than any store's.
const KEY_BYTES_MAX: usize = 8 << 10;

/// What a file can have.
const SIZE_MAX: u64 = i64::MAX.unsigned_abs();

const OP: &str = "list";

/// How far a listing has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// How many pages in a row have told nothing new.
    still: u32,
    /// The greatest key of a page.
    last: Key,
    /// The store's own word for where it goes on.
    pub(crate) continuation: Option<String>,
}

impl Place {
    /// The place that `request` names; an error if it is none of ours.
    pub(crate) fn of(request: &ListRequest) -> Result<Place> {
        let Some(text) = &request.continuation else {
            return Ok(Place { still: 0, last: Key::from(""), continuation: None });
        };
        let unknown = || {
            let error = Error::new(ErrorKind::Unsupported, OP, &request.prefix);
            error.because("not a place of ours")
        };
        Place::parse(text).ok_or_else(unknown)
    }

    fn parse(text: &str) -> Option<Place> {
        let mut words = text.splitn(3, ' ');
        let (still, last, continuation) = (words.next()?, words.next()?, words.next()?);
        let last = Key::new(decode(last)?);
        Some(Place {
            still: still.parse().ok()?,
            last,
            continuation: Some(continuation.to_owned()),
        })
    }

    fn to_text(&self) -> Option<String> {
        let continuation = self.continuation.as_ref()?;
        Some(format!("{} {} {continuation}", self.still, encode(self.last.as_bytes())))
    }

    /// Where the listing goes on after `page`, which the store sent as the answer to `request` at this place;
    /// an error if the page is no such answer, or if the listing does not get on.
    pub(crate) fn after(
        mut self,
        request: &ListRequest,
        page: &Page,
        order: ListOrder,
    ) -> Result<Option<String>> {
        let refuse =
            |words: String| Err(Error::new(ErrorKind::Corrupt, OP, &request.prefix).because(words));
        for entry in &page.entries {
            if let Some(words) = disbelieved(&request.prefix, entry) {
                return refuse(words);
            }
        }
        if page.next.is_none() {
            return Ok(None);
        }
        if page.next == self.continuation {
            return refuse("a page is followed by itself".to_owned());
        }
        self.continuation.clone_from(&page.next);
        if let Some(last) = page.entries.iter().map(Entry::key).max().filter(|last| match order {
            ListOrder::Keys => self.last < **last,
            ListOrder::Folded | ListOrder::Unsorted => self.last != **last,
        }) {
            (self.last, self.still) = (last.clone(), 0);
        } else {
            self.still += 1;
        }
        if STILL_MAX < self.still {
            return refuse("there is always one page more, and nothing new on it".to_owned());
        }
        Ok(self.to_text())
    }
}

/// What is wrong with a line of a listing of `prefix`.
fn disbelieved(prefix: &Key, entry: &Entry) -> Option<String> {
    let key = entry.key();
    if KEY_BYTES_MAX < key.as_bytes().len() {
        return Some("the store listed a key that is too long".to_owned());
    }
    if !key.as_bytes().starts_with(prefix.as_bytes()) {
        return Some(format!("the store listed {key:?}, which does not begin like that"));
    }
    match entry {
        Entry::Object(_, meta) if !has_size(meta) => {
            Some(format!("the store says of {key:?} that it is larger than a file can be"))
        }
        Entry::Prefix(_) if !key.as_bytes().ends_with(b"/") => {
            Some(format!("the store calls {key:?} a folder"))
        }
        Entry::Object(..) | Entry::Prefix(_) => None,
    }
}

fn has_size(meta: &Meta) -> bool {
    meta.size <= SIZE_MAX
}

/// What is told of one object, if it can be so.
pub(crate) fn believed(op: &'static str, key: &Key, meta: Meta) -> Result<Meta> {
    if has_size(&meta) {
        return Ok(meta);
    }
    Err(Error::new(ErrorKind::Corrupt, op, key).because("larger than a file can be"))
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use proptest::prelude::*;

    use super::{KEY_BYTES_MAX, Place, STILL_MAX, believed};
    use crate::{
        Entry, ErrorKind, Key, ListOrder, ListRequest, Meta, Metadata, Page, Result, Version,
    };

    fn request(continuation: Option<String>) -> ListRequest {
        let prefix = Key::from("p/");
        ListRequest { prefix, delimited: true, start_after: None, continuation, entries_max: 10 }
    }

    fn meta(size: u64) -> Meta {
        let (version, modified) = (Version::new("1"), Timestamp::default());
        Meta { size, version, modified, metadata: Metadata::new() }
    }

    fn object(key: &str) -> Entry {
        Entry::Object(Key::from(key), meta(1))
    }

    /// Lists pages of these keys, each with the mark of the next, as far as one goes on.
    fn list(pages: impl Iterator<Item = (Vec<Entry>, String)>, order: ListOrder) -> Result<u32> {
        let (mut next, mut count) = (None, 0);
        for (entries, mark) in pages {
            let request = request(next);
            let page = Page { entries, next: Some(mark) };
            next = Place::of(&request)?.after(&request, &page, order)?;
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn a_listing_that_does_not_get_on_has_an_end() {
        let many = 0..STILL_MAX + 2;
        let empty = many.clone().map(|page| (Vec::new(), page.to_string()));
        let same = many.clone().map(|page| (vec![object("p/a"), object("p/b")], page.to_string()));
        let back = many
            .clone()
            .map(|page| (vec![object(&format!("p/{}", 9999 - page))], page.to_string()));
        for order in [ListOrder::Keys, ListOrder::Folded, ListOrder::Unsorted] {
            assert_eq!(list(empty.clone(), order).unwrap_err().kind, ErrorKind::Corrupt);
            assert_eq!(list(same.clone(), order).unwrap_err().kind, ErrorKind::Corrupt);
        }
        assert_eq!(list(back.clone(), ListOrder::Keys).unwrap_err().kind, ErrorKind::Corrupt);
        assert_eq!(list(back, ListOrder::Unsorted).unwrap(), STILL_MAX + 2);
        let on = many.map(|page| (vec![object(&format!("p/{page:04}"))], page.to_string()));
        assert_eq!(list(on, ListOrder::Keys).unwrap(), STILL_MAX + 2);
    }

    #[test]
    fn what_gets_on_now_and_then_may_go_on() {
        let pages = (0..4 * STILL_MAX).map(|page| {
            let told = (page % STILL_MAX == 0).then(|| object(&format!("p/{page:05}")));
            (told.into_iter().collect(), page.to_string())
        });
        assert_eq!(list(pages, ListOrder::Keys).unwrap(), 4 * STILL_MAX);
    }

    #[test]
    fn a_page_that_is_followed_by_itself_is_none() {
        let pages = [(vec![object("p/a")], "x"), (vec![object("p/b")], "x")];
        let pages = pages.into_iter().map(|(entries, mark)| (entries, mark.to_owned()));
        assert_eq!(list(pages, ListOrder::Keys).unwrap_err().kind, ErrorKind::Corrupt);
    }

    #[test]
    fn only_what_was_asked_for_is_believed() {
        let long = format!("p/{}", "x".repeat(KEY_BYTES_MAX));
        let huge = Entry::Object(Key::from("p/a"), meta(u64::MAX));
        for (entry, is_good) in [
            (object("p/"), true),
            (object("p/../\0//"), true),
            (Entry::Prefix(Key::from("p/d/")), true),
            (object("p"), false),
            (object("/p/a"), false),
            (object("q/a"), false),
            (object(""), false),
            (object(&long), false),
            (huge, false),
            (Entry::Prefix(Key::from("p/d")), false),
            (Entry::Prefix(Key::from("d/")), false),
        ] {
            let (request, name) = (request(None), format!("{:.40}", entry.key().to_string()));
            let page = Page { entries: vec![entry], next: None };
            let next = Place::of(&request).unwrap().after(&request, &page, ListOrder::Keys);
            match next {
                Ok(next) => assert!(is_good && next.is_none(), "{name}"),
                Err(error) => {
                    assert!(!is_good && error.kind == ErrorKind::Corrupt, "{name}: {error}");
                }
            }
        }
    }

    #[test]
    fn an_object_that_no_file_can_be_is_not_believed() {
        let key = Key::from("a");
        assert!(believed("head", &key, meta(i64::MAX.unsigned_abs())).is_ok());
        let error = believed("head", &key, meta(1 << 63)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
    }

    proptest! {
        #[test]
        fn every_place_is_found_again(still: u32, last: Vec<u8>, word in "\\PC{1,20}") {
            let place = Place { still, last: Key::new(last), continuation: Some(word) };
            let again = Place::of(&request(place.to_text())).unwrap();
            prop_assert_eq!(again, place);
        }

        #[test]
        fn what_is_no_place_is_refused_without_harm(text in "[0-9]{0,3} ?[a%]{0,5} ?\\PC{0,9}") {
            if let Err(error) = Place::of(&request(Some(text))) {
                prop_assert_eq!(error.kind, ErrorKind::Unsupported);
            }
        }
    }
}
