//! Who else may learn of credentials: who may read their files, and who listens on a line that is not encrypted.

use std::fs;
use std::io;
use std::net::IpAddr;
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

/// What to tell of how the credentials for `location` are kept and sent, a line for each file that others may read, and
/// one for an endpoint without TLS. They are used all the same: where clusters mount files, modes are not for the user to
/// choose, and a network may be nobody else's.
pub(crate) fn exposed(sources: &Sources, location: &Location) -> Result<Vec<String>> {
    let settings = sources.resolve(Some(location))?.settings.store;
    let mut files = credentials::files(&settings, location);
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
    let open_line = credentials::sent_to(&settings, location).filter(|url| is_open_line(url));
    told.extend(open_line.map(|endpoint| {
        format!("{endpoint} has no TLS: who listens on the way there can read the credentials, and use them")
    }));
    Ok(told)
}

/// Whether what is sent to the endpoint can be read on the way.
fn is_open_line(endpoint: &str) -> bool {
    let Some((scheme, rest)) = endpoint.split_once("://") else { return false };
    let server = rest.split('/').next().unwrap_or_default();
    let server = server.rsplit_once('@').map_or(server, |(_, server)| server);
    let host = match server.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => server.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let is_here =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    scheme.eq_ignore_ascii_case("http") && !is_here
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use mount::Location;

    use super::super::given::Flags;
    use super::super::resolve::Sources;
    use super::{exposed, is_open_line};
    use crate::settings::flags::Settings;

    const GOOGLE: (&str, &str) = ("google-credentials-file", "gs://b");
    const AZURE: (&str, &str) = ("azure-credentials-file", "az://lab/slides");

    fn sources(given: &[(&str, &str)]) -> Sources {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        Sources::read(&Flags::<Settings>::of(Some("/dev/null".into()), given)).unwrap()
    }

    #[test]
    fn credentials_that_anybody_can_read_on_the_way_are_told_of() {
        let account =
            r#"{"type": "service_account", "client_email": "a@b", "private_key": "hush"}"#;
        let (key, sas) = ("AZURE_STORAGE_KEY=aHVzaA==", "AZURE_STORAGE_SAS_TOKEN=hush");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let path = file.to_str().unwrap();
        let (far, near) = ("http://store.lab:80/lab", "http://127.0.0.1:1/lab");
        for (text, (flag, url), endpoint, is_told) in [
            (account, GOOGLE, far, true),
            (account, GOOGLE, near, false),
            (account, GOOGLE, "https://store.lab", false),
            (sas, AZURE, far, true),
            (sas, AZURE, "http://[::1]:1/lab", false),
            ("AZURE_CLIENT_ID=c", AZURE, "HTTP://store.lab", true),
            // It signs, and is not sent.
            (key, AZURE, far, false),
        ] {
            write(&file, text).unwrap();
            set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            let sources = sources(&[(flag, path), ("endpoint", endpoint)]);
            let said = exposed(&sources, &Location::parse(url).unwrap()).unwrap().concat();
            assert_eq!(said.contains("has no TLS"), is_told, "{text} {endpoint}: {said}");
            assert!(!said.contains("hush"), "{said}");
        }
        let anonymous = sources(&[("anonymous", "true"), ("endpoint", far)]);
        let said = exposed(&anonymous, &Location::parse("gs://b").unwrap()).unwrap();
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn a_line_is_open_if_it_is_not_encrypted_and_leads_away() {
        for (endpoint, want) in [
            ("http://a", true),
            ("http://name@127.example:80/x", true),
            ("http://10.0.0.1", true),
            ("https://a", false),
            ("http://localhost:1/x", false),
            ("http://127.0.0.2", false),
            ("http://[::1]/", false),
            ("http://[fe80::1]:1/", true),
            ("a", false),
        ] {
            assert_eq!(is_open_line(endpoint), want, "{endpoint}");
        }
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
