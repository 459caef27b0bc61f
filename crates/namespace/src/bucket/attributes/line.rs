//! One line of an attribute object: a name, and what deviates of it, as JSON.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use base::{FileKind, Timestamp};
use remote::Version;
use serde_json::{Map, Value};

use super::escape;
use super::item::{Item, Label, OWN, Xattrs};
use crate::bucket::time::{text_of, time_of};

/// The longest name of an entry: that of a key.
const NAME_BYTES_MAX: usize = 1024;
const TARGET_BYTES_MAX: usize = 4095;
const XATTR_NAME_BYTES_MAX: usize = 255;
const VERSION_BYTES_MAX: usize = 1024;

/// Mode and owner that most entries of an object have: those that its lines leave out. A line that
/// has one `null` says that nobody gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bucket) struct Usual {
    pub(in crate::bucket) uid: u32,
    pub(in crate::bucket) gid: u32,
    pub(in crate::bucket) file_mode: u16,
    pub(in crate::bucket) folder_mode: u16,
}

impl Usual {
    fn mode(self, kind: FileKind) -> u16 {
        match kind {
            FileKind::Directory => self.folder_mode,
            FileKind::Symlink => 0o777,
            FileKind::File
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => self.file_mode,
        }
    }
}

fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        // These need not say it.
        FileKind::File | FileKind::Directory => "",
        FileKind::Symlink => "link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "char",
        FileKind::BlockDevice => "block",
    }
}

fn kind_of(text: &str) -> Option<FileKind> {
    let kinds = [
        FileKind::Symlink,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ];
    kinds.into_iter().find(|&kind| kind_text(kind) == text)
}

/// An etag without the quotes that nearly all have; one that has none begins with `=`.
fn version_text(version: &Version) -> String {
    let raw = version.as_str();
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if !inner.starts_with('=') => inner.to_owned(),
        Some(_) | None => format!("={raw}"),
    }
}

fn version_of(text: &str) -> Version {
    match text.strip_prefix('=') {
        Some(raw) => Version::new(raw),
        None => Version::new(&format!("\"{text}\"")),
    }
}

/// The line of an entry, without its end.
pub(super) fn write(label: &[u8], item: &Item, usual: Usual) -> String {
    let mut object = Object::default();
    object.put_time("atime", item.atime);
    object.put_time("ctime", item.ctime);
    if let Some(version) = &item.version {
        object.put_text("etag", &version_text(version));
    }
    object.put_owner("gid", item.gid, usual.gid);
    if !matches!(item.kind, FileKind::File | FileKind::Directory) {
        object.put_text("kind", kind_text(item.kind));
    }
    match item.mode {
        None => object.put("mode", format_args!("null")),
        Some(mode) if mode == usual.mode(item.kind) => {}
        Some(mode) => object.put("mode", format_args!("\"{mode:o}\"")),
    }
    object.put_time("mtime", item.mtime);
    object.put_text("name", &escape::text(label));
    if item.rdev != 0 {
        object.put("rdev", format_args!("{}", item.rdev));
    }
    if let Some(target) = &item.target {
        object.put_text("target", &escape::text(target));
    }
    object.put_owner("uid", item.uid, usual.uid);
    if let Some(xattrs) = &item.xattrs {
        let mut values = Object::default();
        for (name, value) in xattrs.iter() {
            values.put_text(&escape::text(name), &escape::base64(value));
        }
        object.put("xattrs", format_args!("{}", values.end()));
    }
    object.end()
}

/// A JSON object whose values come in the order of their keys, so that the same entries make the same text.
#[derive(Debug, Default)]
pub(super) struct Object(Vec<u8>);

impl Object {
    /// A value that is JSON as it is.
    pub(super) fn put(&mut self, key: &str, value: fmt::Arguments<'_>) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.put_quoted(key);
        write!(self.0, ":{value}").expect("memory takes all");
    }

    pub(super) fn put_text(&mut self, key: &str, text: &str) {
        self.put(key, format_args!(""));
        self.put_quoted(text);
    }

    fn put_time(&mut self, key: &str, time: Option<Timestamp>) {
        if let Some(time) = time {
            self.put_text(key, &text_of(time));
        }
    }

