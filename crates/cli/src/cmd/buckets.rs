//! How each bucket is mounted where all of them are: as the flags say, with the credentials of its store.

use std::path::{Path, PathBuf};

use ::mount::{Buckets, Config, Location};

use super::mount;
use crate::args::MountArgs;

/// The flags of a mount of all buckets.
#[derive(Debug)]
pub(super) struct EachBucket {
    args: MountArgs,
    dir: PathBuf,
}

impl EachBucket {
    pub(super) fn new(args: &MountArgs, dir: &Path) -> EachBucket {
        EachBucket { args: args.clone(), dir: dir.to_owned() }
    }
}

impl Buckets for EachBucket {
    fn config(&self, location: &Location) -> Result<Config, String> {
        let mut args = self.args.clone();
        if !matches!(location, Location::S3 { .. }) {
            // One URL is one service, and what speaks S3 is what people name one for.
            args.access.endpoint = None;
        }
        mount::config_of(&args, location.clone(), &self.dir).map_err(|error| format!("{error:#}"))
    }
}
