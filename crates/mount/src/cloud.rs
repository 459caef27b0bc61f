//! The stores beside S3 and the local folder: how a mount reaches them, and what to say when it cannot.

use std::sync::Arc;

use base::{Clock, Rng};
use remote::{Azure, AzureOptions, Gcs, GcsOptions, Identified, Key, Remote, Trouble};

use crate::config::Config;
use crate::location::Location;

/// An object store alone, and as whom it is asked.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) identified: Option<Arc<dyn Identified>>,
}

impl Provider {
    /// A store that knows as whom it is asked.
    pub(crate) fn of(store: impl Remote + Identified + Clone) -> Provider {
        Provider { remote: Arc::new(store.clone()), identified: Some(Arc::new(store)) }
    }
}

/// A bucket of Google's, and the name of the volume.
pub(crate) fn gcs(
    config: &Config,
    (bucket, prefix): (&str, &str),
    (clock, rng): (Arc<dyn Clock>, Arc<Rng>),
) -> remote::Result<(Provider, String)> {
    let endpoint = config.gcs.endpoint.clone();
    let place = endpoint.as_deref().unwrap_or("google").trim_end_matches('/').to_owned();
    let options = GcsOptions {
        endpoint,
        patience: config.deadline,
        ..GcsOptions::new(bucket, config.gcs.credentials.clone())
    };
    // A prefix is a border for the parts of uploads as well.
    let options = options.below(&Key::from(prefix));
    let gcs = Gcs::connect(&options, clock, rng)?;
    Ok((Provider::of(gcs), format!("gs://{bucket}/{prefix}@{place}")))
}

/// A container of Azure's, and the name of the volume.
pub(crate) fn azure(
    config: &Config,
    (account, container, prefix): (&str, &str, &str),
    (clock, rng): (Arc<dyn Clock>, Arc<Rng>),
) -> remote::Result<(Provider, String)> {
    let endpoint = config.azure.endpoint.clone();
    let place = endpoint.as_deref().unwrap_or("azure").trim_end_matches('/').to_owned();
    let options = AzureOptions {
        endpoint,
        patience: config.deadline,
        ..AzureOptions::new(account, container, config.azure.credentials.clone())
    };
    let azure = Azure::connect(&options, clock, rng)?;
    Ok((Provider::of(azure), format!("az://{account}/{container}/{prefix}@{place}")))
}

/// What a person can do when such a store cannot be used; `None` for other stores and troubles.
pub(crate) fn advice(location: &Location, trouble: Trouble) -> Option<String> {
    let words = match (location, trouble) {
        (Location::S3 { .. } | Location::Folder(_) | Location::All, _) => return None,
        (Location::Gcs { .. }, Trouble::NoCredentials) => {
            "no credentials were found: run `gcloud auth application-default login`, name a file \
             with GOOGLE_APPLICATION_CREDENTIALS, or use --anonymous for a public bucket"
        }
        (Location::Gcs { .. }, Trouble::BadCredentials) => {
            "the store does not accept these credentials: check the file that \
             GOOGLE_APPLICATION_CREDENTIALS names, or log in again with \
             `gcloud auth application-default login`"
        }
        (Location::Azure { .. }, Trouble::NoCredentials | Trouble::BadCredentials) => {
            "the store does not accept these credentials: check AZURE_STORAGE_CONNECTION_STRING, \
             AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, and the machine's clock"
        }
        (Location::Gcs { bucket, .. }, Trouble::NoBucket) => {
            return Some(format!("there is no bucket {bucket}: check its name"));
        }
        (Location::Azure { account, container, .. }, Trouble::NoBucket) => {
            return Some(format!("there is no container {container} in the account {account}"));
        }
        (Location::Gcs { .. }, Trouble::Denied) => {
            "these credentials may not list this bucket: they need storage.objects.list and \
             storage.objects.get (the role Storage Object Viewer)"
        }
        (Location::Azure { .. }, Trouble::Denied) => {
            "these credentials may not list this container: they need read and list (r and l of a \
             shared access signature)"
        }
        (Location::Gcs { .. } | Location::Azure { .. }, Trouble::Unreachable) => {
            "cannot reach the store: check the network, DNS, any firewall, and --endpoint"
        }
        (
            Location::Gcs { .. } | Location::Azure { .. },
            Trouble::WrongRegion | Trouble::Busy | Trouble::Other,
        ) => {
            return None;
        }
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use remote::Trouble;

    use super::advice;
    use crate::location::Location;

    #[test]
    fn advice_speaks_of_the_store_that_is_mounted() {
        for (url, trouble, want) in [
            ("gs://b", Trouble::NoCredentials, Some("gcloud")),
            ("gs://b", Trouble::NoBucket, Some("no bucket b")),
            ("az://a/c", Trouble::BadCredentials, Some("AZURE_STORAGE_KEY")),
            ("az://a/c", Trouble::NoBucket, Some("no container c")),
            ("az://a/c", Trouble::Other, None),
            ("s3://b", Trouble::NoBucket, None),
        ] {
            let said = advice(&Location::parse(url).unwrap(), trouble);
            assert_eq!(said.is_some(), want.is_some(), "{url} {trouble:?}");
            assert!(said.unwrap_or_default().contains(want.unwrap_or_default()), "{url}");
        }
    }
}
