//! Listings: what is asked for, and what the answer says; pure.

use std::collections::BTreeSet;

use crate::http::{decode, encode, parse_http_date};
use crate::{Entry, Key, ListRequest, Meta, Metadata, Page, Version};

use super::paths::is_folder;
use super::text;
use crate::xml;

/// Where a listing goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The service's own word for it; none at the beginning.
    pub(super) marker: Option<String>,
    /// Only what comes behind this key is wanted.
    pub(super) after: Option<Key>,
    /// Folders that were told of already, and whose keys come behind what is yet to be told of.
    pub(super) held: Vec<Key>,
}

/// What an account calls what is in it, and in which order it tells of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Keys of any kind, in their order.
    Keys,
    /// Paths of files and folders, as a walk finds them: what is in a folder `a` before a file `a.txt`.
    Paths,
}

impl Place {
    /// The place that a request names; `None` if its continuation is not one of ours.
    pub(super) fn of(request: &ListRequest) -> Option<Place> {
        let Some(text) = &request.continuation else {
            let after = request.start_after.clone();
            return Some(Place { marker: None, after, held: Vec::new() });
        };
        let mut words = text.split('/');
        let marker = words.next().unwrap_or_default();
        let mut keys = words.map(|word| decode(word).map(Key::new));
        let after = match keys.next() {
            // What is behind nothing is all there is.
            Some(after) => Some(after?).filter(|after| !after.as_bytes().is_empty()),
            None => None,
        };
        let held = keys.collect::<Option<Vec<Key>>>()?;
        Some(Place { marker: Some(String::from_utf8(decode(marker)?).ok()?), after, held })
    }

    /// The place as a continuation.
    pub(super) fn to_text(&self) -> Option<String> {
        let mut text = encode(self.marker.as_ref()?.as_bytes());
        if self.after.is_some() || !self.held.is_empty() {
            text.push('/');
            text.push_str(
                &self.after.as_ref().map(|key| encode(key.as_bytes())).unwrap_or_default(),
            );
        }
        for key in &self.held {
            text.push('/');
            text.push_str(&encode(key.as_bytes()));
        }
        Some(text)
    }
}

/// Whether nothing that begins with `prefix` can come behind `after`.
pub(super) fn is_past(prefix: &Key, after: &Key) -> bool {
    prefix < after && !after.as_bytes().starts_with(prefix.as_bytes())
}

/// The query of a listing.
pub(super) fn query(
    request: &ListRequest,
    place: &Place,
    names: Names,
) -> Option<Vec<(&'static str, String)>> {
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
    // Services before 2026 begin at the beginning whatever is asked: the caller drops the rest. Where the
    // order is another, a folder that comes behind may have been told of before.
    let after = place.after.as_ref().filter(|_| names == Names::Keys);
    if let Some(after) = after.filter(|&after| request.prefix < *after) {
        query.push(("startFrom", text(after)?));
    }
    Some(query)
}

/// What the service calls the tier that cannot be read.
pub(super) const ARCHIVE: &str = "Archive";

