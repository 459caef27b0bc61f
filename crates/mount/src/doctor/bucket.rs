//! The bucket: each call that a mount makes is tried on small objects of its own, which are removed again.

use std::sync::Arc;
use std::time::Duration;

use base::{ByteRange, Clock, Rng, SystemClock};
use bytes::Bytes;
use futures::{StreamExt, stream};
use remote::{
    Condition, ErrorKind, Key, ListRequest, Metadata, Original, PartCopies, PartNumber, PutOptions,
    Remote, Version,
};

use super::disk::per_second;
use super::finding::Finding;
use crate::assemble;
use crate::config::Config;

/// The objects that are made begin with this, and with a number that nobody else has.
const NAME: &str = ".quayfs-doctor-";

/// How the speed is measured: an object of so many bytes, read in ranges at a time.
const SPEED_BYTES: u64 = 16 << 20;
const RANGES: u64 = 4;

/// How often a small request is timed.
const LATENCY_TRIES: usize = 7;

/// A wait of more makes every first access of a file felt.
const LATENCY_GOOD: Duration = Duration::from_millis(150);

/// Signatures fail when the clock is 15 minutes off; times look wrong long before.
const CLOCK_GOOD_SECONDS: u64 = 5;
const CLOCK_MAX_SECONDS: u64 = 600;

/// What is tried, on what.
struct Trial {
    remote: Arc<dyn Remote>,
    clock: SystemClock,
    name: String,
}

pub(super) async fn look(config: &Config, patience: Duration, tell: &mut impl FnMut(Finding)) {
    let reached = assemble::reach(config, patience).await;
    let remote = match reached {
        Ok(remote) => remote,
        Err(error) => {
            tell(Finding::fail("bucket", error.to_string(), "nothing else of it can be tried"));
            return;
        }
    };
    tell(Finding::ok("bucket: list", format!("{} answers", config.location)));
    let name = format!("{NAME}{:016x}", Rng::from_entropy().id() >> 64);
    let trial = Trial { remote, clock: SystemClock::new(), name };
    tell(trial.latency().await);
    if let Some(version) = trial.write(tell).await {
        trial.conditions(&version, tell).await;
        trial.time(tell).await;
        trial.copy(&version, tell).await;
        trial.parts(&version, tell).await;
        trial.order(tell).await;
        trial.speed(tell).await;
    }
    tell(trial.remove().await);
}

impl Trial {
    fn key(&self, end: &str) -> Key {
        Key::from(format!("{}{end}", self.name).as_str())
    }

    async fn put(
        &self,
        end: &str,
        bytes: Vec<u8>,
        condition: Condition,
    ) -> remote::Result<Version> {
        let options = PutOptions { condition, metadata: Metadata::new() };
        self.remote.put(&self.key(end), Bytes::from(bytes), &options).await
    }

    async fn latency(&self) -> Finding {
        let mut took = Vec::new();
        for _ in 0..LATENCY_TRIES {
            let begun = self.clock.monotonic();
            match self.remote.head(&self.key("nothing")).await {
                Err(error) if error.kind != ErrorKind::NotFound => {
                    return denied(
                        "store: latency",
                        &error,
                        "allow s3:GetObject and s3:ListBucket",
                    );
                }
                Ok(_) | Err(_) => took.push(self.clock.monotonic().saturating_sub(begun)),
            }
        }
        took.sort_unstable();
        let median = took[took.len() / 2];
        let seen = format!("{:.1} ms for a small request", median.as_secs_f64() * 1000.0);
        if LATENCY_GOOD < median {
            let advice = "use a machine in the bucket's region";
            return Finding::warn("store: latency", seen, advice);
        }
        Finding::ok("store: latency", seen)
    }

    /// PUT and GET; the version that was written.
    async fn write(&self, tell: &mut impl FnMut(Finding)) -> Option<Version> {
        let bytes = self.name.as_bytes().to_vec();
        let version = match self.put("a", bytes.clone(), Condition::Always).await {
            Ok(version) => version,
            Err(error) => {
                let advice = "to write, allow s3:PutObject; a mount with these is read-only";
                tell(denied("bucket: put", &error, advice));
                return None;
            }
        };
        tell(Finding::ok("bucket: put", "a small object was written"));
        let range = ByteRange::new(0, bytes.len() as u64)?;
        let read = self.read("a", range, Some(&version)).await;
        tell(match read {
            Ok(read) if read == bytes => {
                Finding::ok("bucket: get", "and read, as the version that it is")
            }
            Ok(_) => Finding::fail("bucket: get", "other bytes came back", "do not use this store"),
            Err(error) => denied("bucket: get", &error, "allow s3:GetObject"),
        });
        Some(version)
    }

