//! What S3's errors ask of the caller: one table of codes, one of statuses.

use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId as _;

use super::there::WrongTime;
use crate::http::{Answer, is_html, is_untrusted, parse_http_date, retry_after};
use crate::login::FailedLogin;
use crate::{Condition, Error, ErrorKind, Key, ProviderError, Trouble, xml};

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// An error's words fit into this.
const WORDS_BYTES_MAX: usize = 64 << 10;

/// The error of a call that the SDK gave up on.
pub(super) fn of_call<E>(op: &'static str, key: &Key, error: &SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let mut told = None;
    let (kind, provider) = match error {
        _ if find::<WrongTime>(error).is_some() => {
            (TRANSIENT, said("RequestTimeTooSkewed", error, Trouble::WrongClock))
        }
        SdkError::ServiceError(service) => {
            told = elsewhere(service.raw());
            of_raw(service.raw(), service.err().code(), service.err().message())
        }
        SdkError::ResponseError(unreadable) => {
            let (kind, provider) = of_raw(unreadable.raw(), None, Some(&chain(error)));
            // A page that is no S3 answer under a good status: something between us and S3 spoke.
            (if kind == ErrorKind::Unavailable { TRANSIENT } else { kind }, provider)
        }
        SdkError::TimeoutError(_) => (TRANSIENT, said("Timeout", error, Trouble::Unreachable)),
        SdkError::DispatchFailure(_) if is_untrusted(error) => {
            (TRANSIENT, said("CertificateNotTrusted", error, Trouble::Untrusted))
        }
        SdkError::DispatchFailure(failure) if failure.is_io() || failure.is_timeout() => {
            (TRANSIENT, said("ConnectionFailed", error, Trouble::Unreachable))
        }
        SdkError::DispatchFailure(failure) if failure.is_user() => {
            (ErrorKind::Unsupported, said("BadRequest", error, Trouble::Unreachable))
        }
        SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | _ => of_local(error),
    };
    let request_id = error.request_id().map(str::to_owned);
    let error_of_call = Error::new(kind, op, key);
    match find::<FailedLogin>(error) {
        Some(failed) => error_of_call.because(failed.clone()),
        None => saying(error_of_call, ProviderError { request_id, ..provider }, told),
    }
}

/// The region that an answer of the library's names.
fn elsewhere(raw: &HttpResponse) -> Option<String> {
    let root = raw.body().bytes().and_then(xml::parse);
    let in_text = root.as_ref().and_then(|root| root.text_of("Region"));
    region(raw.status().as_u16(), raw.headers().get("x-amz-bucket-region"), in_text)
}

/// The region in which the bucket is, if an answer of this status says that it is not where it was asked for.
/// Others name it as well, of a bucket that is where it should be.
fn region(status: u16, header: Option<&str>, in_text: Option<&str>) -> Option<String> {
    let region = in_text.or(header).map(str::trim).filter(|region| is_region(region));
    [301, 307, 308, 400].contains(&status).then_some(region)?.map(str::to_owned)
}

/// It becomes part of the names of servers.
pub(super) fn is_region(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The store's words, and the region that it named.
#[derive(Debug)]
struct Elsewhere {
    region: String,
    said: ProviderError,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.said.fmt(f)
    }
}

impl std::error::Error for Elsewhere {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.said)
    }
}

fn saying(error: Error, said: ProviderError, told: Option<String>) -> Error {
    match told {
        Some(region) => error.because(Elsewhere { region, said }),
        None => error.because(said),
    }
}

/// The region that the store said the bucket is in.
pub(super) fn region_told(error: &Error) -> Option<&str> {
    find::<Elsewhere>(error).map(|elsewhere| &elsewhere.region[..])
}

