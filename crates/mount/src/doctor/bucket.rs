//! The bucket: each call that a mount makes is tried on small objects of its own, which are removed again.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{ByteRange, Clock, Rng, SystemClock};
use bytes::Bytes;
use futures::{StreamExt, future, stream};
use parking_lot::Mutex;
use remote::{
    Capability, Condition, ErrorKind, Key, Learned, ListOrder, ListRequest, Metadata, Original,
    PartCopies, PartNumber, PartTag, PutOptions, Remote, UploadId, Version,
};

use super::capabilities;
use super::disk::per_second;
use super::finding::Finding;
use super::permission::{self, Right};
use crate::assemble;
use crate::config::{Changes, Config};
use crate::location::Location;

/// How the name of what is uploaded in parts ends: that of an object that is there.
const PARTS: &str = "a";

/// The objects that are made begin with this, and with a number that nobody else has.
const NAME: &str = ".quayfs-doctor-";

/// How the speed is measured: an object of so many bytes, read in ranges at a time.
const SPEED_BYTES: u64 = 16 << 20;
const RANGES: u64 = 4;

/// How long what is under way is waited for when somebody wants us to end.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

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
    learned: Arc<Learned>,
    location: Location,
    clock: SystemClock,
    name: String,
    /// An upload in parts that has to be given up yet.
    upload: Mutex<Option<UploadId>>,
    /// Whether somebody wants it to end.
    is_stopped: AtomicBool,
}

/// Tries all of it, or as much as there is time for until `stop`, and removes what it made.
pub(super) async fn look(
    config: &Config,
    patience: Duration,
    stop: impl Future<Output = ()>,
    tell: &mut impl FnMut(Finding),
) {
    let mut stop = pin!(stop);
    let reached = tokio::select! {
        biased;
        // Nothing was made yet.
        () = &mut stop => return,
        reached = assemble::reach(config, patience) => reached,
    };
    let (remote, learned) = match reached {
        Ok(reached) => reached,
        Err(error) => {
            tell(Finding::fail(
                "bucket",
                error.to_string(),
                "other checks of the bucket are skipped",
            ));
            return;
        }
    };
    tell(Finding::ok("bucket: list", format!("{} answers", config.location)));
    let name = format!("{NAME}{:016x}", Rng::from_entropy().id() >> 64);
    let (clock, is_stopped) = (SystemClock::new(), AtomicBool::new(false));
    let (upload, told) = (Mutex::default(), Arc::clone(&learned));
    let location = config.location.clone();
    let trial = Trial { remote, learned: told, location, clock, name, upload, is_stopped };
    tokio::select! {
        biased;
        () = &mut stop => return,
        latency = trial.latency() => tell(latency),
    }
    if config.changes == Changes::Refused {
        tell(Finding::ok("bucket: put", "not tried: the configuration is read-only"));
        tell(capabilities::look(config, &learned));
        return;
    }
    trial.try_until(stop, tell).await;
    tell(trial.remove().await);
    tell(capabilities::look(config, &learned));
}

/// What is tried, in this order, when there is an object to try it on.
#[derive(Clone, Copy, Debug)]
enum Step {
    Conditions,
    Time,
    Copy,
    Parts,
    Order,
    Speed,
}

const STEPS: [Step; 6] =
    [Step::Conditions, Step::Time, Step::Copy, Step::Parts, Step::Order, Step::Speed];

impl Trial {
    /// All that needs an object to try it on, or as much as there is time for until `stop`. What is under
    /// way then is waited for: an object or upload that the store makes after all is not known here otherwise,
    /// and would stay.
    async fn try_until(&self, stop: impl Future<Output = ()>, tell: &mut impl FnMut(Finding)) {
        let told = Mutex::new(tell);
        let mut changes = pin!(self.changes(|finding| told.lock()(finding)));
        tokio::select! {
            biased;
            () = stop => {}
            () = &mut changes => return,
        }
        self.is_stopped.store(true, Ordering::Relaxed);
        let seen = "told to end: what is under way is waited for, and removed";
        let whole = self.whole_name("");
        let advice = format!("if that is not said below, remove what begins with {whole}");
        told.lock()(Finding::warn("bucket", seen, advice));
        let late = self.clock.sleep(STOP_PATIENCE);
        tokio::select! {
            biased;
            () = changes => {}
            () = late => {}
        }
    }

    async fn changes(&self, mut tell: impl FnMut(Finding)) {
        let tell = &mut tell;
        let Some(version) = self.write(tell).await else { return };
        for step in STEPS {
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            match step {
                Step::Conditions => self.conditions(&version, tell).await,
                Step::Time => self.time(tell).await,
                Step::Copy => self.copy(&version, tell).await,
                Step::Parts => self.parts(&version, tell).await,
                Step::Order => self.order(tell).await,
                Step::Speed => self.speed(tell).await,
            }
        }
    }