    async fn read(
        &self,
        end: &str,
        range: ByteRange,
        version: Option<&Version>,
    ) -> remote::Result<Vec<u8>> {
        let mut body = self.remote.get(&self.key(end), range, version).await?;
        let mut read = Vec::new();
        while let Some(chunk) = body.next().await {
            read.extend_from_slice(&chunk?);
        }
        Ok(read)
    }

    async fn conditions(&self, version: &Version, tell: &mut impl FnMut(Finding)) {
        let subject = "bucket: conditional put";
        let advice = "changes of others may be overwritten: let one machine write at a time";
        let bytes = self.name.as_bytes().to_vec();
        let again = self.put("a", bytes.clone(), Condition::Absent).await;
        let second = self.put("a", b"another version".to_vec(), Condition::Always).await;
        let stale = self.put("a", bytes.clone(), Condition::Is(version.clone())).await;
        let kept = match second {
            Ok(second) => self.put("a", bytes, Condition::Is(second)).await,
            Err(error) => Err(error),
        };
        let is_changed = |put: &remote::Result<Version>| {
            put.as_ref()
                .is_err_and(|error| matches!(error.kind, ErrorKind::Changed | ErrorKind::NotFound))
        };
        tell(match (is_changed(&again), is_changed(&stale), kept) {
            (true, true, Ok(_)) => Finding::ok(subject, "the store keeps to conditions"),
            (false, _, _) => {
                Finding::warn(subject, "an object that is there was overwritten", advice)
            }
            (_, false, _) => Finding::warn(subject, "another version was overwritten", advice),
            (_, _, Err(error)) => denied(subject, &error, "allow s3:PutObject with conditions"),
        });
    }

    /// What the store wrote down as the time of the object is its clock.
    async fn time(&self, tell: &mut impl FnMut(Finding)) {
        let written = self.put("c", b"now".to_vec(), Condition::Always).await;
        let ours = self.clock.wall().secs;
        let meta = match written {
            Ok(_) => self.remote.head(&self.key("c")).await,
            Err(error) => Err(error),
        };
        let Ok(meta) = meta else { return };
        let apart = ours.abs_diff(meta.modified.secs);
        let seen = format!("{apart} s from that of the store");
        let advice = "set the clock, with chrony or systemd-timesyncd";
        tell(if apart <= CLOCK_GOOD_SECONDS {
            Finding::ok("clock", seen)
        } else if apart <= CLOCK_MAX_SECONDS {
            Finding::warn("clock", seen, advice)
        } else {
            Finding::fail("clock", seen, advice)
        });
    }

    async fn copy(&self, version: &Version, tell: &mut impl FnMut(Finding)) {
        let (from, size) = (self.key("a"), self.name.len() as u64);
        // It was written again since, with the same bytes.
        let version = match self.remote.head(&from).await {
            Ok(meta) => meta.version,
            Err(_) => version.clone(),
        };
        let original = Original { key: &from, version: &version, size };
        let copied = self.remote.copy(original, &self.key("b"), &Condition::Always).await;
        tell(match copied {
            Ok(_) => Finding::ok("bucket: copy", "inside the store: renames are quick"),
            Err(error) => denied(
                "bucket: copy",
                &error,
                "renames need it: allow s3:GetObject and s3:PutObject",
            ),
        });
    }

