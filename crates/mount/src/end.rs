//! The end of a mount: uploads what is left, for as long as that may help.
//!
//! The kernel has let go of the mount when this begins. A store that does not answer is asked again and again, until a
//! second signal, the limit that the user set, or a forced unmount ends the wait. So is one that refuses the credentials: they
//! may be renewed. An end that no process waits for, as
//! after `fusermount3 -u`, gives up by itself when nothing was uploaded for [`UNATTENDED_PATIENCE`]. What is then not
//! uploaded stays in the state folder for the next mount, and the caller tells so. Attributes alone are tried once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Clock;
use vfs::{Next, Pending, Unpublished};

use crate::recover_list::recover_list;
use crate::signals::{Requests, Wanted};
use crate::volumes::Volumes;

/// How long the end waits for uploads.
#[derive(Debug)]
pub(crate) struct EndPatience {
    /// The longest wait, if there is one.
    pub(crate) limit: Option<Duration>,
    /// Whether the mount was detached by force, by a user who does not want to wait for the store.
    pub(crate) is_forced: AtomicBool,
}

/// Whether a process waits for the end, such as a service manager or a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// A signal asked for the end: its sender can send a second one.
    Attended,
    /// The mount was detached from outside, or the command has ended that it was for.
    Unattended,
}

/// Uploads that remain at the end of a mount.
#[derive(Debug, Default)]
pub(crate) struct NotUploaded {
    /// Uploads that wait in the state folder.
    pub(crate) pending: Pending,
    /// Failures of the last try, with their reasons.
    pub(crate) failed: Vec<Unpublished>,
}

/// How often the end says how far it is.
const REPORT_DELAY: Duration = Duration::from_secs(1);

/// After so many reports the log has one.
const LOG_REPORTS: u64 = 30;

/// Reasons that the log has of one try.
const TOLD_MAX: usize = 10;

/// An unattended end gives up when no try has brought anything into the store for so long. A try is never cut short by
/// this: an upload that takes hours ends as it would with an attended end.
const UNATTENDED_PATIENCE: Duration = Duration::from_mins(10);

/// A file that another open file holds back is waited for so long: calls that came before the end may still be under way.
/// After that no program can close the other file any more.
const HELD_PATIENCE: Duration = Duration::from_secs(5);

