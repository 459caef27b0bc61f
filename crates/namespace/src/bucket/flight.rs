//! A listing under way, and what it brings, as values.

use std::sync::Arc;
use std::time::Duration;

use base::Name;
use futures::future::{BoxFuture, WeakShared};

use super::window::Range;
use crate::{Entry, Error};

/// Which part of a folder a listing is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// All pages.
    All,
    /// The first page.
    First,
    /// The page that begins with a name.
    From(Name),
}

/// What a listing brought. It is in the tree already.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Which names it was about; `None` if the folder was moved meanwhile.
    pub(super) range: Option<Range>,
    /// Every entry of the folder, after a listing of all pages.
    pub(super) entries: Vec<Entry>,
}

/// How a listing ended, for all who wait for it.
pub(super) type Outcome = std::result::Result<Arc<Answer>, Arc<Error>>;

/// A listing that others may join.
pub(super) struct Flight {
    pub(super) began: Duration,
    pub(super) outcome: WeakShared<BoxFuture<'static, Outcome>>,
}
