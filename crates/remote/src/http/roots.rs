//! Whose certificates are believed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_sdk_s3::config::SharedHttpClient;
use aws_smithy_types::base64;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Certificates of authorities that are believed besides the machine's own.
#[derive(Clone, PartialEq, Eq)]
pub struct CaBundle(Arc<[u8]>);

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaBundle({} bytes)", self.0.len())
    }
}

/// The bytes are no certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of certificates in PEM")]
pub struct CaBundleError;

impl CaBundle {
    /// What a file of certificates in PEM says: one or more.
    pub fn from_pem(pem: impl Into<Vec<u8>>) -> Result<CaBundle, CaBundleError> {
        let bundle = CaBundle(pem.into().into());
        let mut roots = RootCertStore::empty();
        bundle.add_to(&mut roots)?;
        if roots.is_empty() { Err(CaBundleError) } else { Ok(bundle) }
    }

    fn add_to(&self, roots: &mut RootCertStore) -> Result<(), CaBundleError> {
        for certificate in CertificateDer::pem_slice_iter(&self.0) {
            let certificate = certificate.map_err(|_| CaBundleError)?;
            roots.add(certificate).map_err(|_| CaBundleError)?;
        }
        Ok(())
    }
}

/// Whose certificates are believed: the machine's own authorities, or Mozilla's where it has none, and those of a
/// bundle. They are read once, by whom they are needed first; clones share them, for they are larger than all else
/// that a client is.
#[derive(Clone, Default)]
pub struct Authorities {
    bundle: Option<CaBundle>,
    read: Arc<Read>,
}

/// What was made of the certificates, for our own client and for that of Amazon's library.
#[derive(Default)]
struct Read {
    tls: OnceLock<ClientConfig>,
    sdk: OnceLock<SharedHttpClient>,
}

impl Authorities {
    /// The machine's own authorities, and those of `bundle`.
    pub fn with(bundle: Option<CaBundle>) -> Authorities {
        Authorities { bundle, read: Arc::default() }
    }

    /// All of them, each in PEM.
    pub(crate) fn pems(&self) -> Vec<Vec<u8>> {
        let mut pems: Vec<Vec<u8>> = or_known(own()).iter().map(|one| pem(one)).collect();
        pems.extend(self.bundle.iter().map(|bundle| bundle.0.to_vec()));
        pems
    }

    /// How to speak TLS with who is believed.
    pub(crate) fn tls(&self) -> ClientConfig {
        let make = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("ring has the protocol versions that rustls thinks safe")
                .with_root_certificates(roots(self.bundle.as_ref()))
                .with_no_client_auth()
        };
        self.read.tls.get_or_init(make).clone()
    }

    /// The client of Amazon's library, made by `make` if there is none yet.
    pub(crate) fn sdk_client(&self, make: impl FnOnce() -> SharedHttpClient) -> SharedHttpClient {
        self.read.sdk.get_or_init(make).clone()
    }
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Authorities) -> bool {
        self.bundle == other.bundle
    }
}

impl Eq for Authorities {}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({:?})", self.bundle)
    }
}

/// Who is believed besides those of `ca_bundle`, and they.
fn roots(ca_bundle: Option<&CaBundle>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(or_known(own()));
    if let Some(bundle) = ca_bundle {
        bundle.add_to(&mut roots).expect("it was read before");
    }
    roots
}

/// The machine's own authorities, as far as they can be read.
fn own() -> Vec<CertificateDer<'static>> {
    let mut found = rustls_native_certs::load_native_certs();
    // One that nobody can read must not keep others out, nor stand for any.
    found.certs.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if found.certs.is_empty() {
        tracing::info!(errors = ?found.errors, "no certificates of authorities here: Mozilla's are believed");
    }
    found.certs
}

/// `own`, or, where a machine has none, as most images of containers, those that Mozilla believes.
fn or_known(own: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
    if own.is_empty() { webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec() } else { own }
}

fn pem(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let text = base64::encode(certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::{Authorities, CaBundle, CaBundleError, or_known, pem};

    #[test]
    fn a_machine_without_authorities_believes_mozillas_and_another_its_own() {
        let known = or_known(Vec::new());
        let (taken, refused) = RootCertStore::empty().add_parsable_certificates(known.clone());
        assert!(100 < taken && refused == 0, "{taken} and {refused}");
        assert_eq!(or_known(known[..1].to_vec()), known[..1]);
    }

    #[test]
    fn an_authority_is_the_same_in_pem() {
        let known = or_known(Vec::new());
        let read = CertificateDer::from_pem_slice(&pem(&known[0])).unwrap();
        assert_eq!(read, known[0]);
    }

    #[test]
    fn clones_read_certificates_once() {
        let ours = Authorities::default();
        let clone = ours.clone();
        let log = |authorities: &Authorities| authorities.tls().key_log;
        assert!(Arc::ptr_eq(&log(&ours), &log(&clone)));
        assert!(!Arc::ptr_eq(&log(&ours), &log(&Authorities::default())));
    }

    #[test]
    fn only_certificates_are_a_bundle() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "no certificate", broken] {
            assert_eq!(CaBundle::from_pem(text), Err(CaBundleError), "{text}");
        }
    }
}
