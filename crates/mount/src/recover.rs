//! Finishes what dead daemons left, without a mount.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use store::Discarded;

use crate::assemble::{self, Common};
use crate::config::Config;
use crate::error::Error;
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};
use crate::missing::Missing;
use crate::notice::Notice;
use crate::spelling::{spelled, unspelled};
use crate::writes::Company;

/// Does for the bucket of `config` what a mount does before it answers: what was acknowledged is
/// brought to the bucket, what was not goes to the recovery folder. Returns what was done.
pub fn recover(config: &Config) -> Result<Vec<Notice>, Error> {
    let runtime = runtime()?;
    let mut notices = Vec::new();
    let recovered = runtime.block_on(async {
        let common = Common::open(config, &mut notices)?;
        let assembled = assemble::assemble((config, Company::Nobody), common, &mut notices).await?;
        let left = assembled.vfs.drain().await;
        assembled.ledger.settle();
        if left.is_empty() {
            return Ok(());
        }
        Err(Error::Unsynced { path: config.state_dir.clone(), missing: Missing::of(&left) })
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    recovered.map(|()| notices)
}

/// What could not be brought to a bucket, in the recovery folder of a state folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its name, by which it is discarded.
    pub name: String,
    /// Where it is.
    #[serde(serialize_with = "crate::spelling::serialize")]
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
    /// Why it is there.
    pub reason: String,
    /// When it came there, in seconds since 1970, if that is known.
    pub kept_secs: Option<i64>,
    /// Where `--restore` puts it back; `None` if its note does not say where it belongs.
    pub origin: Option<KeptOrigin>,
}

/// The place that bytes in the recovery folder were meant for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptOrigin {
    /// The bucket and its endpoint.
    pub volume: String,
    /// The object, below the mounted folder.
    pub key: String,
}

/// What is in the recovery folder of the state folder `state_dir`.
pub fn kept(state_dir: &Path) -> Result<Vec<Kept>, Error> {
    let listed = store::kept(state_dir);
    let listed = listed.map_err(|source| Error::State { dir: state_dir.to_owned(), source })?;
    let of = |store::Kept { name, path, bytes, reason, kept_secs, origin }| {
        let name = spelled(Path::new(&name)).into_owned();
        let origin = origin.as_deref().and_then(vfs::destination);
        let origin = origin.map(|to| KeptOrigin { volume: to.volume, key: to.key.to_string() });
        Kept { name, path, bytes, reason, kept_secs, origin }
    };
    Ok(listed.into_iter().map(of).collect())
}

/// Removes `name`, as it is or as it is listed, from the recovery folder, for good.
pub fn discard(state_dir: &Path, name: &OsStr) -> Result<(), Error> {
    match discarded(state_dir, name) {
        Ok(Discarded::Yes) => Ok(()),
        Ok(Discarded::InUse) => {
            Err(Error::KeptInUse { name: spelled(Path::new(name)).into_owned() })
        }
        Ok(Discarded::Unknown) => {
            Err(Error::NotKept { name: spelled(Path::new(name)).into_owned() })
        }
        Err(source) => Err(Error::State { dir: state_dir.to_owned(), source }),
    }
}

/// As [`discard`], with what it came to.
pub(crate) fn discarded(state_dir: &Path, name: &OsStr) -> store::Result<Discarded> {
    match store::discard_kept(state_dir, name) {
        Ok(Discarded::Unknown) => store::discard_kept(state_dir, unspelled(name).as_os_str()),
        discarded => discarded,
    }
}
