//! Listings: what is asked for, and what the answer says; pure.

use crate::http::{decode, encode, parse_http_date};
use crate::{Entry, Key, ListRequest, Meta, Metadata, Page, Version};

use super::text;
use crate::xml;

/// Where a listing goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The service's own word for it; none at the beginning.
    pub(super) marker: Option<String>,
    /// Only what comes behind this key is wanted.
    pub(super) after: Option<Key>,
}

impl Place {
    /// The place that a request names; `None` if its continuation is not one of ours.
    pub(super) fn of(request: &ListRequest) -> Option<Place> {
        let Some(text) = &request.continuation else {
            return Some(Place { marker: None, after: request.start_after.clone() });
        };
        let (marker, after) = match text.split_once('/') {
            Some((marker, after)) => (marker, Some(Key::new(decode(after)?))),
            None => (&text[..], None),
        };
        Some(Place { marker: Some(String::from_utf8(decode(marker)?).ok()?), after })
    }

    /// The place as a continuation.
    pub(super) fn to_text(&self) -> Option<String> {
        let marker = encode(self.marker.as_ref()?.as_bytes());
        Some(match &self.after {
            Some(after) => format!("{marker}/{}", encode(after.as_bytes())),
            None => marker,
        })
    }
}

/// Whether nothing that begins with `prefix` can come behind `after`.
pub(super) fn is_past(prefix: &Key, after: &Key) -> bool {
    prefix < after && !after.as_bytes().starts_with(prefix.as_bytes())
}

/// The query of a listing.
pub(super) fn query(request: &ListRequest, place: &Place) -> Option<Vec<(&'static str, String)>> {
    let text = |key: &Key| std::str::from_utf8(key.as_bytes()).map(str::to_owned).ok();
    let mut query = vec![
        ("restype", "container".to_owned()),
        ("comp", "list".to_owned()),
        ("include", "metadata".to_owned()),
        ("maxresults", request.entries_max.to_string()),
    ];
    if !request.prefix.as_bytes().is_empty() {
        query.push(("prefix", text(&request.prefix)?));
    }
    if request.delimited {
        query.push(("delimiter", "/".to_owned()));
    }
    if let Some(marker) = &place.marker {
        query.push(("marker", marker.clone()));
    }
    // Services before 2026 begin at the beginning whatever is asked: the caller drops the rest.
    if let Some(after) = place.after.as_ref().filter(|&after| request.prefix < *after) {
        query.push(("startFrom", text(after)?));
    }
    Some(query)
}

/// What the service calls the tier that cannot be read.
pub(super) const ARCHIVE: &str = "Archive";

/// A page as the service sent it, and which versions on it are in an archive; `None` if it is not one.
pub(super) fn page(document: &[u8]) -> Option<(Page, Vec<Version>)> {
    let root = xml::parse(document).filter(|root| root.name == "EnumerationResults")?;
    let (mut entries, mut archived) = (Vec::new(), Vec::new());
    for line in &root.child("Blobs")?.children {
        match &line.name[..] {
            "Blob" => {
                let (key, meta) = object(line)?;
                let properties = line.child("Properties");
                let tier = properties.and_then(|properties| properties.text_of("AccessTier"));
                archived.extend((tier == Some(ARCHIVE)).then(|| meta.version.clone()));
                entries.push(Entry::Object(key, meta));
            }
            "BlobPrefix" => entries.push(Entry::Prefix(name(line)?)),
            _ => {}
        }
    }
    entries.sort_by(|a, b| a.key().cmp(b.key()));
    let next = root.text_of("NextMarker").filter(|marker| !marker.is_empty());
    Some((Page { entries, next: next.map(str::to_owned) }, archived))
}

fn object(blob: &xml::Element) -> Option<(Key, Meta)> {
    let properties = blob.child("Properties")?;
    let named = blob.child("Metadata").map_or(&[][..], |metadata| &metadata.children);
    let metadata: Metadata =
        named.iter().map(|pair| (text::decode_name(&pair.name), pair.text.clone())).collect();
    let meta = Meta {
        size: properties.text_of("Content-Length")?.trim().parse().ok()?,
        version: text::version(properties.text_of("Etag")?)?,
        modified: parse_http_date(properties.text_of("Last-Modified")?)?,
        metadata,
    };
    Some((name(blob)?, meta))
}

