//! Finds the files that people name: each path itself, all below folders, patterns, and lists.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use mount::Found;

use super::glob;

/// Which files are meant.
#[derive(Debug, ClapArgs)]
pub(crate) struct Listing {
    /// Files, folders with all below them, or patterns such as 'runs/**/*.bam' (in quotes, or your shell
    /// expands them).
    #[arg(value_name = "PATH", required_unless_present = "from_file")]
    paths: Vec<PathBuf>,
    /// Take paths from a file, one a line, or from the standard input if it is a dash.
    #[arg(long, value_name = "LIST")]
    from_file: Option<PathBuf>,
    /// The paths of the list end with zero bytes, as `find -print0` writes them.
    #[arg(short = '0', long, requires = "from_file")]
    null: bool,
}

/// A longer path is none.
const PATH_BYTES_MAX: usize = 4096;

/// The files that `listing` means, each once for each time that it is named.
pub(crate) fn found(listing: &Listing) -> Result<Vec<Found>> {
    let mut files = Vec::new();
    for path in &listing.paths {
        if path.symlink_metadata().is_err() && glob::is_pattern(path) {
            let places = glob::expand(path);
            if places.is_empty() {
                bail!("{}: nothing there fits this pattern", path.display());
            }
            places.iter().try_for_each(|place| walk(place, &mut files))?;
        } else {
            walk(path, &mut files)?;
        }
    }
    if let Some(list) = &listing.from_file {
        let end = if listing.null { 0 } else { b'\n' };
        for path in listed(list, end)? {
            walk(&path, &mut files)?;
        }
    }
    Ok(files)
}

fn listed(list: &Path, end: u8) -> Result<Vec<PathBuf>> {
    let mut reader: Box<dyn BufRead> = if list == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(list);
        Box::new(BufReader::new(file.with_context(|| list.display().to_string())?))
    };
    let (mut paths, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let read =
            io::Read::take(&mut reader, PATH_BYTES_MAX as u64 + 1).read_until(end, &mut line);
        if read.with_context(|| list.display().to_string())? == 0 {
            return Ok(paths);
        }
        if line.last() == Some(&end) {
            line.pop();
        }
        if PATH_BYTES_MAX < line.len() {
            bail!("{}: a line is no path: is it a list that wants -0?", list.display());
        }
        if !line.is_empty() {
            paths.push(PathBuf::from(OsString::from_vec(line.clone())));
        }
    }
}

/// The file `path`, or all files below it on its mount. Links are followed where they are named, not where
/// they are found.
fn walk(path: &Path, files: &mut Vec<Found>) -> Result<()> {
    let told = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(told)?;
    if metadata.is_file() {
        // The daemon is asked about the file, not about a link to it.
        let path = fs::canonicalize(path).with_context(told)?;
        files.push(file(path, &metadata));
        return Ok(());
    }
    let device = metadata.dev();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let told = || folder.display().to_string();
        for entry in fs::read_dir(&folder).with_context(told)? {
            let entry = entry.with_context(told)?;
            // What went meanwhile is as good as never there.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                files.push(file(entry.path(), &metadata));
            }
        }
    }
    Ok(())
}

fn file(path: PathBuf, metadata: &Metadata) -> Found {
    Found { path, bytes: metadata.len(), device: metadata.dev() }
}
