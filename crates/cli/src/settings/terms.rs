//! On which terms objects are read and written, and where keys and certificates are read: from files, never
//! from arguments.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mount::{CaBundle, CustomerKey, Encryption, Payer, S3Terms};

use super::flags::TermsSettings;
use super::secrecy::open_to_others;
use super::words::Sse;

/// A key's file is smaller than this, and a bundle of all authorities there are.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The terms; a key is read from its file.
pub(super) fn terms(settings: &TermsSettings) -> Result<S3Terms> {
    Ok(S3Terms {
        encryption: encryption(settings)?,
        storage_class: settings.storage_class.clone(),
        acl: settings.acl.clone(),
        tags: settings.tags.clone().unwrap_or_default(),
        payer: if settings.requester_pays { Payer::Requester } else { Payer::Owner },
        bucket_owner: settings.bucket_owner.clone(),
    })
}

fn encryption(settings: &TermsSettings) -> Result<Encryption> {
    let TermsSettings { sse, kms_key, sse_key_file, .. } = settings;
    Ok(match (sse, kms_key, sse_key_file) {
        (None, None, None) => Encryption::OfBucket,
        (Some(Sse::Store), None, None) => Encryption::Store,
        (Some(Sse::Kms) | None, key, None) => Encryption::Kms { key_id: key.clone() },
        (None, None, Some(file)) => Encryption::Customer(customer_key(file)?),
        (Some(Sse::Store), Some(_), None) => bail!("--kms-key is for --sse kms"),
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            bail!("--sse-key-file goes neither with --sse nor with --kms-key")
        }
    })
}

fn customer_key(file: &PathBuf) -> Result<CustomerKey> {
    check_secret(file).with_context(|| format!("--sse-key-file {}", file.display()))?;
    let bytes = read(file)?;
    CustomerKey::from_file(&bytes).with_context(|| format!("--sse-key-file {}", file.display()))
}

/// Refuses a file that others may read.
fn check_secret(file: &Path) -> Result<()> {
    match open_to_others(file)? {
        Some(mode) => bail!("others may read it (its mode is {mode:03o}): chmod 600 it"),
        None => Ok(()),
    }
}

/// Authorities to believe: those of the settings, or of AWS's own variable for it.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
pub(super) fn ca_bundle(file: Option<&PathBuf>) -> Result<Option<CaBundle>> {
    let of_environment = || std::env::var_os("AWS_CA_BUNDLE").filter(|file| !file.is_empty());
    let Some(file) = file.cloned().or_else(|| of_environment().map(PathBuf::from)) else {
        return Ok(None);
    };
    let bundle = CaBundle::from_pem(read(&file)?);
    bundle.with_context(|| format!("--ca-bundle {}", file.display())).map(Some)
}

fn read(file: &PathBuf) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {}", file.display());
    let length = fs::metadata(file).with_context(failed)?.len();
    if FILE_BYTES_MAX < length {
        bail!("{} is too large", file.display());
    }
    fs::read(file).with_context(failed)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use mount::{Encryption, Payer};

    use super::super::given::Flags;
    use super::super::resolve::Sources;
    use super::terms;
    use crate::settings::flags::{Settings, TermsSettings};

    fn settings(given: &[(&str, &str)]) -> TermsSettings {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let flags = Flags::<Settings>::of(Some("/dev/null".into()), given);
        Sources::read(&flags).unwrap().resolve(None).unwrap().settings.store.terms
    }

    fn refused(given: &[(&str, &str)]) -> String {
        format!("{:#}", terms(&settings(given)).unwrap_err())
    }

    #[test]
    fn the_terms_are_as_the_settings_say() {
        let all = [
            ("sse", "kms"),
            ("kms-key", "alias/lab"),
            ("storage-class", "standard_ia"),
            ("acl", "bucket-owner-full-control"),
            ("tags", "project=x;*.bam=kind=alignment"),
            ("requester-pays", "true"),
            ("bucket-owner", "123456789012"),
        ];
        let found = terms(&settings(&all)).unwrap();
        assert_eq!(found.encryption, Encryption::Kms { key_id: Some("alias/lab".to_owned()) });
        assert_eq!(found.storage_class.as_deref(), Some("STANDARD_IA"));
        assert_eq!(found.acl.as_deref(), Some("bucket-owner-full-control"));
        assert_eq!(found.tags.to_string(), "project=x;*.bam=kind=alignment");
        assert_eq!(
            (found.payer, found.bucket_owner.as_deref()),
            (Payer::Requester, Some("123456789012"))
        );
        assert_eq!(terms(&settings(&[])).unwrap(), mount::S3Terms::default());
        assert_eq!(terms(&settings(&[("sse", "store")])).unwrap().encryption, Encryption::Store);
    }

    #[test]
    fn a_key_comes_from_a_file_and_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, b"0123456789abcdefghijklmnopqrstuv").unwrap();
        let given = [("sse-key-file", file.to_str().unwrap())];
        for mode in [0o640, 0o604] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert!(refused(&given).contains("chmod 600"), "{mode:o}");
        }
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let found = terms(&settings(&given)).unwrap();
        assert!(matches!(found.encryption, Encryption::Customer(_)));
        assert!(!format!("{found:?}").contains("MDEy"), "{found:?}");
        let both = [given[0], ("sse", "kms")];
        assert!(refused(&both).contains("--sse-key-file"));
        std::fs::write(&file, b"hush").unwrap();
        let words = refused(&given);
        assert!(words.contains("32 bytes") && !words.contains("hush"), "{words}");
    }

    #[test]
    fn a_key_of_the_key_service_is_for_that() {
        assert!(refused(&[("sse", "store"), ("kms-key", "x")]).contains("--kms-key"));
    }
}