/// A name; one that XML cannot carry comes escaped as in a URL, and says so.
fn name(line: &xml::Element) -> Option<Key> {
    let name = line.child("Name")?;
    if name.attribute("Encoded") == Some("true") {
        return decode(&name.text).map(Key::new);
    }
    Some(Key::from(&name.text[..]))
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use proptest::prelude::*;

    use super::{Place, is_past, page, query};
    use crate::{Entry, Key, ListRequest, Meta, Metadata, Version};

    const PAGE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>
        <EnumerationResults ServiceEndpoint=\"https://a.blob.core.windows.net/\" ContainerName=\"c\">
        <Prefix>p</Prefix><MaxResults>2</MaxResults><Blobs>
        <Blob><Name Encoded=\"true\">p%0A</Name><Properties>
            <Last-Modified>Sun, 06 Nov 1994 08:49:37 GMT</Last-Modified><Etag>0x1</Etag>
            <Content-Length>5</Content-Length><BlobType>BlockBlob</BlobType></Properties>
            <Metadata><Mode>33188</Mode><quayfs_x2d_upload>1</quayfs_x2d_upload></Metadata></Blob>
        <BlobPrefix><Name> p &amp;/</Name></BlobPrefix></Blobs>
        <NextMarker>2!4!cA--</NextMarker></EnumerationResults>";

    #[test]
    fn a_page_is_read_with_metadata_and_odd_names() {
        let metadata = [("mode", "33188"), ("quayfs-upload", "1")];
        let metadata: Metadata =
            metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let modified = Timestamp { secs: 784_111_777, nanos: 0 };
        let meta = Meta { size: 5, version: Version::new("0x1"), modified, metadata };
        let (page, archived) = page(PAGE.as_bytes()).unwrap();
        assert_eq!(archived, []);
        let want = [Entry::Prefix(Key::from(" p &/")), Entry::Object(Key::from("p\n"), meta)];
        assert_eq!((&page.entries[..], page.next.as_deref()), (&want[..], Some("2!4!cA--")));
    }

    #[test]
    fn a_page_says_which_versions_are_in_an_archive() {
        let (hot, archive) = ("<AccessTier>Hot</AccessTier>", "<AccessTier>Archive</AccessTier>");
        for (tier, want) in [(hot, &[][..]), (archive, &[Version::new("0x1")][..])] {
            let text = PAGE.replace("<BlobType>", &format!("{tier}<BlobType>"));
            assert_eq!(page(text.as_bytes()).unwrap().1, want);
        }
    }

    #[test]
    fn a_page_that_lacks_something_is_no_page() {
        for (part, without) in [
            ("<Etag>0x1</Etag>", ""),
            ("<Content-Length>5</Content-Length>", "<Content-Length>-5</Content-Length>"),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "today"),
            ("p%0A", "p%"),
            ("EnumerationResults", "html"),
        ] {
            assert_eq!(page(PAGE.replace(part, without).as_bytes()), None, "without {part}");
        }
    }

    #[test]
    fn a_place_goes_there_and_back() {
        for (marker, after) in [("2!4!cA--", None), ("a/b c", Some(Key::from(&b"k/\xff"[..])))] {
            let place = Place { marker: Some(marker.to_owned()), after };
            let asked = ListRequest { continuation: place.to_text(), ..request() };
            assert_eq!(Place::of(&asked), Some(place));
        }
        let broken = ListRequest { continuation: Some("%".to_owned()), ..request() };
        assert_eq!(Place::of(&broken), None);
    }

    #[test]
    fn a_listing_begins_where_it_is_asked_to() {
        let from = |after: &str| {
            let place = Place { marker: None, after: Some(Key::from(after)) };
            let query = query(&request(), &place).unwrap();
            query.into_iter().find(|(name, _)| *name == "startFrom").map(|(_, value)| value)
        };
        assert_eq!(from("p/x"), Some("p/x".to_owned()));
        assert_eq!(from("a"), None);
        for (prefix, after, want) in
            [("p/", "q", true), ("p/", "p/x", false), ("p/", "a", false), ("", "z", false)]
        {
            assert_eq!(is_past(&Key::from(prefix), &Key::from(after)), want, "{prefix} {after}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(at in 0..PAGE.len(), bytes in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut document = PAGE.as_bytes().to_vec();
            let end = (at + bytes.len()).min(document.len());
            document.splice(at..end, bytes);
            page(&document);
        }
    }

    fn request() -> ListRequest {
        ListRequest {
            prefix: Key::from("p/"),
            delimited: true,
            start_after: None,
            continuation: None,
            entries_max: 10,
        }
    }
}
