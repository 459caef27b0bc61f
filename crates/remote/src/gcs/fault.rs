//! What Google's errors ask of the caller.

use crate::http::{Answer, kind_of_status, retry_after};
use crate::{Error, ErrorKind, Key, ProviderError, Trouble};

use super::json::Failed;

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// An error's words fit into this.
const WORDS_BYTES_MAX: usize = 64 << 10;

/// The error that an answer which is no success speaks of.
pub(super) async fn of_answer(op: &'static str, key: &Key, answer: Answer, now_secs: i64) -> Error {
    let status = answer.status();
    let wait = answer.header("retry-after").and_then(|header| retry_after(header, now_secs));
    let request_id = answer.header("x-guploader-uploadid").map(str::to_owned);
    // A body that does not come changes nothing of what the status says.
    let body = answer.bytes(WORDS_BYTES_MAX).await.unwrap_or_default();
    let failed = Failed::parse(&body);
    let (mut kind, trouble) = kind_of(status, &failed);
    if let ErrorKind::Transient { retry_after } = &mut kind {
        *retry_after = wait;
    }
    let code = failed.reason().map_or_else(|| format!("HTTP {status}"), str::to_owned);
    let message = failed.message().to_owned();
    Error::new(kind, op, key).because(ProviderError { code, message, request_id, trouble })
}

fn kind_of(status: u16, failed: &Failed) -> (ErrorKind, Trouble) {
    match (status, failed.reason()) {
        // Limits on how often are told as a lack of permission.
        (403, Some("rateLimitExceeded" | "userRateLimitExceeded")) => (TRANSIENT, Trouble::Busy),
        (403, Some("storageQuotaExceeded" | "quotaExceeded")) => (ErrorKind::Full, Trouble::Other),
        (400, Some("userProjectMissing" | "required")) => (ErrorKind::Denied, Trouble::Denied),
        (404, _) if failed.message().contains("bucket does not exist") => {
            (ErrorKind::NotFound, Trouble::NoBucket)
        }
        _ => kind_of_status(status),
    }
}

#[cfg(test)]
mod tests {
    use super::{TRANSIENT, kind_of};
    use crate::gcs::json::Failed;
    use crate::{ErrorKind, Trouble};

    #[test]
    fn reasons_say_what_to_do_next() {
        for (status, reason, message, kind, trouble) in [
            (403, "forbidden", "", ErrorKind::Denied, Trouble::Denied),
            (403, "rateLimitExceeded", "", TRANSIENT, Trouble::Busy),
            (400, "userProjectMissing", "", ErrorKind::Denied, Trouble::Denied),
            (401, "authError", "", ErrorKind::Denied, Trouble::BadCredentials),
            (404, "notFound", "No such object: b/a", ErrorKind::NotFound, Trouble::Other),
            (
                404,
                "notFound",
                "The specified bucket does not exist.",
                ErrorKind::NotFound,
                Trouble::NoBucket,
            ),
            (412, "conditionNotMet", "", ErrorKind::Changed, Trouble::Other),
            (429, "rateLimitExceeded", "", TRANSIENT, Trouble::Busy),
            (503, "backendError", "", TRANSIENT, Trouble::Busy),
        ] {
            let body =
                serde_json::json!({"error": {"message": message, "errors": [{"reason": reason}]}});
            let failed = Failed::parse(body.to_string().as_bytes());
            assert_eq!(kind_of(status, &failed), (kind, trouble), "{status} {reason}");
        }
    }
}
