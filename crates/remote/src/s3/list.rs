//! Listings: what is asked for, and what the answer says; pure.

use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};
use base::Timestamp;

use super::text::{self, decode_listed};
use crate::xml::Element;
use crate::{Key, ListRequest};

/// An object on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) key: Key,
    pub(super) size: u64,
    pub(super) etag: Option<String>,
    pub(super) modified: Timestamp,
    pub(super) class: Option<String>,
}

/// A page as the store sent it, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) objects: Vec<Line>,
    pub(super) prefixes: Vec<Key>,
    /// Where the next page begins; `None` if this is the last one.
    pub(super) next: Option<String>,
}

/// The query of a listing; `None` if S3 has no text for a key in it.
pub(super) fn query(request: &ListRequest) -> Option<Vec<(&'static str, String)>> {
    let text = |key: &Key| std::str::from_utf8(key.as_bytes()).map(str::to_owned).ok();
    let mut query = vec![
        ("list-type", "2".to_owned()),
        ("encoding-type", "url".to_owned()),
        ("max-keys", request.entries_max.to_string()),
        ("prefix", text(&request.prefix)?),
    ];
    if request.delimited {
        query.push(("delimiter", "/".to_owned()));
    }
    if let Some(after) = &request.start_after {
        query.push(("start-after", text(after)?));
    }
    if let Some(token) = &request.continuation {
        query.push(("continuation-token", token.clone()));
    }
    Some(query)
}

/// The same of the folder that the prefix is in: a directory bucket takes prefixes that end in a slash only
/// (`ListObjectsV2` of the S3 API reference). What begins otherwise is to be left out.
pub(super) fn of_folder(request: &ListRequest) -> ListRequest {
    let prefix = request.prefix.as_bytes();
    let end = prefix.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    ListRequest { prefix: Key::from(&prefix[..end]), ..request.clone() }
}

/// What a document says; an error says what it lacks: to believe less would hide or empty files.
pub(super) fn page(root: &Element) -> Result<Listed, &'static str> {
    if root.name != "ListBucketResult" {
        return Err("the answer is no listing");
    }
    let mut page = Listed::default();
    for child in &root.children {
        match &child.name[..] {
            "Contents" => page.objects.push(line(child)?),
            "CommonPrefixes" => page.prefixes.push(key(child, "Prefix")?),
            _ => {}
        }
    }
    page.next = match root.text_of("IsTruncated").map(str::trim) {
        Some("true") => {
            let token = root.text_of("NextContinuationToken").filter(|token| !token.is_empty());
            Some(token.ok_or("the listing does not say how it goes on")?.to_owned())
        }
        Some("false") => None,
        Some(_) | None => return Err("the listing does not say whether it goes on"),
    };
    Ok(page)
}

fn line(object: &Element) -> Result<Line, &'static str> {
    let size = object.text_of("Size").and_then(|size| size.trim().parse().ok());
    Ok(Line {
        key: key(object, "Key")?,
        size: size.ok_or("the listing does not say how large an object is")?,
        etag: object.text_of("ETag").map(str::to_owned),
        modified: object.text_of("LastModified").map_or_else(Timestamp::default, timestamp),
        class: object.text_of("StorageClass").map(str::to_owned),
    })
}

fn key(line: &Element, name: &str) -> Result<Key, &'static str> {
    let key = line.text_of(name).and_then(decode_listed);
    Ok(Key::new(key.ok_or("a key is garbled")?))
}

