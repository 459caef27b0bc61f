//! `Location`: which bucket, from the URL that the user gave.

use std::fmt;
use std::path::{Path, PathBuf};

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `s3://bucket/prefix`.
    S3 {
        /// The bucket.
        bucket: String,
        /// Empty, or what all keys begin with; ends in `/`.
        prefix: String,
    },
    /// `file:///path`.
    Folder(PathBuf),
}

/// Why a text is no [`Location`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Not a scheme that we know.
    #[error("{0}: not a URL that quayfs can mount; use s3://bucket[/prefix] or file:///path")]
    Scheme(String),
    /// No bucket.
    #[error("{0}: the bucket is missing; use s3://bucket[/prefix] or file:///path")]
    NoBucket(String),
    /// Not an absolute path.
    #[error("{0}: a folder needs three slashes and an absolute path: file:///path")]
    RelativePath(String),
}

impl Location {
    /// Parses what the user gave.
    pub fn parse(url: &str) -> Result<Location, LocationError> {
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(LocationError::NoBucket(url.to_owned()));
            }
            let prefix = prefix.trim_matches('/');
            let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
            return Ok(Location::S3 { bucket: bucket.to_owned(), prefix });
        }
        match url.strip_prefix("file://") {
            // One spelling for one folder: the name of a volume is compared with earlier ones.
            Some(path) if path.starts_with('/') => {
                Ok(Location::Folder(Path::new(path).components().collect()))
            }
            Some(_) => Err(LocationError::RelativePath(url.to_owned())),
            None => Err(LocationError::Scheme(url.to_owned())),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Location::S3 { bucket, prefix } => {
                write!(f, "s3://{bucket}/{}", prefix.trim_end_matches('/'))
            }
            Location::Folder(path) => write!(f, "file://{}", path.display()),
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
            ("file:///data/x", "file:///data/x"),
            ("file:///data//x/", "file:///data/x"),
        ] {
            assert_eq!(Location::parse(url).map(|url| url.to_string()), Ok(want.to_owned()));
        }
        let Ok(Location::S3 { prefix, .. }) = Location::parse("s3://b/p/q/") else { panic!() };
        assert_eq!(prefix, "p/q/");
    }

    #[test]
    fn what_is_no_url_of_ours_says_what_is() {
        for (url, word) in [
            ("b", "s3://bucket"),
            ("http://x/b", "s3://bucket"),
            ("s3:///p", "bucket is missing"),
            ("file://data", "file:///path"),
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
