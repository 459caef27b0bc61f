//! Names and places of everything in the state folder.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The state folder.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    dir: PathBuf,
}

/// The name of a cached version's backing file: a digest of its identity and size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct VersionName([u8; VersionName::BYTES]);

impl VersionName {
    const BYTES: usize = 20;

    /// The name of the version `identity` of `size` bytes. The size is part of it so that no
    /// mistake of a caller makes one backing file serve two sizes.
    pub(crate) fn of(identity: &[u8], size: u64) -> VersionName {
        let mut digest = Sha256::new();
        digest.update(size.to_le_bytes());
        digest.update(identity);
        let digest = digest.finalize();
        let mut name = [0; VersionName::BYTES];
        name.copy_from_slice(&digest[..VersionName::BYTES]);
        VersionName(name)
    }

    /// The name that `text` shows; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<VersionName> {
        let mut name = [0; VersionName::BYTES];
        if text.len() != 2 * name.len() || !text.is_ascii() {
            return None;
        }
        for (at, byte) in name.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        // Signs and capitals are numbers too, but never what we write.
        let name = VersionName(name);
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every open of a file wants it, and formatting each byte takes longer than all else of it.
        let mut text = [0; 2 * VersionName::BYTES];
        for (digits, byte) in text.chunks_exact_mut(2).zip(self.0) {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Layout {
    /// The layout of the state folder `dir`.
    pub(crate) fn new(dir: PathBuf) -> Layout {
        Layout { dir }
    }

    /// The state folder itself.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The database.
    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("state.db")
    }

    /// The file whose locks say which processes are alive.
    pub(crate) fn owners(&self) -> PathBuf {
        self.dir.join("owners.lock")
    }

    /// The file of what each process has in the cache beyond what is recorded.
    pub(crate) fn quota(&self) -> PathBuf {
        self.dir.join("quota")
    }

    /// The folder of cached backing files.
    pub(crate) fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// The backing file of a cached version.
    pub(crate) fn object(&self, name: VersionName) -> PathBuf {
        let name = name.to_string();
        let (folder, file) = name.split_at(2);
        self.dir.join("objects").join(folder).join(file)
    }

    /// The folder of staged backing files.
    pub(crate) fn stage(&self) -> PathBuf {
        self.dir.join("staged")
    }

    /// A staged backing file.
    pub(crate) fn staged(&self, file: &str) -> PathBuf {
        self.dir.join("staged").join(file)
    }

    /// The old granules of a sealed file that was written to since.
    pub(crate) fn side(&self, file: &str) -> PathBuf {
        self.dir.join("staged").join(format!("{file}{SIDE_SUFFIX}"))
    }

    /// The folder of bytes that could not be published.
    pub(crate) fn recovery(&self) -> PathBuf {
        self.dir.join("recovery")
    }
}

/// How the names of files of seals begin, which are beside the database.
pub(crate) const SEALS_PREFIX: &str = "seals-";

/// How the name of a side file ends.
pub(crate) const SIDE_SUFFIX: &str = ".side";

#[cfg(test)]
mod tests {
    use super::{Layout, VersionName};

    #[test]
    fn the_place_of_a_version_never_changes() {
        let name = VersionName::of(b"endpoint\0bucket\0key\0etag", 5);
        assert_eq!(name.to_string(), "cd08e92c3f965c22b31b2659b61531d34c4bb5ea");
        let layout = Layout::new("/s".into());
        let path = layout.object(name);
        assert_eq!(path.to_str().unwrap(), "/s/objects/cd/08e92c3f965c22b31b2659b61531d34c4bb5ea");
    }

    #[test]
    fn only_what_is_written_for_a_version_is_its_name() {
        let name = VersionName::of(b"x", 1);
        assert_eq!(VersionName::parse(&name.to_string()), Some(name));
        let others = ["+f".repeat(20), "AB".repeat(20), "ab".repeat(19), "é".repeat(20)];
        for other in others {
            assert_eq!(VersionName::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn versions_of_different_size_have_different_files() {
        assert_ne!(VersionName::of(b"x", 1), VersionName::of(b"x", 2));
        assert_ne!(VersionName::of(b"x", 1), VersionName::of(b"y", 1));
    }
}
