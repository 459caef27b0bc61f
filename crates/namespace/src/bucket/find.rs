//! Finds a name: in what is remembered, or in the bucket.

use std::sync::Arc;
use std::time::Duration;

use base::{FileKind, Ino, Name};
use futures::{StreamExt, stream};
use remote::{ErrorKind as RemoteErrorKind, Key, ListOrder};

use super::answers::is_unanswered;
use super::ask::Ask;
use super::attributes::item::OWN;
use super::attributes::read::Want;
use super::changes::Ticket;
use super::flight::Scope;
use super::keys::{self, Meant};
use super::listing::There;
use super::look::Marked;
use super::looks::Source;
use super::nodes::{Kind, Node, Place};
use super::options::Top;
use super::outage::Advice;
use super::shared::{Shared, State};
use super::tree::Tree;
use crate::{Error, ErrorKind, Result};

/// Questions this close together belong together, even where nothing is believed for that long.
pub(super) const SOON_MIN: Duration = Duration::from_secs(1);

/// How often a folder that is moved while the bucket is asked about it is asked about anew.
pub(super) const MOVES_MAX: usize = 4;

/// Names of one path that are looked at ahead at a time.
const LOOKS_AHEAD_MAX: usize = 8;

/// What is known of a name without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is this node.
    Present(Ino),
    /// It is not there.
    Absent,
    /// Too little.
    Unknown,
}

/// How to go on looking for a name.
enum Step {
    /// It is found, or not there.
    Known(Option<Ino>),
    /// The bucket is to be asked.
    Ask(Ask, Key),
}

/// How long what was told is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// For the time to live.
    TimeToLive,
    /// For half of it: nobody asks yet, and who does is to find it fresh.
    Ahead,
    /// Also for as long as [`Windows`](super::window::Windows) say after a listing that took long.
    Listing,
}

impl Belief {
    /// For how long, where that is `ttl` mostly.
    fn lasts(self, ttl: Duration) -> Duration {
        match self {
            Belief::TimeToLive | Belief::Listing => ttl,
            Belief::Ahead => ttl / 2,
        }
    }
}

/// What came of asking the bucket.
enum Answer {
    /// The name is this node, or not there.
    Found(Option<Ino>),
    /// The folder was moved meanwhile: what the bucket told is about another.
    Elsewhere,
}

impl Shared {
    /// The node `name` in the folder `parent`, as of at most the time to live ago.
    pub(super) async fn find(
        self: &Arc<Self>,
        op: &'static str,
        parent: Ino,
        name: &Name,
    ) -> Result<Option<Ino>> {
        self.find_by(op, (parent, name), Belief::TimeToLive).await
    }

    /// As [`Shared::find`], for who only looks: what a listing that took long told of is believed longer.
    pub(super) async fn find_listed(
        self: &Arc<Self>,
        op: &'static str,
        parent: Ino,
        name: &Name,
    ) -> Result<Option<Ino>> {
        self.look(op, (parent, name), Belief::Listing).await
    }

    /// As [`Shared::find_by`], for who changes nothing: while the bucket does not answer, what is
    /// remembered counts.
    async fn look(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        belief: Belief,
    ) -> Result<Option<Ino>> {
        let (remembered, advice) = {
            let now = self.clock.monotonic();
            let mut state = self.state();
            match state.tree.child(parent, name) {
                Some(ino) => (Some(ino), state.outage.advise(now)),
                None => (None, Advice::Ask),
            }
        };
        match advice {
            Advice::Ask => {}
            Advice::Remember => return Ok(remembered),
            Advice::RememberAndTry => {
                let (shared, name) = (Arc::clone(self), name.clone());
                self.try_again(async move {
                    // Who looks next is told what came of it.
                    let _ = shared.find_by(op, (parent, &name), belief).await;
                });
                return Ok(remembered);
            }
        }
        match self.find_by(op, (parent, name), belief).await {
            Err(error) if remembered.is_some() && is_unanswered(&error) => {
                // Unless somebody took it away meanwhile.
                Ok(self.state().tree.child(parent, name))
            }
            found => found,
        }
    }