/// A time that nobody can read is none: it makes no object other than it is.
fn timestamp(text: &str) -> Timestamp {
    text::timestamp(DateTime::from_str(text.trim(), DateTimeFormat::DateTime).ok().as_ref())
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use proptest::prelude::*;

    use super::{Line, Listed, of_folder, page, query};
    use crate::{Key, ListRequest, xml};

    const PAGE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">
        <Name>b</Name><Prefix>p</Prefix><EncodingType>url</EncodingType><KeyCount>2</KeyCount>
        <IsTruncated>true</IsTruncated><NextContinuationToken>1/x==</NextContinuationToken>
        <Contents><Key>p/a+b%0A</Key><LastModified>2023-11-14T22:13:20.500Z</LastModified>
            <ETag>&quot;1&quot;</ETag><Size>5</Size><StorageClass>GLACIER</StorageClass></Contents>
        <CommonPrefixes><Prefix>p/%C3%BC/</Prefix></CommonPrefixes></ListBucketResult>";

    fn read(text: &str) -> Result<Listed, &'static str> {
        page(&xml::parse(text.as_bytes()).ok_or("not well formed")?)
    }

    #[test]
    fn a_page_has_objects_prefixes_and_the_place_of_the_next() {
        let line = Line {
            key: Key::from("p/a b\n"),
            size: 5,
            etag: Some("\"1\"".to_owned()),
            modified: Timestamp { secs: 1_700_000_000, nanos: 0 },
            class: Some("GLACIER".to_owned()),
        };
        let want = Listed {
            objects: vec![line],
            prefixes: vec![Key::from("p/ü/")],
            next: Some("1/x==".to_owned()),
        };
        assert_eq!(read(PAGE), Ok(want));
        let last = PAGE.replace("<IsTruncated>true", "<IsTruncated>false");
        assert_eq!(read(&last).unwrap().next, None);
    }

    #[test]
    fn a_page_that_lacks_something_is_no_page() {
        for (part, instead) in [
            ("</ListBucketResult>", ""),
            ("ListBucketResult", "html"),
            ("<NextContinuationToken>1/x==</NextContinuationToken>", ""),
            ("<IsTruncated>true</IsTruncated>", ""),
            ("<Size>5</Size>", ""),
            ("<Size>5</Size>", "<Size>-5</Size>"),
            ("p/a+b%0A", "p/a%"),
            ("<Key>p/a+b%0A</Key>", ""),
        ] {
            assert!(read(&PAGE.replace(part, instead)).is_err(), "{part} became {instead}");
        }
    }

    #[test]
    fn no_beginning_of_a_page_is_a_page() {
        for end in (0..PAGE.len()).filter(|end| PAGE.is_char_boundary(*end)) {
            assert!(read(&PAGE[..end]).is_err(), "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(at in 0..PAGE.len(), bytes in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut document = PAGE.as_bytes().to_vec();
            let end = (at + bytes.len()).min(document.len());
            document.splice(at..end, bytes);
            let _ = xml::parse(&document).map(|root| page(&root));
        }
    }

    #[test]
    fn a_listing_is_asked_for_in_its_own_words() {
        let request = ListRequest {
            prefix: Key::from("p/"),
            delimited: true,
            start_after: Some(Key::from("p/a")),
            continuation: Some("1/x==".to_owned()),
            entries_max: 10,
        };
        let want = [
            ("list-type", "2"),
            ("encoding-type", "url"),
            ("max-keys", "10"),
            ("prefix", "p/"),
            ("delimiter", "/"),
            ("start-after", "p/a"),
            ("continuation-token", "1/x=="),
        ];
        let want: Vec<_> = want.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        assert_eq!(query(&request), Some(want));
        let odd = ListRequest { prefix: Key::from(&b"\xff"[..]), ..request };
        assert_eq!(query(&odd), None);
    }

    #[test]
    fn a_prefix_is_looked_for_in_its_folder() {
        for (prefix, want) in [("a/b/", "a/b/"), ("a/b", "a/"), ("a", ""), ("", "")] {
            let request = ListRequest {
                prefix: Key::from(prefix),
                delimited: true,
                start_after: None,
                continuation: Some("1/x==".to_owned()),
                entries_max: 10,
            };
            let asked = of_folder(&request);
            assert_eq!(asked, ListRequest { prefix: Key::from(want), ..request }, "{prefix}");
        }
    }
}
