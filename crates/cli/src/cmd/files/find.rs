//! Finds the files that people name: each path itself, all below folders, patterns, and lists.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use mount::{Found, spelled};
use parking_lot::Mutex;

use super::filter::Filter;
use super::glob;

/// Which files are meant.
#[derive(Debug, ClapArgs)]
pub(crate) struct Listing {
    /// Files, folders with everything below them, or patterns such as 'runs/**/*.bam' (in quotes, or the shell
    /// expands them).
    #[arg(value_name = "PATH", required_unless_present = "from_file")]
    paths: Vec<PathBuf>,
    /// Read paths from a file, one per line, or from the standard input if it is `-`.
    #[arg(long, value_name = "LIST")]
    from_file: Option<PathBuf>,
    /// The paths of the list end with zero bytes, as `find -print0` writes them.
    #[arg(short = '0', long, requires = "from_file")]
    null: bool,
}

/// Listed paths that are looked at at a time: each may cost a request.
const LOOKS_AT_A_TIME: usize = 32;

/// A longer path is none.
const PATH_BYTES_MAX: usize = 4096;

/// What a listing means.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    /// The files, each once for each time that it is named.
    pub(crate) files: Vec<Found>,
    /// What was named and cannot be found, and why.
    pub(crate) missed: Vec<(String, String)>,
}

/// Finds the files that `listing` means and that pass `filter`. Only a list that cannot be read is an error, and a mount
/// that stands still.
pub(crate) fn found(listing: &Listing, filter: &Filter) -> Result<Meant> {
    let end = if listing.null { 0 } else { b'\n' };
    let list = listing.from_file.as_deref();
    let list = list.map(|list| listed(list, end)).transpose()?.unwrap_or_default();
    mount::check_answers(listing.paths.iter().chain(&list).map(PathBuf::as_path))?;
    let mut meant = Meant::default();
    for path in &listing.paths {
        if path.symlink_metadata().is_err() && glob::is_pattern(path) {
            let places = glob::expand(path);
            if places.is_empty() {
                meant.miss(path, &"no file matches this pattern");
            }
            for place in &places {
                meant.add(place, filter);
            }
        } else {
            meant.add(path, filter);
        }
    }
    meant.add_all(&list, filter);
    Ok(meant)
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

impl Meant {
    fn miss(&mut self, path: &Path, why: &dyn Display) {
        self.missed.push((spelled(path).into_owned(), why.to_string()));
    }

    /// What all of `paths` mean, in this order.
    fn add_all(&mut self, paths: &[PathBuf], filter: &Filter) {
        let places = Mutex::new(paths.iter().enumerate());
        let look = || {
            let mut looks = Vec::new();
            while let Some((place, path)) = next(&places) {
                let mut meant = Meant::default();
                meant.add(path, filter);
                looks.push((place, meant));
            }
            looks
        };
        let mut looks: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..LOOKS_AT_A_TIME.min(paths.len())).map(|_| scope.spawn(look)).collect();
            let looks = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
            looks.flatten().collect()
        });
        looks.sort_by_key(|(place, _)| *place);
        for (_, Meant { files, missed }) in looks {
            self.files.extend(files);
            self.missed.extend(missed);
        }
    }

    /// The file `path`, or all files below it on its mount. Links are followed where they are named, not
    /// where they are found.
    fn add(&mut self, path: &Path, filter: &Filter) {
        // The daemon is asked about the file, not about a link to it.
        match fs::metadata(path).and_then(|metadata| Ok((metadata, fs::canonicalize(path)?))) {
            Ok((metadata, path)) if metadata.is_file() => {
                let name = path.file_name().map_or(path.as_path(), Path::new);
                if filter.passes(name, metadata.len()) {
                    self.files.push(file(path, &metadata));
                }
            }
            Ok(_) if !mount::is_in_mount(path) => self.miss(path, &"not mounted"),
            Ok((metadata, _)) => self.add_below(path, metadata.dev(), filter),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                self.miss(path, &mount::not_looked_at(path, error));
            }
            Err(error) => self.miss(path, &error),
        }
    }

    fn add_below(&mut self, top: &Path, device: u64, filter: &Filter) {
        let mut folders = vec![top.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    self.miss(&folder, &error);
                    continue;
                }
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        self.miss(&folder, &error);
                        break;
                    }
                };
                // What went meanwhile is as good as never there.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.dev() != device {
                    continue;
                }
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else if metadata.is_file() {
                    let path = entry.path();
                    let below = path.strip_prefix(top).unwrap_or(&path);
                    if filter.passes(below, metadata.len()) {
                        self.files.push(file(path, &metadata));
                    }
                }
            }
        }
    }
}

fn next<T>(of: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    of.lock().next()
}

fn file(path: PathBuf, metadata: &Metadata) -> Found {
    Found { path, bytes: metadata.len(), device: metadata.dev() }
}
