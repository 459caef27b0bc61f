//! Metrics in a file, for collectors that read files.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::page::page;
use super::text::Dialect;
use crate::report::Report;

/// How often it is written anew.
const DELAY: Duration = Duration::from_secs(15);

/// Writes the file now and then until dropped.
pub(super) async fn keep(path: PathBuf, report: Arc<Report>) {
    let path = Arc::new(path);
    loop {
        if let Err(error) = write(Arc::clone(&path), &report).await {
            tracing::warn!(%error, path = %path.display(), "the metrics are not written");
        }
        report.common.clock.sleep(DELAY).await;
    }
}

/// Writes it once.
pub(super) async fn write(path: Arc<PathBuf>, report: &Report) -> io::Result<()> {
    let text = page(report, Dialect::Open).await?;
    let writing = tokio::task::spawn_blocking(move || replace(&path, &text));
    writing.await.map_err(io::Error::other)?
}

/// Whoever reads the file sees the old text or the new one, never a part.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    // Of this process alone: other mounts may write the same file.
    let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    // One that is there is of a process that died, or a trap: it is not written into.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::create_new(&beside)?.write_all(text.as_bytes())?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn the_file_is_replaced_and_nothing_stays_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("quayfs.prom");
        for text in ["old\n", "new\n"] {
            replace(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