/// The wait between two tries, the first and the longest: each try itself takes up to a deadline.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Uploads what is left, tells how far that is, and returns what could not be uploaded.
pub(crate) async fn end(
    volumes: &Volumes,
    clock: &dyn Clock,
    (requests, patience, attendance): (&Requests, &EndPatience, Attendance),
    mut tell: impl FnMut(&Pending),
) -> NotUploaded {
    volumes.stop();
    let too_long = async {
        match patience.limit {
            Some(limit) => clock.sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let mut failed = Vec::new();
    {
        let mut uploading =
            std::pin::pin!(upload(volumes, clock, (patience, attendance), &mut failed));
        let mut too_long = std::pin::pin!(too_long);
        let mut now = std::pin::pin!(requests.wanted(Wanted::Now));
        for second in 0_u64.. {
            let pending = volumes.pending();
            if 0 < second && second.is_multiple_of(LOG_REPORTS) {
                let Pending { files, bytes, changes, attributes, .. } = pending;
                tracing::info!(
                    files,
                    bytes,
                    changes,
                    attributes,
                    "the end of the mount waits for uploads"
                );
            }
            tell(&pending);
            tokio::select! {
                biased;
                () = &mut uploading => break,
                () = &mut now => {
                    tracing::warn!("asked to end a second time: not waiting for uploads");
                    break;
                }
                () = &mut too_long => {
                    tracing::warn!(limit = ?patience.limit, "the wait for uploads took too long");
                    break;
                }
                () = clock.sleep(REPORT_DELAY) => {}
            }
        }
    }
    volumes.settle();
    NotUploaded { pending: volumes.pending(), failed }
}

/// Uploads again and again while that may help; `failed` holds the failures of the last try.
async fn upload(
    volumes: &Volumes,
    clock: &dyn Clock,
    (patience, attendance): (&EndPatience, Attendance),
    failed: &mut Vec<Unpublished>,
) {
    let begun = clock.monotonic();
    let mut pause = PAUSE_MIN;
    let mut standstill = Standstill::begin(clock.monotonic(), &volumes.pending());
    loop {
        *failed = volumes.drain().await.into_all();
        // The end does not wait for attributes alone.
        let since = clock.monotonic().saturating_sub(begun);
        let helps = failed.iter().any(|failed| may_pass(failed.next, since));
        failed.extend(volumes.attributes_left());
        let lasts = standstill.lasts(clock.monotonic(), &volumes.pending());
        let is_forced = patience.is_forced.load(Ordering::Relaxed);
        match verdict(is_forced || !helps, attendance, lasts) {
            Verdict::End => return,
            Verdict::GiveUp => {
                tracing::warn!(?lasts, "nothing could be uploaded for too long after the unmount");
                return;
            }
            Verdict::TryAgain => {}
        }
        for file in failed.iter().take(TOLD_MAX) {
            tracing::warn!(
                reason = file.reason,
                "an upload failed at the end of the mount: trying again"
            );
        }
        clock.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Decision about the rest after all uploads were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The end: no more tries are wanted, or none helps.
    End,
    /// The end, since no process waits and the store took nothing for too long.
    GiveUp,
    /// Another try of each upload.
    TryAgain,
}

/// Decides what follows if the store took nothing while the end `lasts`.
fn verdict(is_last: bool, attendance: Attendance, lasts: Duration) -> Verdict {
    match attendance {
        _ if is_last => Verdict::End,
        Attendance::Unattended if UNATTENDED_PATIENCE <= lasts => Verdict::GiveUp,
        Attendance::Attended | Attendance::Unattended => Verdict::TryAgain,
    }
}

/// Time since the last upload.
#[derive(Debug)]
struct Standstill {
    since: Duration,
    waits: u64,
}

impl Standstill {
    fn begin(now: Duration, pending: &Pending) -> Standstill {
        Standstill { since: now, waits: waits(pending) }
    }

    /// How long nothing was uploaded, if `pending` still waits at `now`.
    fn lasts(&mut self, now: Duration, pending: &Pending) -> Duration {
        let waits = waits(pending);
        if waits < self.waits {
            self.since = now;
        }
        self.waits = waits;
        now.saturating_sub(self.since)
    }
}

/// How much waits, as one number.
fn waits(pending: &Pending) -> u64 {
    let Pending { files, changes, attributes, .. } = *pending;
    files + changes + attributes
}

impl EndPatience {
    pub(crate) fn new(limit: Option<Duration>) -> Arc<EndPatience> {
        Arc::new(EndPatience { limit, is_forced: AtomicBool::new(false) })
    }
}

impl NotUploaded {
    /// How much of what, such as `2 files (512 bytes)`, of a mount with the state folder `dir`.
    pub(crate) fn words(&self, dir: &Path) -> String {
        let Pending { files, bytes, changes, attributes, .. } = self.pending;
        let counted = |count: u64, one: &str, many: &str| {
            format!("{count} {}", if count == 1 { one } else { many })
        };
        let parts = [
            (files, format!("{} ({bytes} bytes)", counted(files, "file", "files"))),
            (changes, counted(changes, "change of a name", "changes of names")),
            (attributes, format!("attributes of {}", counted(attributes, "name", "names"))),
            (
                self.lost() as u64,
                format!(
                    "{} that another client changed or removed first (see `{}`)",
                    counted(self.lost() as u64, "file", "files"),
                    recover_list(dir)
                ),
            ),
        ];
        let parts = parts.into_iter().filter(|(count, _)| 0 < *count).map(|(_, words)| words);
        let words = parts.collect::<Vec<_>>().join(", ");
        let undone = || self.failed.iter().map(|failed| failed.reason.clone()).next();
        if words.is_empty() { undone().unwrap_or_default() } else { words }
    }

    /// Whether everything was uploaded.
    pub(crate) fn is_empty(&self) -> bool {
        let Pending { files, changes, attributes, .. } = self.pending;
        self.failed.is_empty() && (files, changes, attributes) == (0, 0, 0)
    }

    /// How many files lost to a version of another client: their bytes are in the recovery folder.
    pub(crate) fn lost(&self) -> usize {
        self.failed.iter().filter(|failed| failed.next == Next::Lost).count()
    }
}

/// Whether one more try may help, so long after the kernel has let go of the mount.
fn may_pass(next: Next, since: Duration) -> bool {
    match next {
        Next::TryAgain => true,
        Next::Wait => since < HELD_PATIENCE,
        Next::Refused | Next::Lost | Next::MakeAgain => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use vfs::{Next, Pending, Unpublished};

    use super::{Attendance, NotUploaded, Standstill, Verdict, may_pass, verdict};

    fn failed(next: Next) -> Unpublished {
        Unpublished { reason: "why".to_owned(), next, news: None }
    }

    #[test]
    fn only_what_may_go_well_is_tried_again() {
        for (next, since_secs, want) in [
            (Next::TryAgain, 0, true),
            (Next::TryAgain, 600, true),
            (Next::Wait, 4, true),
            (Next::Wait, 5, false),
            (Next::Refused, 0, false),
            (Next::Lost, 0, false),
            (Next::MakeAgain, 0, false),
        ] {
            let may = may_pass(next, Duration::from_secs(since_secs));
            assert_eq!(may, want, "{next:?} {since_secs}");
        }
    }

    #[test]
    fn unattended_end_gives_up_after_ten_minutes() {
        use Attendance::{Attended, Unattended};
        for (is_last, attendance, lasts_secs, want) in [
            (true, Attended, 0, Verdict::End),
            (true, Unattended, 600, Verdict::End),
            (false, Attended, 86_400, Verdict::TryAgain),
            (false, Unattended, 599, Verdict::TryAgain),
            (false, Unattended, 600, Verdict::GiveUp),
        ] {
            let given = verdict(is_last, attendance, Duration::from_secs(lasts_secs));
            assert_eq!(given, want, "{is_last} {attendance:?} {lasts_secs}");
        }
    }

    #[test]
    fn a_standstill_begins_anew_with_each_upload() {
        let pending = |files| Pending { files, ..Pending::default() };
        let at = Duration::from_secs;
        let mut standstill = Standstill::begin(at(5), &pending(3));
        for (now, files, want) in [(10, 3, 5), (60, 3, 55), (70, 2, 0), (90, 2, 20), (95, 0, 0)] {
            assert_eq!(standstill.lasts(at(now), &pending(files)), at(want), "{now} {files}");
        }
    }

    #[test]
    fn words_tell_what_is_left_and_nothing_else() {
        let check = |pending: Pending, nexts: &[Next], want: &str| {
            let failed = nexts.iter().map(|next| failed(*next)).collect();
            let left = NotUploaded { pending, failed };
            let words = left.words(Path::new("/c"));
            assert_eq!((words, left.is_empty()), (want.to_owned(), want.is_empty()));
        };
        check(Pending::default(), &[], "");
        let files = Pending { files: 2, bytes: 512, ..Pending::default() };
        check(files, &[Next::TryAgain], "2 files (512 bytes)");
        let names = Pending { changes: 1, attributes: 3, ..Pending::default() };
        check(names, &[], "1 change of a name, attributes of 3 names");
        let lost = "1 file that another client changed or removed first \
                    (see `quayfs recover --list --cache-dir /c`)";
        check(Pending::default(), &[Next::Lost], lost);
        check(Pending::default(), &[Next::MakeAgain], "why");
    }
}
