//! `Location`: which bucket, from the URL that the user gave.

use std::fmt;
use std::path::{Path, PathBuf};

/// A bucket and its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The bucket, as it was mounted.
    pub location: Location,
    /// The endpoint, if it is not the cloud's own.
    pub endpoint: Option<String>,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// `all`: every bucket of every store, each attached when it is first used.
    All,
    /// `s3://bucket/prefix`, also with the ARN of an access point for the bucket.
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
    /// An unknown scheme.
    #[error("{0}: not a URL that quayfs can mount\n  use {FORMS}")]
    Scheme(String),
    /// No bucket.
    #[error("{0}: the bucket is missing\n  use {FORMS}")]
    NoBucket(String),
    /// An access point of many regions.
    #[error(
        "{0}: this binary cannot sign for access points of many regions (SigV4A)\n  use one of the released \
         packages, build it with `cargo build --release -p quayfs-cli --features multi-region`, or name a \
         bucket or an access point of one region"
    )]
    ManyRegions(String),
    /// No access point.
    #[error(
        "{0}: not the name of an access point\n  use s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME[/prefix]"
    )]
    AccessPoint(String),
    /// No storage account, or no container.
    #[error(
        "{0}: the account or the container is missing\n  use az://account/container[/prefix] or \
         abfss://container@account.dfs.core.windows.net[/prefix]"
    )]
    NoContainer(String),
    /// Not an account of the public cloud.
    #[error(
        "{0}: only accounts of Azure's public cloud are known by such a URL\n  for others use \
         az://account/container[/prefix] with --endpoint https://ACCOUNT.blob.CLOUD"
    )]
    OtherCloud(String),
    /// A user name or a key in the URL, which is not repeated.
    #[error(
        "{0}://…: remove the user name, keys and passwords from the URL\n  \
         put them into the environment, a profile or a file of credentials, where other users cannot read them"
    )]
    Secret(String),
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
        if has_secret(scheme, rest) {
            return Err(LocationError::Secret(scheme.to_owned()));
        }
        match scheme {
            "s3" if rest.starts_with("arn:") => access_point(url, rest),
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
                let (account, cloud) = host.split_once('.').unwrap_or((&host[..], ""));
                let account = named(account).filter(|name| !name.contains(['@', ':']));
                let account = account.ok_or_else(no_container)?;
                // The public cloud may have an account of the same name, of somebody else's.
                if !["", "dfs.core.windows.net", "blob.core.windows.net"].contains(&cloud) {
                    return Err(LocationError::OtherCloud(url.to_owned()));
                }
                let container = named(container).filter(|name| !name.contains('/'));
                let container = container.ok_or_else(no_container)?;
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

    /// Where it is in a mount of all buckets, such as `s3/bucket`.
    pub(crate) fn place(&self) -> String {
        self.to_string().replace("://", "/")
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

    /// The name that [`Location::volume`] gives, for people: the URL, and the endpoint if it is not the cloud's own.
    pub fn told(volume: &str) -> String {
        match Location::parts(volume) {
            (url, Some(endpoint)) => format!("{url} at {endpoint}"),
            (url, None) => url.to_owned(),
        }
    }

    /// The object `key` below the folder that was mounted under the name `volume`, for people.
    pub fn object(volume: &str, key: &str) -> String {
        let (url, endpoint) = Location::parts(volume);
        let slash = if url.ends_with('/') { "" } else { "/" };
        match endpoint {
            Some(endpoint) => format!("{url}{slash}{key} (endpoint {endpoint})"),
            None => format!("{url}{slash}{key}"),
        }
    }

    /// The URL in the name `volume`, and the endpoint if that is not the cloud's own.
    fn parts(volume: &str) -> (&str, Option<&str>) {
        let is_folder = volume.starts_with("file:");
        match volume.rsplit_once('@').filter(|_| !is_folder) {
            Some((url, "aws" | "google" | "azure")) => (url, None),
            Some((url, endpoint)) => (url, Some(endpoint)),
            None => (volume, None),
        }
    }

    /// The bucket that was mounted under the name `volume`, with its endpoint if that is not the cloud's own.
    pub(crate) fn home(volume: &str) -> Option<Home> {
        let (url, endpoint) = Location::parts(volume);
        let endpoint = endpoint.map(str::to_owned);
        Some(Home { location: Location::parse(url).ok()?, endpoint })
    }

    /// What it is called in the state folder, at the service `endpoint` or at the cloud's own.
    pub(crate) fn volume(&self, endpoint: Option<&str>) -> String {
        let at = |cloud| endpoint.unwrap_or(cloud).trim_end_matches('/').to_owned();
        match self {
            Location::S3 { bucket, prefix } => format!("s3://{bucket}/{prefix}@{}", at("aws")),
            Location::Gcs { bucket, prefix } => format!("gs://{bucket}/{prefix}@{}", at("google")),
            Location::Azure { account, container, prefix } => {
                format!("az://{account}/{container}/{prefix}@{}", at("azure"))
            }
            Location::Folder(_) | Location::All => self.to_string(),
        }
    }

    /// The folder that it is in; the bucket is in none.
    pub(crate) fn parent(&self) -> Location {
        let mut parent = self.clone();
        match &mut parent {
            Location::S3 { prefix, .. }
            | Location::Gcs { prefix, .. }
            | Location::Azure { prefix, .. } => {
                let end = prefix.trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
                prefix.truncate(end);
            }
            Location::Folder(path) => drop(path.pop()),
            Location::All => {}
        }
        parent
    }

    /// The bucket without a prefix.
    pub(crate) fn whole(&self) -> Location {
        let mut whole = self.clone();
        match &mut whole {
            Location::S3 { prefix, .. }
            | Location::Gcs { prefix, .. }
            | Location::Azure { prefix, .. } => prefix.clear(),
            Location::Folder(_) | Location::All => {}
        }
        whole
    }

    /// The bucket that was mounted whole under the name `volume`.
    pub(crate) fn of_volume(volume: &str) -> Option<Location> {
        let (url, _endpoint) = volume.split_once("/@")?;
        let location = Location::parse(url).ok()?;
        location.prefix().is_empty().then_some(location)
    }
}

/// Whether the place where a bucket's name is expected looks like `KEY:SECRET@bucket`. A secret may have slashes in it.
fn has_secret(scheme: &str, rest: &str) -> bool {
    let place = rest.split('/').next().unwrap_or_default();
    match scheme {
        "file" => false,
        "s3" if rest.starts_with("arn:") => false,
        "abfss" | "abfs" => {
            place.split_once('@').is_none_or(|(container, _)| container.contains(':'))
                && place.contains(':')
        }
        _ => place.contains([':', '@']) && !is_host(place),
    }
}

/// Whether it is `host` or `host:port`, as in the URL of a server.
fn is_host(place: &str) -> bool {
    let port = place.rsplit_once(':').map(|(_, port)| port);
    !place.contains('@') && port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A bucket and a prefix, which is empty or ends in a slash.
fn bucket(text: &str) -> Option<(String, String)> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    let prefix = prefix.trim_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Some((named(bucket)?, prefix))
}

/// `arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/prefix`. A colon before the name is the same.
fn access_point(url: &str, text: &str) -> Result<Location, LocationError> {
    let wrong = || LocationError::AccessPoint(url.to_owned());
    let mut words = text.splitn(6, ':');
    let mut word = || words.next().ok_or_else(wrong);
    let (arn, partition, service, region, account) = (word()?, word()?, word()?, word()?, word()?);
    let resource = word()?.strip_prefix("accesspoint").ok_or_else(wrong)?;
    let (name, prefix) =
        bucket(resource.strip_prefix(['/', ':']).ok_or_else(wrong)?).ok_or_else(wrong)?;
    if service != "s3" || partition.is_empty() || account.is_empty() {
        return Err(wrong());
    }
    let is_of_many = name.rsplit_once('.').is_some_and(|(_, end)| end == "mrap");
    if region.is_empty() && !is_of_many {
        return Err(wrong());
    }
    if region.is_empty() && !cfg!(feature = "multi-region") {
        return Err(LocationError::ManyRegions(url.to_owned()));
    }
    let bucket = format!("{arn}:{partition}:{service}:{region}:{account}:accesspoint/{name}");
    Ok(Location::S3 { bucket, prefix })
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
    use proptest::prelude::*;

    use super::Location;

    proptest! {
        #[test]
        fn whatever_is_read_is_spelt_so_that_it_is_read_the_same(
            url in "(s3|gs|az|file|abfss)://(arn:aws:s3:[a-z]{0,2}:1:accesspoint[/:])?[a-z@./:]{0,20}",
        ) {
            if let Ok(location) = Location::parse(&url) {
                prop_assert_eq!(Location::parse(&location.to_string()), Ok(location));
            }
        }
    }

    #[test]
    fn a_volume_is_told_as_it_is_mounted() {
        let told =
            |url: &str, endpoint| Location::told(&Location::parse(url).unwrap().volume(endpoint));
        assert_eq!(told("s3://b/p@q", None), "s3://b/p@q/");
        assert_eq!(told("gs://b", Some("http://store:1/")), "gs://b/ at http://store:1");
        assert_eq!(told("file:///a@b", None), "file:///a@b");
    }

    #[test]
    fn volume_is_a_url_and_an_endpoint_again() {
        for (url, endpoint) in
            [("s3://b/p@q", None), ("gs://b", Some("http://store:1")), ("file:///a@b", None)]
        {
            let location = Location::parse(url).unwrap();
            let home = Location::home(&location.volume(endpoint)).unwrap();
            assert_eq!((home.location, home.endpoint.as_deref()), (location, endpoint));
        }
        let object = |volume| Location::object(volume, "d/x");
        assert_eq!(object("s3://b/@http://m:9000"), "s3://b/d/x (endpoint http://m:9000)");
        assert_eq!(object("s3://b/p/@aws"), "s3://b/p/d/x");
        assert_eq!(object("file:///a"), "file:///a/d/x");
    }

    #[test]
    fn a_url_names_a_bucket_and_a_prefix_that_ends_in_a_slash() {
        for (url, want) in [
            ("s3://b", "s3://b"),
            ("s3://b/", "s3://b"),
            ("s3://b/p", "s3://b/p"),
            ("s3://b/p/q/", "s3://b/p/q"),
            ("s3://lab--usw2-az1--x-s3/p", "s3://lab--usw2-az1--x-s3/p"),
            (
                "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/lab/p/q/",
                "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/lab/p/q",
            ),
            (
                "s3://arn:aws-cn:s3:cn-north-1:123456789012:accesspoint:lab",
                "s3://arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/lab",
            ),
            ("gs://b", "gs://b"),
            ("gs://b/p/q/", "gs://b/p/q"),
            ("az://a/c", "az://a/c"),
            ("az://a/c/p/q/", "az://a/c/p/q"),
            ("abfss://c@a.dfs.core.windows.net", "az://a/c"),
            ("abfss://c@a.blob.core.windows.net/p", "az://a/c/p"),
            ("abfss://c@a", "az://a/c"),
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
    fn an_access_point_of_many_regions_is_for_builds_that_sign_for_it() {
        let url = "s3://arn:aws:s3::123456789012:accesspoint/m.mrap/p";
        let parsed = Location::parse(url);
        assert_eq!(parsed.is_ok(), cfg!(feature = "multi-region"));
        match parsed {
            Ok(location) => assert_eq!(location.to_string(), url),
            Err(error) => {
                assert!(error.to_string().contains("--features multi-region"), "{error}");
            }
        }
    }

    #[test]
    fn a_volume_is_a_place_at_a_service() {
        let minio = Some("http://127.0.0.1:9000/");
        for (url, endpoint, want) in [
            ("s3://b", None, "s3://b/@aws"),
            ("s3://b/p", minio, "s3://b/p/@http://127.0.0.1:9000"),
            ("gs://b", None, "gs://b/@google"),
            ("az://a/c/p", None, "az://a/c/p/@azure"),
            ("file:///data", None, "file:///data"),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!(location.volume(endpoint), want);
        }
    }

    #[test]
    fn the_name_of_a_volume_tells_the_bucket_if_it_is_all_of_it() {
        for (volume, want) in [
            ("s3://b/@aws", Some("s3://b")),
            ("s3://b/@http://127.0.0.1:9000", Some("s3://b")),
            (
                "s3://arn:aws:s3:eu-west-1:1:accesspoint/lab/@aws",
                Some("s3://arn:aws:s3:eu-west-1:1:accesspoint/lab"),
            ),
            ("s3://arn:aws:s3:eu-west-1:1:accesspoint/lab/p/@aws", None),
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
    fn secret_in_url_is_refused_and_not_repeated() {
        for url in [
            "s3://AKIA:hush@lab",
            "s3://AKIA:hu/hush@lab/prefix",
            "s3://hush@lab",
            "gs://me:hush@lab",
            "az://acc:hush@c/d",
            "abfss://c:hush@a.dfs.core.windows.net",
            "https://me:hush@host/lab",
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains("keys and passwords") && !error.contains("hush"), "{error}");
        }
        for url in ["http://127.0.0.1:9000/lab", "https://host/a@b"] {
            assert!(Location::parse(url).unwrap_err().to_string().contains(url), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_of_ours_says_what_is() {
        for (url, word) in [
            ("b", "s3://bucket"),
            ("http://x/b", "s3://bucket"),
            ("s3:///p", "bucket is missing"),
            ("s3://arn:aws:s3::1:accesspoint/lab", "not the name of an access point"),
            ("s3://arn:aws:s3:eu-west-1:1:bucket/b", "access point"),
            ("s3://arn:aws:s3", "access point"),
            ("gs://", "bucket is missing"),
            ("az://a", "container is missing"),
            ("az:///c", "container is missing"),
            ("az://a/", "container is missing"),
            ("abfss://a.dfs.core.windows.net/c", "container is missing"),
            ("abfss://@a/p", "container is missing"),
            ("abfss://c/d@a/p", "container is missing"),
            ("abfss://c@a.dfs.core.chinacloudapi.cn/p", "--endpoint https://ACCOUNT.blob.CLOUD"),
            ("abfss://c@onelake.dfs.fabric.microsoft.com", "public cloud"),
            ("file://data", "file:///path"),
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
