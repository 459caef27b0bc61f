//! Signs requests as the library does, by its own code ([Signature Version 4]).
//!
//! [Signature Version 4]: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningError, SigningParams, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
#[cfg(feature = "multi-region")]
use aws_sigv4::sign::v4a;
use aws_smithy_runtime_api::client::identity::Identity;
use bytes::Bytes;
use http::Method;
use ring::digest::{SHA256, digest};

use crate::http::query;

/// What is worth a thread of its own to hash.
const HASH_HERE_BYTES_MAX: usize = 256 << 10;

/// What is said of a body that is not part of the signature.
const PLAIN: &str = "UNSIGNED-PAYLOAD";

/// Whether what is sent is part of the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// On a line that others can write to.
    Signed,
    /// TLS keeps others out, and a hash costs more than all the rest of an upload.
    Plain,
}

/// Where a signature is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In this region of S3.
    Region(String),
    /// For directory buckets, in this region.
    Express(String),
    /// In every region, for access points of many: the signature is of another kind, `SigV4A` ("Making requests
    /// through a Multi-Region Access Point" of the S3 user guide).
    #[cfg(feature = "multi-region")]
    Everywhere,
}

/// Whose credentials sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer {
    /// An account's.
    Account,
    /// A session's, which a directory bucket has given.
    Session,
}

impl Signer {
    /// The header that has the token of temporary credentials, if it is another than usual
    /// (`CreateSession` of the S3 API reference).
    fn token_header(self) -> Option<&'static str> {
        match self {
            Signer::Account => None,
            Signer::Session => Some("x-amz-s3session-token"),
        }
    }
}

/// A request about to be signed.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a Method,
    /// As it is sent.
    pub(super) url: &'a str,
    pub(super) headers: &'a [(String, String)],
    /// Of the body: [`hash`].
    pub(super) hash: &'a str,
}

