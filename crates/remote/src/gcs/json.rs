//! What Google's answers say, and what is said to it; pure.

use std::collections::BTreeMap;

use aws_smithy_types::DateTime;
use aws_smithy_types::base64;
use aws_smithy_types::date_time::Format;
use base::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Entry, Key, Meta, Metadata, Page, PartNumber, PartTag, Version};

/// The fields of an object that we ask for.
pub(super) const FIELDS: &str = "name,generation,size,updated,metadata,crc32c";

/// An object. Numbers come as text, since JSON's own are not exact.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object {
    name: String,
    generation: String,
    size: String,
    updated: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    crc32c: Option<String>,
}

impl Object {
    pub(super) fn meta(self) -> Option<(Key, Meta)> {
        let metadata = self.metadata.into_iter();
        let metadata: Metadata =
            metadata.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let meta = Meta {
            size: self.size.parse().ok()?,
            version: version(&self.generation)?,
            modified: timestamp(&self.updated)?,
            metadata,
        };
        Some((Key::from(&self.name[..]), meta))
    }

    /// The checksum of its bytes.
    pub(super) fn crc32c(&self) -> Option<u32> {
        parse_crc32c(self.crc32c.as_deref()?)
    }
}

/// A generation as a version: nothing but digits.
pub(super) fn version(generation: &str) -> Option<Version> {
    generation.parse::<u64>().ok().filter(|&number| number != 0)?;
    Some(Version::new(generation))
}

pub(super) fn timestamp(text: &str) -> Option<Timestamp> {
    let time = DateTime::from_str(text, Format::DateTimeWithOffset).ok()?;
    Some(Timestamp { secs: time.secs(), nanos: time.subsec_nanos() })
}

/// The answer to a copy: finished, or what to ask on with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rewrite {
    pub(super) done: bool,
    #[serde(rename = "rewriteToken")]
    pub(super) next: Option<String>,
    pub(super) resource: Option<Written>,
}

/// What is told of an object that was written.
#[derive(Debug, Deserialize)]
pub(super) struct Written {
    generation: String,
}

impl Written {
    pub(super) fn version(&self) -> Option<Version> {
        version(&self.generation)
    }
}

/// What a listing calls itself.
const LISTED: &str = "storage#objects";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    kind: Option<String>,
    #[serde(default)]
    items: Vec<Object>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

/// A page as the store sent it; `None` if it is not one.
pub(super) fn page(document: &[u8]) -> Option<Page> {
    let listed: Listed = serde_json::from_slice(document).ok()?;
    // An answer of something else would be a page of a folder that has nothing in it.
    if listed.kind.as_deref() != Some(LISTED) {
        return None;
    }
    let object = |object: Object| object.meta().map(|(key, meta)| Entry::Object(key, meta));
    let mut entries = listed.items.into_iter().map(object).collect::<Option<Vec<Entry>>>()?;
    entries.extend(listed.prefixes.iter().map(|prefix| Entry::Prefix(Key::from(&prefix[..]))));
    entries.sort_by(|a, b| a.key().cmp(b.key()));
    Some(Page { entries, next: listed.next_page_token.filter(|token| !token.is_empty()) })
}

/// Why a call failed, as far as the store says.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Failed {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Envelope {
    error: Failed,
}

impl Failed {
    /// What a body says that need not be JSON.
    pub(super) fn parse(body: &[u8]) -> Failed {
        serde_json::from_slice(body).map(|envelope: Envelope| envelope.error).unwrap_or_default()
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.errors.first()?.reason.as_deref()
    }

    pub(super) fn message(&self) -> &str {
        let line = self.message.lines().next().unwrap_or_default().trim();
        if line.is_empty() { "no further words" } else { line }
    }
}

/// What an object gets besides its bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wanted<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    content_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
    metadata: &'a Metadata,
}

const CONTENT_TYPE: &str = "application/octet-stream";

/// What goes before the bytes of an object that is put.
pub(super) fn wanted(name: &str, crc32c: u32, metadata: &Metadata) -> String {
    let crc32c = Some(base64::encode(crc32c.to_be_bytes()));
    let wanted = Wanted { name: Some(name), content_type: CONTENT_TYPE, crc32c, metadata };
    serde_json::to_string(&wanted).expect("text is text in JSON")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Compose<'a> {
    source_objects: Vec<Source<'a>>,
    destination: Wanted<'a>,
}

#[derive(Serialize)]
struct Source<'a> {
    name: &'a str,
    generation: &'a str,
}

/// What an object is put together from: names and generations.
pub(super) fn compose(sources: &[(String, Version)], metadata: &Metadata) -> String {
    let source_objects = sources
        .iter()
        .map(|(name, version)| Source { name, generation: version.as_str() })
        .collect();
    let destination = Wanted { name: None, content_type: CONTENT_TYPE, crc32c: None, metadata };
    serde_json::to_string(&Compose { source_objects, destination }).expect("text is text in JSON")
}

/// A part's receipt: the generation of the object that holds it.
pub(super) fn part_tag(version: &Version) -> PartTag {
    PartTag(version.as_str().to_owned())
}

/// The receipt of a part that is a whole object: its generation and its name.
pub(super) fn copied_tag(name: &str, version: &Version) -> PartTag {
    PartTag(format!("{}/{name}", version.as_str()))
}

