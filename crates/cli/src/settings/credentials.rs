//! Credentials and endpoints as people already have them for the clouds beside AWS: in the
//! variables and files of the clouds' own tools, or in a file that a setting names, perhaps for one
//! bucket only.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use mount::{
    AzureCredentials, AzureOptions, AzureSettings, Entra, GcsCredentials, GcsSettings, Location,
    Proof, Secret, TokenFile,
};

use super::azure_file::AzureFile;
use super::flags::StoreSettings;

/// How to reach Google Cloud Storage.
pub(super) fn gcs(settings: &StoreSettings, location: &Location) -> Result<GcsSettings> {
    let Location::Gcs { .. } = location else {
        let credentials = GcsCredentials::Anonymous;
        return Ok(GcsSettings { endpoint: None, project: None, credentials });
    };
    let emulator = variable("STORAGE_EMULATOR_HOST").map(|host| with_scheme(&host));
    let file = settings.google_credentials_file.as_deref();
    let credentials = match file {
        // Google's own libraries send an emulator no credentials either.
        _ if settings.anonymous => GcsCredentials::Anonymous,
        Some(file) => google_file(file)?,
        None if emulator.is_some() => GcsCredentials::Anonymous,
        None => google_credentials()?,
    };
    let project = PROJECT_VARIABLES.into_iter().find_map(variable);
    let endpoint = settings.endpoint.clone().or(emulator);
    let project = project.or_else(|| project_of_file(file));
    Ok(GcsSettings { endpoint, project, credentials })
}

/// Where Google's tools look for the project.
const PROJECT_VARIABLES: [&str; 3] =
    ["GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "GCLOUD_PROJECT"];

/// The project of a service account, which its file names.
fn project_of_file(file: Option<&Path>) -> Option<String> {
    let of_environment = || variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let file = file.map(Path::to_owned).or_else(of_environment)?;
    GcsCredentials::project_of_file(&read_token(&file).ok()?)
}

fn google_credentials() -> Result<GcsCredentials> {
    if let Some(token) = variable("CLOUDSDK_AUTH_ACCESS_TOKEN") {
        return Ok(GcsCredentials::Token(Secret::new(token)));
    }
    if let Some(path) = google_path() {
        return google_file(&path);
    }
    Ok(match variable("GCE_METADATA_HOST") {
        Some(host) => GcsCredentials::Machine(with_scheme(&host)),
        None => GcsCredentials::machine(),
    })
}

/// The file in which Google's tools look for credentials, if there is one.
fn google_path() -> Option<PathBuf> {
    if let Some(path) = variable("GOOGLE_APPLICATION_CREDENTIALS") {
        return Some(PathBuf::from(path));
    }
    let folder = variable("CLOUDSDK_CONFIG")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config/gcloud")));
    let path = folder?.join("application_default_credentials.json");
    path.is_file().then_some(path)
}

fn google_file(path: &Path) -> Result<GcsCredentials> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the credentials file {}", path.display()))?;
    GcsCredentials::from_file(&text, read_token).with_context(|| path.display().to_string())
}

/// The files that have the credentials for `location`, which may be all there is, if they are in files.
pub(super) fn files(settings: &StoreSettings, location: &Location) -> Vec<CredentialsFile> {
    let of_google = || {
        let elsewhere = ["STORAGE_EMULATOR_HOST", "CLOUDSDK_AUTH_ACCESS_TOKEN"];
        let is_elsewhere = || elsewhere.into_iter().any(|name| variable(name).is_some());
        let named = settings.google_credentials_file.clone();
        named.or_else(|| if is_elsewhere() { None } else { google_path() })
    };
    let google = || of_google().map(CredentialsFile::Google);
    let azure = || settings.azure_credentials_file.clone().map(CredentialsFile::Azure);
    let files = match location {
        _ if settings.anonymous => [None, None],
        Location::Gcs { .. } => [google(), None],
        Location::Azure { .. } => [azure(), None],
        Location::All => [google(), azure()],
        Location::S3 { .. } | Location::Folder(_) => [None, None],
    };
    files.into_iter().flatten().collect()
}

