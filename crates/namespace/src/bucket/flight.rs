//! Listings under way, and what they bring, as values.

use std::sync::Arc;
use std::time::Duration;

use base::Name;
use futures::future::{BoxFuture, WeakShared};

use super::changes::Ticket;
use super::window::Range;
use crate::Error;
use crate::listing::WeakListing;

/// Which page of a folder is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// The first page.
    First,
    /// The same, for whoever comes next: only what is in it counts, since others may make more until then.
    Ahead,
    /// The page that begins with a name.
    From(Name),
}

/// What a page brought. It is in the tree already.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Which names it was about; `None` if the folder was moved meanwhile.
    pub(super) range: Option<Range>,
}

/// How a page came, for all who wait for it.
pub(super) type Outcome = std::result::Result<Arc<Answer>, Arc<Error>>;

/// A page that others may wait for.
pub(super) struct Flight {
    pub(super) began: Duration,
    pub(super) outcome: WeakShared<BoxFuture<'static, Outcome>>,
}

/// A listing of a whole folder that others may read.
pub(super) struct Stream {
    pub(super) began: Duration,
    pub(super) ticket: Arc<Ticket>,
    pub(super) listing: WeakListing,
}