/// What a receipt says of the object that holds the part: its generation, and its name if it is
/// not one of the upload's own.
pub(super) fn parse_part_tag(PartTag(tag): &PartTag) -> (Version, Option<&str>) {
    match tag.split_once('/') {
        Some((version, name)) => (Version::new(version), Some(name)),
        None => (Version::new(tag), None),
    }
}

/// The name below an upload's own folder under which a part is kept.
pub(super) fn part_name(part: PartNumber) -> String {
    format!("part-{:08}", part.0)
}

/// The checksum in an `x-goog-hash` header.
pub(super) fn crc32c_of_header(header: &str) -> Option<u32> {
    let sums = header.split(',').map(str::trim);
    sums.filter_map(|sum| sum.strip_prefix("crc32c=")).find_map(parse_crc32c)
}

fn parse_crc32c(text: &str) -> Option<u32> {
    let bytes: [u8; 4] = base64::decode(text).ok()?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use proptest::prelude::*;

    use super::{Failed, Object, compose, crc32c_of_header, page, version, wanted};
    use crate::{Entry, Key, Meta, Metadata, Version};

    const PAGE: &str = r#"{"kind": "storage#objects", "nextPageToken": "t", "prefixes": ["a/"],
        "items": [{"name": "b\n", "generation": "17", "size": "5", "updated": "1994-11-06T08:49:37.125Z",
        "metadata": {"Mode": "33188"}, "crc32c": "4waSgw=="}]}"#;

    #[test]
    fn a_page_is_read_with_metadata() {
        let metadata: Metadata = [("mode".to_owned(), "33188".to_owned())].into();
        let modified = Timestamp { secs: 784_111_777, nanos: 125_000_000 };
        let meta = Meta { size: 5, version: Version::new("17"), modified, metadata };
        let page = page(PAGE.as_bytes()).unwrap();
        let want = [Entry::Prefix(Key::from("a/")), Entry::Object(Key::from("b\n"), meta)];
        assert_eq!((&page.entries[..], page.next.as_deref()), (&want[..], Some("t")));
    }

    #[test]
    fn a_page_that_lacks_something_is_no_page() {
        for (part, without) in [
            ("\"generation\": \"17\"", "\"generation\": \"0\""),
            ("\"generation\": \"17\"", "\"generation\": \"x\""),
            ("\"size\": \"5\"", "\"size\": \"-5\""),
            ("1994-11-06T08:49:37.125Z", "today"),
            ("\"name\"", "\"nom\""),
            ("}]}", ""),
        ] {
            assert_eq!(page(PAGE.replace(part, without).as_bytes()), None, "without {part}");
        }
        let nothing = page(br#"{"kind": "storage#objects"}"#);
        assert_eq!(nothing.map(|page| page.entries), Some(Vec::new()));
        for other in ["{}", r#"{"error": {"message": "x"}}"#, r#"{"kind": "storage#buckets"}"#] {
            assert_eq!(page(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn checksums_are_found_where_they_are() {
        assert_eq!(crc32c_of_header("crc32c=4waSgw==,md5=x"), Some(0xe306_9283));
        assert_eq!(crc32c_of_header("md5=x, crc32c=4waSgw=="), Some(0xe306_9283));
        assert_eq!(crc32c_of_header("md5=x"), None);
        assert_eq!(crc32c_of_header("crc32c=4waS"), None);
        let one = r#"{"name":"a","generation":"1","size":"0","updated":"1994-11-06T08:49:37Z","crc32c":"4waSgw=="}"#;
        assert_eq!(serde_json::from_str::<Object>(one).unwrap().crc32c(), Some(0xe306_9283));
    }

    #[test]
    fn what_is_said_is_spelt_as_documented() {
        let metadata: Metadata = [("mode".to_owned(), "\"".to_owned())].into();
        assert_eq!(
            wanted("a\"b", 0xe306_9283, &metadata),
            r#"{"name":"a\"b","contentType":"application/octet-stream","crc32c":"4waSgw==","metadata":{"mode":"\""}}"#,
        );
        assert_eq!(
            compose(&[("p".to_owned(), Version::new("7"))], &Metadata::new()),
            r#"{"sourceObjects":[{"name":"p","generation":"7"}],"destination":{"contentType":"application/octet-stream","metadata":{}}}"#,
        );
        assert_eq!(version("12x"), None);
    }

    #[test]
    fn an_error_is_read_from_json_and_from_anything_else() {
        let failed = Failed::parse(br#"{"error": {"code": 403, "message": "no\nmore", "errors": [{"reason": "rateLimitExceeded"}]}}"#);
        assert_eq!((failed.reason(), failed.message()), (Some("rateLimitExceeded"), "no"));
        let failed = Failed::parse(b"<html>");
        assert_eq!((failed.reason(), failed.message()), (None, "no further words"));
    }

    proptest! {
        #[test]
        fn any_sum_is_read_without_harm(header in "((crc32c|md5)=[A-Za-z0-9+/=]{0,9},? ?){0,3}|\\PC{0,9}") {
            crc32c_of_header(&header);
        }

        #[test]
        fn any_answer_is_read_without_harm(at in 0..PAGE.len(), bytes in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut document = PAGE.as_bytes().to_vec();
            let end = (at + bytes.len()).min(document.len());
            document.splice(at..end, bytes);
            page(&document);
            Failed::parse(&document);
        }
    }
}
