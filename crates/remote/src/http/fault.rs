//! What went wrong on the way, and what a status asks of the caller.

use std::time::Duration;

use super::text::parse_http_date;
use crate::{Error, ErrorKind, Key, ProviderError, Trouble};

const TRANSIENT: ErrorKind = ErrorKind::Transient { retry_after: None };

/// No answer, or one that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server could not be reached.
    Unreachable(String),
    /// Something took too long.
    Timeout(&'static str),
    /// The connection broke.
    Broken(String),
    /// Something in between answered, with a page for people.
    Page,
    /// More came than was wanted.
    TooLarge,
    /// The request cannot be said in HTTP.
    Malformed(String),
}

impl Failure {
    pub(super) fn of_client(error: &hyper_util::client::legacy::Error) -> Failure {
        let words = chain(error);
        if error.is_connect() { Failure::Unreachable(words) } else { Failure::Broken(words) }
    }

    /// What happened, in words that name nothing of the request.
    pub(crate) fn words(self) -> String {
        match self {
            Failure::Unreachable(words) | Failure::Broken(words) | Failure::Malformed(words) => {
                words
            }
            Failure::Timeout(words) => words.to_owned(),
            Failure::Page => "a page for people instead of an answer".to_owned(),
            Failure::TooLarge => "the answer is larger than an answer may be".to_owned(),
        }
    }

    /// The same as an error of a call.
    pub(crate) fn into_error(self, op: &'static str, key: &Key) -> Error {
        let (kind, code, trouble) = match self {
            Failure::Unreachable(_) => (TRANSIENT, "ConnectionFailed", Trouble::Unreachable),
            Failure::Timeout(_) => (TRANSIENT, "Timeout", Trouble::Unreachable),
            Failure::Broken(_) => (TRANSIENT, "ConnectionBroke", Trouble::Unreachable),
            Failure::Page => (TRANSIENT, "PageInstead", Trouble::Unreachable),
            Failure::TooLarge => (ErrorKind::Corrupt, "AnswerTooLarge", Trouble::Other),
            Failure::Malformed(_) => (ErrorKind::Unsupported, "BadRequest", Trouble::Other),
        };
        let (code, message) = (code.to_owned(), self.words());
        let said = ProviderError { code, message, request_id: None, trouble };
        Error::new(kind, op, key).because(said)
    }
}

/// The error and what caused it, on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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

/// What a status asks of the caller, where the store's own code says no more.
pub(crate) fn kind_of_status(status: u16) -> (ErrorKind, Trouble) {
    match status {
        404 => (ErrorKind::NotFound, Trouble::Other),
        412 => (ErrorKind::Changed, Trouble::Other),
        401 => (ErrorKind::Denied, Trouble::BadCredentials),
        403 => (ErrorKind::Denied, Trouble::Denied),
        301 | 302 | 307 | 308 => (ErrorKind::Denied, Trouble::WrongRegion),
        507 => (ErrorKind::Full, Trouble::Other),
        400 | 405 | 411 | 413 | 414 | 416 | 501 => (ErrorKind::Unsupported, Trouble::Other),
        429 | 503 => (TRANSIENT, Trouble::Busy),
        408 | 409 | 425 | 500..=599 => (TRANSIENT, Trouble::Other),
        // A page under a good status that is no answer: something between us and the store spoke.
        _ => (TRANSIENT, Trouble::Other),
    }
}

/// How long a `Retry-After` asks to wait: in seconds, or until a date that is compared with now.
pub(crate) fn retry_after(header: &str, now_secs: i64) -> Option<Duration> {
    let header = header.trim();
    let seconds = header.parse::<u64>().ok().or_else(|| {
        let until = parse_http_date(header)?.secs;
        u64::try_from(until.saturating_sub(now_secs).max(0)).ok()
    })?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{TRANSIENT, kind_of_status, retry_after};
    use crate::ErrorKind;

    #[test]
    fn a_status_says_what_to_do_next() {
        for (status, kind) in [
            (400, ErrorKind::Unsupported),
            (401, ErrorKind::Denied),
            (403, ErrorKind::Denied),
            (404, ErrorKind::NotFound),
            (408, TRANSIENT),
            (412, ErrorKind::Changed),
            (429, TRANSIENT),
            (503, TRANSIENT),
            (507, ErrorKind::Full),
            (599, TRANSIENT),
        ] {
            assert_eq!(kind_of_status(status).0, kind, "{status}");
        }
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (header, want) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            (date, Some(37)),
            ("soon", None),
            ("-1", None),
            ("99999999999999999999", None),
        ] {
            let got = retry_after(header, 784_111_740);
            assert_eq!(got, want.map(Duration::from_secs), "{header}");
        }
        assert_eq!(retry_after(date, 784_111_900), Some(Duration::ZERO));
    }
}
