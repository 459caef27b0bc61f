//! The clouds: how a mount reaches them, which buckets they tell of, and what to say when it cannot.

use std::sync::Arc;

use base::{Clock, Rng};
use remote::{
    Azure, AzureOptions, Error, ErrorKind, Gcs, GcsOptions, Identified, Key, Learned, Remote, S3,
    S3Options, Trouble,
};

use crate::config::Config;
use crate::location::Location;

/// An object store alone, and as whom it is asked.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) identified: Option<Arc<dyn Identified>>,
    /// What it is known to be able to do.
    pub(crate) learned: Arc<Learned>,
}

impl Provider {
    /// A store that knows as whom it is asked.
    pub(crate) fn of(store: impl Remote + Identified + Clone, learned: Arc<Learned>) -> Provider {
        let identified: Arc<dyn Identified> = Arc::new(store.clone());
        Provider { remote: Arc::new(store), identified: Some(identified), learned }
    }
}

/// How to reach a bucket of S3.
pub(crate) fn s3_options(config: &Config, bucket: &str) -> S3Options {
    S3Options {
        endpoint: config.s3.endpoint.clone(),
        region: config.s3.region.clone(),
        credentials: config.s3.credentials.clone(),
        addressing: config.s3.addressing,
        endpoints: config.s3.endpoints,
        terms: config.s3.terms.clone(),
        authorities: config.authorities.clone(),
        patience: config.deadline,
        ..S3Options::new(bucket)
    }
}

fn gcs_options(config: &Config, bucket: &str) -> GcsOptions {
    GcsOptions {
        endpoint: config.gcs.endpoint.clone(),
        authorities: config.authorities.clone(),
        patience: config.deadline,
        ..GcsOptions::new(bucket, config.gcs.credentials.clone())
    }
}

fn azure_options(config: &Config, account: &str, container: &str) -> AzureOptions {
    AzureOptions {
        endpoint: config.azure.endpoint.clone(),
        authorities: config.authorities.clone(),
        patience: config.deadline,
        ..AzureOptions::new(account, container, config.azure.credentials.clone())
    }
}

/// The buckets beside the one of `config`, as far as the credentials may list them.
pub(crate) async fn buckets(config: &Config, clock: Arc<dyn Clock>) -> remote::Result<Vec<String>> {
    match &config.location {
        Location::All | Location::Folder(_) => Ok(Vec::new()),
        Location::S3 { bucket, .. } => S3::buckets(&s3_options(config, bucket)).await,
        Location::Gcs { bucket, .. } => {
            let unknown = || {
                let error = Error::new(ErrorKind::Unsupported, "list buckets", &Key::from(""));
                error.because("no project is known: set GOOGLE_CLOUD_PROJECT")
            };
            let project = config.gcs.project.as_ref().ok_or_else(unknown)?;
            Gcs::buckets(&gcs_options(config, bucket), project, clock).await
        }
        Location::Azure { account, container, .. } => {
            Azure::containers(&azure_options(config, account, container), clock).await
        }
    }
}

/// A bucket of Google's.
pub(crate) fn gcs(
    config: &Config,
    (bucket, prefix): (&str, &str),
    (clock, rng): (Arc<dyn Clock>, Arc<Rng>),
) -> remote::Result<Provider> {
    // A prefix is a border for the parts of uploads as well.
    let options = gcs_options(config, bucket).below(&Key::from(prefix));
    let gcs = Gcs::connect(&options, clock, rng)?;
    let learned = Arc::clone(gcs.learned());
    Ok(Provider::of(gcs, learned))
}

/// A container of Azure's.
pub(crate) fn azure(
    config: &Config,
    (account, container): (&str, &str),
    (clock, rng): (Arc<dyn Clock>, Arc<Rng>),
) -> remote::Result<Provider> {
    let azure = Azure::connect(&azure_options(config, account, container), clock, rng)?;
    let learned = Arc::clone(azure.learned());
    Ok(Provider::of(azure, learned))
}

/// What to do about a certificate that is not believed.
pub(crate) const UNTRUSTED: &str = "the certificate of the store is not trusted: if its authority is one of yours, name that with \
     --ca-bundle; else check --endpoint and the machine's clock";

/// What a person can do when such a store cannot be used; `None` for other stores and troubles.
pub(crate) fn advice(location: &Location, trouble: Trouble) -> Option<String> {
    let words = match (location, trouble) {
        (Location::S3 { .. } | Location::Folder(_) | Location::All, _) => return None,
        (Location::Gcs { .. }, Trouble::NoCredentials) => {
            "no credentials were found: run `gcloud auth application-default login`, name a file \
             with GOOGLE_APPLICATION_CREDENTIALS or --google-credentials-file, or use --anonymous for \
             a public bucket"
        }
        (Location::Gcs { .. }, Trouble::BadCredentials) => {
            "the store does not accept these credentials: check the file that \
             GOOGLE_APPLICATION_CREDENTIALS or --google-credentials-file names, or log in again with \
             `gcloud auth application-default login`"
        }
        (Location::Azure { .. }, Trouble::NoCredentials | Trouble::BadCredentials) => {
            "the store does not accept these credentials: check the file that \
             --azure-credentials-file names; or AZURE_STORAGE_CONNECTION_STRING, \
             AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; or, for Entra ID, AZURE_TENANT_ID, \
             AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE; or give the \
             machine a managed identity; and look at the machine's clock"
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
        (Location::Gcs { .. } | Location::Azure { .. }, Trouble::Untrusted) => UNTRUSTED,
        (
            Location::Gcs { .. } | Location::Azure { .. },
            Trouble::WrongRegion | Trouble::Archived | Trouble::Busy | Trouble::Other,
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
