//! Signed URLs, by which any client can read one object.
//!
//! The daemon signs with the credentials of the mount, so the control socket answers: it is open to root and the user
//! that mounted alone.

use std::time::Duration;

use base::Ino;
use serde::{Deserialize, Serialize};

use crate::volumes::Volumes;

/// A signed URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// The URL. Any client that has it can read the object.
    pub url: String,
    /// Time at which the signature expires, in seconds since 1970.
    pub expires: i64,
    /// Time at which the credentials expire, if that is earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_end: Option<i64>,
}

/// Answer of the daemon: a URL, or the reason why there is none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) shared: Option<Shared>,
    pub(crate) refused: Option<String>,
}

/// Answers the question `share INO SECS`, of which `words` is the end; `None` if it is malformed.
pub(crate) async fn offer(volumes: &Volumes, words: &str) -> Option<Offer> {
    let (number, secs) = words.split_once(' ')?;
    let (number, secs) = (number.parse().ok()?, secs.parse().ok()?);
    Some(match sign(volumes, Ino(number), Duration::from_secs(secs)).await {
        Ok(shared) => Offer { shared: Some(shared), refused: None },
        Err(reason) => Offer { shared: None, refused: Some(reason) },
    })
}

async fn sign(volumes: &Volumes, ino: Ino, valid: Duration) -> Result<Shared, String> {
    let (volume, inner) = volumes.owner(ino).ok_or("only files can be shared")?;
    let cloud = volume.cloud.as_ref().ok_or("a file of a local folder has no URL")?;
    let found = volume.vfs().inspect(inner).await.map_err(|error| error.to_string())?;
    let key = found.key.ok_or("only files can be shared")?;
    if found.version.is_none() || found.upload.is_some() {
        return Err("it is not uploaded yet: `quayfs sync` waits for that".to_owned());
    }
    let shared = cloud.share(&volume.object_key(&key), valid).await;
    let shared = shared.map_err(|error| reason(&error))?;
    Ok(Shared {
        url: shared.url,
        expires: shared.expires.secs,
        credentials_end: shared.credentials_end.map(|end| end.secs),
    })
}

/// Returns the cause of the error, without the operation and the key if it has one.
fn reason(error: &remote::Error) -> String {
    error.source.as_ref().map_or_else(|| error.to_string(), ToString::to_string)
}
