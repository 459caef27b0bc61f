//! Lists and sums up a bucket without a mount.

use std::ops::ControlFlow;
use std::time::Duration;

use base::FileKind;
use namespace::{Assumed, Browsed, Depth, FolderSum};
use remote::{ErrorKind, Key, Meta};

use crate::assemble::{self, owner};
use crate::config::Config;
use crate::error::Error;
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};

/// How long a request is repeated.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether mode and owner are shown, which takes one more request a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributed {
    /// They are.
    Yes,
    /// Names, sizes and times only.
    No,
}

/// Tells the entries of the folder of `config`, as a mount shows them.
pub fn browse(
    config: &Config,
    (depth, attributed): (Depth, Attributed),
    tell: &mut (dyn FnMut(Browsed) -> ControlFlow<()> + Send),
) -> Result<(), Error> {
    let assumed = match attributed {
        Attributed::Yes => Some(Assumed {
            file_mode: config.looks.file_mode,
            folder_mode: config.looks.folder_mode,
            owner: owner(config),
        }),
        Attributed::No => None,
    };
    let runtime = runtime()?;
    let browsed = runtime.block_on(async {
        let (remote, _) = assemble::reach(config, PATIENCE).await?;
        let mut is_empty = true;
        let mut first = |browsed| {
            is_empty = false;
            tell(browsed)
        };
        let browsed = namespace::browse(remote.as_ref(), depth, assumed, &mut first).await;
        browsed.map_err(|source| assemble::explained(config, source))?;
        if is_empty && let Some((name, meta)) = object_itself(config).await? {
            let looks = assumed.map(|assumed| (assumed.file_mode, assumed.owner));
            let (kind, mtime) = (FileKind::File, Some(meta.modified));
            // One line: there is no more to be wanted.
            let _ = tell(Browsed { path: name, kind, size: meta.size, mtime, looks, target: None });
        }
        Ok(())
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    browsed
}

/// Tells the sums of the folders below that of `config`, down to `depth` of them, each after those in it.
pub fn sum_up(
    config: &Config,
    depth: usize,
    tell: &mut (dyn FnMut(FolderSum) + Send),
) -> Result<(), Error> {
    let runtime = runtime()?;
    let summed = runtime.block_on(async {
        let (remote, _) = assemble::reach(config, PATIENCE).await?;
        let mut is_empty = false;
        let mut last = |sum: FolderSum| {
            // The listed folder comes last.
            is_empty = sum.path.is_empty() && sum.files == 0;
            if !is_empty {
                tell(sum);
            }
        };
        let summed = namespace::sum_up(remote.as_ref(), depth, &mut last).await;
        summed.map_err(|source| assemble::explained(config, source))?;
        if is_empty {
            let object = object_itself(config).await?;
            let (files, bytes) = object.map_or((0, 0), |(_, meta)| (1, meta.size));
            tell(FolderSum { path: Vec::new(), files, bytes });
        }
        Ok(())
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    summed
}

/// The object that the URL names, where nothing is below it, and its name. An error if there is none either.
async fn object_itself(config: &Config) -> Result<Option<(Vec<u8>, Meta)>, Error> {
    let Some(key) = config.location.prefix().strip_suffix('/') else { return Ok(None) };
    let name = key.rsplit('/').next().unwrap_or(key).to_owned();
    let parent = Config { location: config.location.parent(), ..config.clone() };
    let (remote, _) = assemble::reach(&parent, PATIENCE).await?;
    match remote.head(&Key::from(&*name)).await {
        Ok(meta) => Ok(Some((name.into_bytes(), meta))),
        Err(error) if error.kind == ErrorKind::NotFound => {
            Err(Error::NothingBelow(config.location.clone()))
        }
        Err(source) => Err(assemble::explained(config, source)),
    }
}