    fn allow(&self, rights: &[Right]) -> String {
        permission::allow(&self.location, rights)
    }

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
                    let advice = self.allow(&[Right::Read, Right::List]);
                    return denied("store: latency", &error, &advice);
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
                let allow = self.allow(&[Right::Write]);
                let advice = format!("to write, {allow}; a mount with these is read-only");
                tell(denied("bucket: put", &error, &advice));
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
            Err(error) => denied("bucket: get", &error, &self.allow(&[Right::Read])),
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
        self.learned.learn_of_unmet(Capability::PutIfAbsent, &again);
        self.learned.learn_of_unmet(Capability::PutIfMatch, &stale);
        tell(match (is_changed(&again), is_changed(&stale), kept) {
            (true, true, Ok(_)) => Finding::ok(subject, "If-Match and If-None-Match work"),
            (false, _, _) => {
                Finding::warn(subject, "an object that is there was overwritten", advice)
            }
            (_, false, _) => Finding::warn(subject, "another version was overwritten", advice),
            (_, _, Err(error)) => {
                let advice = format!("{}, with conditions", self.allow(&[Right::Write]));
                denied(subject, &error, &advice)
            }
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
            Err(error) => {
                let allow = self.allow(&[Right::Read, Right::Write]);
                denied("bucket: copy", &error, &format!("renames need it: {allow}"))
            }
        });
    }

    async fn parts(&self, version: &Version, tell: &mut impl FnMut(Finding)) {
        let subject = "bucket: upload in parts";
        let key = self.key(PARTS);
        let options = PutOptions { condition: Condition::Always, metadata: Metadata::new() };
        let upload = match self.remote.upload_create(&key, &options).await {
            Ok(upload) => upload,
            Err(error) => {
                let advice = format!("large files need it: {}", self.allow(&[Right::Write]));
                tell(denied(subject, &error, &advice));
                return;
            }
        };
        *self.upload.lock() = Some(upload.clone());
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
        if let Some(copied) = &copies {
            self.learned.learn_of_call(Capability::PartCopy, copied);
        }
        if let Ok(tag) = &sent {
            self.conditions_of_parts(&key, &upload, tag, tell).await;
        }
        let aborted = self.give_up_parts().await;
        tell(match (sent, aborted) {
            (Ok(_), Ok(())) => Finding::ok(subject, "begun, and given up"),
            (Err(error), _) => denied(subject, &error, &self.allow(&[Right::Write])),
            (_, Err(error)) => denied(subject, &error, &self.allow(&[Right::Abort])),
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

    /// Ends an upload under conditions that do not hold.
    async fn conditions_of_parts(
        &self,
        key: &Key,
        upload: &UploadId,
        tag: &PartTag,
        tell: &mut impl FnMut(Finding),
    ) {
        let parts = [(PartNumber(1), tag.clone())];
        let other = self.remote.head(&self.key("c")).await.map(|meta| meta.version);
        let conditions = [
            (Capability::CompleteIfAbsent, Some(Condition::Absent)),
            (Capability::CompleteIfMatch, other.ok().map(Condition::Is)),
        ];
        let mut kept = true;
        for (capability, condition) in conditions {
            // An upload that was ended all the same has ended.
            let Some(condition) = condition.filter(|_| kept) else { continue };
            let ended = self.remote.upload_complete(key, upload, &parts, &condition).await;
            self.learned.learn_of_unmet(capability, &ended);
            kept = is_changed(&ended);
        }
        let subject = "bucket: conditional end of parts";
        tell(if kept {
            Finding::ok(subject, "If-Match and If-None-Match work")
        } else {
            let advice = "it is looked at before: what others write in that moment is replaced";
            Finding::warn(subject, "an object that is there was or would be replaced", advice)
        });
    }

    async fn order(&self, tell: &mut impl FnMut(Finding)) {
        let subject = "bucket: order of listings";
        if self.remote.personality().naming.order == ListOrder::Unsorted {
            tell(Finding::ok(subject, "none: folders are listed whole, and sorted here"));
            return;
        }
        let request = ListRequest {
            prefix: self.key(""),
            delimited: false,
            start_after: None,
            continuation: None,
            entries_max: 10,
        };
        match self.remote.list(&request).await {
            Err(error) => tell(denied(subject, &error, &self.allow(&[Right::List]))),
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
            tell(denied(subject, &error, &self.allow(&[Right::Write])));
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

    async fn give_up_parts(&self) -> remote::Result<()> {
        let Some(upload) = self.upload.lock().clone() else { return Ok(()) };
        self.remote.upload_abort(&self.key(PARTS), &upload).await?;
        *self.upload.lock() = None;
        Ok(())
    }

    /// Removes what was made, whatever was not.
    async fn remove(&self) -> Finding {
        let left = self.give_up_parts().await.err();
        let keys = ["a", "b", "c", "speed"].map(|end| self.key(end));
        let removed = future::join_all(keys.iter().map(|key| self.remote.delete(key))).await;
        let kept = removed.into_iter().find_map(Result::err);
        let mut needed = Vec::new();
        let mut what = Vec::new();
        if kept.is_some() {
            needed.push(Right::Delete);
            what.push(format!("what begins with {}", self.whole_name("")));
        }
        if left.is_some() {
            needed.push(Right::Abort);
            what.push(format!("the unfinished upload of {}", self.whole_name(PARTS)));
        }
        match kept.or(left) {
            None => Finding::ok("bucket: delete", "what was tried is removed"),
            Some(error) => {
                let advice = format!("{}, and remove {}", self.allow(&needed), what.join(" and "));
                denied("bucket: delete", &error, &advice)
            }
        }
    }

    /// Where the object is whose name ends so, as people look for it.
    fn whole_name(&self, end: &str) -> String {
        format!("{}/{}{end}", self.location, self.name)
    }
}

/// Whether a write was refused for its condition.
fn is_changed(written: &remote::Result<Version>) -> bool {
    written
        .as_ref()
        .is_err_and(|error| matches!(error.kind, ErrorKind::Changed | ErrorKind::NotFound))
}

fn denied(subject: &'static str, error: &remote::Error, advice: &str) -> Finding {
    // Reading works without.
    if error.kind == ErrorKind::Denied && subject != "bucket: get" {
        return Finding::warn(subject, error.to_string(), advice);
    }
    Finding::fail(subject, error.to_string(), advice)
}
