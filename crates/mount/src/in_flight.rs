//! Calls of programs and requests to stores that wait for an answer, as a report shows them.
//!
//! A call and a request do not know each other: the call names an inode, the request a key. They are brought together by
//! the path when a report is made, so that a call pays nothing for it.

use std::sync::Arc;
use std::time::Duration;

use base::{Ino, Oldest, Timing};
use remote::Asked;

use crate::process::Processes;
use crate::status::{CallStatus, InFlightStatus, RequestStatus};
use crate::users;
use crate::volume::Volume;
use crate::volumes::Volumes;

/// Calls, and requests of one bucket, that are reported. The others are counted.
const REPORTED_MAX: usize = 100;

/// Requests of one bucket among which that of a call is looked for.
const SEARCHED_MAX: usize = 1000;

/// A call that waits for its answer.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) timing: Timing,
    /// The node, or the folder of `name`.
    pub(crate) ino: Ino,
    pub(crate) name: Option<Vec<u8>>,
    /// The calling thread.
    pub(crate) thread: u32,
    pub(crate) uid: u32,
    pub(crate) begun: Duration,
}

/// The calls that wait for their answer.
pub(crate) type Calls = base::InFlight<Call>;

/// Requests of one bucket that wait.
struct Waiting {
    volume: Arc<Volume>,
    requests: Oldest<Asked>,
}

/// Reports the oldest of `calls`, and of the requests of all buckets, as they are at the time `now`.
pub(crate) fn report(calls: &Calls, volumes: &Volumes, now: Duration) -> InFlightStatus {
    let Oldest { entries, count } = calls.oldest(REPORTED_MAX, |call| call.begun);
    let waiting = volumes.all().into_iter().map(|volume| {
        let requests = volume.traffic.oldest(SEARCHED_MAX);
        Waiting { volume, requests }
    });
    let waiting: Vec<Waiting> = waiting.collect();
    let processes = Processes::default();
    let calls = entries.iter().map(|call| {
        let pid = processes.of(call.thread);
        let place = volumes.place(call.ino);
        let request = place.as_ref().and_then(|(volume, path)| {
            let waiting = waiting.iter().find(|waiting| Arc::ptr_eq(&waiting.volume, volume))?;
            let full = [volume.prefix.as_bytes(), &joined(path, call.name.as_deref())].concat();
            request_of(&full, &waiting.requests.entries)
        });
        CallStatus {
            operation: call.timing.name().to_owned(),
            path: base::spelled(&path_of(volumes, call.ino, call.name.as_deref())).into_owned(),
            pid,
            program: users::name(pid),
            uid: call.uid,
            secs: secs(now, call.begun),
            request: request.map(|asked| told(asked.kind, &asked.key.to_string())),
        }
    });
    let calls: Vec<CallStatus> = calls.collect();
    let requests_count = waiting.iter().map(|waiting| waiting.requests.count).sum();
    let mut requests: Vec<RequestStatus> =
        waiting.iter().flat_map(|waiting| waiting.report(now)).collect();
    requests.sort_by(|one, other| other.secs.total_cmp(&one.secs));
    InFlightStatus {
        oldest_call_secs: calls.first().map_or(0.0, |call| call.secs),
        calls_count: count,
        calls,
        oldest_request_secs: requests.first().map_or(0.0, |request| request.secs),
        requests_count,
        requests,
    }
}

/// The path in the mount of the entry `name` of `ino`, or of `ino` itself.
pub(crate) fn path_of(volumes: &Volumes, ino: Ino, name: Option<&[u8]>) -> Vec<u8> {
    let path = volumes.path(ino).unwrap_or_else(|| format!("inode-{}", ino.0).into_bytes());
    match joined(&path, name) {
        path if path.is_empty() => b".".to_vec(),
        path => path,
    }
}

/// A request in words: `list data/`.
pub(crate) fn told(kind: Timing, key: &str) -> String {
    format!("{} {key}", kind.name()).trim_end().to_owned()
}

impl Waiting {
    fn report(&self, now: Duration) -> impl Iterator<Item = RequestStatus> {
        let place = &self.volume.place;
        self.requests.entries.iter().take(REPORTED_MAX).map(move |asked| RequestStatus {
            bucket: place.clone(),
            kind: asked.kind.name().to_owned(),
            key: asked.key.to_string(),
            secs: secs(now, asked.begun),
            failed: asked.failed,
            reason: asked.failure.clone(),
        })
    }
}

/// The request for which a call about `path`, as keys have it, waits most likely: one for the very object, else one for
/// something below it, else a listing of the closest folder above.
fn request_of<'a>(path: &[u8], requests: &'a [Asked]) -> Option<&'a Asked> {
    requests
        .iter()
        .filter_map(|asked| Some((closeness(path, asked)?, asked)))
        .min_by_key(|(closeness, asked)| (*closeness, asked.begun))
        .map(|(_, asked)| asked)
}

/// How far a request is from `path`, less for closer ones; `None` if it is for something else.
fn closeness(path: &[u8], asked: &Asked) -> Option<usize> {
    let key = asked.key.as_bytes();
    let is_folder = path.is_empty() || path.ends_with(b"/");
    match key.strip_prefix(path) {
        Some([]) => Some(0),
        Some(below) if is_folder || below.starts_with(b"/") => Some(1),
        Some(_) | None => {
            let is_above = asked.kind == Timing::StoreList
                && (key.is_empty() || key.ends_with(b"/"))
                && path.starts_with(key);
            is_above.then(|| 2 + path.len() - key.len())
        }
    }
}

fn joined(path: &[u8], name: Option<&[u8]>) -> Vec<u8> {
    match name {
        None => path.to_vec(),
        Some(name) if path.is_empty() => name.to_vec(),
        Some(name) => [path, b"/", name].concat(),
    }
}

fn secs(now: Duration, begun: Duration) -> f64 {
    now.saturating_sub(begun).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Timing;
    use remote::{Asked, Key};

    use super::request_of;

    fn asked(kind: Timing, key: &str, begun: u64) -> Asked {
        let (key, begun) = (Key::from(key), Duration::from_secs(begun));
        Asked { kind, key, bytes: 0, begun, failed: 0, failure: None }
    }

    #[test]
    fn call_waits_for_the_closest_request() {
        let requests = [
            asked(Timing::StoreList, "", 0),
            asked(Timing::StoreList, "data/", 1),
            asked(Timing::StoreGet, "data/a", 2),
            asked(Timing::StoreGet, "data/ab", 3),
            asked(Timing::StoreList, "data/c/", 4),
            asked(Timing::StoreSmallGet, "data/c/.attributes", 3),
        ];
        for (path, want) in [
            ("data/a", Some("data/a")),
            ("data/ab", Some("data/ab")),
            ("data/b", Some("data/")),
            ("data/c", Some("data/c/.attributes")),
            ("other", Some("")),
            ("", Some("")),
        ] {
            let found = request_of(path.as_bytes(), &requests).map(|asked| asked.key.to_string());
            assert_eq!(found.as_deref(), want, "{path}");
        }
        assert_eq!(request_of(b"data/b", &requests[2..]), None);
    }
}
