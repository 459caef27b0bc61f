//! `quayfs share`: asks the daemon of a mount for a signed URL.

use std::path::Path;
use std::time::Duration;

use crate::control::{ANSWER_PATIENCE, Asked, silent};
use crate::entry::mount_of;
use crate::error::Error;
use crate::shared_url::{Offer, Shared};

/// Returns a URL by which any client can read the file `path` for the time `valid`, or the reason why there is none.
pub fn share(path: &Path, valid: Duration) -> Result<Result<Shared, String>, Error> {
    let entry = mount_of(path)?;
    let failed = |source| Error::NotLookedAt { path: path.to_owned(), source };
    let number = rustix::fs::stat(path).map_err(|errno| failed(errno.into()))?.st_ino;
    let asked = Asked::of(&entry, &format!("share {number} {}", valid.as_secs()))?;
    let offer = asked.patient(ANSWER_PATIENCE).and_then(|mut asked| asked.line::<Offer>());
    match offer.map_err(|source| silent(&entry, source))? {
        Some(Offer { shared: Some(shared), .. }) => Ok(Ok(shared)),
        Some(Offer { refused: Some(reason), .. }) => Ok(Err(reason)),
        // Daemons of earlier versions end the connection.
        Some(Offer { shared: None, refused: None }) | None => {
            Ok(Err("the process of this mount is too old to sign URLs: mount again".to_owned()))
        }
    }
}