/// The endpoint that somebody has named, if credentials for `location` are sent there as they are. Keys that only sign are
/// not sent.
pub(super) fn sent_to(settings: &StoreSettings, location: &Location) -> Option<String> {
    let (endpoint, is_sent) = match location {
        Location::Gcs { .. } => {
            let GcsSettings { endpoint, credentials, .. } = gcs(settings, location).ok()?;
            (endpoint, credentials != GcsCredentials::Anonymous)
        }
        Location::Azure { .. } => {
            let AzureSettings { endpoint, credentials } = azure(settings, location).ok()?;
            let is_sent = match credentials {
                AzureCredentials::Sas(_) | AzureCredentials::Entra(_) => true,
                AzureCredentials::SharedKey(_) | AzureCredentials::Anonymous => false,
            };
            (endpoint, is_sent)
        }
        Location::S3 { .. } | Location::Folder(_) | Location::All => return None,
    };
    endpoint.filter(|_| is_sent)
}

/// A file of credentials, by who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CredentialsFile {
    Google(PathBuf),
    Azure(PathBuf),
}

impl CredentialsFile {
    /// The file that the setting `name` names, if it is one that names such a file.
    pub(super) fn named(name: &str, path: PathBuf) -> Option<CredentialsFile> {
        match name {
            "google-credentials-file" => Some(CredentialsFile::Google(path)),
            "azure-credentials-file" => Some(CredentialsFile::Azure(path)),
            _ => None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        let (CredentialsFile::Google(path) | CredentialsFile::Azure(path)) = self;
        path
    }

    /// Whether it has what nobody else is to know, and not only names.
    pub(super) fn has_secret(&self) -> bool {
        let Ok(text) = read_token(self.path()) else { return false };
        match self {
            CredentialsFile::Google(_) => {
                GcsCredentials::from_file(&text, read_token).is_ok_and(|found| has_secret(&found))
            }
            CredentialsFile::Azure(_) => {
                AzureFile::parse(&text).is_ok_and(|file| file.has_secret())
            }
        }
    }
}

fn has_secret(credentials: &GcsCredentials) -> bool {
    match credentials {
        GcsCredentials::ServiceAccount(_) | GcsCredentials::User(_) | GcsCredentials::Token(_) => {
            true
        }
        GcsCredentials::Impersonated { by, .. } => has_secret(by),
        // Whose word it is comes from elsewhere.
        GcsCredentials::Federated(_) | GcsCredentials::Machine(_) | GcsCredentials::Anonymous => {
            false
        }
    }
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
    match &settings.azure_credentials_file {
        None => azure_of((account, container), endpoint, variable),
        Some(path) => {
            let text = read_token(path)
                .with_context(|| format!("cannot read the credentials file {}", path.display()))?;
            let file = AzureFile::parse(&text)
                .map_err(|wrong| anyhow!("the credentials file {}: {wrong}", path.display()))?;
            if let Some(named) =
                file.variable("AZURE_STORAGE_ACCOUNT").filter(|name| name != account)
            {
                let path = path.display();
                bail!("the credentials file {path} is for the account {named}, not {account}");
            }
            // Where the machine hands out tokens is no credential, and only the environment says it.
            let of_machine = |name: &str| variable(name).filter(|_| OF_MACHINE.contains(&name));
            let said = |name: &str| file.variable(name).or_else(|| of_machine(name));
            azure_of((account, container), endpoint, said)
                .with_context(|| format!("the credentials file {}", path.display()))
        }
    }
}

/// What a machine or an app of Azure's is told of where it gets tokens.
const OF_MACHINE: [&str; 3] =
    ["IDENTITY_ENDPOINT", "IDENTITY_HEADER", "AZURE_POD_IDENTITY_AUTHORITY_HOST"];

/// What the variables say that Azure's own tools read.
fn azure_of(
    (account, container): (&str, &str),
    endpoint: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<AzureSettings> {
    if let Some(text) = variable("AZURE_STORAGE_CONNECTION_STRING") {
        let options = AzureOptions::from_connection_string(&text, container)
            .context("AZURE_STORAGE_CONNECTION_STRING")?;
        if options.account != account {
            bail!("the connection string is for the account {}, not {account}", options.account);
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
    use std::path::{Path, PathBuf};

    use mount::{AzureCredentials, Entra, GcsCredentials, Location};

    use super::super::given::Flags;
    use super::super::resolve::Sources;
    use super::{azure, entra, gcs};
    use crate::settings::flags::{Settings, StoreSettings};

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

    fn settings(name: &str, file: &Path) -> StoreSettings {
        let given = vec![(name.to_owned(), file.into())];
        let flags = Flags::<Settings>::of(Some("/dev/null".into()), given);
        Sources::read(&flags).unwrap().resolve(None).unwrap().settings.store
    }

    /// A file in a folder that goes at the end of the test.
    fn written(folder: &tempfile::TempDir, text: &str) -> PathBuf {
        let path = folder.path().join("credentials");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn of_azure(text: &str) -> Result<AzureCredentials, String> {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings("azure-credentials-file", &written(&folder, text));
        let found = azure(&settings, &Location::parse("az://lab/slides").unwrap());
        found.map(|found| found.credentials).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_file_of_azures_stands_for_the_environment() {
        for (text, want) in [
            ("AccountName=lab;AccountKey=aHVzaA==", "SharedKey"),
            ("AZURE_STORAGE_KEY=aHVzaA==\nAZURE_STORAGE_ACCOUNT=lab", "SharedKey"),
            ("AZURE_STORAGE_SAS_TOKEN=\"?sv=1&sig=hush\"", "Sas"),
            ("AZURE_TENANT_ID=t\nAZURE_CLIENT_ID=c\nAZURE_CLIENT_SECRET=hush", "Application"),
            ("AZURE_CLIENT_ID=c", "Machine"),
        ] {
            let found = format!("{:?}", of_azure(text).unwrap());
            assert!(found.starts_with(want) && !found.contains("hush"), "{text}: {found}");
        }
    }

    #[test]
    fn a_file_of_azures_that_is_wrong_is_named_and_not_told() {
        for (text, want) in [
            ("AccountName=other;AccountKey=aHVzaA==", "is for the account other, not lab"),
            ("AZURE_STORAGE_ACCOUNT=other\nAZURE_STORAGE_KEY=hush", "account other, not lab"),
            ("hush", "line 1"),
            ("", "no credentials"),
        ] {
            let said = of_azure(text).unwrap_err();
            assert!(said.contains(want) && said.contains("/credentials"), "{said}");
            assert!(!said.contains("hush") && !said.contains("aHVzaA"), "{said}");
        }
        let missing = settings("azure-credentials-file", Path::new("/nowhere/azure"));
        let said = azure(&missing, &Location::parse("az://lab/slides").unwrap()).unwrap_err();
        assert!(said.to_string().contains("cannot read the credentials file /nowhere/azure"));
    }

    #[test]
    fn a_file_of_googles_says_who_asks_and_for_which_project() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"type": "service_account", "client_email": "a@b", "private_key": "hush",
            "project_id": "p"}"#;
        let settings = settings("google-credentials-file", &written(&folder, text));
        let found = gcs(&settings, &Location::parse("gs://b").unwrap()).unwrap();
        assert!(matches!(found.credentials, GcsCredentials::ServiceAccount(_)), "{found:?}");
        assert!(!format!("{found:?}").contains("hush"));
        // No other store's bucket reads it.
        std::fs::remove_file(folder.path().join("credentials")).unwrap();
        assert!(gcs(&settings, &Location::parse("s3://b").unwrap()).is_ok());
        assert!(gcs(&settings, &Location::parse("gs://b").unwrap()).is_err());
    }
}
