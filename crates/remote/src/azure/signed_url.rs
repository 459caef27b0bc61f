//! Shared access signatures for reading one blob; pure.
//!
//! The key of the account signs ([service SAS]), or a key that Entra ID grants for some time ([user delegation SAS]).
//!
//! [service SAS]: https://learn.microsoft.com/rest/api/storageservices/create-service-sas
//! [user delegation SAS]: https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas

use aws_smithy_types::base64;
use ring::hmac;

use crate::cloud_store::iso_seconds;
use crate::xml;

/// Version of the signature.
const SIGNED_VERSION: &str = "2022-11-02";

/// Permission to read.
const PERMISSIONS: &str = "r";

/// Kind of resource: a blob.
const RESOURCE: &str = "b";

/// Longest validity of a key that Entra ID grants.
pub(super) const DELEGATION_SECS_MAX: i64 = 7 * 24 * 3600;

/// Key for a signature.
pub(super) enum SigningKey<'a> {
    /// One of the two keys of the account.
    Account(&'a hmac::Key),
    /// A key that Entra ID granted.
    Delegated(&'a DelegatedKey),
}

/// Key that Entra ID grants for some time, with the fields of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DelegatedKey {
    object_id: String,
    tenant_id: String,
    start: String,
    expiry: String,
    service: String,
    version: String,
    value: Vec<u8>,
}

impl DelegatedKey {
    /// Reads the answer to "Get User Delegation Key"; `None` if it is another document.
    pub(super) fn parse(document: &[u8]) -> Option<DelegatedKey> {
        let root = xml::parse(document).filter(|root| root.name == "UserDelegationKey")?;
        let text = |name: &str| root.text_of(name).map(str::to_owned);
        Some(DelegatedKey {
            object_id: text("SignedOid")?,
            tenant_id: text("SignedTid")?,
            start: text("SignedStart")?,
            expiry: text("SignedExpiry")?,
            service: text("SignedService")?,
            version: text("SignedVersion")?,
            value: base64::decode(text("Value")?).ok()?,
        })
    }
}

/// Returns the body of the request for such a key.
pub(super) fn key_request(start_secs: i64, ends_secs: i64) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><KeyInfo><Start>{}</Start><Expiry>{}</Expiry></KeyInfo>",
        iso_seconds(start_secs),
        iso_seconds(ends_secs)
    )
}

/// Blob of the URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob<'a> {
    pub(super) account: &'a str,
    pub(super) container: &'a str,
    pub(super) name: &'a str,
    /// Whether the endpoint has no TLS, as that of an emulator.
    pub(super) is_plain: bool,
}

/// Returns the unescaped query with which a client can read `blob` until `ends_secs`.
pub(super) fn query(
    key: &SigningKey<'_>,
    blob: Blob<'_>,
    ends_secs: i64,
) -> Vec<(&'static str, String)> {
    let Blob { account, container, name, is_plain } = blob;
    let protocol = if is_plain { "https,http" } else { "https" };
    let expiry = iso_seconds(ends_secs);
    let resource = format!("/blob/{account}/{container}/{name}");
    let begin = [PERMISSIONS, "", &expiry, &resource];
    // IP range first; after the resource snapshot time, encryption scope and five headers of the answer.
    let end = ["", protocol, SIGNED_VERSION, RESOURCE, "", "", "", "", "", "", ""];
    let (text, signer) = match key {
        SigningKey::Account(key) => {
            let identifier = [""];
            ([&begin[..], &identifier, &end].concat().join("\n"), (*key).clone())
        }
        SigningKey::Delegated(key) => {
            let fields = [
                &key.object_id[..],
                &key.tenant_id,
                &key.start,
                &key.expiry,
                &key.service,
                &key.version,
            ];
            // Authorized user, unauthorized user, correlation.
            let users = ["", "", ""];
            let text = [&begin[..], &fields, &users, &end].concat().join("\n");
            (text, hmac::Key::new(hmac::HMAC_SHA256, &key.value))
        }
    };
    let signature = base64::encode(hmac::sign(&signer, text.as_bytes()).as_ref());
    let mut pairs = vec![
        ("sv", SIGNED_VERSION.to_owned()),
        ("spr", protocol.to_owned()),
        ("se", expiry),
        ("sr", RESOURCE.to_owned()),
        ("sp", PERMISSIONS.to_owned()),
    ];
    if let SigningKey::Delegated(key) = key {
        pairs.extend([
            ("skoid", key.object_id.clone()),
            ("sktid", key.tenant_id.clone()),
            ("skt", key.start.clone()),
            ("ske", key.expiry.clone()),
            ("sks", key.service.clone()),
            ("skv", key.version.clone()),
        ]);
    }
    pairs.push(("sig", signature));
    pairs
}

#[cfg(test)]
mod tests {
    use ring::hmac;

    use super::{Blob, DelegatedKey, SigningKey, key_request, query};

    const ANSWER: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey><SignedOid>o</SignedOid>\
        <SignedTid>t</SignedTid><SignedStart>2026-01-01T00:00:00Z</SignedStart>\
        <SignedExpiry>2026-01-02T00:00:00Z</SignedExpiry><SignedService>b</SignedService>\
        <SignedVersion>2022-11-02</SignedVersion><Value>aHVzaA==</Value></UserDelegationKey>";

    fn blob() -> Blob<'static> {
        Blob { account: "lab", container: "slides", name: "a b/c", is_plain: false }
    }

    fn value(pairs: &[(&'static str, String)], wanted: &str) -> String {
        let found = pairs.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// The signatures are those of `azure-storage-blob` 12.19, a client of Azure.
    #[test]
    fn blobs_are_signed_as_documented() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"hush");
        let pairs = query(&SigningKey::Account(&key), blob(), 1_767_323_045);
        assert_eq!(value(&pairs, "se"), "2026-01-02T03:04:05Z");
        assert_eq!(value(&pairs, "sig"), "pu6IuVbPa1p/XMQ9Z6tsQvS3txIbSWco4/Hy/n/oOMc=");

        let key = DelegatedKey::parse(ANSWER.as_bytes()).unwrap();
        let pairs = query(&SigningKey::Delegated(&key), blob(), 1_767_323_045);
        assert_eq!(
            (value(&pairs, "skoid"), value(&pairs, "skv")),
            ("o".into(), "2022-11-02".into())
        );
        assert_eq!(value(&pairs, "sig"), "f9kaiOT6S+3Gimbn8vKYJ3vIl1eaSkTOPWyInHVTRLE=");
    }

    #[test]
    fn other_documents_hold_no_key() {
        assert_eq!(DelegatedKey::parse(b"<html>Please log in</html>"), None);
        let asked = key_request(1_767_323_045, 1_767_326_645);
        assert!(asked.contains("<Expiry>2026-01-02T04:04:05Z</Expiry>"), "{asked}");
    }
}
