//! Credentials and endpoints as people already have them for the clouds beside AWS: in the
//! variables and files of the clouds' own tools.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mount::{
    AzureCredentials, AzureOptions, AzureSettings, GcsCredentials, GcsSettings, Location, Secret,
};

use super::flags::StoreSettings;

/// How to reach Google Cloud Storage.
pub(super) fn gcs(settings: &StoreSettings, location: &Location) -> Result<GcsSettings> {
    let Location::Gcs { .. } = location else {
        return Ok(GcsSettings { endpoint: None, credentials: GcsCredentials::Anonymous });
    };
    // Google's own libraries send an emulator no credentials either.
    let emulator = variable("STORAGE_EMULATOR_HOST").map(|host| with_scheme(&host));
    let credentials = if settings.anonymous || emulator.is_some() {
        GcsCredentials::Anonymous
    } else {
        google_credentials()?
    };
    Ok(GcsSettings { endpoint: settings.endpoint.clone().or(emulator), credentials })
}

fn google_credentials() -> Result<GcsCredentials> {
    if let Some(token) = variable("CLOUDSDK_AUTH_ACCESS_TOKEN") {
        return Ok(GcsCredentials::Token(Secret::new(token)));
    }
    if let Some(path) = variable("GOOGLE_APPLICATION_CREDENTIALS") {
        return google_file(Path::new(&path));
    }
    let folder = variable("CLOUDSDK_CONFIG")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config/gcloud")));
    if let Some(path) = folder.map(|folder| folder.join("application_default_credentials.json"))
        && path.is_file()
    {
        return google_file(&path);
    }
    Ok(match variable("GCE_METADATA_HOST") {
        Some(host) => GcsCredentials::Machine(with_scheme(&host)),
        None => GcsCredentials::machine(),
    })
}

fn google_file(path: &Path) -> Result<GcsCredentials> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the credentials file {}", path.display()))?;
    GcsCredentials::from_file(&text).with_context(|| path.display().to_string())
}

/// How to reach Azure Blob Storage.
pub(super) fn azure(settings: &StoreSettings, location: &Location) -> Result<AzureSettings> {
    let endpoint = settings.endpoint.clone();
    let Location::Azure { account, container, .. } = location else {
        return Ok(AzureSettings { endpoint: None, credentials: AzureCredentials::Anonymous });
    };
    if settings.anonymous {
        return Ok(AzureSettings { endpoint, credentials: AzureCredentials::Anonymous });
    }
    if let Some(text) = variable("AZURE_STORAGE_CONNECTION_STRING") {
        let options = AzureOptions::from_connection_string(&text, container.as_str())
            .context("AZURE_STORAGE_CONNECTION_STRING")?;
        if options.account != *account {
            bail!(
                "AZURE_STORAGE_CONNECTION_STRING is for the account {}, not {account}",
                options.account
            );
        }
        let endpoint = endpoint.or(options.endpoint);
        return Ok(AzureSettings { endpoint, credentials: options.credentials });
    }
    let credentials = match (variable("AZURE_STORAGE_KEY"), variable("AZURE_STORAGE_SAS_TOKEN")) {
        (Some(key), _) => AzureCredentials::SharedKey(Secret::new(key)),
        (None, Some(token)) => AzureCredentials::Sas(Secret::new(token.trim_start_matches('?'))),
        (None, None) => bail!(
            "no credentials were found: set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or \
             AZURE_STORAGE_SAS_TOKEN, or use --anonymous for a public container"
        ),
    };
    Ok(AzureSettings { endpoint, credentials })
}

fn with_scheme(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}

#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