    fn put_owner(&mut self, key: &str, value: Option<u32>, usual: u32) {
        match value {
            None => self.put(key, format_args!("null")),
            Some(value) if value == usual => {}
            Some(value) => self.put(key, format_args!("{value}")),
        }
    }

    fn put_quoted(&mut self, text: &str) {
        serde_json::to_writer(&mut self.0, text).expect("memory takes all");
    }

    pub(super) fn end(mut self) -> String {
        if self.0.is_empty() {
            self.0.push(b'{');
        }
        self.0.push(b'}');
        String::from_utf8(self.0).expect("it was made of text")
    }
}

/// The entry of a line; `None` if it is none, or one that no name can have.
pub(super) fn read(line: &str, usual: Usual) -> Option<(Label, Item)> {
    let Ok(Value::Object(map)) = serde_json::from_str(line) else { return None };
    let label = escape::bytes(map.get("name")?.as_str()?)?;
    // A folder's label is that of what is in it, without what is in it: it ends in a slash.
    let (is_folder, part) = match label.strip_suffix(b"/") {
        Some(part) => (true, part),
        None => (label == OWN, &label[..]),
    };
    if NAME_BYTES_MAX < label.len() || part.contains(&b'/') {
        return None;
    }
    let kind = match map.get("kind") {
        None if is_folder => FileKind::Directory,
        None => FileKind::File,
        Some(_) if is_folder => return None,
        Some(kind) => kind_of(kind.as_str()?)?,
    };
    let version = match map.get("etag") {
        None => None,
        Some(etag) => Some(version_of(etag.as_str().filter(|e| e.len() <= VERSION_BYTES_MAX)?)),
    };
    // What speaks of an object must say of which one.
    if is_folder != version.is_none() {
        return None;
    }
    let target = match map.get("target") {
        None => None,
        Some(target) => Some(escape::bytes(target.as_str()?)?),
    };
    let is_target = |t: &Vec<u8>| (1..=TARGET_BYTES_MAX).contains(&t.len()) && !t.contains(&0);
    if (kind == FileKind::Symlink) != target.is_some() || !target.iter().all(is_target) {
        return None;
    }
    let item = Item {
        kind,
        mode: given(&map, "mode", usual.mode(kind), mode_of).ok()?,
        uid: given(&map, "uid", usual.uid, number).ok()?,
        gid: given(&map, "gid", usual.gid, number).ok()?,
        mtime: time(&map, "mtime").ok()?,
        atime: time(&map, "atime").ok()?,
        ctime: time(&map, "ctime").ok()?,
        rdev: given(&map, "rdev", 0, number).ok()?.unwrap_or(0),
        target: target.map(Arc::new),
        xattrs: Some(xattrs(&map)?).filter(|xattrs| !xattrs.is_empty()).map(Arc::new),
        version,
    };
    Some((label, item))
}

/// A field makes no sense, and so the line does not.
struct Nonsense;

type Given<T> = Result<Option<T>, Nonsense>;

/// What a field says; `None` if it says that nobody gave it.
fn given<T>(
    map: &Map<String, Value>,
    key: &str,
    usual: T,
    read: fn(&Value) -> Option<T>,
) -> Given<T> {
    match map.get(key) {
        None => Ok(Some(usual)),
        Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or(Nonsense),
    }
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// A mode as people write it: octal digits.
pub(super) fn mode_of(value: &Value) -> Option<u16> {
    let digits = value.as_str().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 8).ok().filter(|&mode| mode <= 0o7777)
}

fn time(map: &Map<String, Value>, key: &str) -> Given<Timestamp> {
    match map.get(key) {
        None => Ok(None),
        Some(time) => time.as_str().and_then(time_of).map(Some).ok_or(Nonsense),
    }
}