/// A failure before anything was sent: most likely there are no credentials.
fn of_local(error: &(dyn std::error::Error + 'static)) -> (ErrorKind, ProviderError) {
    // A directory bucket was asked for a session before.
    if let Some(of_session) = find::<Error>(error) {
        let other = || said("SessionFailed", of_session, Trouble::Other);
        return (of_session.kind, of_session.provider_error().cloned().unwrap_or_else(other));
    }
    if let Some(failed) = find::<FailedLogin>(error) {
        return (ErrorKind::Denied, failed.said.clone());
    }
    let credentials = find::<CredentialsError>(error);
    match credentials {
        Some(CredentialsError::CredentialsNotLoaded(_)) => {
            (ErrorKind::Denied, said("NoCredentials", error, Trouble::NoCredentials))
        }
        Some(CredentialsError::ProviderTimedOut(_)) => {
            (TRANSIENT, said("CredentialsTimeout", error, Trouble::NoCredentials))
        }
        // Who was to tell them failed: the store has seen none that it could refuse.
        Some(_) => (ErrorKind::Denied, said("CredentialsFailed", error, Trouble::NoCredentials)),
        None => (TRANSIENT, said("RequestFailed", error, Trouble::Unreachable)),
    }
}

fn of_raw(
    raw: &HttpResponse,
    code: Option<&str>,
    message: Option<&str>,
) -> (ErrorKind, ProviderError) {
    let headers = raw.headers();
    of_status(raw.status().as_u16(), |name| headers.get(name), (code, message))
}

/// The error that an answer of a direct call which is no success speaks of.
pub(super) async fn of_answer(op: &'static str, key: &Key, answer: Answer) -> Error {
    let status = answer.status();
    let headers: Vec<(String, String)> =
        answer.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let header = |name: &str| {
        headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    };
    // A body that does not come changes nothing of what the status says.
    let body = answer.bytes(WORDS_BYTES_MAX).await.unwrap_or_default();
    let said = xml::parse(&body).filter(|root| root.name == "Error");
    let text = |name| said.as_ref().and_then(|said| said.text_of(name));
    let (kind, provider) = of_status(status, header, (text("Code"), text("Message")));
    let request_id = header("x-amz-request-id").map(str::to_owned);
    let told = region(status, header("x-amz-bucket-region"), text("Region"));
    saying(Error::new(kind, op, key), ProviderError { request_id, ..provider }, told)
}

/// As `error`; what is to be replaced and is not there has been changed.
pub(super) fn of_replacing(error: Error, condition: &Condition) -> Error {
    let is_gone = matches!(condition, Condition::Is(_)) && code_of(&error) == Some("NoSuchKey");
    if is_gone { Error { kind: ErrorKind::Changed, ..error } } else { error }
}

pub(super) fn code_of(error: &Error) -> Option<&str> {
    error.provider_error().map(|said| &said.code[..])
}

/// As `error`, of which the reason is known and does not hold any more.
pub(super) fn in_passing(error: Error) -> Error {
    Error { kind: TRANSIENT, ..error }
}

/// There is nobody to ask as.
pub(super) fn of_credentials(op: &'static str, key: &Key, error: &CredentialsError) -> Error {
    let (kind, provider) = of_local(error);
    let error_of_call = Error::new(kind, op, key);
    match find::<FailedLogin>(error) {
        Some(failed) => error_of_call.because(failed.clone()),
        None => error_of_call.because(provider),
    }
}

fn of_status<'a>(
    status: u16,
    header: impl Fn(&str) -> Option<&'a str>,
    (code, message): (Option<&str>, Option<&str>),
) -> (ErrorKind, ProviderError) {
    let (mut kind, mut trouble) =
        code.and_then(kind_of_code).unwrap_or_else(|| kind_of_status(status));
    if trouble == Trouble::Other && is_of_key_service(code, message) {
        trouble = Trouble::NoEncryptionKey;
    } else if code.is_none() && is_html(header("content-type")) {
        trouble = Trouble::WebPage;
    }
    if let ErrorKind::Transient { retry_after: asked } = &mut kind {
        *asked = header("retry-after").and_then(|wait| {
            // A date is compared with the store's own, whatever our clock says.
            let now_secs = header("date").and_then(parse_http_date).map(|now| now.secs);
            retry_after(wait, now_secs.unwrap_or(i64::MAX))
        });
    }
    let code = code.map_or_else(|| format!("HTTP {status}"), str::to_owned);
    let mut message = message.unwrap_or("no further words").to_owned();
    if let Some(region) = header("x-amz-bucket-region")
        && trouble == Trouble::WrongRegion
    {
        message = format!("{message} (the bucket is in {region})");
    }
    (kind, ProviderError { code, message, request_id: None, trouble })
}