    async fn find_by(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        belief: Belief,
    ) -> Result<Option<Ino>> {
        for _ in 0..=MOVES_MAX {
            match self.heard(self.look_for(op, (parent, name), belief).await)? {
                Answer::Found(found) => return Ok(found),
                Answer::Elsewhere => {}
            }
        }
        Err(Error::name(ErrorKind::Stale, op, name))
    }

    async fn look_for(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        belief: Belief,
    ) -> Result<Answer> {
        let (ask, prefix) = match self.begin(op, (parent, name), belief)? {
            Step::Known(found) => return Ok(Answer::Found(found)),
            Step::Ask(ask, prefix) => (ask, prefix),
        };
        if let Some(found) = self.look_on_pages(op, (parent, name), (ask, belief)).await? {
            return Ok(Answer::Found(found));
        }
        match self.ask_about(op, (parent, name), (&prefix, belief)).await {
            // Who may list a folder by its names may be allowed nothing else there.
            Err(error) if error.is_refusal() && self.is_sorted() => {
                let scope = Scope::From(name.clone());
                match self.found_on_page(op, (parent, name), scope).await {
                    Ok(Some(found)) => Ok(Answer::Found(found)),
                    Ok(None) | Err(_) => Err(error),
                }
            }
            asked => asked,
        }
    }

    /// Looks for a name as `ask` says, where that is on pages of the folder. `None` if they do not tell.
    async fn look_on_pages(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        (ask, belief): (Ask, Belief),
    ) -> Result<Option<Option<Ino>>> {
        let scope = match ask {
            Ask::One => None,
            Ask::OneBeforePage => {
                self.ask_ahead(op, parent);
                None
            }
            Ask::FirstPage => {
                self.wait_for_page_ahead(op, parent).await;
                let times = (self.clock.monotonic(), self.options.metadata_ttl);
                let known = self.state().tree.known((parent, name), times, belief);
                if let Known::Present(ino) = known {
                    return Ok(Some(Some(ino)));
                }
                Some(Scope::First)
            }
            // No page begins with a name where keys have no order.
            Ask::PageFrom => self.is_sorted().then(|| Scope::From(name.clone())),
        };
        match scope {
            Some(scope) => match self.found_on_page(op, (parent, name), scope).await {
                // The name may be on the way to what may be listed.
                Err(error) if error.kind == ErrorKind::Remote(RemoteErrorKind::Denied) => Ok(None),
                found => found,
            },
            None => Ok(None),
        }
    }

    fn is_sorted(&self) -> bool {
        match self.remote.personality().naming.order {
            ListOrder::Keys => true,
            ListOrder::Folded | ListOrder::Unsorted => false,
        }
    }

    /// What a page tells of a name; `None` if it does not.
    async fn found_on_page(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        scope: Scope,
    ) -> Result<Option<Option<Ino>>> {
        let answer = self.pages(op, parent, scope).await?;
        self.answered();
        let covers = answer.range.as_ref().is_some_and(|range| range.covers(name));
        let state = self.state();
        Ok(match state.tree.child(parent, name) {
            Some(ino) if covers && !state.tree.is_doubtful(ino) => Some(Some(ino)),
            // Else it was told of and is forgotten already, for want of room.
            None if covers && state.tree.covered(parent, name) => Some(None),
            Some(_) | None => None,
        })
    }

    /// Makes sure that what is remembered of `ino` is at most the time to live old.
    pub(super) async fn revalidate(self: &Arc<Self>, op: &'static str, ino: Ino) -> Result<()> {
        let now = self.clock.monotonic();
        let place = {
            let mut state = self.state();
            let node = state.tree.named_by_kernel(op, ino)?;
            let believed =
                node.fresh(now, self.options.metadata_ttl) && node.looks.source != Source::Doubtful;
            if node.unpublished() || believed {
                return Ok(());
            }
            match node.place.clone() {
                Place::Named { parent, name } => Some((parent, name)),
                Place::Root => None,
                Place::Unlinked | Place::Replaced => return Ok(()),
            }
        };
        match place {
            Some((parent, name)) => {
                self.look(op, (parent, &name), Belief::TimeToLive).await.map(|_| ())
            }
            None => self.look_at_root(op).await,
        }
    }

