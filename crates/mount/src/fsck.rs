//! Checks a state folder, and the attribute objects of a bucket, without a mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{Metrics, SystemClock};
use serde::Serialize;
use store::{CacheLimit, Options, Store, Weight};

use crate::assemble;
use crate::config::Config;
use crate::error::Error;
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};
use crate::spelling::spelled;

/// Whether to put right what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Only look.
    No,
    /// As far as nothing is lost that exists nowhere else.
    Yes,
}

/// Something in a state folder that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalFlaw {
    /// What it is about.
    #[serde(serialize_with = "crate::spelling::serialize")]
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
    /// What it means: `cache` (the bucket has the bytes), `staged` (it may not), `database`, or `stranger`
    /// (something that others put there).
    pub about: &'static str,
    /// Whether it is put right now.
    pub repaired: bool,
    /// Where the old database is, if a new one was begun for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
}

/// What an attribute object says and that is not so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttributeFlaw {
    /// The key of the object.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

/// What was found in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedBucket {
    /// Objects that hold files.
    pub objects: u64,
    /// Objects that hold attributes.
    pub attribute_objects: u64,
    /// What is wrong with these.
    pub flaws: Vec<AttributeFlaw>,
}

/// How long a request to the bucket is repeated.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks the state folder `state_dir`, which no mount may use meanwhile.
pub fn fsck(state_dir: &Path, repair: Repair) -> Result<Vec<LocalFlaw>, Error> {
    let failed = |source: store::Error| {
        let dir = state_dir.to_owned();
        if source.kind == store::ErrorKind::Held {
            return Error::StateInUse { dir };
        }
        Error::State { dir, source }
    };
    let found = match repair {
        Repair::No => store::check(state_dir).map_err(failed)?,
        Repair::Yes => store::repair(state_dir).map_err(failed)?,
    };
    let (mut left, mut set_aside) = (found.clone(), None);
    if repair == Repair::Yes && !found.is_empty() {
        // What was not told goes to the recovery folder, as at the next mount.
        let options = Options { dir: state_dir.to_owned(), cache: CacheLimit::default() };
        let (clock, metrics) = (Arc::new(SystemClock::new()), Arc::new(Metrics::new()));
        let opened = Store::open(options, clock, metrics).map_err(failed)?;
        set_aside = opened.set_aside().map(Path::to_owned);
        drop(opened);
        left = store::check(state_dir).map_err(failed)?;
    }
    let of = |flaw: store::Flaw| LocalFlaw {
        repaired: !left.contains(&flaw),
        aside: set_aside
            .as_deref()
            .filter(|_| flaw.weight == Weight::Database)
            .map(|aside| spelled(aside).into_owned()),
        what: match (&set_aside, flaw.weight) {
            (Some(aside), Weight::Database) => format!(
                "{}; begun anew, with the old one at {}: what was cached is forgotten, and what waited \
                 for upload is in the recovery folder",
                flaw.what,
                aside.display()
            ),
            (
                Some(_) | None,
                Weight::Cache | Weight::Staged | Weight::Database | Weight::Stranger,
            ) => flaw.what,
        },
        path: flaw.path,
        about: match flaw.weight {
            Weight::Cache => "cache",
            Weight::Staged => "staged",
            Weight::Database => "database",
            Weight::Stranger => "stranger",
        },
    };
    Ok(found.into_iter().map(of).collect())
}

/// Compares the attribute objects of the bucket of `config` with what they speak of.
pub fn fsck_attributes(config: &Config) -> Result<CheckedBucket, Error> {
    let runtime = runtime()?;
    let checked = runtime.block_on(async {
        let (remote, _) = assemble::reach(config, PATIENCE).await?;
        let checked = namespace::check_attributes(remote.as_ref()).await;
        checked.map_err(|source| assemble::explained(config, source))
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    let namespace::Checked { objects, attribute_objects, flaws } = checked?;
    let of = |flaw: namespace::AttributeFlaw| AttributeFlaw {
        key: flaw.key.to_string(),
        what: flaw.what,
    };
    let flaws = flaws.into_iter().map(of).collect();
    Ok(CheckedBucket { objects, attribute_objects, flaws })
}
