//! Looks at the attribute objects of a bucket: whether each can be read, and speaks of what is there.

use std::collections::BTreeMap;

use remote::{Entry, Fresh, Key, ListRequest, Remote, Version};

use super::attributes::place::{OBJECT, is_attributes, shard};
use super::attributes::sheet::{self, Text};

/// Something that an attribute object says and that is not so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeFlaw {
    /// The attribute object.
    pub key: Key,
    /// What is wrong.
    pub what: String,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Objects that hold files.
    pub objects: u64,
    /// Objects that hold attributes.
    pub attribute_objects: u64,
    /// What is wrong with them.
    pub flaws: Vec<AttributeFlaw>,
}

/// The largest attribute object that is read.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// Keys that are remembered at a time: more have to be checked by prefixes.
const KEYS_MAX: usize = 5_000_000;

/// How many flaws are told.
const FLAWS_MAX: usize = 10_000;

/// Compares all attribute objects of `remote` with the objects that they speak of.
pub async fn check_attributes(remote: &dyn Remote) -> remote::Result<Checked> {
    let keys = list_all(remote).await?;
    let mut checked = Checked::default();
    for key in keys.keys() {
        let at = key.as_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let (prefix, rest) = key.as_bytes().split_at(at);
        if !is_attributes(rest) {
            checked.objects += 1;
            continue;
        }
        checked.attribute_objects += 1;
        let found = match remote.get_whole(key, None, OBJECT_BYTES_MAX).await {
            Ok(Fresh::New(_, bytes)) => flaws(&keys, (prefix, rest), &sheet::read(&bytes)),
            Ok(Fresh::Same) => continue,
            // Replaced or removed since it was listed: whoever did that looks after it.
            Err(error) if error.kind == remote::ErrorKind::NotFound => continue,
            // A mount reads past it, too.
            Err(error) if error.kind == remote::ErrorKind::Unsupported => {
                vec![format!("cannot be read, and mounts ignore it: {}", reason(&error))]
            }
            Err(error) => return Err(error),
        };
        let room = FLAWS_MAX.saturating_sub(checked.flaws.len());
        let of = |what| AttributeFlaw { key: key.clone(), what };
        checked.flaws.extend(found.into_iter().take(room).map(of));
    }
    Ok(checked)
}

/// The store's words, or the kind of the error where there are none.
fn reason(error: &remote::Error) -> String {
    error.source.as_ref().map_or_else(|| error.kind.to_string(), ToString::to_string)
}

/// Every key with its version.
async fn list_all(remote: &dyn Remote) -> remote::Result<BTreeMap<Key, Version>> {
    let mut keys = BTreeMap::new();
    let mut request = ListRequest {
        prefix: Key::from(""),
        delimited: false,
        start_after: None,
        continuation: None,
        entries_max: 1000,
    };
    loop {
        let page = remote.list(&request).await?;
        for entry in page.entries {
            if let Entry::Object(key, meta) = entry {
                keys.insert(key, meta.version);
            }
        }
        if KEYS_MAX < keys.len() {
            let what = "too many objects at once: check folders of the bucket one by one";
            let kind = remote::ErrorKind::Unsupported;
            return Err(remote::Error::new(kind, "check", &request.prefix).because(what));
        }
        match page.next {
            Some(next) => request.continuation = Some(next),
            None => return Ok(keys),
        }
    }
}