    /// Whether more than half of the time to live is over for what is known of the file `ino`.
    pub(super) fn is_aging(&self, ino: Ino) -> bool {
        let ttl = self.options.metadata_ttl;
        if ttl.is_zero() {
            // Nobody would believe what is told.
            return false;
        }
        let (now, half) = (self.clock.monotonic(), Belief::Ahead.lasts(ttl));
        let mut state = self.state();
        let node = state.uncounted().tree.node(ino);
        node.is_some_and(|node| !node.unpublished() && !node.fresh(now, half))
    }

    /// Has what is on the way to `ino` looked at before it is time for that, and `ino`: who goes there soon finds it
    /// fresh.
    pub(super) async fn look_again(self: &Arc<Self>, op: &'static str, ino: Ino) -> Result<()> {
        let (mut way, mut at) = (Vec::new(), ino);
        {
            let state = self.state();
            while let Some(Place::Named { parent, name }) =
                state.tree.node(at).map(|node| &node.place)
            {
                way.push((*parent, name.clone()));
                at = *parent;
            }
        }
        if at != Ino::ROOT {
            return Ok(());
        }
        // The file itself is the first, and what cannot be looked at above it is no reason not to look at the rest.
        let looks = way.into_iter().map(|(parent, name)| async move {
            self.look(op, (parent, &name), Belief::Ahead).await
        });
        let looks: Vec<_> = stream::iter(looks).buffered(LOOKS_AHEAD_MAX).collect().await;
        looks.into_iter().try_for_each(|looked| looked.map(|_| ()))
    }

    /// As [`Shared::look`], for the root: it is there, and the bucket is asked how it looks.
    async fn look_at_root(self: &Arc<Self>, op: &'static str) -> Result<()> {
        let now = self.clock.monotonic();
        let advice = self.state().uncounted().outage.advise(now);
        match advice {
            Advice::Ask => match self.freshen_root(op).await {
                Err(error) if is_unanswered(&error) => Ok(()),
                freshened => freshened,
            },
            Advice::Remember => Ok(()),
            Advice::RememberAndTry => {
                let shared = Arc::clone(self);
                self.try_again(async move {
                    let _ = shared.freshen_root(op).await;
                });
                Ok(())
            }
        }
    }

    async fn freshen_root(&self, op: &'static str) -> Result<()> {
        if self.options.top == Top::OnTheWay {
            return Ok(());
        }
        self.heard(self.freshen(op, &Key::from(""), Want::One(OWN)).await)
    }

    fn begin(
        &self,
        op: &'static str,
        (parent, name): (Ino, &Name),
        belief: Belief,
    ) -> Result<Step> {
        let now = self.clock.monotonic();
        let ttl = self.options.metadata_ttl;
        let mut state = self.state();
        let state = state.uncounted();
        let prefix = state.tree.prefix(op, parent)?;
        let is_asked = belief != Belief::Ahead;
        if is_asked {
            state.recent.used(parent);
        }
        keys::meant(&prefix, name).map_err(|kind| Error::name(kind, op, name))?;
        let length = keys::check_length_of_file(&prefix, name, state.tree.key_bytes_max);
        length.map_err(|kind| Error::name(kind, op, name))?;
        if self.changes.is_applied(parent, name) {
            return Ok(Step::Known(state.tree.child(parent, name)));
        }
        match state.tree.known((parent, name), (now, ttl), belief) {
            Known::Present(ino) => {
                if is_asked {
                    state.earn(parent, name);
                    state.tree.touch(ino);
                }
                Ok(Step::Known(Some(ino)))
            }
            Known::Absent => {
                if is_asked {
                    state.earn(parent, name);
                }
                Ok(Step::Known(None))
            }
            Known::Unknown => {
                let folder = state.tree.folder_mut(parent).expect("it has a prefix");
                if folder.on_the_way || !is_asked {
                    return Ok(Step::Ask(Ask::One, prefix));
                }
                let times = (now, ttl.max(SOON_MIN));
                Ok(Step::Ask(folder.interest.ask(name, times, &mut state.bets), prefix))
            }
        }
    }

