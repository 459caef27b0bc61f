//! A real mount of a folder, for a moment: whether mounting works, and whether the kernel reads what is
//! cached itself.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::finding::Finding;
use crate::config::{Buckets, Config, InsightSettings, Reconfigure, Reconfigured};
use crate::control::status;
use crate::error::Error;
use crate::lifecycle::serve;
use crate::location::Location;

/// How long mounting, reading and unmounting may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Large enough to be no special case.
const FILE_BYTES: usize = 1 << 20;

/// Mounts a folder on the disk of `place`, and looks whether passthrough works.
pub(super) fn passthrough(config: &Config, place: &Path) -> Finding {
    let subject = "mount and passthrough";
    let top = place.join(format!(".quayfs-doctor-mount-{}", std::process::id()));
    let tried = try_mount(config, &top);
    // Only if nothing is mounted there any more: what is below a mount is not ours to remove.
    if !fuse::mounted_at(&top.join("mnt")).is_ok_and(|entry| entry.is_some()) {
        let _ = fs::remove_dir_all(&top);
    }
    match tried {
        Ok(0) => Finding::warn(
            subject,
            "a folder was mounted and read; the kernel does not read cached files itself",
            "for passthrough: Linux 6.9 or newer, root, and a cache that is not on overlayfs",
        ),
        Ok(_) => Finding::ok(
            subject,
            "a folder was mounted and read; cached files are read by the kernel",
        ),
        Err(error) => Finding::fail(
            subject,
            error.to_string(),
            "look at the lines above: one of them says why",
        ),
    }
}

/// Only one folder is mounted.
#[derive(Debug)]
struct NoBuckets;

impl Buckets for NoBuckets {
    fn config(&self, location: &Location) -> Result<Config, String> {
        Err(format!("{location} is not for a trial"))
    }
}

impl Reconfigure for NoBuckets {
    fn reconfigure(&self) -> Result<Reconfigured, String> {
        Ok(Reconfigured::default())
    }
}

/// How many opens were passed through.
fn try_mount(config: &Config, top: &Path) -> Result<u64, Error> {
    let folders = ["store", "state", "mnt"].map(|name| top.join(name));
    for folder in &folders {
        fs::create_dir_all(folder)
            .map_err(system("cannot make folders on the disk of the cache"))?;
    }
    let [store, state_dir, dir] = folders;
    fs::write(store.join("file"), vec![7; FILE_BYTES])
        .map_err(system("cannot write to the disk of the cache"))?;
    // What other mounts have, such as a port for metrics, is not asked for.
    let location = Location::Folder(store);
    let insight = InsightSettings::plain(&location);
    let config = Config { location, dir: dir.clone(), state_dir, insight, ..config.clone() };
    let (mounted, ready) = mpsc::channel();
    let (said, ended) = mpsc::channel();
    // Who waits here waits no longer than so long, whatever hangs.
    std::thread::spawn(move || {
        let served = serve(&config, (Arc::new(NoBuckets), Arc::new(NoBuckets)), |_| {
            let _ = mounted.send(());
        });
        let _ = said.send(served);
    });
    if ready.recv_timeout(PATIENCE).is_err() {
        let served = ended.recv_timeout(PATIENCE);
        served.unwrap_or_else(|_| Err(late()))?;
        return Err(late());
    }
    let (read, counted) = mpsc::channel();
    let place = dir.clone();
    std::thread::spawn(move || {
        let _ = read.send(read_twice(&place));
    });
    let opens = counted.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late()));
    // Not as `umount` does, which waits for the end of the process that serves: this one.
    let how = if opens.is_ok() { fuse::Unmount::Normal } else { fuse::Unmount::Force };
    fuse::unmount_path(&dir, how)?;
    ended.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late()))?;
    opens
}

fn read_twice(dir: &Path) -> Result<u64, Error> {
    for _ in 0..2 {
        let bytes =
            fs::read(dir.join("file")).map_err(system("cannot read a file of the mount"))?;
        if bytes.len() != FILE_BYTES {
            let short = io::Error::other("not all of it came");
            return Err(system("cannot read a file of the mount")(short));
        }
    }
    let status = status(dir)?;
    Ok(status.counters.get("passthrough_opens").copied().unwrap_or(0))
}

fn late() -> Error {
    system("a mount of a local folder")(io::ErrorKind::TimedOut.into())
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}
