//! The mount table, read without touching what is mounted: a dead or hanging mount answers no
//! system call, but the table still knows it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The type under which our mounts are in the table, behind `fuse.`.
pub(crate) const SUBTYPE: &str = "quayfs";

/// More links than this in a row are a loop, as for the kernel.
const LINKS_MAX: usize = 40;

/// The device number of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Always 0 for FUSE.
    pub major: u32,
    /// Also the name of the connection in `/sys/fs/fuse/connections`.
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is mounted.
    pub path: PathBuf,
    /// What is mounted, in its own words.
    pub source: String,
    /// The type, for ours `fuse.quayfs`.
    pub file_system: String,
    /// The device number.
    pub device: Device,
    /// The number of the user who mounted it, if it is a FUSE mount.
    pub owner: Option<u32>,
    /// Which mount this is.
    id: u64,
    /// The mount that this one is mounted on.
    parent: u64,
    /// Whether what is mounted and unmounted on it shows in copies of it, in other namespaces.
    is_shared: bool,
}

impl MountEntry {
    /// Whether it is a mount of this program.
    pub fn is_ours(&self) -> bool {
        self.file_system.strip_prefix("fuse.") == Some(SUBTYPE)
    }
}

/// What is mounted at `dir`; of several mounts on top of each other, the topmost.
pub fn mounted_at(dir: &Path) -> io::Result<Option<MountEntry>> {
    let path = resolve(dir)?;
    Ok(topmost(entries()?, &path))
}

/// Where something is mounted below `dir`, whatever it is.
pub fn mounted_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let top = resolve(dir)?;
    let places = entries()?.into_iter().map(|entry| entry.path);
    Ok(places.filter(|place| *place != top && place.starts_with(&top)).collect())
}

/// All mounts of this program.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    Ok(entries()?.into_iter().filter(MountEntry::is_ours).collect())
}

/// Whether a copy of all mounts, in another namespace, would keep one of this program when it is unmounted here.
pub fn would_be_kept() -> io::Result<bool> {
    Ok(is_any_kept(&entries()?))
}

/// An unmount reaches the copies of what it is mounted on, if that is shared.
fn is_any_kept(entries: &[MountEntry]) -> bool {
    let reaches = |id: u64| entries.iter().any(|entry| entry.id == id && entry.is_shared);
    entries.iter().any(|entry| entry.is_ours() && !reaches(entry.parent))
}

/// The absolute path of `dir` without links, found without asking anything of what is mounted
/// there: only the folders above it are looked at, and reading a link never reaches a daemon.
pub fn resolve(dir: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(dir)?;
    for _ in 0..LINKS_MAX {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return fs::canonicalize(path);
        };
        let place = fs::canonicalize(parent)?.join(name);
        match fs::read_link(&place) {
            Ok(target) => path = place.with_file_name(target),
            Err(_) => return Ok(place),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Processes in whose mount namespace this file system is mounted, as far as this user may know.
pub fn where_mounted(device: Device) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |number: &u32| {
        let table = fs::read(format!("/proc/{number}/mountinfo")).unwrap_or_default();
        parse(&table).iter().any(|entry| entry.device == device)
    };
    numbers.filter(has_it).collect()
}

fn entries() -> io::Result<Vec<MountEntry>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// Lines that are not understood are left out: the kernel may add kinds of them.
fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

/// `id parent major:minor root path options [tags…] - type source super-options`
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
    let device = Device { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let path = PathBuf::from(unescaped(fields.nth(1)?));
    let _options = fields.next()?;
    let tags = fields.by_ref().take_while(|&field| field != b"-");
    let is_shared = tags.filter(|tag| tag.starts_with(b"shared:")).count() == 1;
    let file_system = unescaped(fields.next()?).to_string_lossy().into_owned();
    let source = unescaped(fields.next()?).to_string_lossy().into_owned();
    let owner = fields.next().and_then(owner);
    Some(MountEntry { path, source, file_system, device, owner, id, parent, is_shared })
}

/// `user_id=` among the options of a FUSE mount.
fn owner(options: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(options).ok()?;
    text.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Undoes the kernel's `\ooo` for blanks, tabs, line ends and backslashes.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        if let (b'\\', Some(byte)) = (first, octal(tail)) {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    OsString::from_vec(bytes)
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(OsStr::from_bytes(digits.get(..3)?).to_str()?, 8).ok()
}

/// A mount on top of another at the same place has it for a parent, so the topmost is nobody's.
fn topmost(entries: Vec<MountEntry>, path: &Path) -> Option<MountEntry> {
    let here: Vec<MountEntry> = entries.into_iter().filter(|entry| entry.path == path).collect();
    let covered: Vec<u64> = here.iter().map(|entry| entry.parent).collect();
    here.into_iter().rev().find(|entry| !covered.contains(&entry.id))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Device, MountEntry, is_any_kept, parse, resolve, topmost};

    const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:41 / /mnt/a\\040b rw,nosuid,nodev shared:9 master:2 - fuse.quayfs s3://b/x\\134y rw,user_id=0
31 30 0:42 / /mnt/a\\040b rw - fuse.quayfs s3://upper rw
nonsense
32 22 0:43 /sub /mnt/c rw - tmpfs none rw
";

    #[test]
    fn a_line_of_the_table_is_read_with_its_escapes() {
        let entries = parse(TABLE);
        assert_eq!(entries.len(), 4);
        assert_eq!(
            entries[1],
            MountEntry {
                path: PathBuf::from("/mnt/a b"),
                source: "s3://b/x\\y".into(),
                file_system: "fuse.quayfs".into(),
                device: Device { major: 0, minor: 41 },
                owner: Some(0),
                id: 30,
                parent: 22,
                is_shared: true,
            }
        );
        assert!(entries[1].is_ours());
        assert!(!entries[3].is_ours());
    }

    #[test]
    fn of_two_mounts_at_one_place_the_upper_one_counts() {
        let upper = topmost(parse(TABLE), Path::new("/mnt/a b")).unwrap();
        assert_eq!(upper.source, "s3://upper");
        assert_eq!(topmost(parse(TABLE), Path::new("/mnt/none")), None);
    }

    #[test]
    fn a_copy_keeps_what_is_mounted_where_nothing_is_shared() {
        assert!(!is_any_kept(&parse(TABLE)));
        let alone = String::from_utf8(TABLE.to_vec()).unwrap().replace(" shared:1", " master:1");
        assert!(is_any_kept(&parse(alone.as_bytes())));
        let none = alone.replace("fuse.quayfs", "fuse.other");
        assert!(!is_any_kept(&parse(none.as_bytes())));
    }

    #[test]
    fn links_to_a_place_lead_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("place")).unwrap();
        std::os::unix::fs::symlink("place", dir.join("first")).unwrap();
        std::os::unix::fs::symlink(dir.join("first"), dir.join("second")).unwrap();
        std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();

        assert_eq!(resolve(&dir.join("second")).unwrap(), dir.join("place"));
        assert_eq!(resolve(&dir.join("place/.")).unwrap(), dir.join("place"));
        assert_eq!(resolve(&dir.join("place/../place")).unwrap(), dir.join("place"));
        assert_eq!(resolve(Path::new("/")).unwrap(), Path::new("/"));
        assert!(resolve(&dir.join("loop")).is_err());
        assert!(resolve(&dir.join("missing/place")).is_err());
    }
}
