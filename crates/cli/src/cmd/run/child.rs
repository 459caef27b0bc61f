//! A command that gets the signals that we get.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};
use base::{Clock as _, SystemClock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended(ExitStatus);

impl Ended {
    /// Whether the command has done what it should.
    pub(crate) fn is_success(self) -> bool {
        self.0.success()
    }

    /// Its status, as a shell tells it.
    pub(crate) fn status(self) -> u8 {
        let status = self.0.code().or_else(|| Some(128 + self.0.signal()?));
        status.and_then(|status| u8::try_from(status).ok()).unwrap_or(u8::MAX)
    }
}

/// What is handed on, and whether the terminal sends it to the command by itself.
const FORWARDED: [(SignalKind, Signal, Sender); 6] = [
    (SignalKind::terminate(), Signal::TERM, Sender::Process),
    (SignalKind::interrupt(), Signal::INT, Sender::Terminal),
    (SignalKind::quit(), Signal::QUIT, Sender::Terminal),
    (SignalKind::hangup(), Signal::HUP, Sender::Terminal),
    (SignalKind::user_defined1(), Signal::USR1, Sender::Process),
    (SignalKind::user_defined2(), Signal::USR2, Sender::Process),
];

/// Who usually sends a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Process,
    /// To all processes in its foreground, the command among them: it must not get it twice.
    Terminal,
}

/// A terminal sends a signal to us and to the command; when that has ended by it, ours has come so much later.
const SETTLE_DELAY: Duration = Duration::from_millis(100);

/// Signals that wait to be handed on.
const WAITING_MAX: usize = 64;

/// The signals that this process gets and did not ignore before, which end it no more.
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    received: mpsc::Receiver<(Signal, Sender)>,
}

impl Signals {
    /// Begins to listen.
    pub(super) fn listen() -> Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot listen to signals")?;
        let (sender, received) = mpsc::channel(WAITING_MAX);
        let inside = runtime.enter();
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        for (kind, number, from) in FORWARDED {
            // As `nohup` wants it: the command inherits that.
            if ignored & (1 << (number.as_raw() - 1)) != 0 {
                continue;
            }
            let mut signals = signal(kind).context("cannot listen to signals")?;
            let sender = sender.clone();
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    // One that finds no room is one of dozens that nobody has taken.
                    let _ = sender.try_send((number, from));
                }
            });
        }
        drop(inside);
        Ok(Signals { runtime, received })
    }

    /// Runs `command` to its end, and says what `started` made of its process. Signals of before its start reach
    /// it, too. When TERM has come, which tells of the end of a host too, what `told` makes is kept until the end.
    pub(super) fn run<T, H>(
        &mut self,
        command: &mut Command,
        started: impl FnOnce(&mut Child) -> Result<T>,
        told: impl FnMut() -> H,
    ) -> Result<(Ended, T)> {
        let cannot_run = format!("cannot run {}", command.get_program().display());
        let mut child = command.spawn().context(cannot_run)?;
        let made = started(&mut child).and_then(|made| Ok((made, process(&child)?)));
        let (made, process) = match made {
            Ok(made) => made,
            Err(error) => {
                // Nobody would hear of what it does.
                child.kill()?;
                child.wait()?;
                return Err(error);
            }
        };
        let ended = self.runtime.block_on(wait((child, process), &mut self.received, told));
        Ok((ended.context("cannot wait for the end of the command")?, made))
    }

    /// What `work` gives, or `None` if a signal asks us to end before; the work then goes on for as long as this
    /// process does.
    pub(super) fn meanwhile<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let ((sender, mut end), clock) = (oneshot::channel(), SystemClock::new());
        std::thread::spawn(move || sender.send(work()));
        let received = &mut self.received;
        self.runtime.block_on(async {
            // What ended the command was not meant for us.
            tokio::select! {
                biased;
                ended = &mut end => return ended.ok(),
                () = clock.sleep(SETTLE_DELAY) => {}
            }
            let mut early = Vec::new();
            while let Ok(signal) = received.try_recv() {
                early.push(signal);
            }
            if early.iter().any(|(signal, from)| *from == Sender::Process && asks_to_end(*signal)) {
                return None;
            }
            loop {
                tokio::select! {
                    biased;
                    ended = &mut end => return ended.ok(),
                    Some((signal, _)) = received.recv() => if asks_to_end(signal) {
                        return None;
                    },
                }
            }
        })
    }
}

/// The process of `child`. Another one may have its number as soon as it was waited for, but not this.
fn process(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(pidfd_open(pid.ok_or(io::ErrorKind::InvalidData)?, PidfdFlags::empty())?)
}

/// Waits for the end of `child`, and hands signals on to it.
async fn wait<H>(
    (mut child, process): (Child, OwnedFd),
    received: &mut mpsc::Receiver<(Signal, Sender)>,
    mut told: impl FnMut() -> H,
) -> io::Result<Ended> {
    let (sender, mut end) = oneshot::channel();
    let mut is_told = None;
    // Who hears of the end is here until then.
    std::thread::spawn(move || sender.send(child.wait()));
    loop {
        tokio::select! {
            biased;
            ended = &mut end => return ended.map_err(io::Error::other)?.map(Ended),
            Some((signal, from)) = received.recv() => {
                if from == Sender::Terminal && is_in_foreground() {
                    continue;
                }
                // It may just have ended.
                let _ = pidfd_send_signal(&process, signal);
                if signal == Signal::TERM && is_told.is_none() {
                    is_told = Some(told());
                }
            }
        }
    }
}

fn asks_to_end(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP].contains(&signal)
}

/// The set of signals that a process ignores, bit 0 for signal 1, by its `/proc/PID/status`.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

/// Whether a terminal has our group of processes in its foreground.
fn is_in_foreground() -> bool {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    foreground(&status).is_some_and(|(group, in_foreground)| group == in_foreground)
}

/// `pid (name) state parent group session terminal group-in-foreground …`; the name may hold anything.
fn foreground(status: &str) -> Option<(i32, i32)> {
    let (_, fields) = status.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(2).map(str::parse);
    let group = fields.next()?.ok()?;
    Some((group, fields.nth(2)?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::{foreground, ignored};

    #[test]
    fn ignored_signals_are_read_as_a_set() {
        let status = "Name:\tnohup\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn the_group_in_the_foreground_is_read_past_any_name() {
        assert_eq!(foreground("7 (a) b 9) S 1 5 6 34817 8 0"), Some((5, 8)));
        assert_eq!(foreground("7 (a) S 1 5 6 0 -1 0"), Some((5, -1)));
        assert_eq!(foreground(""), None);
    }
}