fn xattrs(map: &Map<String, Value>) -> Option<Xattrs> {
    let Some(xattrs) = map.get("xattrs") else { return Some(Xattrs::new()) };
    let xattr = |(name, value): (&String, &Value)| {
        let name = escape::bytes(name).filter(|name| {
            (1..=XATTR_NAME_BYTES_MAX).contains(&name.len()) && !name.contains(&0)
        })?;
        Some((name, escape::from_base64(value.as_str()?)?))
    };
    xattrs.as_object()?.iter().map(xattr).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use base::{FileKind, Timestamp};
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use remote::Version;

    use super::{Usual, read, write};
    use crate::bucket::attributes::item::{Item, Label};

    pub(in crate::bucket::attributes) const USUAL: Usual =
        Usual { uid: 1000, gid: 100, file_mode: 0o644, folder_mode: 0o755 };

    fn name() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(b'%'), Just(0xC3), 1..=46_u8, 48..=255_u8], 1..20)
    }

    fn time() -> impl Strategy<Value = Option<Timestamp>> {
        let time = (-1_000_000_i64..5_000_000_000, 0..1_000_000_000_u32);
        option::of(time.prop_map(|(secs, nanos)| Timestamp { secs, nanos }))
    }

    pub(in crate::bucket::attributes) fn entry() -> impl Strategy<Value = (Label, Item)> {
        let kind = prop_oneof![
            Just(FileKind::File),
            Just(FileKind::Directory),
            Just(FileKind::Symlink),
            Just(FileKind::CharDevice)
        ];
        let owner = (option::of(0..0o10000_u16), option::of(998..1002_u32), any::<Option<u32>>());
        let etag = prop_oneof!["[a-f0-9]{4}", "\"[=a-f0-9]{0,4}\"", "=.{0,5}"];
        let xattrs = btree_map(name(), any::<Vec<u8>>(), 0..3);
        let rest = (any::<u32>(), name(), xattrs, etag);
        (name(), kind, owner, (time(), time(), time()), rest).prop_map(
            |(
                name,
                kind,
                (mode, uid, gid),
                (mtime, atime, ctime),
                (rdev, target, xattrs, etag),
            )| {
                let target = (kind == FileKind::Symlink).then(|| Arc::new(target));
                let version = (kind != FileKind::Directory).then(|| Version::new(&etag));
                let xattrs = (!xattrs.is_empty()).then(|| Arc::new(xattrs));
                let item = Item {
                    kind,
                    mode,
                    uid,
                    gid,
                    mtime,
                    atime,
                    ctime,
                    rdev,
                    target,
                    xattrs,
                    version,
                };
                let slash: &[u8] = if kind == FileKind::Directory { b"/" } else { b"" };
                ([&name, slash].concat(), item)
            },
        )
    }

    proptest! {
        #[test]
        fn every_entry_survives_the_round_trip((label, item) in entry()) {
            let line = write(&label, &item, USUAL);
            assert!(!line.contains('\n'));
            assert_eq!(read(&line, USUAL), Some((label, item)));
        }

        #[test]
        fn no_line_makes_the_reader_panic(line: String) {
            read(&line, USUAL);
        }
    }

    #[test]
    fn the_text_of_an_entry_is_fixed() {
        let item = Item {
            mode: Some(0o600),
            uid: Some(1000),
            gid: None,
            mtime: Some(Timestamp { secs: 5, nanos: 1 }),
            xattrs: Some(Arc::new([(b"user.a".to_vec(), b"foo".to_vec())].into())),
            ..Item::plain(FileKind::File, Some(Version::new("\"e7\"")))
        };
        assert_eq!(
            write(b"a b", &item, USUAL),
            r#"{"etag":"e7","gid":null,"mode":"600","mtime":"5.000000001","name":"a b","xattrs":{"user.a":"Zm9v"}}"#
        );
    }

    #[test]
    fn what_no_name_can_have_is_no_entry() {
        for line in [
            r"{}",
            r"[]",
            r#"{"name":"a"}"#,
            r#"{"name":"a/b","etag":"e"}"#,
            r#"{"name":"","etag":"e"}"#,
            r#"{"name":"a//"}"#,
            r#"{"name":"a/","etag":"e"}"#,
            r#"{"name":"a/","kind":"fifo"}"#,
            r#"{"name":"a","kind":"folder","etag":"e"}"#,
            r#"{"name":"a","kind":"link","etag":"e"}"#,
            r#"{"name":"a","etag":"e","mode":"99999"}"#,
            r#"{"name":"a","etag":"e","mode":"+7"}"#,
            r#"{"name":"a","etag":"e","uid":-1}"#,
            r#"{"name":"a","etag":"e","xattrs":{"user.a":"?"}}"#,
        ] {
            assert_eq!(read(line, USUAL), None, "{line}");
        }
    }
}