/// Whether the refusal is about the key service: some stores say so by the code, some in the message.
fn is_of_key_service(code: Option<&str>, message: Option<&str>) -> bool {
    code.is_some_and(|code| code.starts_with("KMS."))
        || message.is_some_and(|message| message.contains("KMS"))
}

fn kind_of_code(code: &str) -> Option<(ErrorKind, Trouble)> {
    let (kind, trouble) = match code {
        "NoSuchKey" | "NoSuchUpload" | "NotFound" | "NoSuchVersion" => {
            (ErrorKind::NotFound, Trouble::Other)
        }
        "NoSuchBucket" | "InvalidBucketName" => (ErrorKind::NotFound, Trouble::NoBucket),
        "PreconditionFailed" => (ErrorKind::Changed, Trouble::Other),
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => {
            (ErrorKind::Denied, Trouble::Denied)
        }
        "InvalidAccessKeyId" => (ErrorKind::Denied, Trouble::UnknownKey),
        "SignatureDoesNotMatch" => (ErrorKind::Denied, Trouble::WrongSecret),
        "ExpiredToken" | "TokenRefreshRequired" => (ErrorKind::Denied, Trouble::ExpiredToken),
        // MinIO has a code of its own.
        "InvalidToken" | "InvalidTokenId" => (ErrorKind::Denied, Trouble::WrongToken),
        "RequestTimeTooSkewed" => (ErrorKind::Denied, Trouble::WrongClock),
        "InvalidSecurity" | "NotSignedUp" => (ErrorKind::Denied, Trouble::BadCredentials),
        "PermanentRedirect"
        | "TemporaryRedirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException" => (ErrorKind::Denied, Trouble::WrongRegion),
        // The documentation says of 409 ConditionalRequestConflict to repeat the upload: the
        // repeat meets the winner and gets its 412. A bad digest means bytes lost on the way.
        "SlowDown"
        | "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TooManyRequests"
        | "ServiceUnavailable" => (TRANSIENT, Trouble::Busy),
        "InternalError"
        | "RequestTimeout"
        | "OperationAborted"
        | "ConditionalRequestConflict"
        | "BadDigest"
        | "IncompleteBody"
        | "XAmzContentSHA256Mismatch"
        | "XAmzContentChecksumMismatch" => (TRANSIENT, Trouble::Other),
        "QuotaExceeded"
        | "InsufficientStorage"
        | "StorageFull"
        | "XMinioStorageFull"
        | "XMinioAdminBucketQuotaExceeded" => (ErrorKind::Full, Trouble::Other),
        "InvalidObjectState" | "ObjectNotInActiveTierError" => {
            (ErrorKind::Archived, Trouble::Archived)
        }
        "InvalidRange"
        | "EntityTooLarge"
        | "EntityTooSmall"
        | "InvalidPart"
        | "InvalidPartOrder"
        | "InvalidArgument"
        | "InvalidRequest"
        | "KeyTooLongError"
        | "MetadataTooLarge"
        | "NotImplemented"
        | "MethodNotAllowed"
        | "InvalidURI"
        | "XMinioInvalidObjectName"
        | "XMinioObjectExistsAsDirectory"
        | "XMinioParentIsObject" => (ErrorKind::Unsupported, Trouble::Other),
        _ => return None,
    };
    Some((kind, trouble))
}

fn kind_of_status(status: u16) -> (ErrorKind, Trouble) {
    match status {
        404 => (ErrorKind::NotFound, Trouble::Other),
        412 => (ErrorKind::Changed, Trouble::Other),
        401 | 403 => (ErrorKind::Denied, Trouble::Denied),
        301 | 302 | 307 | 308 => (ErrorKind::Denied, Trouble::WrongRegion),
        507 => (ErrorKind::Full, Trouble::Other),
        400 | 405 | 411 | 413 | 414 | 416 | 501 => (ErrorKind::Unsupported, Trouble::Other),
        429 | 503 => (TRANSIENT, Trouble::Busy),
        408 | 409 | 425 | 500..=599 => (TRANSIENT, Trouble::Other),
        _ => (ErrorKind::Unavailable, Trouble::Other),
    }
}

