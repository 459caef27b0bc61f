//! Replies on their way to the thread of a queue, which alone may submit.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use base::Errno;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::ticket::Outlet;

/// A reply, and the seat of its request.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) seat: usize,
    pub(super) unique: u64,
    pub(super) outcome: Result<Vec<u8>, Errno>,
}

/// Where replies wait for the thread of a queue. At most one reply a seat.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Written to when the thread sleeps, who reads it along with the requests.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    done: Vec<Done>,
    /// The thread waits, or is about to, and must be woken.
    asleep: bool,
    closed: bool,
}

/// What the thread goes on with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There is something in the inbox.
    Look,
    /// It may wait for the kernel: whatever comes rings the bell.
    Wait,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Inbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Inbox { state: Mutex::default(), bell })
    }

    pub(super) fn bell(&self) -> i32 {
        self.bell.as_raw_fd()
    }

    /// Takes what has come, in exchange for an empty list, and tells whether the mount has ended.
    pub(super) fn take(&self, into: &mut Vec<Done>) -> bool {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.done, into);
        state.closed
    }

    /// To be called before the thread waits.
    pub(super) fn sleep(&self, knows_of_end: bool) -> Next {
        let mut state = self.state.lock();
        if !state.done.is_empty() || (state.closed && !knows_of_end) {
            return Next::Look;
        }
        state.asleep = true;
        Next::Wait
    }

    /// To be called after it has waited.
    pub(super) fn wake(&self) {
        self.state.lock().asleep = false;
    }

    /// The mount has ended.
    pub(super) fn close(&self) {
        self.put(|state| state.closed = true);
    }

    fn put(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        if !std::mem::take(&mut state.asleep) {
            return;
        }
        drop(state);
        if let Err(error) = rustix::io::write(&self.bell, &1u64.to_ne_bytes()) {
            tracing::error!(%error, "a session thread was not woken");
        }
    }
}

/// Where the reply to the request in one seat goes.
#[derive(Debug)]
pub(super) struct SeatOutlet {
    pub(super) inbox: Arc<Inbox>,
    pub(super) seat: usize,
}

impl Outlet for SeatOutlet {
    fn send(&self, unique: u64, outcome: Result<Vec<u8>, Errno>) {
        self.inbox.put(|state| state.done.push(Done { seat: self.seat, unique, outcome }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Inbox, Next, SeatOutlet};
    use crate::ticket::Outlet;

    #[test]
    fn whoever_sleeps_is_woken_once_and_who_is_awake_is_not() {
        let inbox = Arc::new(Inbox::new().unwrap());
        let rung = |inbox: &Inbox| {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut asked = [PollFd::new(&inbox.bell, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut asked, Some(&at_once)).unwrap() == 1
        };
        let outlet = SeatOutlet { inbox: Arc::clone(&inbox), seat: 3 };
        outlet.send(1, Ok(Vec::new()));
        assert!(!rung(&inbox), "it is awake");
        assert_eq!(inbox.sleep(false), Next::Look, "there is something to do");
        let mut done = Vec::new();
        assert!(!inbox.take(&mut done));
        assert_eq!((done.len(), done[0].seat, done[0].unique), (1, 3, 1));

        done.clear();
        assert_eq!(inbox.sleep(false), Next::Wait);
        outlet.send(2, Ok(Vec::new()));
        assert!(rung(&inbox));
        inbox.wake();
        inbox.close();
        assert_eq!(inbox.sleep(false), Next::Look);
        assert!(inbox.take(&mut done));
        assert_eq!(inbox.sleep(true), Next::Wait);
    }

    #[test]
    fn who_knows_of_the_end_before_the_others_still_waits_for_the_kernel() {
        assert_eq!(Inbox::new().unwrap().sleep(true), Next::Wait);
    }
}
