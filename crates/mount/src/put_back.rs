//! Puts files of the recovery folder back into their bucket, without a mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::Arc;

use base::{Name, printable};
use store::{Discarded, KeptFile, KeptOpened};
use vfs::{NotPutBack, PutBackTo};

use crate::assemble::{self, Common};
use crate::config::{Changes, Config};
use crate::error::Error;
use crate::lifecycle::{SHUTDOWN_PATIENCE, runtime};
use crate::location::{Home, Location};
use crate::missing::Missing;
use crate::notice::Notice;
use crate::spelling::{spelled, unspelled};
use crate::writes::Company;

/// A file of the recovery folder that is in the bucket again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// Its object, below the mounted folder.
    pub key: String,
    /// Its size.
    pub bytes: u64,
}

/// The bucket that the file `name` of the recovery folder of `state_dir` belongs to.
pub fn home_of(state_dir: &Path, name: &OsStr) -> Result<Home, Error> {
    let kept = open(state_dir, name)?;
    let home = kept.origin().and_then(vfs::destination).and_then(|to| Location::home(&to.volume));
    home.ok_or_else(|| not_put_back(state_dir, name, &NotPutBack::NoOrigin))
}

/// Uploads the file `name` of the recovery folder to the place that it was meant for, or to the path `to` below the
/// mounted folder. The copy in the recovery folder is removed when the store has acknowledged the upload. Tells in
/// `notices` what else was done.
pub fn put_back(
    config: &Config,
    (name, to): (&OsStr, Option<&Path>),
    notices: &mut Vec<Notice>,
) -> Result<PutBack, Error> {
    let kept = Arc::new(open(&config.state_dir, name)?);
    let refused = |why: &NotPutBack| not_put_back(&config.state_dir, name, why);
    let home = kept.origin().and_then(vfs::destination);
    let home = home.ok_or_else(|| refused(&NotPutBack::NoOrigin))?;
    if home.volume != config.volume() {
        let (belongs, asked) = (Location::told(&home.volume), Location::told(&config.volume()));
        return Err(Error::NotPutBack {
            name: told(name),
            why: format!("it belongs to {belongs}, not to {asked}"),
            advice: "name the URL and the --endpoint of its mount".to_owned(),
        });
    }
    let names = to.map(|path| names(path, name)).transpose()?;
    let to = names.as_deref().map_or(PutBackTo::Home, PutBackTo::Path);
    let runtime = runtime()?;
    let put_back = runtime.block_on(async {
        let common = Common::open(config, notices)?;
        let assembled = assemble::assemble((config, Company::Nobody), common, notices).await?;
        if assembled.changes == Changes::Refused {
            return Err(Error::NotPutBack {
                name: told(name),
                why: "these credentials, or the settings, allow no changes".to_owned(),
                advice: "use credentials that can write".to_owned(),
            });
        }
        let key = assembled.vfs.put_back(&kept, to).await.map_err(|why| refused(&why))?;
        // Only now: the store has the bytes, and the journal their attributes.
        remove(&config.state_dir, name)?;
        let left = assembled.vfs.drain().await;
        assembled.ledger.settle();
        if !left.is_empty() {
            let missing = Missing::of(&left);
            return Err(Error::Unsynced { path: config.state_dir.clone(), missing });
        }
        Ok(PutBack { key: key.to_string(), bytes: kept.size() })
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    put_back
}

/// The names of a path below the mounted folder.
fn names(path: &Path, kept: &OsStr) -> Result<Vec<Name>, Error> {
    let wrong = |why: &str| Error::NotPutBack {
        name: told(kept),
        why: format!("{} is {why}", printable(&spelled(path))),
        advice: "--as takes the path of a new file below the mounted folder, as the mount shows it"
            .to_owned(),
    };
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => {
                names.push(Name::new(part.as_bytes()).map_err(|_| wrong("no path of names"))?);
            }
            Component::ParentDir | Component::Prefix(_) => return Err(wrong("not a plain path")),
        }
    }
    if names.is_empty() { Err(wrong("not the path of a file")) } else { Ok(names) }
}

/// Opens a file by its name, as it is or as it is listed.
fn open(state_dir: &Path, name: &OsStr) -> Result<KeptFile, Error> {
    let opened = match store::open_kept(state_dir, name) {
        Ok(KeptOpened::Unknown) => store::open_kept(state_dir, unspelled(name).as_os_str()),
        opened => opened,
    };
    match opened {
        Ok(KeptOpened::File(file)) => Ok(file),
        Ok(KeptOpened::InUse) => Err(Error::KeptInUse { name: told(name) }),
        Ok(KeptOpened::Unknown) => Err(Error::NotKept { name: told(name) }),
        Err(source) => Err(Error::State { dir: state_dir.to_owned(), source }),
    }
}

fn remove(state_dir: &Path, name: &OsStr) -> Result<(), Error> {
    match crate::recover::discarded(state_dir, name) {
        // Gone already, or opened meanwhile: the bucket has the bytes, and a second copy does no harm.
        Ok(Discarded::Yes | Discarded::Unknown | Discarded::InUse) => Ok(()),
        Err(source) => Err(Error::State { dir: state_dir.to_owned(), source }),
    }
}

fn told(name: &OsStr) -> String {
    spelled(Path::new(name)).into_owned()
}

fn not_put_back(state_dir: &Path, name: &OsStr, why: &NotPutBack) -> Error {
    let copy = || {
        let path = store::kept_path(state_dir, name);
        format!("copy {} into a mount, then discard it", crate::error::shown(&path))
    };
    let advice = match why {
        NotPutBack::NoOrigin | NotPutBack::Fragmented | NotPutBack::Incomplete(_) => copy(),
        NotPutBack::Taken(_) => {
            "restore it under another name with --as PATH, or move the other one away".to_owned()
        }
        NotPutBack::Failed(_) => "it stays in the recovery folder; try again".to_owned(),
    };
    Error::NotPutBack { name: told(name), why: why.to_string(), advice }
}
