//! How each bucket is mounted where all of them are: as is said of it, with the credentials of its store.

use std::path::{Path, PathBuf};

use ::mount::{Buckets, Config, Location};
use anyhow::Result;

use crate::settings::{self, Origin, Resolved, Sources};

/// What was said of the settings when all buckets were mounted.
#[derive(Debug)]
pub(super) struct EachBucket {
    sources: Sources,
    dir: PathBuf,
}

impl EachBucket {
    pub(super) fn new(sources: Sources, dir: &Path) -> EachBucket {
        EachBucket { sources, dir: dir.to_owned() }
    }

    fn config(&self, location: &Location) -> Result<Config> {
        let Resolved { mut settings, given } = self.sources.resolve(Some(location))?;
        let endpoint = given.get("endpoint").map(|given| &given.origin);
        let is_its_own = matches!(endpoint, Some(Origin::File { bucket: Some(_), .. }));
        if !is_its_own && !matches!(location, Location::S3 { .. }) {
            // One URL is one service, and what speaks S3 is what people name one for.
            settings.store.endpoint = None;
        }
        settings::config(location.clone(), &self.dir, &settings)
    }
}

impl Buckets for EachBucket {
    fn config(&self, location: &Location) -> Result<Config, String> {
        self.config(location).map_err(|error| format!("{error:#}"))
    }
}
