//! Everything that can be seen of a tree, and how two differ.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{lgetxattr, llistxattr};

/// Modification times before this were set by somebody, later ones were taken from the clock.
const SET_BEFORE: i64 = 1_262_304_000;

const XATTR_BYTES_MAX: usize = 64 << 10;

/// What is seen of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `file`, `folder`, `link`, `pipe` or `other`.
    pub kind: &'static str,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Its bytes, of a file; its target, of a link.
    pub size: u64,
    /// Seconds and nanoseconds, if somebody set them.
    pub mtime: Option<(i64, i64)>,
    /// Where a link points.
    pub target: Option<String>,
    /// Extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// Looks at one node, without following it.
pub(super) fn look(path: &Path) -> io::Result<Seen> {
    let metadata = fs::symlink_metadata(path)?;
    let what = metadata.file_type();
    let kind = if what.is_file() {
        "file"
    } else if what.is_dir() {
        "folder"
    } else if what.is_symlink() {
        "link"
    } else if what.is_fifo() {
        "pipe"
    } else {
        "other"
    };
    let time = (metadata.mtime(), metadata.mtime_nsec());
    let target = match kind {
        "link" => Some(fs::read_link(path)?.to_string_lossy().into_owned()),
        _ => None,
    };
    Ok(Seen {
        kind,
        // The bits of a link mean nothing.
        mode: if kind == "link" { 0o777 } else { metadata.mode() & 0o7777 },
        owner: (metadata.uid(), metadata.gid()),
        size: if kind == "folder" { 0 } else { metadata.len() },
        mtime: (time.0 < SET_BEFORE).then_some(time),
        target,
        xattrs: xattrs(path)?,
    })
}

fn xattrs(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut list = vec![0; XATTR_BYTES_MAX];
    let length = match llistxattr(path, &mut list[..]) {
        Ok(length) => length,
        Err(rustix::io::Errno::NOTSUP) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let names = list[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
    let ours = |name: &String| name.starts_with("user.") || name.starts_with("trusted.");
    names
        .filter(ours)
        .map(|name| {
            let mut value = vec![0; XATTR_BYTES_MAX];
            let length = lgetxattr(path, &name, &mut value[..])?;
            value.truncate(length);
            Ok((name, value))
        })
        .collect()
}

/// All nodes of the tree `root` by their paths in it, the bytes of files beside them.
///
/// # Panics
///
/// When a part of it cannot be looked at.
pub fn tree(root: &Path) -> BTreeMap<String, (Seen, Vec<u8>)> {
    let mut nodes = BTreeMap::new();
    walk(root, "", &mut nodes);
    nodes
}

fn walk(root: &Path, path: &str, nodes: &mut BTreeMap<String, (Seen, Vec<u8>)>) {
    let here = root.join(path);
    let seen = look(&here).unwrap_or_else(|error| panic!("{}: {error}", here.display()));
    let is_folder = seen.kind == "folder";
    let bytes = match seen.kind {
        "file" => fs::read(&here).unwrap_or_else(|error| panic!("{}: {error}", here.display())),
        _ => Vec::new(),
    };
    nodes.insert(path.to_owned(), (seen, bytes));
    if !is_folder {
        return;
    }
    let entries = fs::read_dir(&here).unwrap_or_else(|error| panic!("{}: {error}", here.display()));
    let mut folders = 0;
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", here.display()));
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = if path.is_empty() { name } else { format!("{path}/{name}") };
        walk(root, &below, nodes);
        folders += u64::from(nodes[&below].0.kind == "folder");
        let what = entry.file_type().expect("the listing tells it");
        assert_eq!(
            what.is_dir(),
            nodes[&below].0.kind == "folder",
            "the listing's word of {below}"
        );
    }
    // Some local file systems count folders in another way.
    let links = fs::symlink_metadata(&here).expect("it was there just now").nlink();
    assert!(links == 2 + folders || links == 1, "{links} links of {}", here.display());
}

/// How `other` differs from `one`, if it does: the first node that does, and in what.
pub fn difference(
    one: &BTreeMap<String, (Seen, Vec<u8>)>,
    other: &BTreeMap<String, (Seen, Vec<u8>)>,
) -> Option<String> {
    for path in one.keys().chain(other.keys()) {
        match (one.get(path), other.get(path)) {
            (Some((seen, _)), None) => return Some(format!("{path:?} is missing: {seen:?}")),
            (None, Some((seen, _))) => return Some(format!("{path:?} is too many: {seen:?}")),
            (Some((want, _)), Some((seen, _))) if want != seen => {
                return Some(format!("{path:?} is {seen:?}, not {want:?}"));
            }
            (Some((_, want)), Some((_, bytes))) if want != bytes => {
                let at = want.iter().zip(bytes).position(|(one, other)| one != other);
                return Some(format!("{path:?} has other bytes, from {at:?} of {}", want.len()));
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{difference, tree};
    use crate::Scratch;
    use crate::posix::{Op, Outcome, Player};

    #[test]
    fn two_trees_of_the_same_operations_are_alike_and_each_difference_is_seen() {
        let folder = Scratch::new();
        let mut players = ["one", "other"].map(|name| Player::new(&folder.folder(name)));
        let script = "mkdir a - 0 0 0\nwrite a/f - 3 500 1\nsymlink l a/f 0 0 0\nchmod a/f - 0 0 3\n\
            times a - 0 0 9\nset-xattr a/f - 0 50 1\nmkfifo p - 0 0 0\nrename a/f b 0 0 0\n\
            copy b c 10 1000 0\nmap b - 100 50 7\nopen b - 0 0 0\nget - - 0 600 0\nrmdir b - 0 0 0";
        for line in script.lines() {
            let op: Op = line.parse().unwrap();
            let outcomes = players.each_mut().map(|player| player.play(&op));
            assert_eq!(outcomes[0], outcomes[1], "{line}");
        }
        let [one, mut other] = players;
        let want = tree(one.root());
        assert_eq!(want.len(), 6);
        assert_eq!(difference(&want, &tree(other.root())), None);
        for line in ["chmod c - 0 0 1", "write b - 0 1 77", "unlink l - 0 0 0", "create n - 0 0 0"]
        {
            assert_eq!(other.play(&line.parse().unwrap()), Outcome::Done, "{line}");
            assert!(difference(&want, &tree(other.root())).is_some(), "{line}");
        }
    }
}
