//! Signed URLs of Google Cloud Storage, by the [V4 signing process]; pure.
//!
//! [V4 signing process]: https://cloud.google.com/storage/docs/access-control/signed-urls

use std::fmt::Write as _;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use super::connect::{GcsCredentials, ServiceAccount};
use super::token::{key_pair, sign};
use crate::cloud_store::compact_seconds;
use crate::http::{encode, encode_path, query};

/// Key that signs URLs.
#[derive(Clone, Debug)]
pub(super) enum UrlSigner {
    /// A service account with its key.
    Account(ServiceAccount),
    /// The credentials have no key, for this reason.
    None(&'static str),
}

impl UrlSigner {
    pub(super) fn of(credentials: &GcsCredentials) -> UrlSigner {
        UrlSigner::None(match credentials {
            GcsCredentials::ServiceAccount(account) => return UrlSigner::Account(account.clone()),
            GcsCredentials::Anonymous => "the mount has no credentials to sign with",
            GcsCredentials::User(_) => {
                "a user login cannot sign URLs: use the key file of a service account \
                 (--google-credentials-file)"
            }
            GcsCredentials::Machine(_)
            | GcsCredentials::Federated(_)
            | GcsCredentials::Impersonated { .. } => {
                "these credentials have no key to sign URLs with: use the key file of a service account \
                 (--google-credentials-file)"
            }
            GcsCredentials::Token(_) => {
                "a token cannot sign URLs: use the key file of a service account \
                 (--google-credentials-file)"
            }
        })
    }
}

/// Parts of a URL before its signature.
pub(super) struct Unsigned<'a> {
    pub(super) service: &'a str,
    /// Escaped name.
    pub(super) bucket: &'a str,
    pub(super) name: &'a str,
    pub(super) valid: Duration,
}

impl Unsigned<'_> {
    /// Returns the URL with a signature of `account`; `None` if its key does not sign.
    pub(super) fn signed(&self, account: &ServiceAccount, now_secs: i64) -> Option<String> {
        let host = self.service.split_once("://").map_or(self.service, |(_, host)| host);
        let (host, before) = host.split_once('/').unwrap_or((host, ""));
        let before = if before.is_empty() { String::new() } else { format!("/{before}") };
        let path = format!("{before}/{}/{}", self.bucket, encode_path(self.name.as_bytes()));
        let time = compact_seconds(now_secs);
        let scope = format!("{}/auto/storage/goog4_request", &time[..8.min(time.len())]);
        // Sorted, as the canonical request must be.
        let pairs = [
            ("X-Goog-Algorithm", "GOOG4-RSA-SHA256".to_owned()),
            ("X-Goog-Credential", format!("{}/{scope}", account.email)),
            ("X-Goog-Date", time.clone()),
            ("X-Goog-Expires", self.valid.as_secs().to_string()),
            ("X-Goog-SignedHeaders", "host".to_owned()),
        ];
        let query = query(&pairs);
        let asked = query.trim_start_matches('?');
        let canonical = format!("GET\n{path}\n{asked}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
        let text = format!("GOOG4-RSA-SHA256\n{time}\n{scope}\n{hash}");
        let signature = hex(&sign(&key_pair(&account.key)?, text.as_bytes())?);
        let scheme = self.service.split_once("://").map_or("https", |(scheme, _)| scheme);
        Some(format!(
            "{scheme}://{host}{path}{query}&X-Goog-Signature={}",
            encode(signature.as_bytes())
        ))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes all that is written to it.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Unsigned, UrlSigner};
    use crate::{GcsCredentials, Secret, ServiceAccount};

    /// The signatures are those of `google-cloud-storage` 3, a client of Google.
    #[test]
    fn url_is_signed_as_google_does() {
        let account = ServiceAccount {
            email: "mount@project.iam.gserviceaccount.com".into(),
            key_id: None,
            key: Secret::new(include_str!("test-key.pem")),
            token_url: String::new(),
        };
        for (name, path, want) in [
            ("runs/a b.txt", "runs/a%20b.txt", PLAIN),
            (
                "runs/ü+%~'()*!&=?#[]@:$,;.txt",
                "runs/%C3%BC%2B%25~%27%28%29%2A%21%26%3D%3F%23%5B%5D%40%3A%24%2C%3B.txt",
                ODD,
            ),
        ] {
            let service = "https://storage.googleapis.com";
            let url = Unsigned { service, bucket: "lab", name, valid: Duration::from_hours(1) };
            let signed = url.signed(&account, 1_767_323_045).unwrap();
            let (url, signature) = signed.split_once("&X-Goog-Signature=").unwrap();
            assert_eq!(
                url,
                format!(
                    "{service}/lab/{path}?X-Goog-Algorithm=GOOG4-RSA-SHA256&\
                     X-Goog-Credential=mount%40project.iam.gserviceaccount.com%2F20260102%2Fauto%2Fstorage%2F\
                     goog4_request&X-Goog-Date=20260102T030405Z&X-Goog-Expires=3600&X-Goog-SignedHeaders=host"
                )
            );
            assert_eq!(signature, want, "{name}");
        }
    }

    #[test]
    fn only_a_key_signs() {
        let token = GcsCredentials::Token(Secret::new("hush"));
        let UrlSigner::None(reason) = UrlSigner::of(&token) else { panic!("it has no key") };
        assert!(reason.contains("service account"), "{reason}");
    }

    const PLAIN: &str = "0f50a3c2a1b3bd418f61dc8623e547bdb15a68a4b6b5f9d5b6027a95e6949204613672065f195ecd\
        ec639a65b6f7a39710fef9fef271bc1ee235bb19269c07b57eba07827673f1cbeef390756aa8f7dc\
        6dc135645d0de08f3fe67aef27270b632978b12e09030bd5bbb8f4c4b480e73d00178d2b809acd3d\
        b8dc5992fd77186169f1d7b7ebf90493c0453868794e54cabc9c1e8b7faf5684b2a82c97c2ffd3e7\
        14c92d591a27de937a79399b4b7c74dd7ce977759071f60bf57240056cd80857bb68b601db6b0c09\
        88e49f83ceabf25f56f9dfd2554ddbe98e39d096f08446ff3c1580c96ee5512933867a1cbfaad624\
        91cfdea9386dd0583a43a7276d8a3891";

    const ODD: &str = "600fa6762b64726f895a6a6d5021b52eebadbea7239cae9083d53b88111ebac924a11e4637d156a8\
        c7b8ef54bf785600cd873a8d2717378fb5be7d23daa9cb17ff5970725a58c53797fd4d0de804c145\
        21592fa9ea240e114b8877f75eab5dc251819a02d9154ebd48ee618c10a27020302842a1cf783b16\
        401fa79f1a9d175bd4e5f876f492db1a7b3ccd8dba91ea522155dd6d872155324318e569870a6850\
        5895aea39ba76e4c3ffee371ec2b1aedec9557b5d336709993a1b219c2b76509d6afa4e864fa1c5d\
        4897572a3c05f7a0ba2b60649b6dcaba83d0635e25ce3e132de4454b2619b82d480bec70063b702e\
        366dc6d8a80c7f12fbcab634aaaebb4c";
}
