//! Files that are to be read by nobody else.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use mount::Location;

use super::credentials::{self, CredentialsFile};
use super::resolve::Sources;

/// The mode of a file that others may read, or write. One of somebody else's is his business as far as its group goes.
pub(super) fn open_to_others(file: &Path) -> io::Result<Option<u32>> {
    let found = fs::metadata(file)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    let forbidden = if is_ours { 0o077 } else { 0o007 };
    let mode = found.mode() & 0o777;
    // A pipe, such as that of a shell, is nobody else's.
    Ok((found.is_file() && mode & forbidden != 0).then_some(mode))
}

/// What to tell of the files that have the credentials for `location`, a line for each that others may read. They are
/// used all the same: where clusters mount them, modes are not for the user to choose.
pub(crate) fn exposed(sources: &Sources, location: &Location) -> Result<Vec<String>> {
    let mut files = credentials::files(&sources.resolve(Some(location))?.settings.store, location);
    if *location == Location::All {
        let said = sources.all();
        files.extend(
            said.filter_map(|given| {
                CredentialsFile::named(&given.name, PathBuf::from(&given.value))
            }),
        );
    }
    let mut told: Vec<String> = Vec::new();
    for file in files.iter().filter(|file| file.has_secret()) {
        let path = file.path().display();
        if let Ok(Some(mode)) = open_to_others(file.path()) {
            told.push(format!(
                "{path} has credentials, and others may read it (its mode is {mode:03o}): chmod 600 it"
            ));
        }
    }
    told.sort();
    told.dedup();
    Ok(told)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use mount::Location;

    use super::super::given::Flags;
    use super::super::resolve::Sources;
    use super::exposed;
    use crate::settings::flags::Settings;

    const GOOGLE: (&str, &str) = ("google-credentials-file", "gs://b");
    const AZURE: (&str, &str) = ("azure-credentials-file", "az://lab/slides");

    fn sources(given: &[(&str, &str)]) -> Sources {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        Sources::read(&Flags::<Settings>::of(Some("/dev/null".into()), given)).unwrap()
    }

    #[test]
    fn the_owner_of_credentials_that_others_may_read_is_told() {
        let account =
            r#"{"type": "service_account", "client_email": "a@b", "private_key": "hush"}"#;
        let by_other = format!(
            r#"{{"type": "impersonated_service_account", "source_credentials": {account},
            "service_account_impersonation_url": "https://x"}}"#
        );
        let vouched = r#"{"type": "external_account", "audience": "a", "subject_token_type": "t",
            "credential_source": {"file": "/run/token"}}"#;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let path = file.to_str().unwrap();
        for (text, (flag, url), is_secret) in [
            (account, GOOGLE, true),
            (&by_other, GOOGLE, true),
            // The token is elsewhere.
            (vouched, GOOGLE, false),
            ("hush", GOOGLE, false),
            ("AccountName=lab;AccountKey=aHVzaA==", AZURE, true),
            ("AZURE_STORAGE_SAS_TOKEN=hush", AZURE, true),
            ("AZURE_CLIENT_SECRET=hush", AZURE, true),
            ("AZURE_CLIENT_ID=c", AZURE, false),
        ] {
            write(&file, text).unwrap();
            let said = |mode, url| {
                set_permissions(&file, Permissions::from_mode(mode)).unwrap();
                let location = Location::parse(url).unwrap();
                exposed(&sources(&[(flag, path)]), &location).unwrap().concat()
            };
            for (mode, url) in [(0o640, url), (0o604, url), (0o644, "all")] {
                let said = said(mode, url);
                assert_eq!(said.contains(path) && said.contains("chmod 600"), is_secret, "{said}");
                assert!(!said.contains("hush") && !said.contains("aHVzaA"), "{said}");
            }
            assert_eq!(said(0o600, url), "");
            // A bucket of another store does not use them.
            assert_eq!(said(0o644, "s3://b"), "");
        }
    }
}
