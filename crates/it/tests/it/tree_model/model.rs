//! Model of a tree, and the differences between it and the tree of a mount.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A node of the model at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File { bytes: Vec<u8>, mode: u32 },
    Directory { mode: u32 },
    Link { target: String },
}

/// A tree: what is at each path below its top.
#[derive(Clone, Debug, Default)]
pub(super) struct Model(pub(super) BTreeMap<String, Node>);

impl Node {
    /// Text for the report of a difference: the number of bytes and the first one stand for all of them.
    fn told(&self) -> String {
        match self {
            Node::File { bytes, mode } => {
                format!("file of {} bytes ({:?}…), mode {mode:o}", bytes.len(), bytes.first())
            }
            Node::Directory { mode } => format!("directory, mode {mode:o}"),
            Node::Link { target } => format!("link to {target}"),
        }
    }
}

impl Model {
    /// Paths below `top`.
    pub(super) fn of_tree(top: &Path) -> io::Result<Model> {
        let mut model = Model::default();
        let mut open = vec![(String::new(), top.to_path_buf())];
        while let Some((prefix, dir)) = open.pop() {
            for entry in fs::read_dir(dir)? {
                let entry = entry?;
                let name = entry.file_name().into_string().expect("names are text here");
                let path = format!("{prefix}{name}");
                let metadata = entry.path().symlink_metadata()?;
                let mode = metadata.permissions().mode() & 0o7777;
                let node = if metadata.is_dir() {
                    open.push((format!("{path}/"), entry.path()));
                    Node::Directory { mode }
                } else if metadata.is_symlink() {
                    let target = fs::read_link(entry.path())?;
                    Node::Link { target: target.to_string_lossy().into_owned() }
                } else {
                    Node::File { bytes: fs::read(entry.path())?, mode }
                };
                model.0.insert(path, node);
            }
        }
        Ok(model)
    }

    /// Paths at which `there` is another tree than this one.
    pub(super) fn differences(&self, there: &Model) -> Vec<String> {
        let paths: BTreeSet<&String> = self.0.keys().chain(there.0.keys()).collect();
        let told = |node: Option<&Node>| node.map_or("nothing".to_owned(), Node::told);
        let differ = paths.into_iter().filter(|path| self.0.get(*path) != there.0.get(*path));
        differ
            .map(|path| {
                let (want, is) = (told(self.0.get(path)), told(there.0.get(path)));
                format!("{path}: {is} instead of {want}")
            })
            .collect()
    }

    /// Whether an object of the bucket is of something in the tree: a file, the marker of a directory, or its
    /// attributes.
    pub(super) fn explains(&self, key: &str) -> bool {
        let is_directory = |path: &str| {
            path.is_empty() || matches!(self.0.get(path), Some(Node::Directory { .. }))
        };
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        if name.is_empty() || name.starts_with(".quayfs-attributes") {
            return is_directory(dir);
        }
        matches!(self.0.get(key), Some(Node::File { .. } | Node::Link { .. }))
    }

    /// The names in a directory.
    pub(super) fn names(&self, dir: &str) -> Vec<String> {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        below.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    /// Gives a path, and all below it, another name.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let moved: Vec<String> =
            self.0.keys().filter(|path| is_within(path, from)).cloned().collect();
        for path in moved {
            let node = self.0.remove(&path).expect("listed just now");
            self.0.insert(format!("{to}{}", &path[from.len()..]), node);
        }
    }

    /// Removes a path, and all below it.
    pub(super) fn remove(&mut self, path: &str) {
        self.0.retain(|other, _| !is_within(other, path));
    }
}

/// Whether `path` is `tree` or below it.
pub(super) fn is_within(path: &str, tree: &str) -> bool {
    path.strip_prefix(tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
