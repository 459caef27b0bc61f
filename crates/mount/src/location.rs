//! `Location`: which bucket, from the URL that the user gave.

use std::fmt;
use std::path::{Path, PathBuf};

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// `all`: every bucket of every store, each attached when it is first used.
    All,
    /// `s3://bucket/prefix`.
    S3 {
        /// The bucket.
        bucket: String,
        /// Empty, or what all keys begin with; ends in `/`.
        prefix: String,
    },
    /// `gs://bucket/prefix`: Google Cloud Storage.
    Gcs {
        /// The bucket.
        bucket: String,
        /// As in S3.
        prefix: String,
    },
    /// `az://account/container/prefix` or `abfss://container@account.dfs.core.windows.net/prefix`:
    /// Azure Blob Storage.
    Azure {
        /// The storage account.
        account: String,
        /// The container.
        container: String,
        /// As in S3.
        prefix: String,
    },
    /// `file:///path`.
    Folder(PathBuf),
}

/// Why a text is no [`Location`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Not a scheme that we know.
    #[error("{0}: not a URL that quayfs can mount; use {FORMS}")]
    Scheme(String),
    /// No bucket.
    #[error("{0}: the bucket is missing; use {FORMS}")]
    NoBucket(String),
    /// No storage account, or no container.
    #[error(
        "{0}: the account or the container is missing; use az://account/container[/prefix] or \
         abfss://container@account.dfs.core.windows.net[/prefix]"
    )]
    NoContainer(String),
    /// Not an absolute path.
    #[error("{0}: a folder needs three slashes and an absolute path: file:///path")]
    RelativePath(String),
}

/// The URLs that can be mounted, for people.
const FORMS: &str = "s3://bucket[/prefix], gs://bucket[/prefix], az://account/container[/prefix] \
                     or file:///path";

impl Location {
    /// Parses what the user gave.
    pub fn parse(url: &str) -> Result<Location, LocationError> {
        let no_bucket = || LocationError::NoBucket(url.to_owned());
        let no_container = || LocationError::NoContainer(url.to_owned());
        if url == "all" {
            return Ok(Location::All);
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(LocationError::Scheme(url.to_owned()));
        };
        match scheme {
            "s3" => {
                let (bucket, prefix) = bucket(rest).ok_or_else(no_bucket)?;
                Ok(Location::S3 { bucket, prefix })
            }
            "gs" => {
                let (bucket, prefix) = bucket(rest).ok_or_else(no_bucket)?;
                Ok(Location::Gcs { bucket, prefix })
            }
            "az" => {
                let (account, rest) = rest.split_once('/').ok_or_else(no_container)?;
                let (container, prefix) = bucket(rest).ok_or_else(no_container)?;
                let account = named(account).ok_or_else(no_container)?;
                Ok(Location::Azure { account, container, prefix })
            }
            "abfss" | "abfs" => {
                let (container, rest) = rest.split_once('@').ok_or_else(no_container)?;
                let (host, prefix) = bucket(rest).ok_or_else(no_container)?;
                let account = host.split_once('.').map_or(&host[..], |(account, _)| account);
                let account = named(account).ok_or_else(no_container)?;
                let container = named(container).ok_or_else(no_container)?;
                Ok(Location::Azure { account, container, prefix })
            }
            // One spelling for one folder: the name of a volume is compared with earlier ones.
            "file" if rest.starts_with('/') => {
                Ok(Location::Folder(Path::new(rest).components().collect()))
            }
            "file" => Err(LocationError::RelativePath(url.to_owned())),
            _ => Err(LocationError::Scheme(url.to_owned())),
        }
    }

    /// Empty, or what all keys begin with.
    pub fn prefix(&self) -> &str {
        match self {
            Location::S3 { prefix, .. }
            | Location::Gcs { prefix, .. }
            | Location::Azure { prefix, .. } => prefix,
            Location::Folder(_) | Location::All => "",
        }
    }

    /// The bucket that was mounted whole under the name `volume`.
    pub(crate) fn of_volume(volume: &str) -> Option<Location> {
        let (url, _endpoint) = volume.split_once("/@")?;
        let location = Location::parse(url).ok()?;
        location.prefix().is_empty().then_some(location)
    }
}

/// A bucket and a prefix, which is empty or ends in a slash.
fn bucket(text: &str) -> Option<(String, String)> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    let prefix = prefix.trim_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Some((named(bucket)?, prefix))
}

fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::S3 { bucket, .. } => write!(f, "s3://{bucket}")?,
            Location::Gcs { bucket, .. } => write!(f, "gs://{bucket}")?,
            Location::Azure { account, container, .. } => write!(f, "az://{account}/{container}")?,
            Location::Folder(path) => write!(f, "file://{}", path.display())?,
            Location::All => f.write_str("all")?,
        }
        match self.prefix() {
            "" => Ok(()),
            prefix => write!(f, "/{}", prefix.trim_end_matches('/')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn a_url_names_a_bucket_and_a_prefix_that_ends_in_a_slash() {
        for (url, want) in [
            ("s3://b", "s3://b"),
            ("s3://b/", "s3://b"),
            ("s3://b/p", "s3://b/p"),
            ("s3://b/p/q/", "s3://b/p/q"),
            ("gs://b", "gs://b"),
            ("gs://b/p/q/", "gs://b/p/q"),
            ("az://a/c", "az://a/c"),
            ("az://a/c/p/q/", "az://a/c/p/q"),
            ("abfss://c@a.dfs.core.windows.net", "az://a/c"),
            ("abfs://c@a.dfs.core.windows.net/p/", "az://a/c/p"),
            ("file:///data/x", "file:///data/x"),
            ("file:///data//x/", "file:///data/x"),
            ("all", "all"),
        ] {
            assert_eq!(Location::parse(url).map(|url| url.to_string()), Ok(want.to_owned()));
        }
        let Ok(Location::S3 { prefix, .. }) = Location::parse("s3://b/p/q/") else { panic!() };
        assert_eq!(prefix, "p/q/");
    }

    #[test]
    fn the_name_of_a_volume_tells_the_bucket_if_it_is_all_of_it() {
        for (volume, want) in [
            ("s3://b/@aws", Some("s3://b")),
            ("s3://b/@http://127.0.0.1:9000", Some("s3://b")),
            ("gs://b/@google", Some("gs://b")),
            ("az://a/c/@azure", Some("az://a/c")),
            ("s3://b/p/@aws", None),
            ("s3://b/p/@x/@aws", None),
            ("file:///data", None),
        ] {
            let location = Location::of_volume(volume).map(|location| location.to_string());
            assert_eq!(location.as_deref(), want, "{volume}");
        }
    }

    #[test]
    fn what_is_no_url_of_ours_says_what_is() {
        for (url, word) in [
            ("b", "s3://bucket"),
            ("http://x/b", "s3://bucket"),
            ("s3:///p", "bucket is missing"),
            ("gs://", "bucket is missing"),
            ("az://a", "container is missing"),
            ("az:///c", "container is missing"),
            ("az://a/", "container is missing"),
            ("abfss://a.dfs.core.windows.net/c", "container is missing"),
            ("abfss://@a/p", "container is missing"),
            ("file://data", "file:///path"),
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