fn flaws(
    keys: &BTreeMap<Key, Version>,
    (prefix, rest): (&[u8], &[u8]),
    said: &Text,
) -> Vec<String> {
    let key_of = |rest: &[u8]| Key::new([prefix, rest].concat());
    match said {
        Text::Unknown => vec!["is not understood: damaged, or of a newer program".to_owned()],
        Text::Split { id, .. } if rest == OBJECT => {
            let is_missing = |at: &usize| !keys.contains_key(&key_of(&shard(id, *at)));
            let missing = (0..SHARDS).filter(is_missing).count();
            // Parts without entries are not there.
            if missing == SHARDS {
                vec![format!("none of its parts {id} is there")]
            } else {
                Vec::new()
            }
        }
        Text::Split { .. } => vec!["is a part, and split again".to_owned()],
        Text::Items { items, bad, .. } => {
            let mut found = Vec::new();
            if 0 < *bad {
                found.push(format!("{bad} lines cannot be read"));
            }
            for (label, item) in items.iter().filter(|(label, _)| !label.is_empty()) {
                let name = label.escape_ascii();
                let key = key_of(label);
                if label.ends_with(b"/") {
                    let mut below = keys.range(key.clone()..);
                    let is_there = below
                        .next()
                        .is_some_and(|(next, _)| next.as_bytes().starts_with(key.as_bytes()));
                    if !is_there {
                        found.push(format!("speaks of the folder {name}, which is not there"));
                    }
                    continue;
                }
                match (keys.get(&key), &item.version) {
                    (None, _) => found.push(format!("speaks of {name}, which is not there")),
                    (Some(there), Some(version)) if there != version => {
                        found.push(format!("speaks of another version of {name}"));
                    }
                    (Some(_), _) => {}
                }
            }
            found
        }
    }
}

/// How many parts a large folder's entries have.
const SHARDS: usize = super::attributes::book::SHARDS;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use remote::fake::Fake;
    use remote::{Condition, Key, Metadata, PutOptions, Remote as _, Version};

    use super::{OBJECT_BYTES_MAX, check_attributes, flaws};
    use crate::bucket::attributes::sheet;

    fn found(lines: &str, rest: &[u8]) -> Vec<String> {
        let keys =
            [("d/a", "1"), ("d/b", "2"), ("d/in/x", "3"), ("d/.quayfs-attributes.1f.00", "4")];
        let keys: BTreeMap<Key, Version> =
            keys.iter().map(|(key, version)| (Key::from(*key), Version::new(version))).collect();
        flaws(&keys, (b"d/", rest), &sheet::read(lines.as_bytes()))
    }

    const FIRST: &str = r#"{"file":"644","folder":"755","gid":0,"quayfs-attributes":1,"uid":0"#;

    #[tokio::test]
    async fn too_large_object_is_a_flaw_and_the_rest_is_checked() {
        let (fake, metadata) = (Fake::new(), Metadata::new());
        let options = PutOptions { condition: Condition::Always, metadata };
        let large = vec![b'x'; usize::try_from(OBJECT_BYTES_MAX).unwrap() + 1];
        for (key, bytes) in [
            ("a/.quayfs-attributes", Bytes::from(large)),
            ("b/.quayfs-attributes", Bytes::from_static(b"nonsense")),
            ("b/file", Bytes::from_static(b"bytes")),
        ] {
            fake.put(&Key::from(key), bytes, &options).await.unwrap();
        }
        let checked = check_attributes(&fake).await.unwrap();
        let flaws: Vec<_> =
            checked.flaws.iter().map(|flaw| (flaw.key.to_string(), &*flaw.what)).collect();
        assert_eq!((checked.objects, checked.attribute_objects), (1, 2));
        assert_eq!(flaws[0].0, "a/.quayfs-attributes");
        assert!(flaws[0].1.starts_with("cannot be read, and mounts ignore it"), "{flaws:?}");
        assert_eq!(flaws[1].0, "b/.quayfs-attributes");
    }

    #[test]
    fn what_cannot_be_read_is_a_flaw_and_what_is_split_is_not() {
        assert_eq!(found("nonsense", b".quayfs-attributes").len(), 1);
        assert_eq!(
            found(&format!("{FIRST}}}\nnonsense\n"), b".quayfs-attributes"),
            ["1 lines cannot be read"]
        );
        let split =
            |id: &str| found(&format!("{FIRST},\"split\":\"{id}\"}}\n"), b".quayfs-attributes");
        assert_eq!(split("1f"), Vec::<String>::new());
        assert_eq!(split("2e").len(), 1);
    }
}
