//! Whose certificates are believed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_sdk_s3::config::SharedHttpClient;
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

    /// The file's text.
    pub(crate) fn pem(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn add_to(&self, roots: &mut RootCertStore) -> Result<(), CaBundleError> {
        for certificate in CertificateDer::pem_slice_iter(&self.0) {
            let certificate = certificate.map_err(|_| CaBundleError)?;
            roots.add(certificate).map_err(|_| CaBundleError)?;
        }
        Ok(())
    }
}

/// Whose certificates are believed: the machine's own authorities, and those of a bundle. They are read once, by
/// whom they are needed first; clones share them, for they are larger than all else that a client is.
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

    pub(crate) fn bundle(&self) -> Option<&CaBundle> {
        self.bundle.as_ref()
    }

    /// How to speak TLS with who is believed.
    pub(crate) fn tls(&self) -> ClientConfig {
        let make = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("ring has the protocol versions that rustls thinks safe")
                .with_root_certificates(roots(self.bundle()))
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

/// The machine's own authorities, and those of `ca_bundle`.
fn roots(ca_bundle: Option<&CaBundle>) -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if let Some(bundle) = ca_bundle {
        bundle.add_to(&mut roots).expect("it was read before");
    }
    if taken == 0 && ca_bundle.is_none() {
        // Stores on plain HTTP can be used all the same; with TLS no one will be believed.
        tracing::warn!(errors = ?found.errors, "this machine has no root certificates");
    }
    roots
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Authorities, CaBundle, CaBundleError};

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
