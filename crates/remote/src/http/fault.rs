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
    /// The server's certificate is not believed.
    Untrusted(String),
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
        if is_untrusted(error) {
            return Failure::Untrusted(words);
        }
        if error.is_connect() { Failure::Unreachable(words) } else { Failure::Broken(words) }
    }

    /// What happened, in words that name nothing of the request.
    pub(crate) fn words(self) -> String {
        match self {
            Failure::Unreachable(words)
            | Failure::Untrusted(words)
            | Failure::Broken(words)
            | Failure::Malformed(words) => words,
            Failure::Timeout(words) => words.to_owned(),
            Failure::Page => "a page for people instead of an answer".to_owned(),
            Failure::TooLarge => "the answer is larger than an answer may be".to_owned(),
        }
    }

    /// What a person should look at.
    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            Failure::Unreachable(_) | Failure::Timeout(_) | Failure::Broken(_) => {
                Trouble::Unreachable
            }
            Failure::Page => Trouble::WebPage,
            Failure::Untrusted(_) => Trouble::Untrusted,
            Failure::TooLarge | Failure::Malformed(_) => Trouble::Other,
        }
    }

    /// The same as an error of a call.
    pub(crate) fn into_error(self, op: &'static str, key: &Key) -> Error {
        let trouble = self.trouble();
        let (kind, code) = match self {
            Failure::Unreachable(_) => (TRANSIENT, "ConnectionFailed"),
            Failure::Untrusted(_) => (TRANSIENT, "CertificateNotTrusted"),
            Failure::Timeout(_) => (TRANSIENT, "Timeout"),
            Failure::Broken(_) => (TRANSIENT, "ConnectionBroke"),
            Failure::Page => (TRANSIENT, "PageInstead"),
            Failure::TooLarge => (ErrorKind::Corrupt, "AnswerTooLarge"),
            Failure::Malformed(_) => (ErrorKind::Unsupported, "BadRequest"),
        };
        let (code, message) = (code.to_owned(), self.words());
        let said = ProviderError { code, message, request_id: None, trouble };
        Error::new(kind, op, key).because(said)
    }
}

/// Whether somewhere behind the error is a certificate that is not believed.
pub(crate) fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let is_certificate = matches!(
            error.downcast_ref::<rustls::Error>(),
            Some(rustls::Error::InvalidCertificate(_))
        );
        // One of the system's hides what it was made of from those who ask for its cause.
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if is_certificate || inside.is_some_and(|inside| is_untrusted(inside)) {
            return true;
        }
        next = error.source();
    }
    false
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
