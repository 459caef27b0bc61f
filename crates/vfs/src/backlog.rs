//! Files whose upload nobody waits for: a line of them, in the order in which they are due. Pure. How many
//! are uploaded at a time, [`Pace`] says.
//!
//! ```text
//!            push                due, a place is free           done
//!   absent ────────▶ waiting ───────────────────────▶ busy ────────────▶ absent
//!                       ▲                              │
//!                       └──── failed, or pushed again ─┘
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base::Ino;

use crate::file::File;
use crate::pace::Pace;

/// Uploads under way at most, whatever the pace is.
const UPLOADS_MAX: usize = 64;

/// Small files take a request each, and a store far away needs many of those.
const SMALL_MAX: u32 = 64;
/// The pace begins with so many.
const SMALL_START: u32 = 4;

/// Larger files take their time: those behind them do not wait for it.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// What takes longer than this waits for something else than the store's processor.
const SMALL_TIME_MAX: Duration = Duration::from_secs(1);

/// Between tries of an upload that failed.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// Between looks whether those are through that come before a file.
const BEHIND_DELAY: Duration = Duration::from_millis(250);

/// When a file is due, and which of those that are due at one time comes first.
type Place = (Duration, u64);

/// The line.
#[derive(Debug)]
pub(crate) struct Backlog {
    // Invariant: `places` has just the files that wait, each with its place in `line`; a file that is
    // busy does not wait.
    line: BTreeMap<Place, Waiting>,
    places: HashMap<Ino, Place>,
    busy: HashMap<Ino, Busy>,
    last: u64,
    dispatcher: Dispatcher,
    pace: Pace,
}

impl Default for Backlog {
    fn default() -> Backlog {
        Backlog {
            line: BTreeMap::new(),
            places: HashMap::new(),
            busy: HashMap::new(),
            last: 0,
            dispatcher: Dispatcher::default(),
            pace: Pace::new(SMALL_START, SMALL_MAX),
        }
    }
}

#[derive(Debug)]
struct Waiting {
    file: Arc<File>,
    /// How long it waits after the next failure.
    delay: Duration,
}

/// A file that is being uploaded.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) file: Arc<File>,
    delay: Duration,
}

/// A file that is being uploaded.
#[derive(Clone, Copy, Debug)]
struct Busy {
    again: Again,
    since: Duration,
    size: Size,
}

/// Whether the pace of uploads is that of such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Small,
    Large,
}

/// Whether a file that is being uploaded was pushed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    At(Duration),
}

/// Whether a task hands out those who are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Dispatcher {
    #[default]
    Gone,
    There,
}

/// What a push asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nothing: the file has an earlier place, or is busy.
    InLine,
    /// To wake the task that hands out: the file is the first now, or there is a place for another.
    First,
    /// To start that task.
    Alone,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// This file is to be uploaded.
    File(Due),
    /// Nothing before this time, or before one that is busy ends.
    NotBefore(Duration),
    /// Nothing at all: the task that asks is over.
    Nothing,
}

/// How an upload went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There is nothing more to do.
    Done,
    /// There is more to do at once.
    Unfinished,
    /// It may go well later.
    Failed,
    /// It was not tried: others come first.
    Behind,
}

impl Busy {
    /// Whether it counts among those whose number the pace says.
    fn is_paced(&self, now: Duration) -> bool {
        self.size == Size::Small && now < self.since + SMALL_TIME_MAX
    }
}

impl Backlog {
    /// How many small files may be under way at a time.
    pub(crate) fn pace(&self) -> u32 {
        self.pace.number()
    }

    /// How many files wait or are busy.
    pub(crate) fn len(&self) -> usize {
        self.places.len() + self.busy.len()
    }