    /// Asks about one name: is there such a key, is there a key below it.
    async fn ask_about(
        &self,
        op: &'static str,
        (parent, name): (Ino, &Name),
        (prefix, belief): (&Key, Belief),
    ) -> Result<Answer> {
        let ticket = self.changes.ticket();
        let as_of = self.clock.monotonic();
        let age_max = belief.lasts(self.options.metadata_ttl);
        let meant = keys::meant(prefix, name).map_err(|kind| Error::name(kind, op, name))?;
        let (told, marked) = match meant {
            Meant::Chunk(_) => {
                let folder = self.shows_any(op, &keys::folder(prefix, name)).await?;
                let there = if folder { There::Folder } else { There::Nothing };
                (vec![(name.clone(), there)], Marked::No)
            }
            Meant::Part(part) | Meant::Beside(part)
                if self.state().uncounted().tree.is_on_the_way(prefix) =>
            {
                let asked = self.ask_about_part(op, prefix, &part).await;
                asked.map_err(|error| not_taken(op, name, error))?
            }
            Meant::Part(part) | Meant::Beside(part) => {
                // What is said of the object, or of the folder, is in the same place mostly.
                let (asked, said) = futures::join!(
                    self.ask_about_part(op, prefix, &part),
                    self.freshen_older(op, prefix, Want::One(&part), age_max),
                );
                said?;
                let asked = asked.map_err(|error| not_taken(op, name, error))?;
                if asked.0.iter().any(|(_, there)| *there == There::Folder) {
                    let folder = [&part[..], b"/"].concat();
                    self.freshen_older(op, prefix, Want::One(&folder), age_max).await?;
                }
                asked
            }
        };
        self.answered();
        let found = {
            let mut state = self.state();
            if !state.is_told_of(&ticket, parent, prefix) {
                return Ok(Answer::Elsewhere);
            }
            for (told, there) in told {
                // Nobody asked whether something is beside a folder, and mostly there is nothing.
                let news = there != There::Nothing || state.tree.child(parent, &told).is_some();
                if told == *name || news {
                    state.tree.tell_one(&ticket, (parent, &told), there, as_of);
                }
            }
            let found = state.tree.child(parent, name);
            state.tree.shrink(self.options.nodes.max(), found);
            found
        };
        if let (Some(ino), Marked::Yes) = (found, marked) {
            self.ask_marker(ino, &keys::folder(prefix, name)).await;
        }
        Ok(Answer::Found(found))
    }

    /// Whether something is called `name` in the folder `parent`. A listing takes what is hidden for a folder
    /// with nothing else in it, as a writer leaves it whose process has died: that is looked at once more.
    pub(super) async fn is_taken(
        self: &Arc<Self>,
        op: &'static str,
        parent: Ino,
        name: &Name,
    ) -> Result<bool> {
        let Some(ino) = self.find(op, parent, name).await? else { return Ok(false) };
        let prefix = {
            let state = self.state();
            let Some(folder) = state.tree.folder(ino) else { return Ok(true) };
            if folder.marker || !folder.children.is_empty() || state.tree.is_moving(ino) {
                return Ok(true);
            }
            state.tree.prefix(op, parent)?
        };
        match self.ask_about(op, (parent, name), (&prefix, Belief::TimeToLive)).await? {
            Answer::Found(found) => Ok(found.is_some()),
            Answer::Elsewhere => Ok(true),
        }
    }

    /// The marker of the folder `ino` may say how the folder looks, if nobody else does.
    pub(super) async fn ask_marker(&self, ino: Ino, marker: &Key) {
        let is_assumed = |node: &Node| node.looks.source == Source::Assumed;
        if !self.state().tree.node(ino).is_some_and(is_assumed) {
            return;
        }
        // Without an answer the folder looks as folders do.
        let Ok(meta) = self.remote.head(marker).await else { return };
        let mut state = self.state();
        if let Some(node) = state.tree.node_mut(ino)
            && is_assumed(node)
        {
            node.looks = node.looks.with_metadata(&meta.metadata);
        }
    }