/// How a body is spoken of in a signature.
pub(super) async fn hash(body: &Bytes, payload: Payload) -> String {
    match payload {
        Payload::Plain if !body.is_empty() => PLAIN.to_owned(),
        Payload::Plain | Payload::Signed if body.len() <= HASH_HERE_BYTES_MAX => sha256(body),
        Payload::Plain | Payload::Signed => {
            let large = body.clone();
            let hashing = tokio::task::spawn_blocking(move || sha256(&large));
            // It does not panic, and at the end nobody waits for the answer.
            hashing.await.unwrap_or_default()
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("half a byte");
    let bytes = digest(&SHA256, bytes);
    bytes.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// The headers that sign the request, good in `scope`.
pub(super) fn signature(
    request: &Unsigned<'_>,
    (signer, credentials): (Signer, &Credentials),
    (scope, now): (&Scope, SystemTime),
) -> Result<Vec<(String, String)>, SigningError> {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.session_token_name_override = signer.token_header();
    let identity: Identity = credentials.clone().into();
    let params = params(scope, now, (&identity, settings));
    let headers = request.headers.iter().map(|(name, value)| (&name[..], &value[..]));
    let body = SignableBody::Precomputed(request.hash.to_owned());
    let request = SignableRequest::new(request.method.as_str(), request.url, headers, body)?;
    let (signed, _) = sign(request, &params)?.into_parts();
    Ok(signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Returns the pairs that sign a GET of `url` for the time `valid`, joined by `&`.
pub(super) fn url_signature(
    url: &str,
    credentials: &Credentials,
    (scope, now, valid): (&Scope, SystemTime, Duration),
) -> Result<String, SigningError> {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(valid);
    let identity: Identity = credentials.clone().into();
    let params = params(scope, now, (&identity, settings));
    let headers = std::iter::empty();
    let request = SignableRequest::new("GET", url, headers, SignableBody::UnsignedPayload)?;
    let (signed, _) = sign(request, &params)?.into_parts();
    let pairs: Vec<(&str, String)> =
        signed.params().iter().map(|(name, value)| (*name, value.to_string())).collect();
    Ok(query(&pairs).trim_start_matches('?').to_owned())
}

/// All that goes into a signature but the request.
fn params<'a>(
    scope: &'a Scope,
    now: SystemTime,
    (identity, settings): (&'a Identity, SigningSettings),
) -> SigningParams<'a> {
    let (region, service) = match scope {
        Scope::Region(region) => (region, "s3"),
        Scope::Express(region) => (region, "s3express"),
        #[cfg(feature = "multi-region")]
        Scope::Everywhere => {
            let params = v4a::SigningParams::builder()
                .identity(identity)
                .region_set("*")
                .name("s3")
                .time(now)
                .settings(settings);
            return params.build().expect("all of them are there").into();
        }
    };
    let params = v4::SigningParams::builder()
        .identity(identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(settings);
    params.build().expect("all of them are there").into()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use aws_credential_types::Credentials;
    use bytes::Bytes;
    use http::Method;

    use super::{Payload, Scope, Signer, Unsigned, hash, signature, url_signature};

    /// An example of the documentation ("GET Object").
    #[tokio::test]
    async fn a_request_is_signed_as_documented() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None, None, "test");
        let hash = hash(&Bytes::new(), Payload::Plain).await;
        let request = Unsigned {
            method: &Method::GET,
            url: "https://examplebucket.s3.amazonaws.com/test.txt",
            headers: &[("range".to_owned(), "bytes=0-9".to_owned())],
            hash: &hash,
        };
        // 2013-05-24T00:00:00Z
        let now = UNIX_EPOCH + Duration::from_hours(380_376);
        let scope = Scope::Region("us-east-1".to_owned());
        let signer = (Signer::Account, &credentials);
        let signed = signature(&request, signer, (&scope, now)).unwrap();
        let authorization = &signed.iter().find(|(name, _)| name == "authorization").unwrap().1;
        let want = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(authorization.ends_with(want), "{authorization}");
    }

    #[cfg(feature = "multi-region")]
    #[test]
    fn a_request_to_many_regions_is_signed_for_all_of_them() {
        let credentials = Credentials::new("name", "hush", Some("token".to_owned()), None, "test");
        let request = Unsigned {
            method: &Method::GET,
            url: "https://m.mrap.accesspoint.s3-global.amazonaws.com/a",
            headers: &[],
            hash: "UNSIGNED-PAYLOAD",
        };
        let now = UNIX_EPOCH + Duration::from_hours(380_376);
        let signer = (Signer::Account, &credentials);
        let signed = signature(&request, signer, (&Scope::Everywhere, now)).unwrap();
        let header = |name: &str| {
            signed.iter().find(|(found, _)| found == name).map(|(_, value)| &value[..])
        };
        assert_eq!(header("x-amz-region-set"), Some("*"));
        assert_eq!(header("x-amz-security-token"), Some("token"));
        let authorization = header("authorization").unwrap();
        let begins =
            "AWS4-ECDSA-P256-SHA256 Credential=name/20130524/s3/aws4_request, SignedHeaders=";
        assert!(authorization.starts_with(begins), "{authorization}");
        assert!(authorization.contains("x-amz-region-set"), "{authorization}");
    }

    /// An example of the documentation ("Authenticating Requests: Using Query Parameters").
    #[test]
    fn url_is_signed_in_its_query_as_documented() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None, None, "test");
        // 2013-05-24T00:00:00Z
        let now = UNIX_EPOCH + Duration::from_hours(380_376);
        let scope = Scope::Region("us-east-1".to_owned());
        let url = "https://examplebucket.s3.amazonaws.com/test.txt";
        let day = Duration::from_hours(24);
        let signed = url_signature(url, &credentials, (&scope, now, day)).unwrap();
        let value = |wanted: &str| {
            let mut pairs = signed.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
        };
        assert_eq!(value("X-Amz-Expires"), Some("86400"));
        assert_eq!(value("X-Amz-SignedHeaders"), Some("host"));
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert_eq!(value("X-Amz-Signature"), Some(signature));
    }

    #[tokio::test]
    async fn bodies_are_hashed_only_where_others_may_change_them() {
        let body = Bytes::from_static(b"abc");
        assert_eq!(hash(&body, Payload::Plain).await, "UNSIGNED-PAYLOAD");
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(&body, Payload::Signed).await, want);
        let large = Bytes::from(vec![0; 1 << 20]);
        let want = "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58";
        assert_eq!(hash(&large, Payload::Signed).await, want);
    }
}
