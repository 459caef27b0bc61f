//! Waits for uploads that users of a shared mount began, by ticket.
//!
//! A wait is a task; its callers poll it. Each user has a bounded number of waits, and so have all users together.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Ino;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Waits of one user.
const OF_USER_MAX: usize = 8;

/// Waits of all users.
const ALL_MAX: usize = 128;

/// Time after which a wait that no caller polled ends; its uploads go on.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// Waits that are not over.
#[derive(Debug)]
pub(crate) struct SyncWaits<T> {
    table: Mutex<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    last_ticket: u64,
    waits: BTreeMap<u64, Ongoing<T>>,
}

#[derive(Debug)]
struct Ongoing<T> {
    uid: u32,
    top: Ino,
    polled: Duration,
    /// `None` while a caller polls it.
    task: Option<JoinHandle<T>>,
}

/// Result of a look for a wait.
#[derive(Debug)]
pub(crate) enum Taken<T> {
    /// The caller polls the task, then gives it back or ends it.
    Yes(JoinHandle<T>),
    /// Another caller polls it.
    Busy,
    /// The user has no such wait.
    Unknown,
}

impl<T> Default for SyncWaits<T> {
    fn default() -> SyncWaits<T> {
        SyncWaits { table: Mutex::new(Table { last_ticket: 0, waits: BTreeMap::new() }) }
    }
}

impl<T> SyncWaits<T> {
    /// Begins a wait of the user `uid` for `top`; `None` if there are too many.
    pub(crate) fn begin(
        &self,
        (uid, top): (u32, Ino),
        now: Duration,
        begin: impl FnOnce() -> JoinHandle<T>,
    ) -> Option<u64> {
        let mut table = self.table.lock();
        table.waits.retain(|_, wait| match &wait.task {
            Some(task) if wait.polled + IDLE_MAX < now => {
                task.abort();
                false
            }
            Some(_) | None => true,
        });
        let of_user = table.waits.values().filter(|wait| wait.uid == uid).count();
        if OF_USER_MAX <= of_user || ALL_MAX <= table.waits.len() {
            return None;
        }
        table.last_ticket += 1;
        let ticket = table.last_ticket;
        table.waits.insert(ticket, Ongoing { uid, top, polled: now, task: Some(begin()) });
        Some(ticket)
    }

    /// Takes the wait `ticket` of the user `uid` for `top`.
    pub(crate) fn take(&self, ticket: u64, (uid, top): (u32, Ino), now: Duration) -> Taken<T> {
        let mut table = self.table.lock();
        let wait = table.waits.get_mut(&ticket);
        let Some(wait) = wait.filter(|wait| (wait.uid, wait.top) == (uid, top)) else {
            return Taken::Unknown;
        };
        wait.polled = now;
        wait.task.take().map_or(Taken::Busy, Taken::Yes)
    }

    /// Gives back a wait that is not over.
    pub(crate) fn give_back(&self, ticket: u64, task: JoinHandle<T>) {
        if let Some(wait) = self.table.lock().waits.get_mut(&ticket) {
            wait.task = Some(task);
        }
    }

    /// Removes a wait that is over.
    pub(crate) fn end(&self, ticket: u64) {
        self.table.lock().waits.remove(&ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Ino;

    use super::{IDLE_MAX, OF_USER_MAX, SyncWaits, Taken};

    #[tokio::test]
    async fn one_user_leaves_room_for_others() {
        let waits: SyncWaits<()> = SyncWaits::default();
        let begin = |uid, now| waits.begin((uid, Ino(7)), now, || tokio::spawn(async {}));
        let tickets: Vec<_> = (0..=OF_USER_MAX).map(|_| begin(1, Duration::ZERO)).collect();
        assert!(tickets[..OF_USER_MAX].iter().all(Option::is_some));
        assert_eq!(tickets[OF_USER_MAX], None, "the user has its share");
        assert!(begin(2, Duration::ZERO).is_some());
        assert!(begin(1, IDLE_MAX * 2).is_some(), "idle waits end");
    }

    #[tokio::test]
    async fn wait_answers_the_user_and_path_it_began_for() {
        let waits: SyncWaits<()> = SyncWaits::default();
        let ticket = waits.begin((2, Ino(7)), Duration::ZERO, || tokio::spawn(async {})).unwrap();
        let take = |uid, top| waits.take(ticket, (uid, Ino(top)), Duration::ZERO);
        assert!(matches!(take(1, 7), Taken::Unknown));
        assert!(matches!(take(2, 8), Taken::Unknown));
        let Taken::Yes(task) = take(2, 7) else { panic!("it is there") };
        assert!(matches!(take(2, 7), Taken::Busy));
        waits.give_back(ticket, task);
        assert!(matches!(take(2, 7), Taken::Yes(_)));
        waits.end(ticket);
        assert!(matches!(take(2, 7), Taken::Unknown));
    }
}
