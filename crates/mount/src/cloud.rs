//! The clouds: how a mount reaches them, and which buckets they list.

use std::sync::Arc;

use base::{Clock, Rng};
use remote::{
    Azure, AzureOptions, CloudStore, Error, ErrorKind, Gcs, GcsOptions, Key, Learned, Remote, S3,
    S3Options,
};

use crate::config::Config;
use crate::location::Location;

/// An object store alone, and as whom it is asked.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) remote: Arc<dyn Remote>,
    pub(crate) cloud: Option<Arc<dyn CloudStore>>,
    /// What it is known to be able to do.
    pub(crate) learned: Arc<Learned>,
}

impl Provider {
    /// A store that knows as whom it is asked.
    pub(crate) fn of(store: impl Remote + CloudStore + Clone, learned: Arc<Learned>) -> Provider {
        let cloud: Arc<dyn CloudStore> = Arc::new(store.clone());
        Provider { remote: Arc::new(store), cloud: Some(cloud), learned }
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