fn said(code: &str, error: &(dyn std::error::Error + 'static), trouble: Trouble) -> ProviderError {
    ProviderError { code: code.to_owned(), message: chain(error), request_id: None, trouble }
}

/// The error and what caused it, on one line.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.ends_with(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn find<'a, T: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{TRANSIENT, kind_of_code, kind_of_status, of_status, region};
    use crate::{ErrorKind, Trouble};

    #[test]
    fn codes_say_what_to_do_next() {
        for (code, kind, trouble) in [
            ("NoSuchKey", ErrorKind::NotFound, Trouble::Other),
            ("NoSuchBucket", ErrorKind::NotFound, Trouble::NoBucket),
            ("PreconditionFailed", ErrorKind::Changed, Trouble::Other),
            ("ConditionalRequestConflict", TRANSIENT, Trouble::Other),
            ("SlowDown", TRANSIENT, Trouble::Busy),
            ("AccessDenied", ErrorKind::Denied, Trouble::Denied),
            ("SignatureDoesNotMatch", ErrorKind::Denied, Trouble::WrongSecret),
            ("InvalidAccessKeyId", ErrorKind::Denied, Trouble::UnknownKey),
            ("ExpiredToken", ErrorKind::Denied, Trouble::ExpiredToken),
            ("InvalidToken", ErrorKind::Denied, Trouble::WrongToken),
            ("InvalidTokenId", ErrorKind::Denied, Trouble::WrongToken),
            ("RequestTimeTooSkewed", ErrorKind::Denied, Trouble::WrongClock),
            ("PermanentRedirect", ErrorKind::Denied, Trouble::WrongRegion),
            ("XMinioStorageFull", ErrorKind::Full, Trouble::Other),
            ("InvalidObjectState", ErrorKind::Archived, Trouble::Archived),
        ] {
            assert_eq!(kind_of_code(code), Some((kind, trouble)), "{code}");
        }
        assert_eq!(kind_of_code("SomethingNew"), None);
    }

    #[test]
    fn refusal_without_code_names_trouble() {
        let trouble = |status, header: Option<&'static str>, code, message| {
            of_status(status, |_| header, (code, message)).1.trouble
        };
        let kms = "Server side encryption specified but KMS is not configured";
        for (status, header, code, message, want) in [
            (501, None, Some("NotImplemented"), Some(kms), Trouble::NoEncryptionKey),
            (400, None, Some("KMS.NotFoundException"), None, Trouble::NoEncryptionKey),
            (501, None, Some("NotImplemented"), Some("a header"), Trouble::Other),
            (403, None, Some("AccessDenied"), Some("no KMS"), Trouble::Denied),
            (405, Some("text/html; charset=utf-8"), None, None, Trouble::WebPage),
            (403, Some("application/xml"), None, None, Trouble::Denied),
        ] {
            assert_eq!(trouble(status, header, code, message), want, "{status} {code:?}");
        }
    }

    #[test]
    fn a_region_counts_only_where_the_bucket_is_not_where_it_was_asked_for() {
        let west = || Some("us-west-1".to_owned());
        for (status, header, in_text, want) in [
            (301, Some("us-west-1"), None, west()),
            (400, Some("us-west-1"), None, west()),
            (400, None, Some(" us-west-1 "), west()),
            (400, Some("other"), Some("us-west-1"), west()),
            (403, Some("us-west-1"), None, None),
            (301, None, None, None),
            (301, Some("evil.example/"), None, None),
            (301, Some(""), None, None),
        ] {
            assert_eq!(region(status, header, in_text), want, "{status} {header:?} {in_text:?}");
        }
    }

    #[test]
    fn statuses_stand_in_for_codes_we_do_not_know() {
        for (status, kind) in [
            (400, ErrorKind::Unsupported),
            (403, ErrorKind::Denied),
            (404, ErrorKind::NotFound),
            (412, ErrorKind::Changed),
            (429, TRANSIENT),
            (503, TRANSIENT),
            (507, ErrorKind::Full),
        ] {
            assert_eq!(kind_of_status(status).0, kind, "{status}");
        }
    }
}
