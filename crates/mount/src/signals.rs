//! Signals of a daemon: which of them end it, and which leave it alone.
//!
//! The default action of most signals is to end a process at once, which leaves a dead mount point. Programs of service
//! managers, terminals and users send them for other reasons: `HUP` when a terminal closes or a log was rotated, `USR1`
//! from the notice of a batch system. So each signal that can be handled has a handler, but for those that report a crash.
//!
//! ```text
//!            TERM, INT, QUIT             the same signal, REPEAT_DELAY later
//!   Serve ────────────────────▶ Orderly ───────────────────────────────────▶ Now
//!                                  ▲ │
//!                                  └─┘ repeats within REPEAT_DELAY: timeout(1) sends each signal twice
//! ```

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::Clock;
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

/// The end that a mount was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// None.
    Serve,
    /// The usual one, which waits for uploads.
    Orderly,
    /// An end that waits for nothing.
    Now,
}

/// The effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A request to end.
    End,
    /// A request to end, which the daemon of a `quayfs run` follows when that has ended.
    EndWithStarter,
    /// A request to open log files again and to read the configuration again.
    Reload,
    /// None.
    Nothing,
}

/// Signals that ask a process to end. `XCPU` comes some time before a limit of the processor time ends it.
const ENDS: [Number; 4] = [Number::TERM, Number::INT, Number::QUIT, Number::XCPU];

/// Signals that do nothing. `TSTP`, `TTIN` and `TTOU` would stop the daemon, and with it each program that uses the mount.
const IGNORED: [Number; 11] = [
    Number::USR1,
    Number::USR2,
    Number::ALARM,
    Number::VTALARM,
    Number::PROF,
    Number::IO,
    Number::POWER,
    Number::STKFLT,
    Number::TSTP,
    Number::TTIN,
    Number::TTOU,
];

/// A second request to end counts if it comes so long after the first.
const REPEAT_DELAY: Duration = Duration::from_secs(1);

/// How often the daemon of a `quayfs run` looks whether that has ended.
const STARTER_DELAY: Duration = Duration::from_secs(1);

/// Signals that this process handles, for as long as it lives.
pub(crate) struct Signals(Vec<(Meaning, Signal)>);

/// Requests that signals have made.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    /// The end that is wanted.
    pub(crate) end: watch::Receiver<Wanted>,
    /// A single permit for all requests to reload that were not followed yet.
    pub(crate) reload: Arc<Notify>,
}

impl Signals {
    /// Handles signals from now on. `starter` is the `quayfs run` that the mount is for, if it is for one.
    ///
    /// Needs the context of a runtime.
    pub(crate) fn listen(starter: Option<u32>) -> Signals {
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        let ends = ENDS.iter().map(|number| (end(*number, starter), number.as_raw()));
        let ignored = IGNORED.iter().map(|number| number.as_raw()).chain(real_time);
        let ignored = ignored.map(|number| (Meaning::Nothing, number));
        // A job control system sends HUP to all processes of a job, and the mount belongs to one of them.
        let hangup = if starter.is_some() { Meaning::Nothing } else { Meaning::Reload };
        let hangup = (hangup, Number::HUP.as_raw());
        let all = ends.chain(ignored).chain([hangup]);
        let listening = all.filter_map(|(meaning, number)| {
            let listened = signal(SignalKind::from_raw(number));
            let warn = |error: &std::io::Error| {
                tracing::warn!(number, %error, "a signal would end this process at once");
            };
            Some((meaning, listened.inspect_err(warn).ok()?))
        });
        Signals(listening.collect())
    }

