//! An attribute object as text: a line that says what it is, then a line for each entry.

use std::collections::BTreeMap;

use serde_json::Value;

use super::item::{Item, Label};
use super::line::{self, Object, Usual};

/// The version of the format that is written here.
const VERSION: u64 = 1;

/// The name of the format in the first line.
const FORMAT: &str = "quayfs-attributes";

/// The longest line that is looked at: the most that extended attributes of one name take, and room
/// for the rest.
const LINE_BYTES_MAX: usize = 512 << 10;

/// Entries by name.
pub(in crate::bucket) type Items = BTreeMap<Label, Item>;

/// What the text of an attribute object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bucket) enum Text {
    /// Entries.
    Items {
        usual: Usual,
        items: Items,
        /// How many lines made no sense.
        bad: usize,
    },
    /// The entries are in other objects, whose names have this in them.
    Split { usual: Usual, id: String },
    /// Something that only a newer program understands, or nothing at all.
    Unknown,
}

/// The text of an object with these entries.
pub(in crate::bucket) fn write(items: &Items, usual: Usual) -> String {
    let mut text = first_line(usual, None);
    for (label, item) in items {
        text.push_str(&line::write(label, item, usual));
        text.push('\n');
    }
    text
}

/// The text of an object with one entry.
pub(in crate::bucket) fn write_one(label: &[u8], item: &Item, usual: Usual) -> String {
    let mut text = first_line(usual, None);
    text.push_str(&line::write(label, item, usual));
    text.push('\n');
    text
}

/// The text of an object whose entries are in others.
pub(in crate::bucket) fn write_split(usual: Usual, id: &str) -> String {
    first_line(usual, Some(id))
}

fn first_line(usual: Usual, split: Option<&str>) -> String {
    let Usual { uid, gid, file_mode, folder_mode } = usual;
    let mut object = Object::default();
    object.put("file", format_args!("\"{file_mode:o}\""));
    object.put("folder", format_args!("\"{folder_mode:o}\""));
    object.put("gid", format_args!("{gid}"));
    object.put(FORMAT, format_args!("{VERSION}"));
    if let Some(id) = split {
        object.put_text("split", id);
    }
    object.put("uid", format_args!("{uid}"));
    object.end() + "\n"
}

/// What is in an object. Lines that make no sense are left out: others can write here, too.
pub(in crate::bucket) fn read(text: &[u8]) -> Text {
    let mut lines = text.split(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let Some((usual, split)) = read_first(first) else { return Text::Unknown };
    if let Some(id) = split {
        return Text::Split { usual, id };
    }
    let mut items = Items::new();
    let mut bad = 0;
    for line in lines.filter(|line| !line.is_empty()) {
        let entry = (line.len() <= LINE_BYTES_MAX)
            .then(|| str::from_utf8(line).ok())
            .flatten()
            .and_then(|line| line::read(line, usual));
        match entry {
            Some((label, item)) => {
                items.insert(label, item);
            }
            None => bad += 1,
        }
    }
    Text::Items { usual, items, bad }
}

fn read_first(line: &[u8]) -> Option<(Usual, Option<String>)> {
    let Ok(Value::Object(map)) = serde_json::from_slice(line) else { return None };
    if map.get(FORMAT)?.as_u64()? != VERSION {
        return None;
    }
    let number = |key| u32::try_from(map.get(key)?.as_u64()?).ok();
    let usual = Usual {
        uid: number("uid")?,
        gid: number("gid")?,
        file_mode: line::mode_of(map.get("file")?)?,
        folder_mode: line::mode_of(map.get("folder")?)?,
    };
    let split = match map.get("split") {
        None => None,
        // It becomes a part of keys.
        Some(id) => Some(id.as_str().filter(|id| is_id(id))?.to_owned()),
    };
    Some((usual, split))
}

fn is_id(id: &str) -> bool {
    (1..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::proptest;

    use super::{Items, Text, read, write, write_split};
    use crate::bucket::attributes::line::tests::{USUAL, entry};

    proptest! {
        #[test]
        fn every_object_survives_the_round_trip(entries in vec(entry(), 0..20)) {
            let items: Items = entries.into_iter().collect();
            let text = write(&items, USUAL);
            assert_eq!(read(text.as_bytes()), Text::Items { usual: USUAL, items, bad: 0 });
        }

        #[test]
        fn no_object_makes_the_reader_panic(bytes: Vec<u8>) {
            read(&bytes);
        }
    }

    #[test]
    fn the_first_line_is_fixed() {
        let first = r#"{"file":"644","folder":"755","gid":100,"quayfs-attributes":1,"uid":1000}"#;
        assert_eq!(write(&Items::new(), USUAL), format!("{first}\n"));
        let split = write_split(USUAL, "0badcafe");
        assert_eq!(read(split.as_bytes()), Text::Split { usual: USUAL, id: "0badcafe".to_owned() });
    }

    #[test]
    fn bad_lines_are_left_out_and_what_is_newer_is_left_alone() {
        let mut text = write(&Items::new(), USUAL).into_bytes();
        text.extend(b"nonsense\n\xff\n{\"name\":\"a\",\"etag\":\"e\"}\n");
        let Text::Items { items, bad, .. } = read(&text) else { panic!("it has entries") };
        assert_eq!((items.len(), bad), (1, 2));
        for unknown in
            ["", "\n", "{}", "x", r#"{"quayfs-attributes":2}"#, r#"{"quayfs-attributes":1}"#]
        {
            assert_eq!(read(unknown.as_bytes()), Text::Unknown, "{unknown}");
        }
        let hostile = write_split(USUAL, "../x");
        assert_eq!(read(hostile.as_bytes()), Text::Unknown);
    }
}