    /// Whether `ino` waits or is busy.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.places.contains_key(&ino) || self.busy.contains_key(&ino)
    }

    /// Those that wait.
    pub(crate) fn waiting(&self) -> Vec<Ino> {
        self.places.keys().copied().collect()
    }

    /// `file` is to be uploaded, not before `due`. One that waits already keeps the earlier place.
    pub(crate) fn push(&mut self, file: &Arc<File>, due: Duration) -> Pushed {
        if let Some(Busy { again, .. }) = self.busy.get_mut(&file.ino()) {
            *again = match *again {
                Again::No => Again::At(due),
                Again::At(earlier) => Again::At(earlier.min(due)),
            };
            return Pushed::InLine;
        }
        if let Some(place) = self.places.get(&file.ino()).copied() {
            if place.0 <= due {
                let waiting = self.line.get_mut(&place).expect("it has that place");
                // What has this number now may be another file than when it came.
                waiting.file = Arc::clone(file);
                return Pushed::InLine;
            }
            self.line.remove(&place);
        }
        self.wait(Waiting { file: Arc::clone(file), delay: RETRY_DELAY_MIN }, due)
    }

    /// `ino` is due at `now`, if it waits for another reason than that it failed.
    pub(crate) fn hurry(&mut self, ino: Ino, now: Duration) -> Pushed {
        if let Some(Busy { again: Again::At(at), .. }) = self.busy.get_mut(&ino) {
            *at = now.min(*at);
        }
        let Some(place) = self.places.get(&ino).copied() else { return Pushed::InLine };
        let waits = |waiting: &Waiting| now < place.0 && waiting.delay == RETRY_DELAY_MIN;
        if !self.line.get(&place).is_some_and(waits) {
            return Pushed::InLine;
        }
        let waiting = self.line.remove(&place).expect("it has that place");
        self.wait(waiting, now)
    }

    /// `file` is nobody's any more. What follows it under its number keeps its place.
    pub(crate) fn forget(&mut self, file: &Arc<File>) {
        if let Some(place) = self.places.get(&file.ino())
            && self.line.get(place).is_some_and(|waiting| Arc::ptr_eq(&waiting.file, file))
        {
            self.line.remove(place);
            self.places.remove(&file.ino());
        }
    }

    /// The next file that is due at `now`.
    pub(crate) fn next(&mut self, now: Duration) -> Next {
        let Some(first) = self.line.first_entry() else {
            self.dispatcher = Dispatcher::Gone;
            return Next::Nothing;
        };
        let (due, _) = *first.key();
        if now < due {
            return Next::NotBefore(due);
        }
        let size = match first.get().file.size() {
            0..=SMALL_BYTES_MAX => Size::Small,
            _ => Size::Large,
        };
        let paced = self.busy.values().filter(|busy| busy.is_paced(now)).count();
        if UPLOADS_MAX <= self.busy.len()
            || size == Size::Small && self.pace.number() as usize <= paced
        {
            return Next::NotBefore(now + SMALL_TIME_MAX);
        }
        let Waiting { file, delay } = first.remove();
        self.places.remove(&file.ino());
        self.busy.insert(file.ino(), Busy { again: Again::No, since: now, size });
        Next::File(Due { file, delay })
    }

    /// A file that was due is not busy any more.
    pub(crate) fn end(&mut self, due: Due, ended: Ended, now: Duration) -> Pushed {
        let Due { file, delay } = due;
        let paced = self.busy.values().filter(|busy| busy.is_paced(now)).count();
        let busy = self.busy.remove(&file.ino()).expect("busy until it ends");
        let is_any_due = self.line.first_key_value().is_some_and(|((due, _), _)| *due <= now);
        // With more under way than may be a step down is not over.
        let counts = paced <= self.pace.number() as usize && is_any_due;
        match ended {
            Ended::Done | Ended::Unfinished if counts && busy.is_paced(now) => self.pace.ended(now),
            Ended::Done | Ended::Unfinished | Ended::Failed if counts => {}
            Ended::Done | Ended::Unfinished | Ended::Failed => self.pace.idle(),
            Ended::Behind => {}
        }
        let again = busy.again;
        let pushed = match (ended, again) {
            (Ended::Done, Again::No) => Pushed::InLine,
            (Ended::Done | Ended::Failed, Again::At(at)) => {
                self.wait(Waiting { file, delay: RETRY_DELAY_MIN }, at)
            }
            (Ended::Behind, _) => {
                self.wait(Waiting { file, delay: RETRY_DELAY_MIN }, now + BEHIND_DELAY)
            }
            (Ended::Unfinished, _) => self.wait(Waiting { file, delay: RETRY_DELAY_MIN }, now),
            (Ended::Failed, Again::No) => {
                let longer = (delay * 2).min(RETRY_DELAY_MAX);
                self.wait(Waiting { file, delay: longer }, now + delay)
            }
        };
        // There is a place now for who comes next.
        if pushed == Pushed::InLine && !self.line.is_empty() { Pushed::First } else { pushed }
    }

    fn wait(&mut self, waiting: Waiting, due: Duration) -> Pushed {
        self.last += 1;
        let place = (due, self.last);
        self.places.insert(waiting.file.ino(), place);
        self.line.insert(place, waiting);
        if self.dispatcher == Dispatcher::Gone {
            self.dispatcher = Dispatcher::There;
            return Pushed::Alone;
        }
        let is_first = self.line.first_key_value().is_some_and(|(first, _)| *first == place);
        if is_first { Pushed::First } else { Pushed::InLine }
    }
}
