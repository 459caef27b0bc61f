//! Calls and requests that wait for longer than is usual: with a store that is silent every program hangs, and nothing
//! fails before the deadline. Pure.

use std::time::Duration;

use base::Timing;
use remote::Asked;

use crate::in_flight::told;
use crate::status::CallStatus;

/// A call that waits for longer is reported, unless its operation waits for uploads or copies.
const CALL_TIME_MAX: Duration = Duration::from_secs(5);

/// A store that says nothing for longer, while it is asked for something, is reported.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A store that copies or joins objects may say nothing for so long.
const WORKING_SILENCE_MAX: Duration = Duration::from_mins(2);

/// No network that is of use is slower: bytes that are sent may take so long.
const SLOWEST_BYTES_PER_SECOND: u64 = 128 << 10;

/// Describes the calls that wait for too long, if there are any; `calls` has the oldest first.
pub(crate) fn calls(calls: &[CallStatus]) -> Option<String> {
    let is_overdue =
        |call: &&CallStatus| is_prompt(&call.operation) && CALL_TIME_MAX.as_secs_f64() < call.secs;
    let overdue: Vec<&CallStatus> = calls.iter().filter(is_overdue).collect();
    let oldest = overdue.first()?;
    let count = match overdue.len() {
        1 => "a call of a program waits".to_owned(),
        count => format!("{count} calls of programs wait, the oldest"),
    };
    let CallStatus { operation, path, pid, program, secs, request, .. } = oldest;
    let program = if program.is_empty() { "process" } else { program };
    let request = request.as_ref().map(|request| format!(" (request: {request})"));
    let request = request.unwrap_or_default();
    Some(format!("{count} for {secs:.0} s: {operation} of {path} by {program} ({pid}){request}"))
}

/// Describes the silence of the store of `bucket`, if it is too long: `requests` has the oldest first, `all` is their
/// number, and the store last answered at `answered`.
pub(crate) fn store(
    bucket: &str,
    (requests, all): (&[Asked], u64),
    (answered, now): (Duration, Duration),
) -> Option<String> {
    let silence = |asked: &Asked| now.saturating_sub(asked.begun.max(answered));
    let oldest = requests.iter().find(|asked| silence_max(asked) < silence(asked))?;
    let (secs, request) = (silence(oldest).as_secs(), told(oldest.kind, &oldest.key.to_string()));
    let requests =
        if all == 1 { "1 request waits".to_owned() } else { format!("{all} requests wait") };
    let why =
        oldest.failure.as_ref().map(|why| format!("; its last try: {why}")).unwrap_or_default();
    Some(format!("{bucket} has not answered for {secs} s: {requests}, such as {request}{why}"))
}

/// Whether an operation is answered at once where the store is well.
fn is_prompt(operation: &str) -> bool {
    const PROMPT: [Timing; 13] = [
        Timing::Lookup,
        Timing::GetAttr,
        Timing::ReadLink,
        Timing::MkNod,
        Timing::MkDir,
        Timing::SymLink,
        Timing::Open,
        Timing::Read,
        Timing::OpenDir,
        Timing::ReadDir,
        Timing::StatFs,
        Timing::GetXattr,
        Timing::ListXattr,
    ];
    PROMPT.iter().any(|timing| timing.name() == operation)
}

fn silence_max(asked: &Asked) -> Duration {
    let works =
        matches!(asked.kind, Timing::StoreCopy | Timing::StorePartCopy | Timing::StoreComplete);
    let time = if works { WORKING_SILENCE_MAX } else { SILENCE_MAX };
    time + Duration::from_secs(asked.bytes / SLOWEST_BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Timing;
    use remote::{Asked, Key};

    use super::{calls, store};
    use crate::status::CallStatus;

    fn call(operation: &str, secs: f64) -> CallStatus {
        CallStatus {
            operation: operation.to_owned(),
            path: "data/a".to_owned(),
            pid: 7,
            program: "cat".to_owned(),
            uid: 1000,
            secs,
            request: Some("get data/a".to_owned()),
        }
    }

    #[test]
    fn overdue_calls_are_described_by_the_oldest() {
        let text = "for 12 s: read of data/a by cat (7) (request: get data/a)";
        let want = format!("a call of a program waits {text}");
        let waiting = [call("fsync", 90.0), call("read", 12.0), call("read", 4.0)];
        assert_eq!(calls(&waiting), Some(want));
        let want = format!("2 calls of programs wait, the oldest {text}");
        assert_eq!(calls(&[call("read", 12.0), call("open", 6.0)]), Some(want));
        assert_eq!(calls(&[call("read", 5.0), call("flush", 50.0)]), None);
        assert_eq!(calls(&[]), None);
    }

    #[test]
    fn silent_store_is_reported_after_its_time() {
        let at = Duration::from_secs;
        let asked = |kind, bytes, begun| {
            let key = Key::from("data/a");
            Asked { kind, key, bytes, begun: at(begun), failed: 0, failure: None }
        };
        let get = asked(Timing::StoreGet, 0, 100);
        let put = asked(Timing::StorePut, 1 << 20, 100);
        let copy = asked(Timing::StoreCopy, 0, 100);
        for (asked, answered, now, want) in [
            (&get, 0, 110, None),
            (&get, 0, 111, Some(11)),
            (&get, 105, 111, None),
            (&get, 105, 116, Some(11)),
            (&put, 0, 118, None),
            (&put, 0, 119, Some(19)),
            (&copy, 0, 219, None),
            (&copy, 0, 221, Some(121)),
        ] {
            let said = store("s3/b", (std::slice::from_ref(asked), 1), (at(answered), at(now)));
            let kind = asked.kind.name();
            let want = want.map(|secs| {
                format!(
                    "s3/b has not answered for {secs} s: 1 request waits, such as {kind} data/a"
                )
            });
            assert_eq!(said, want);
        }
    }

    #[test]
    fn silence_is_that_of_the_first_request_that_waits_too_long() {
        let at = Duration::from_secs;
        let asked = |kind, begun, failure: Option<&str>| {
            let (key, failure) = (Key::from("k"), failure.map(str::to_owned));
            Asked { kind, key, bytes: 0, begun: at(begun), failed: 1, failure }
        };
        let requests =
            [asked(Timing::StoreCopy, 1, None), asked(Timing::StoreHead, 2, Some("timed out"))];
        let said = store("s3/b", (&requests, 9), (at(0), at(32)));
        let want = "s3/b has not answered for 30 s: 9 requests wait, such as head k; \
                    its last try: timed out";
        assert_eq!(said.as_deref(), Some(want));
    }
}
