//! A disk that forgets at a power cut what was not synced: a FUSE file system in memory.
//!
//! What survives a cut is drawn from a seed, within what disks and journaled file systems promise:
//! synced bytes stay, names are as at some moment since the last sync of anything, and all else is
//! there, or not, or torn. What runs on the disk must be killed before the cut.

mod bytes;
mod serve;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Metrics;
use fuse::{MountOptions, PassthroughWish, RingWish, Session, Unmount};
use tokio::runtime::Runtime;

use crate::noise;
use crate::place::Scratch;
use crate::wait;
use serve::Disk;
use tree::Tree;

/// Programs that were killed let go of their files a moment later.
const FREE_WITHIN: Duration = Duration::from_secs(20);

/// The disk, mounted.
#[derive(Debug)]
pub struct ForgetfulDisk {
    mounted: Option<Mounted>,
    path: PathBuf,
    runtime: Runtime,
    _folder: Scratch,
}

#[derive(Debug)]
struct Mounted {
    session: Session,
    disk: Arc<Disk>,
}

impl ForgetfulDisk {
    /// An empty disk. Needs root.
    pub fn new() -> ForgetfulDisk {
        let folder = Scratch::new();
        let path = folder.folder("disk");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.expect("the system has threads to spare");
        let mounted = Some(mount(&path, Tree::new(), &runtime));
        ForgetfulDisk { mounted, path, runtime, _folder: folder }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts the power, and turns it on again; `seed` says what is left. Nobody may have a file open.
    pub fn cut(&mut self, seed: u64) {
        let mut draws = draws(seed);
        self.cut_with(&mut |limit| draws.next().unwrap_or(0) % limit);
    }

    /// As [`ForgetfulDisk::cut`], and nothing is left but what was synced.
    pub fn cut_all(&mut self) {
        self.cut_with(&mut |_| 0);
    }

    fn cut_with(&mut self, draw: &mut dyn FnMut(u64) -> u64) {
        let Mounted { session, disk } = self.mounted.take().expect("mounted but for a cut");
        // Without this the kernel would remember what the disk does not.
        wait::until("the disk to be free", FREE_WITHIN, || {
            session.unmount(Unmount::Normal).is_ok()
        });
        session.wait().expect("the disk serves until its end");
        let left = disk.after_cut(draw);
        self.mounted = Some(mount(&self.path, left, &self.runtime));
    }
}

impl Default for ForgetfulDisk {
    fn default() -> ForgetfulDisk {
        ForgetfulDisk::new()
    }
}

fn mount(path: &Path, tree: Tree, runtime: &Runtime) -> Mounted {
    let disk = Arc::new(Disk::new(tree));
    let (passthrough, rings) = (PassthroughWish::Off, RingWish::Off);
    // A state folder is refused within mounts of quayfs.
    let subtype = "forgetful";
    let options = MountOptions { subtype, passthrough, rings, ..MountOptions::new(subtype) };
    let metrics = Arc::new(Metrics::new());
    let mounted = Session::mount(path, &options, runtime.handle().clone(), metrics);
    let mounted = mounted.expect("root mounts, and there is /dev/fuse");
    let served = mounted.serve(Arc::clone(&disk) as _);
    Mounted { session: served.expect("the system has threads to spare"), disk }
}

/// Numbers without end.
fn draws(seed: u64) -> impl Iterator<Item = u64> {
    (0..).flat_map(move |block: u64| {
        let bytes = noise(seed.wrapping_mul(1_000_003).wrapping_add(block), 4096);
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        words
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::{self, File};
    use std::io::Write;
    use std::process::Command;
    use std::time::Duration;

    use super::ForgetfulDisk;
    use crate::command::run;
    use crate::place::python;

    #[test]
    fn a_cut_leaves_what_was_synced_and_some_of_the_rest() {
        let mut disk = ForgetfulDisk::new();
        let mut left = BTreeSet::new();
        for seed in 0..20 {
            let path = disk.path().join(format!("{seed}"));
            fs::create_dir(&path).unwrap();
            let mut file = File::create(path.join("synced")).unwrap();
            file.write_all(&[1; 10_000]).unwrap();
            file.sync_all().unwrap();
            drop(file);
            fs::write(path.join("later"), [2; 10_000]).unwrap();
            disk.cut(seed);
            assert_eq!(fs::read(path.join("synced")).unwrap(), [1; 10_000]);
            left.insert(fs::read(path.join("later")).ok());
        }
        assert!(left.contains(&None) && left.contains(&Some(vec![2; 10_000])), "{}", left.len());
        assert!(2 < left.len());
    }

    #[test]
    fn a_database_keeps_what_it_promised_over_every_cut() {
        let mut disk = ForgetfulDisk::new();
        let path = disk.path().join("database");
        for round in 0..20 {
            // Two at a time, since they share memory, and an end without a word.
            let script = "import os, sqlite3, sys\n\
                one, two = [sqlite3.connect(sys.argv[1], isolation_level=None) for _ in 'ab']\n\
                one.execute('pragma journal_mode=wal')\n\
                for db in one, two: db.execute('pragma synchronous=full')\n\
                one.execute('create table if not exists t (n integer, pad text)')\n\
                assert one.execute('pragma integrity_check').fetchone() == ('ok',)\n\
                count = two.execute('select count(*) from t').fetchone()[0]\n\
                assert count == 40 * int(sys.argv[2]), count\n\
                for n in range(20):\n    \
                    for db in one, two: db.execute('insert into t values (?, ?)', (n, 'x' * 3000))\n\
                os._exit(0)\n";
            let mut command = Command::new(python());
            command.args(["-c", script]).arg(&path).arg(round.to_string());
            run(&mut command, Duration::from_mins(1)).ok();
            disk.cut(round);
        }
    }
}
