//! Calls and requests that wait, a line each. Pure.

use base::printable;
use mount::{CallStatus, RequestStatus};

/// A call, the program that waits, and the request that it waits for.
pub(super) fn call(call: &CallStatus) -> String {
    let CallStatus { operation, path, pid, program, secs, request, .. } = call;
    let program = if program.is_empty() { "process".into() } else { printable(program) };
    let request = request.as_ref().map(|request| format!(", for {}", printable(request)));
    let (path, request) = (printable(path), request.unwrap_or_default());
    format!("{secs:>5.0} s  {operation} of {path} by {program} ({pid}){request}")
}

/// A request and why its last try failed.
pub(super) fn request(request: &RequestStatus) -> String {
    let RequestStatus { bucket, kind, key, secs, failed, reason } = request;
    let key = if key.is_empty() { String::new() } else { format!(" {}", printable(key)) };
    let tries = match (failed, reason) {
        (0, _) => String::new(),
        (failed, Some(reason)) => format!("; {failed} failed: {}", printable(reason)),
        (failed, None) => format!("; {failed} failed"),
    };
    format!("{secs:>5.0} s  {kind}{key} in {bucket}{tries}")
}

#[cfg(test)]
mod tests {
    use mount::{CallStatus, RequestStatus};

    use super::{call, request};

    #[test]
    fn call_names_program_and_request() {
        let mut waiting = CallStatus {
            operation: "read".to_owned(),
            path: "data/a".to_owned(),
            pid: 7,
            program: "cat".to_owned(),
            uid: 0,
            secs: 12.4,
            request: Some("get data/a".to_owned()),
        };
        assert_eq!(call(&waiting), "   12 s  read of data/a by cat (7), for get data/a");
        waiting = CallStatus { program: String::new(), request: None, ..waiting };
        assert_eq!(call(&waiting), "   12 s  read of data/a by process (7)");
    }

    #[test]
    fn request_tells_why_its_last_try_failed() {
        let mut waiting = RequestStatus {
            bucket: "s3/b".to_owned(),
            kind: "list".to_owned(),
            key: String::new(),
            secs: 3.0,
            failed: 0,
            reason: None,
        };
        assert_eq!(request(&waiting), "    3 s  list in s3/b");
        let (key, reason) = ("data/".to_owned(), Some("SlowDown: words".to_owned()));
        waiting = RequestStatus { key, reason, failed: 2, ..waiting };
        let want = "    3 s  list data/ in s3/b; 2 failed: SlowDown: words";
        assert_eq!(request(&waiting), want);
    }
}
