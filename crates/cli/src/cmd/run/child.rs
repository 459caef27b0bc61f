//! A command that gets the signals that we get.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended(ExitStatus);

impl Ended {
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

/// Signals that wait to be handed on.
const WAITING_MAX: usize = 64;

/// The signals that this process gets, which end it no more.
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    received: mpsc::Receiver<Signal>,
}

impl Signals {
    /// Begins to listen.
    pub(super) fn listen() -> Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot listen to signals")?;
        let (sender, received) = mpsc::channel(WAITING_MAX);
        let inside = runtime.enter();
        for (kind, number, from) in FORWARDED {
            let mut signals = signal(kind).context("cannot listen to signals")?;
            let sender = sender.clone();
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    if from == Sender::Terminal && is_in_foreground() {
                        continue;
                    }
                    // One that finds no room is one of dozens that nobody has taken.
                    let _ = sender.try_send(number);
                }
            });
        }
        drop(inside);
        Ok(Signals { runtime, received })
    }

    /// Runs `command` to its end. Signals of before its start reach it, too.
    pub(super) fn run(&mut self, command: &mut Command) -> io::Result<Ended> {
        let child = command.spawn()?;
        self.runtime.block_on(wait(child, &mut self.received))
    }
}

/// Waits for the end of `child`, and hands signals on to it.
async fn wait(mut child: Child, received: &mut mpsc::Receiver<Signal>) -> io::Result<Ended> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Another process may have its number as soon as it was waited for, but not this.
    let process = pidfd_open(pid.ok_or(io::ErrorKind::InvalidData)?, PidfdFlags::empty())?;
    let (sender, mut end) = oneshot::channel();
    // Who hears of the end is here until then.
    std::thread::spawn(move || sender.send(child.wait()));
    loop {
        tokio::select! {
            biased;
            ended = &mut end => return ended.map_err(io::Error::other)?.map(Ended),
            Some(signal) = received.recv() => {
                // It may just have ended.
                let _ = pidfd_send_signal(&process, signal);
            }
        }
    }
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
    use super::foreground;

    #[test]
    fn the_group_in_the_foreground_is_read_past_any_name() {
        assert_eq!(foreground("7 (a) b 9) S 1 5 6 34817 8 0"), Some((5, 8)));
        assert_eq!(foreground("7 (a) S 1 5 6 0 -1 0"), Some((5, -1)));
        assert_eq!(foreground(""), None);
    }
}