/// A page as the service sent it, and which versions on it are in an archive; `None` if it is not one.
pub(super) fn page(document: &[u8], names: Names) -> Option<(Page, Vec<Version>)> {
    let root = xml::parse(document).filter(|root| root.name == "EnumerationResults")?;
    let (mut entries, mut archived) = (Vec::new(), Vec::new());
    for line in &root.child("Blobs")?.children {
        match &line.name[..] {
            "Blob" => {
                let (key, meta) = object(line)?;
                let properties = line.child("Properties");
                let said = properties.and_then(|properties| properties.text_of("ResourceType"));
                if names == Names::Paths && is_folder(said, &meta.metadata) {
                    entries.push(Entry::Object(key.join(b"/"), Meta { size: 0, ..meta }));
                    continue;
                }
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

/// Makes a page of a listing that is folded, and goes on where `page.next` says, one whose lines come in the
/// order of their keys with those of other pages: folders that were told of too early are held back.
pub(super) fn fold(page: &mut Page, held: &mut Vec<Key>) {
    let mut folders: BTreeSet<Key> = held.drain(..).collect();
    let mut files = Vec::new();
    for entry in page.entries.drain(..) {
        match entry {
            Entry::Object(key, _) if key.as_bytes().ends_with(b"/") => {
                folders.insert(key);
            }
            Entry::Prefix(key) => {
                folders.insert(key);
            }
            file @ Entry::Object(..) => files.push(file),
        }
    }
    // Whatever follows has a name that is greater than the last one here.
    let bare = |key: &Key| key.as_bytes().strip_suffix(b"/").unwrap_or(key.as_bytes()).to_vec();
    let names = files.iter().map(|file| bare(file.key())).chain(folders.iter().map(bare));
    let last = names.max().filter(|_| page.next.is_some());
    // Behind `a` there may be `a.txt`, the key of which is less than `a/`.
    let is_early = |folder: &Key| {
        let rest = last.as_ref().and_then(|last| last.strip_prefix(&bare(folder)[..]));
        rest.is_some_and(|rest| rest.first().is_none_or(|&byte| byte < b'/'))
    };
    let (early, told): (Vec<Key>, Vec<Key>) = folders.into_iter().partition(is_early);
    held.extend(early);
    page.entries = files.into_iter().chain(told.into_iter().map(Entry::Prefix)).collect();
    page.entries.sort_by(|a, b| a.key().cmp(b.key()));
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
    use std::collections::BTreeMap;

    use base::Timestamp;
    use proptest::prelude::*;

    use super::{Names, Place, fold, is_past, query};
    use crate::{Entry, Key, ListRequest, Meta, Metadata, Page, Version};

    fn page(document: &[u8]) -> Option<(Page, Vec<Version>)> {
        super::page(document, Names::Keys)
    }

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
            for held in [vec![], vec![Key::from("a/"), Key::from("a.b/")]] {
                let place = Place { marker: Some(marker.to_owned()), after: after.clone(), held };
                let asked = ListRequest { continuation: place.to_text(), ..request() };
                assert_eq!(Place::of(&asked), Some(place));
            }
        }
        let broken = ListRequest { continuation: Some("%".to_owned()), ..request() };
        assert_eq!(Place::of(&broken), None);
    }

    #[test]
    fn a_listing_begins_where_it_is_asked_to() {
        let from = |after: &str| {
            let place = Place { marker: None, after: Some(Key::from(after)), held: Vec::new() };
            let paths = query(&request(), &place, Names::Paths).unwrap();
            assert!(paths.iter().all(|(name, _)| *name != "startFrom"), "another order");
            let query = query(&request(), &place, Names::Keys).unwrap();
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

    #[test]
    fn a_folder_of_an_account_that_has_some_is_told_of_as_such() {
        let folder = "<ResourceType>directory</ResourceType><BlobType>";
        let text = PAGE.replace("<BlobType>", folder).replace("p%0A", "p%2Fd");
        let keys = |names| -> Vec<String> {
            let (page, _) = super::page(text.as_bytes(), names).unwrap();
            page.entries.iter().map(|entry| entry.key().to_string()).collect()
        };
        assert_eq!(keys(Names::Paths), [" p &/", "p/d/"]);
        assert_eq!(keys(Names::Keys), [" p &/", "p/d"]);
    }

    /// The names of a folder, in the order in which such an account tells of them, as pages of `size`.
    fn folded(names: &BTreeMap<String, bool>, size: usize) -> Vec<Key> {
        let all: Vec<(&String, &bool)> = names.iter().collect();
        let (mut told, mut held) = (Vec::new(), Vec::new());
        let chunks: Vec<_> = all.chunks(size).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            let entries = chunk.iter().map(|&(name, &is_folder)| {
                let Some((Page { entries, .. }, _)) = page(PAGE.as_bytes()) else { panic!() };
                match entries.last() {
                    _ if is_folder => Entry::Prefix(Key::from(&format!("{name}/")[..])),
                    Some(Entry::Object(_, meta)) => {
                        Entry::Object(Key::from(&name[..]), meta.clone())
                    }
                    other => panic!("{other:?}"),
                }
            });
            let next = (number + 1 < chunks.len()).then(|| "next".to_owned());
            let mut page = Page { entries: entries.collect(), next };
            fold(&mut page, &mut held);
            told.extend(page.entries.iter().map(|entry| entry.key().clone()));
        }
        assert_eq!(held, []);
        told
    }

    proptest! {
        #[test]
        fn pages_of_paths_become_pages_in_the_order_of_keys(
            names in prop::collection::btree_map("[a-b]{1,2}[-.0]{0,2}[a]?", any::<bool>(), 1..20),
            size in 1_usize..6,
        ) {
            let told = folded(&names, size);
            prop_assert_eq!(told.len(), names.len());
            prop_assert!(told.is_sorted(), "{:?}", told);
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
