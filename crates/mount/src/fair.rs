//! How much memory a mount takes where nobody says: a fair part of what there is.
//!
//! What there is is the machine's memory, or less where a control group (version 1 or 2) of this process,
//! or one that it is in, allows less.

use std::fs;
use std::path::Path;

/// More brings little: it is sixteen parts of an upload of 10 MiB each, or twenty reads of 8 MiB on their way, and with what
/// the daemon has beside it stays below 256 MiB.
const BYTES_MAX: u64 = 160 << 20;

/// Less would have the parts of an upload wait for one another.
const BYTES_MIN: u64 = 48 << 20;

/// The rest is for the programs that use the mount, and for their files.
const PARTS: u64 = 8;

/// Where the groups are shown, and what the limit is called: version 2, alone or beside version 1, and 1.
const GROUPS: [(&str, &str); 3] = [
    ("sys/fs/cgroup", "memory.max"),
    ("sys/fs/cgroup/unified", "memory.max"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// The bytes that a mount may have in flight on this machine, by default.
pub fn memory_bytes_fair() -> u64 {
    fair(bytes_usable(Path::new("/")))
}

fn fair(bytes_usable: Option<u64>) -> u64 {
    bytes_usable.map_or(BYTES_MAX, |bytes| (bytes / PARTS).clamp(BYTES_MIN, BYTES_MAX))
}

/// What the machine whose files are below `root` lets this process use.
fn bytes_usable(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(path_of_memory).flat_map(|path| limits(root, path));
    limits.chain(machine(root)).min()
}

/// `N:controllers:/path`; version 2 has one line with none.
fn path_of_memory(line: &str) -> Option<&str> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let path = fields.next()?;
    let is_memory = controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
    is_memory.then(|| path.trim_start_matches('/'))
}

/// The limits of the group and of all that it is in. A container sees its own group as the topmost, also
/// where its path is another; what is not there or says `max` limits nothing.
fn limits(root: &Path, group: &str) -> Vec<u64> {
    let folders = |top: &'static str| {
        let top = root.join(top);
        Path::new(group).ancestors().map(move |group| top.join(group))
    };
    let files = GROUPS.iter().flat_map(|(top, name)| folders(top).map(move |dir| dir.join(name)));
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).collect()
}

fn machine(root: &Path) -> Option<u64> {
    let table = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BYTES_MAX, BYTES_MIN, bytes_usable, fair};

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let memory = ("proc/meminfo", "MemTotal:       2097152 kB\nMemFree: 1 kB\n");
        for (path, text) in files.iter().chain([&memory]) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_of_the_machine_and_the_groups_around_us_counts() {
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        let v1 = ("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/1\n0::/\n");
        let own = "sys/fs/cgroup/a/b/memory.max";
        for (files, want) in [
            (&[][..], 2 << 30),
            (&[v2, (own, "max\n")], 2 << 30),
            (&[v2, (own, "1073741824\n")], 1 << 30),
            (&[v2, (own, "max\n"), ("sys/fs/cgroup/a/memory.max", "4096\n")], 4096),
            (&[v2, ("sys/fs/cgroup/memory.max", "8192\n")], 8192),
            (&[v1, ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "4096\n")], 4096),
            (&[v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n")], 8192),
            (
                &[v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")],
                2 << 30,
            ),
            (&[v1, ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n")], 2 << 30),
        ] {
            assert_eq!(bytes_usable(machine(files).path()), Some(want), "{files:?}");
        }
    }

    #[test]
    fn an_eighth_is_taken_within_bounds() {
        assert_eq!(fair(Some(64 << 30)), BYTES_MAX);
        assert_eq!(fair(Some(1 << 30)), 128 << 20);
        assert_eq!(fair(Some(64 << 20)), BYTES_MIN);
        assert_eq!(fair(bytes_usable(Path::new("/nowhere"))), BYTES_MAX);
    }
}