    async fn parts(&self, version: &Version, tell: &mut impl FnMut(Finding)) {
        let subject = "bucket: upload in parts";
        let key = self.key("parts");
        let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
        let upload = match self.remote.upload_create(&key, &options).await {
            Ok(upload) => upload,
            Err(error) => {
                tell(denied(subject, &error, "large files need it: allow s3:PutObject"));
                return;
            }
        };
        let sent = self
            .remote
            .upload_part(&key, &upload, PartNumber(1), Bytes::from_static(b"a part"))
            .await;
        let from = self.key("a");
        let version = self.remote.head(&from).await.map_or(version.clone(), |meta| meta.version);
        let size = self.name.len() as u64;
        let original = Original { key: &from, version: &version, size };
        let copies = match (self.remote.personality().part_copies, ByteRange::new(0, size)) {
            (PartCopies::AnyRange { .. }, Some(range)) => {
                let copied = self
                    .remote
                    .upload_part_copy(&key, &upload, PartNumber(2), original, range)
                    .await;
                Some(copied.map(drop))
            }
            (PartCopies::None | PartCopies::OwnBlocks | PartCopies::WholeFirst, _) | (_, None) => {
                None
            }
        };
        let aborted = self.remote.upload_abort(&key, &upload).await;
        tell(match (sent, aborted) {
            (Ok(_), Ok(())) => Finding::ok(subject, "begun, and given up"),
            (Err(error), _) => denied(subject, &error, "allow s3:PutObject"),
            (_, Err(error)) => denied(subject, &error, "allow s3:AbortMultipartUpload"),
        });
        tell(match copies {
            Some(Ok(())) => {
                Finding::ok("bucket: copy of parts", "edits of large files send what changed")
            }
            Some(Err(error)) => {
                denied("bucket: copy of parts", &error, "edits of large files send all of them")
            }
            None => Finding::ok("bucket: copy of parts", "not by ranges in this kind of store"),
        });
    }

    async fn order(&self, tell: &mut impl FnMut(Finding)) {
        let subject = "bucket: order of listings";
        let request = ListRequest {
            prefix: self.key(""),
            delimited: false,
            start_after: None,
            continuation: None,
            entries_max: 10,
        };
        match self.remote.list(&request).await {
            Err(error) => tell(denied(subject, &error, "allow s3:ListBucket")),
            Ok(page) => {
                let keys: Vec<&Key> = page.entries.iter().map(remote::Entry::key).collect();
                let want = [self.key("a"), self.key("b"), self.key("c")];
                let has_first = keys.contains(&&want[0]);
                tell(if keys.is_sorted() && has_first {
                    Finding::ok(subject, "by key, and what was just written is in them")
                } else {
                    Finding::warn(
                        subject,
                        format!("{} entries, out of order or late", keys.len()),
                        "folders may be shown incomplete for a while",
                    )
                });
            }
        }
    }

    async fn speed(&self, tell: &mut impl FnMut(Finding)) {
        let subject = "store: speed";
        let bytes = vec![0x5a; usize::try_from(SPEED_BYTES).unwrap_or(0)];
        let begun = self.clock.monotonic();
        if let Err(error) = self.put("speed", bytes, Condition::Always).await {
            tell(denied(subject, &error, "allow s3:PutObject"));
            return;
        }
        let write = per_second(SPEED_BYTES, self.clock.monotonic().saturating_sub(begun));
        let begun = self.clock.monotonic();
        let all = ByteRange::new(0, SPEED_BYTES).expect("it is not empty");
        let reads = stream::iter(all.pieces(SPEED_BYTES / RANGES))
            .map(|range| self.read("speed", range, None))
            .buffer_unordered(4);
        let failed = reads.filter_map(|read| async move { read.err() }).collect::<Vec<_>>().await;
        let read = per_second(SPEED_BYTES, self.clock.monotonic().saturating_sub(begun));
        tell(match failed.first() {
            None => Finding::ok(
                subject,
                format!(
                    "sends {} MiB/s in one request, reads {} MiB/s in {RANGES}",
                    write >> 20,
                    read >> 20
                ),
            ),
            Some(error) => denied(subject, error, "try again"),
        });
    }

    /// Removes what was made, whatever was not.
    async fn remove(&self) -> Finding {
        let mut failed = None;
        for end in ["a", "b", "c", "speed"] {
            failed = self.remote.delete(&self.key(end)).await.err().or(failed);
        }
        match failed {
            None => Finding::ok("bucket: delete", "what was tried is removed"),
            Some(error) => {
                let advice =
                    format!("allow s3:DeleteObject, and remove what begins with {}", self.name);
                denied("bucket: delete", &error, &advice)
            }
        }
    }
}

fn denied(subject: &'static str, error: &remote::Error, advice: &str) -> Finding {
    // Reading works without.
    if error.kind == ErrorKind::Denied && subject != "bucket: get" {
        return Finding::warn(subject, error.to_string(), advice);
    }
    Finding::fail(subject, error.to_string(), advice)
}
