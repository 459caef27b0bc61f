//! Credentials and endpoints as people already have them for the clouds beside AWS: in the
//! variables and files of the clouds' own tools.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mount::{
    AzureCredentials, AzureOptions, AzureSettings, Entra, GcsCredentials, GcsSettings, Location,
    Proof, Secret, TokenFile,
};

use super::flags::StoreSettings;

/// How to reach Google Cloud Storage.
pub(super) fn gcs(settings: &StoreSettings, location: &Location) -> Result<GcsSettings> {
    let Location::Gcs { .. } = location else {
        let credentials = GcsCredentials::Anonymous;
        return Ok(GcsSettings { endpoint: None, project: None, credentials });
    };
    // Google's own libraries send an emulator no credentials either.
    let emulator = variable("STORAGE_EMULATOR_HOST").map(|host| with_scheme(&host));
    let credentials = if settings.anonymous || emulator.is_some() {
        GcsCredentials::Anonymous
    } else {
        google_credentials()?
    };
    let project = PROJECT_VARIABLES.into_iter().find_map(variable);
    let endpoint = settings.endpoint.clone().or(emulator);
    Ok(GcsSettings { endpoint, project: project.or_else(project_of_file), credentials })
}

/// Where Google's tools look for the project.
const PROJECT_VARIABLES: [&str; 3] =
    ["GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "GCLOUD_PROJECT"];

/// The project of a service account, which its file names.
fn project_of_file() -> Option<String> {
    let text = read_token(Path::new(&variable("GOOGLE_APPLICATION_CREDENTIALS")?)).ok()?;
    GcsCredentials::project_of_file(&text)
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
    GcsCredentials::from_file(&text, read_token).with_context(|| path.display().to_string())
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
        (None, None) => AzureCredentials::Entra(entra(variable)),
    };
    Ok(AzureSettings { endpoint, credentials })
}

/// Whom Entra ID knows, by the variables that Azure's own libraries read; the machine itself, if there are
/// none.
fn entra(variable: impl Fn(&str) -> Option<String>) -> Entra {
    let client_id = variable("AZURE_CLIENT_ID");
    let secret = variable("AZURE_CLIENT_SECRET").map(|secret| Proof::Secret(Secret::new(secret)));
    let proof = secret.or_else(|| {
        let file = variable("AZURE_FEDERATED_TOKEN_FILE")?;
        Some(Proof::Federated(TokenFile::new(file, read_token)))
    });
    if let (Some(tenant), Some(client_id), Some(proof)) =
        (variable("AZURE_TENANT_ID"), &client_id, proof)
    {
        let authority = variable("AZURE_AUTHORITY_HOST").unwrap_or_else(Entra::authority);
        return Entra::Application { tenant, client_id: client_id.clone(), authority, proof };
    }
    if let (Some(url), Some(secret)) = (variable("IDENTITY_ENDPOINT"), variable("IDENTITY_HEADER"))
    {
        return Entra::App { client_id, url, secret: Secret::new(secret) };
    }
    let url = variable("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or_else(Entra::machine_url);
    Entra::Machine { client_id, url }
}

/// A token is smaller than this.
const TOKEN_BYTES_MAX: u64 = 1 << 20;

fn read_token(path: &Path) -> std::io::Result<String> {
    if TOKEN_BYTES_MAX < fs::metadata(path)?.len() {
        return Err(std::io::Error::other("too large for a token"));
    }
    fs::read_to_string(path)
}

fn with_scheme(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}

#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use mount::Entra;

    use super::entra;

    fn found(variables: &[(&str, &str)]) -> Entra {
        entra(|name| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variables_of_azures_libraries_say_who_we_are() {
        let whose = [("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c")];
        let secret = ("AZURE_CLIENT_SECRET", "hush");
        let file = ("AZURE_FEDERATED_TOKEN_FILE", "/run/token");
        let authority = ("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.us/");
        let shown = |variables: &[(&str, &str)]| format!("{:?}", found(variables));
        for proof in [secret, file] {
            let shown = shown(&[whose[0], whose[1], proof, authority]);
            for word in ["Application", "\"t\"", "\"c\"", "microsoftonline.us"] {
                assert!(shown.contains(word), "{shown}");
            }
            assert!(!shown.contains("hush"), "{shown}");
        }
        let app = shown(&[("IDENTITY_ENDPOINT", "http://i/"), ("IDENTITY_HEADER", "hush")]);
        assert!(app.starts_with("App") && !app.contains("hush"), "{app}");
        let machine = Entra::Machine { client_id: None, url: "http://169.254.169.254".to_owned() };
        assert_eq!(found(&[]), machine);
        // A secret without a directory proves nothing.
        assert!(matches!(found(&[secret, whose[1]]), Entra::Machine { client_id: Some(_), .. }));
    }
}
