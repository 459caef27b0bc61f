//! Keys in order, of stores that tell them in none.

use crate::behind::is_behind;
use crate::{Entry, Error, ErrorKind, ListOrder, ListRequest, Page, Remote, Result};

/// As many as a page has.
const PAGE_ENTRIES_MAX: u16 = 1000;

/// So many entries are sorted at most, for all of them are in memory: about a quarter of a GiB.
const ENTRIES_MAX: usize = 1_000_000;

/// The page that `request` asks for, in the order of keys. Of a store that keeps no order it is the only one, and
/// has all there is. Each of its pages is a call of `store`, to be repeated by itself.
pub async fn in_order(store: &dyn Remote, request: &ListRequest) -> Result<Page> {
    // Of a listing that began before anybody knew, no more is to be had than its rest.
    if store.personality().naming.order != ListOrder::Unsorted || request.continuation.is_some() {
        return store.list(request).await;
    }
    let after = request.start_after.as_ref();
    let entries_max = PAGE_ENTRIES_MAX;
    let mut asked = ListRequest { start_after: None, entries_max, ..request.clone() };
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let page = store.list(&asked).await?;
        let wanted = |entry: &Entry| after.is_none_or(|after| is_behind(entry, after));
        entries.extend(page.entries.into_iter().filter(wanted));
        let refuse = |kind, words: &str| {
            Err(Error::new(kind, "list", &request.prefix).because(words.to_owned()))
        };
        if ENTRIES_MAX < entries.len() {
            let words = "more entries in one folder than can be sorted here";
            return refuse(ErrorKind::Unsupported, words);
        }
        match page.next {
            None => break,
            // It would be listed for ever.
            next if next == asked.continuation => {
                return refuse(ErrorKind::Corrupt, "a page is followed by itself");
            }
            next => asked.continuation = next,
        }
    }
    entries.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    // What is folded may be on several pages, and what changes meanwhile as well.
    entries.dedup_by(|a, b| a.key() == b.key());
    Ok(Page { entries, next: None })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::in_order;
    use crate::fake::{Fake, Op};
    use crate::{Condition, Key, ListOrder, ListRequest, Metadata, Naming, PutOptions, Remote};

    async fn fake(keys: &[&str]) -> Fake {
        let fake = Fake::with(crate::Personality {
            naming: Naming { order: ListOrder::Unsorted, ..Naming::OF_KEYS },
            ..Fake::new().personality()
        });
        let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
        for key in keys {
            fake.put(&Key::from(*key), Bytes::new(), &options).await.unwrap();
        }
        fake
    }

    fn request(start_after: Option<&str>) -> ListRequest {
        ListRequest {
            prefix: Key::from("d/"),
            delimited: true,
            start_after: start_after.map(Key::from),
            continuation: None,
            entries_max: 2,
        }
    }

    #[tokio::test]
    async fn what_comes_in_no_order_is_asked_for_whole_and_sorted() {
        let fake = fake(&["d/a", "d/b", "d/c/1", "d/c/2", "d/c0", "d/d", "e"]).await;
        fake.short_pages(2);
        let pages = |fake: &Fake| fake.calls(Op::List);
        let keys = |entries: &[crate::Entry]| -> Vec<String> {
            entries.iter().map(|entry| entry.key().to_string()).collect()
        };
        let first = fake.list(&request(None)).await.unwrap();
        assert_eq!(keys(&first.entries), ["d/c0", "d/d"]);
        let begun = pages(&fake);
        let whole = in_order(&fake, &request(None)).await.unwrap();
        assert_eq!(keys(&whole.entries), ["d/a", "d/b", "d/c/", "d/c0", "d/d"]);
        assert_eq!((whole.next, pages(&fake) - begun), (None, 3));
        let rest = in_order(&fake, &request(Some("d/c/1"))).await.unwrap();
        assert_eq!(keys(&rest.entries), ["d/c/", "d/c0", "d/d"]);
    }

    #[tokio::test]
    async fn a_store_that_keeps_order_is_asked_for_a_page() {
        let fake = Fake::new();
        in_order(&fake, &request(None)).await.unwrap();
        assert_eq!(fake.calls(Op::List), 1);
    }
}
