//! What Azure's errors ask of the caller: one table of codes.

use crate::http::{Answer, kind_of_status, retry_after};
use crate::{Error, ErrorKind, Key, ProviderError, Trouble};

use crate::xml;

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// An error's words fit into this.
const WORDS_BYTES_MAX: usize = 64 << 10;

/// How the words begin of a request whose signature is wrong.
const NOT_AUTHENTICATED: &str = "Server failed to authenticate the request";

/// The error that an answer which is no success speaks of.
pub(super) async fn of_answer(op: &'static str, key: &Key, answer: Answer, now_secs: i64) -> Error {
    let status = answer.status();
    let wait = answer.header("retry-after").and_then(|header| retry_after(header, now_secs));
    let request_id = answer.header("x-ms-request-id").map(str::to_owned);
    let header = answer.header("x-ms-error-code").map(str::to_owned);
    // A body that does not come changes nothing of what the status says.
    let body = answer.bytes(WORDS_BYTES_MAX).await.unwrap_or_default();
    let said = xml::parse(&body).filter(|root| root.name == "Error");
    let text = |name| said.as_ref().and_then(|said| said.text_of(name)).map(first_line);
    let code = header.or_else(|| text("Code")).filter(|code| !code.is_empty());
    let (mut kind, mut trouble) =
        code.as_deref().and_then(kind_of_code).unwrap_or_else(|| kind_of_status(status));
    let message = text("Message").unwrap_or_else(|| "no further words".to_owned());
    // Its emulator has for a wrong key the code that the service has for a network that may not come in.
    if trouble == Trouble::Denied && message.starts_with(NOT_AUTHENTICATED) {
        trouble = Trouble::BadCredentials;
    }
    if let ErrorKind::Transient { retry_after } = &mut kind {
        *retry_after = wait;
    }
    let code = code.unwrap_or_else(|| format!("HTTP {status}"));
    Error::new(kind, op, key).because(ProviderError { code, message, request_id, trouble })
}

/// The rest repeats the request's id and time, and with a wrong signature what was signed.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn kind_of_code(code: &str) -> Option<(ErrorKind, Trouble)> {
    let (kind, trouble) = match code {
        "BlobNotFound"
        | "ResourceNotFound"
        | "PathNotFound"
        | "SourcePathNotFound"
        | "SourcePathIsBeingDeleted"
        | "RenameDestinationParentPathNotFound" => (ErrorKind::NotFound, Trouble::Other),
        "ContainerNotFound" | "FilesystemNotFound" | "InvalidResourceName" => {
            (ErrorKind::NotFound, Trouble::NoBucket)
        }
        // Blocks are gone when somebody else writes the blob: that throws away everybody's.
        "InvalidBlockList"
        | "BlobAlreadyExists"
        | "ConditionNotMet"
        | "SourceConditionNotMet"
        | "TargetConditionNotMet"
        | "PathAlreadyExists"
        | "PathConflict"
        | "ResourceTypeMismatch"
        | "InvalidSourceOrDestinationResourceType"
        | "DirectoryNotEmpty"
        | "DirectoryIsNotEmpty" => (ErrorKind::Changed, Trouble::Other),
        "AuthenticationFailed" | "InvalidAuthenticationInfo" => {
            (ErrorKind::Denied, Trouble::BadCredentials)
        }
        "AuthorizationFailure"
        | "AuthorizationPermissionMismatch"
        | "AuthorizationProtocolMismatch"
        | "AuthorizationResourceTypeMismatch"
        | "AuthorizationServiceMismatch"
        | "AuthorizationSourceIPMismatch"
        | "InsufficientAccountPermissions"
        | "NoAuthenticationInformation"
        | "PublicAccessNotPermitted"
        | "KeyBasedAuthenticationNotPermitted"
        | "AccountIsDisabled" => (ErrorKind::Denied, Trouble::Denied),
        // Held by a lease or a policy of somebody else's.
        "LeaseIdMissing"
        | "LeaseIdMismatchWithBlobOperation"
        | "BlobImmutableDueToPolicy"
        | "ReadOnlyAccount" => (ErrorKind::Denied, Trouble::Denied),
        // Bytes that were lost on the way are sent again.
        "ServerBusy" => (TRANSIENT, Trouble::Busy),
        "InternalError"
        | "OperationTimedOut"
        | "Md5Mismatch"
        | "Crc64Mismatch"
        | "ContainerBeingDeleted"
        | "DestinationPathIsBeingDeleted"
        | "PendingCopyOperation" => (TRANSIENT, Trouble::Other),
        "AccountLimitExceeded" | "StorageQuotaExceeded" => (ErrorKind::Full, Trouble::Other),
        // Being brought back is not being back.
        "BlobArchived" | "BlobBeingRehydrated" => (ErrorKind::Archived, Trouble::Archived),
        "InvalidBlobTier"
        | "InvalidBlobType"
        | "InvalidBlobOrBlock"
        | "InvalidRange"
        | "InvalidUri"
        | "InvalidInput"
        | "InvalidHeaderValue"
        | "InvalidMetadata"
        | "MetadataTooLarge"
        | "RequestBodyTooLarge"
        | "FeatureNotSupported"
        | "HierarchicalNamespaceNotEnabled"
        | "EndpointUnsupportedAccountFeatures"
        | "UnsupportedHeader"
        | "UnsupportedHttpVerb"
        | "UnsupportedQueryParameter"
        | "OutOfRangeInput" => (ErrorKind::Unsupported, Trouble::Other),
        _ => return None,
    };
    Some((kind, trouble))
}

#[cfg(test)]
mod tests {
    use super::{TRANSIENT, first_line, kind_of_code};
    use crate::{ErrorKind, Trouble};

    #[test]
    fn codes_say_what_to_do_next() {
        for (code, kind, trouble) in [
            ("BlobNotFound", ErrorKind::NotFound, Trouble::Other),
            ("ContainerNotFound", ErrorKind::NotFound, Trouble::NoBucket),
            ("BlobAlreadyExists", ErrorKind::Changed, Trouble::Other),
            ("PathAlreadyExists", ErrorKind::Changed, Trouble::Other),
            ("SourcePathNotFound", ErrorKind::NotFound, Trouble::Other),
            ("FilesystemNotFound", ErrorKind::NotFound, Trouble::NoBucket),
            ("ConditionNotMet", ErrorKind::Changed, Trouble::Other),
            ("InvalidBlockList", ErrorKind::Changed, Trouble::Other),
            ("AuthenticationFailed", ErrorKind::Denied, Trouble::BadCredentials),
            ("LeaseIdMissing", ErrorKind::Denied, Trouble::Denied),
            ("ServerBusy", TRANSIENT, Trouble::Busy),
            ("BlobArchived", ErrorKind::Archived, Trouble::Archived),
            ("BlobBeingRehydrated", ErrorKind::Archived, Trouble::Archived),
        ] {
            assert_eq!(kind_of_code(code), Some((kind, trouble)), "{code}");
        }
        assert_eq!(kind_of_code("SomethingNew"), None);
    }

    #[test]
    fn an_error_does_not_repeat_what_was_signed() {
        let message = "Server failed to authenticate.\nRequestId:1\nsignature was 'hush'";
        assert_eq!(first_line(message), "Server failed to authenticate.");
    }
}