    /// Refuses `name` for something new of this `kind` in the folder `parent`.
    pub(super) async fn check_new(
        self: &Arc<Self>,
        op: &'static str,
        (parent, name): (Ino, &Name),
        kind: FileKind,
    ) -> Result<()> {
        let prefix = self.state().tree.prefix(op, parent)?;
        let of_root = |part: &[u8]| prefix.as_bytes().is_empty() && part.is_empty();
        let directory = kind == FileKind::Directory;
        let allowed =
            match keys::meant(&prefix, name).map_err(|kind| Error::name(kind, op, name))? {
                Meant::Chunk(_) => false,
                Meant::Part(part) => directory || !of_root(&part),
                Meant::Beside(_) if directory => false,
                Meant::Beside(_) => match keys::beside_what(name) {
                    Some(what) => {
                        let folder = self.find(op, parent, &what).await?;
                        folder.is_some_and(|ino| self.state().tree.is_folder(ino))
                    }
                    None => false,
                },
            };
        if !allowed {
            return Err(Error::name(ErrorKind::Invalid, op, name));
        }
        if keys::is_odd(name) {
            // A page does not tell whether the store would take the key.
            let asked = self.look_at(op, &keys::file(&prefix, name), name.as_bytes()).await;
            asked.map_err(|error| not_taken(op, name, error))?;
        }
        // That of its marker, too, and that under a new name of a folder above, which is not there yet.
        let key_bytes_max = self.remote.personality().key_bytes_max;
        let at_last = self.state().tree.prefix_at_last(op, parent)?;
        for prefix in [&prefix, &at_last] {
            let length = if directory {
                keys::check_length(&keys::folder(prefix, name), key_bytes_max)
            } else {
                keys::check_length_of_file(prefix, name, key_bytes_max)
            };
            length.map_err(|kind| Error::name(kind, op, name))?;
        }
        Ok(())
    }
}

/// An odd key that the store does not take makes a name that no file can have here.
fn not_taken(op: &'static str, name: &Name, error: Error) -> Error {
    if error.kind == ErrorKind::Remote(RemoteErrorKind::Unsupported) && keys::is_odd(name) {
        Error { kind: ErrorKind::Invalid, op, ..error }
    } else {
        error
    }
}

impl State {
    /// Whether the folder `dir` has the prefix `prefix`.
    pub(super) fn is_at(&self, dir: Ino, prefix: &Key) -> bool {
        self.tree.prefix("lookup", dir).is_ok_and(|now| now == *prefix)
    }

    /// Whether what a request with this ticket tells of `prefix` is about the directory `dir`: it has had
    /// that prefix since before the request began.
    pub(super) fn is_told_of(&self, ticket: &Ticket, dir: Ino, prefix: &Key) -> bool {
        self.is_at(dir, prefix) && !self.tree.has_moved(ticket, dir)
    }

    /// A question about `name` was answered from memory.
    fn earn(&mut self, parent: Ino, name: &Name) {
        let is_covered = self.tree.covered(parent, name);
        let Some(folder) = self.tree.folder_mut(parent) else { return };
        folder.interest.settle(name, &mut self.bets);
        if is_covered {
            folder.interest.earn();
        }
    }
}

impl Tree {
    fn known(
        &self,
        (parent, name): (Ino, &Name),
        (now, ttl): (Duration, Duration),
        belief: Belief,
    ) -> Known {
        let Some(folder) = self.folder(parent) else { return Known::Unknown };
        let ttl = belief.lasts(ttl);
        let window = folder.windows.covering(name);
        let is_absent = window.is_some_and(|window| now < window.as_of + ttl);
        let is_listed = |as_of| {
            belief == Belief::Listing && !ttl.is_zero() && folder.windows.believes(as_of, now)
        };
        let believes = |as_of| now < as_of + ttl || is_listed(as_of);
        match folder.children.get(name) {
            Some(&ino) => {
                let node = self.node(ino).expect("a child is remembered");
                let is_fresh = node.as_of.is_some_and(believes) && !self.is_doubtful(ino);
                if node.unpublished() || is_fresh { Known::Present(ino) } else { Known::Unknown }
            }
            None if is_absent => Known::Absent,
            None => Known::Unknown,
        }
    }

    /// Whether the bucket's last word on `name` is remembered.
    fn covered(&self, parent: Ino, name: &Name) -> bool {
        self.folder(parent).is_some_and(|folder| folder.windows.covering(name).is_some())
    }

    /// Whether the object of `ino` is to be asked how it looks.
    pub(super) fn is_doubtful(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(|node| node.looks.source == Source::Doubtful)
    }

    /// Whether `ino` is a folder.
    pub(super) fn is_folder(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(|node| matches!(node.kind, Kind::Folder(_)))
    }
}
