//! Has the store put a copy of a file in the place of a link to it, from outside.

use std::io;
use std::path::Path;

use crate::control::Asked;
use crate::error::Error;
use crate::task::{Answer, Outcome, Task};
use crate::visit::hold;

/// The symbolic link at `link` gives way to a copy of the file at `file`, both in one bucket of a mount; the bucket
/// has the copy when this returns [`Outcome::Copied`]. Nothing is fetched and sent for it.
pub fn copy_over_link(link: &Path, file: &Path) -> Result<Outcome, Error> {
    let system = |source: io::Error| Error::System { what: "cannot look at a path", source };
    let entry = fuse::mount_of(file)?;
    let (link_held, link) = hold(link).map_err(|errno| system(errno.into()))?;
    let (file_held, file) = hold(file).map_err(|errno| system(errno.into()))?;
    let device = |held| rustix::fs::fstat(held).map(|found| found.st_dev);
    if device(&link_held).ok() != device(&file_held).ok() {
        return Ok(Outcome::Failed { reason: "they are in different mounts".to_owned() });
    }
    let silent = |source| Error::Daemon { dir: entry.path.clone(), source };
    let question = serde_json::to_string(&Task::CopyOverLink { link, file });
    let question = question.map_err(io::Error::other).map_err(silent)?;
    let asked = Asked::new(&entry, &question);
    let answer = asked.and_then(|mut asked| asked.line()).map_err(silent)?;
    let Answer { outcome, .. } =
        answer.ok_or_else(|| silent(io::ErrorKind::UnexpectedEof.into()))?;
    Ok(outcome)
}