    /// The effect of the next signal.
    async fn next(&mut self) -> Meaning {
        poll_fn(|context| {
            let came = self.0.iter_mut().find_map(|(meaning, signal)| {
                signal.poll_recv(context).is_ready().then_some(*meaning)
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Turns signals into requests, on the runtime whose context this is called in.
    pub(crate) fn heed(self, clock: Arc<dyn Clock>, starter: Option<u32>) -> Requests {
        let (wanted, end) = watch::channel(Wanted::Serve);
        let reload = Arc::new(Notify::new());
        let requests = Requests { end, reload: Arc::clone(&reload) };
        tokio::spawn(heed(self, (clock, starter), (wanted, reload)));
        requests
    }
}

impl Requests {
    /// Returns when an end of at least this kind is wanted.
    pub(crate) async fn wanted(&self, least: Wanted) {
        let mut end = self.end.clone();
        if end.wait_for(|wanted| least <= *wanted).await.is_err() {
            // The runtime ends, and with it whatever waits here.
            std::future::pending::<()>().await;
        }
    }
}

/// The effect of a signal that asks to end. TERM and INT come to all processes of a job when it is stopped, and the command
/// of a `quayfs run` needs its mount until it has ended; QUIT is sent by that `quayfs run` itself.
fn end(number: Number, starter: Option<u32>) -> Meaning {
    match (starter, number) {
        (None, _) | (Some(_), Number::QUIT) => Meaning::End,
        (Some(_), _) => Meaning::EndWithStarter,
    }
}

async fn heed(
    mut signals: Signals,
    (clock, starter): (Arc<dyn Clock>, Option<u32>),
    (wanted, reload): (watch::Sender<Wanted>, Arc<Notify>),
) {
    let (mut ends, mut starter) = (Ends::default(), Starter::of(starter));
    loop {
        let meaning = tokio::select! {
            meaning = signals.next() => meaning,
            () = clock.sleep(STARTER_DELAY), if matches!(starter, Starter::Awaits(_)) => Meaning::EndWithStarter,
        };
        let is_end = match meaning {
            Meaning::Nothing => false,
            Meaning::Reload => {
                reload.notify_one();
                false
            }
            Meaning::EndWithStarter => starter.asked(ends.0.is_some()),
            Meaning::End => true,
        };
        if is_end {
            wanted.send_replace(ends.requested(clock.monotonic()));
        }
    }
}

/// The `quayfs run` that a mount is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starter {
    /// A running process, with this number.
    Runs(u32),
    /// A running process, with this number, with which the mount ends.
    Awaits(u32),
    /// No process: it has ended, or there never was one.
    Gone,
}

impl Starter {
    fn of(starter: Option<u32>) -> Starter {
        starter.map_or(Starter::Gone, Starter::Runs)
    }

    /// Whether a request that is followed when the starter has ended is a request to end now. The kernel makes one when the
    /// starter ends, which counts for nothing if the mount `is_ending`.
    fn asked(&mut self, is_ending: bool) -> bool {
        match *self {
            Starter::Gone => true,
            Starter::Runs(process) | Starter::Awaits(process) if is_parent(process) => {
                if let Starter::Runs(_) = self {
                    tracing::info!(
                        "asked to end while the command runs that the mount is for: staying as long"
                    );
                }
                *self = if is_ending { Starter::Runs(process) } else { Starter::Awaits(process) };
                false
            }
            Starter::Runs(_) | Starter::Awaits(_) => {
                *self = Starter::Gone;
                !is_ending
            }
        }
    }
}

/// When an end was first asked for, if it was.
#[derive(Debug, Default)]
struct Ends(Option<Duration>);

impl Ends {
    /// The end that is wanted after one more request at `now`.
    fn requested(&mut self, now: Duration) -> Wanted {
        let first = *self.0.get_or_insert(now);
        if first + REPEAT_DELAY <= now { Wanted::Now } else { Wanted::Orderly }
    }
}

/// Whether the process of this number has started this one, and lives.
fn is_parent(process: u32) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    parent.and_then(|parent| u32::try_from(parent).ok()) == Some(process)
}

/// The signals that ask a command to end. From when they are listened to they do not end it themselves.
pub(crate) struct EndSignals([Signal; 2]);

impl EndSignals {
    pub(crate) fn listen() -> EndSignals {
        let listen = |kind| signal(kind).expect("signals can be listened to");
        EndSignals([SignalKind::terminate(), SignalKind::interrupt()].map(listen))
    }

    /// When one has come.
    pub(crate) async fn received(self) {
        let EndSignals([mut terminate, mut interrupt]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::Signal;

    use super::{Ends, Meaning, Wanted, end};

    #[test]
    fn a_second_request_waits_for_nothing_unless_it_comes_at_once() {
        for (requests, want) in [
            (&[0][..], Wanted::Orderly),
            (&[0, 1, 900], Wanted::Orderly),
            (&[0, 1000], Wanted::Now),
            (&[5000, 5001, 60_000], Wanted::Now),
        ] {
            let mut ends = Ends::default();
            let wanted = requests.iter().map(|&at| ends.requested(Duration::from_millis(at)));
            assert_eq!(wanted.last(), Some(want), "{requests:?}");
        }
    }

    #[test]
    fn a_mount_of_a_command_outlives_the_signals_of_its_job() {
        for number in [Signal::TERM, Signal::INT, Signal::QUIT] {
            assert_eq!(end(number, None), Meaning::End);
        }
        for number in [Signal::TERM, Signal::INT] {
            assert_eq!(end(number, Some(1)), Meaning::EndWithStarter);
        }
        assert_eq!(end(Signal::QUIT, Some(1)), Meaning::End);
    }
}
