//! Requests for which the kernel holds pages locked until the daemon answers: reads and buffered writes.
//!
//! A drop of pages waits in the kernel for such locks, and no signal ends that wait. A daemon that is killed meanwhile
//! keeps its connection to the kernel open, so the requests are never answered, and the drop never ends. So a drop
//! waits here first, where it can be given up, until the requests that were under way are answered.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Requests of one file that hold pages, and that may take long.
#[derive(Debug, Default)]
pub(crate) struct PageLocks {
    table: Mutex<Table>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    held: BTreeSet<u64>,
}

/// A request that is under way. It ends on drop.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    locks: &'a PageLocks,
    number: u64,
}

impl PageLocks {
    /// Begins a request.
    pub(crate) fn hold(&self) -> Held<'_> {
        let mut table = self.table.lock();
        let number = table.next;
        table.next += 1;
        table.held.insert(number);
        Held { locks: self, number }
    }

    /// Waits for the end of all requests that have begun.
    pub(crate) async fn released(&self) {
        let mark = self.table.lock().next;
        loop {
            // Before the look, so that no end is missed.
            let released = self.released.notified();
            let oldest = self.table.lock().held.first().copied();
            if oldest.is_none_or(|oldest| mark <= oldest) {
                return;
            }
            released.await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.locks.table.lock().held.remove(&self.number);
        self.locks.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::PageLocks;

    #[test]
    fn wait_ends_with_the_last_earlier_request() {
        let locks = PageLocks::default();
        assert!(locks.released().now_or_never().is_some(), "there is none");
        let (first, second) = (locks.hold(), locks.hold());
        let mut waiting = Box::pin(locks.released());
        assert!((&mut waiting).now_or_never().is_none());
        let _later = locks.hold();
        drop(second);
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        assert!(waiting.now_or_never().is_some(), "a later request does not count");
    }
}
