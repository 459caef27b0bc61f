//! One object, one file: the namespace that is the bucket itself.
//!
//! A file's key is its path; the exceptions are in [`keys`]. A folder exists while some key begins
//! with its path and a slash; that may be its marker, an empty object whose key is just that prefix.
//!
//! - `mkdir` makes the marker and `rmdir` removes it. Who removes or moves away the last entry of a
//!   folder that has no marker gets the marker made first: a folder does not vanish from under the
//!   people in it, neither on this mount nor for others.
//! - What the bucket told is believed for the time to live, counted from when it was asked. A
//!   folder that was listed within that time answers for names that it does not have, too.
//! - What was done on this mount is true at once. An answer of the bucket that was asked for before
//!   that does not undo it ([`changes`]), and a file with unpublished bytes is the file, whatever
//!   the bucket has under its name ([`merge`]).
//! - A number stays with the bytes it was given for while the kernel holds it: when someone else
//!   replaces the object, the name gets a new node, and the old one lives on without a name.

mod ahead;
mod alike;
mod allowed;
mod answers;
mod arriving;
mod ask;
mod at_once;
mod attributes;
mod below;
mod beside;
mod browse;
mod carries;
mod carry;
mod change;
mod changes;
mod check;
mod copies;
mod departing;
mod entries;
mod escape;
mod exchange;
mod find;
mod finish_file;
mod flight;
mod folders;
mod foreign;
mod form;
mod gather;
mod go_along;
mod idle;
mod inherit;
mod inventory;
mod journal;
mod keys;
mod land;
mod left;
mod lengths;
mod links;
mod listing;
mod look;
mod looks;
mod make_soon;
mod makings;
mod marks;
mod may_change;
mod merge;
mod move_later;
mod move_soon;
mod move_tree;
mod moving_tree;
mod nodes;
mod numbers;
mod options;
mod outage;
mod outbox;
mod pages;
mod persist;
mod publish;
mod recall;
mod recent;
mod record;
mod rename;
mod replay;
mod set_attr;
mod settle;
mod shared;
mod soon;
mod spans;
mod split;
mod stand_in;
mod stream;
mod stubs;
mod swap;
mod sweep;
mod tally;
mod tell;
#[cfg(test)]
mod tests;
mod time;
mod tree;
mod turns;
mod unlinked;
mod unsent;
mod walk;
mod window;
mod xattrs;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use base::{Attr, Clock, Ino, Name};
use parking_lot::Mutex;
use remote::{Key, ListRequest, Page, Remote, Version};
use tokio::sync::{Notify, Semaphore};

pub use self::allowed::{Refusal, TryWrite};
pub use self::browse::{Assumed, Browsed, Depth, browse, sum_up};
pub use self::check::{AttributeFlaw, Checked, check_attributes};
pub use self::left::LeftChange;
pub use self::options::{Attributes, BucketOptions, Foresight, Returns, Top};
pub use self::recall::Shows;
pub use self::replay::Finished;
pub use self::tally::FolderSum;

use self::allowed::Allowed;
use self::ask::Bets;
use self::carries::Carries;
use self::changes::Changes;
use self::copies::Copies;
use self::makings::Makings;
use self::nodes::Place;
use self::outage::Outage;
use self::recent::Recent;
use self::record::Subject;
use self::shared::{Shared, State};
use self::tree::{Defaults, Tree};
use self::turns::Turns;
use self::unsent::Outbox;
use self::walk::Walk;
use crate::{
    Abandoned, Belongs, Content, Entry, Error, ErrorKind, InFolder, Ledger, Listing, NameGuard,
    Namespace, Neighbour, NewNode, Owner, Published, RecordId, RenameMode, Result, SetAttr,
    Special, Target, Unsent, Users, XattrMode,
};

/// The namespace that is a bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    shared: Arc<Shared>,
}

impl Bucket {
    /// The files of `remote`. Asks nothing of it yet.
    pub fn new(
        remote: Arc<dyn Remote>,
        clock: Arc<dyn Clock>,
        ledger: Arc<dyn Ledger>,
        options: BucketOptions,
    ) -> Bucket {
        let defaults = Defaults {
            owner: options.owner,
            file_mode: options.file_mode,
            folder_mode: options.folder_mode,
            start: clock.wall(),
        };
        let key_bytes_max = remote.personality().key_bytes_max;
        let books = (options.attributes, Arc::clone(&clock));
        let mut tree = Tree::new(defaults, key_bytes_max, books, Arc::clone(&ledger));
        if options.top == Top::OnTheWay
            && let Some(top) = tree.folder_mut(Ino::ROOT)
        {
            top.on_the_way = true;
        }
        let state = State {
            tree,
            flights: HashMap::new(),
            streams: HashMap::new(),
            walk: Walk::default(),
            outage: Outage::default(),
            bets: Bets::new(options.foresight()),
            recent: Recent::default(),
            leaving: HashSet::new(),
            revision: 0,
        };
        Bucket {
            shared: Arc::new(Shared {
                remote,
                clock,
                ledger,
                options,
                changes: Changes::default(),
                noted: Notify::new(),
                recording: Mutex::new(()),
                state: Mutex::new(state),
                turns: Turns::default(),
                outbox: Outbox::default(),
                makings: Makings::default(),
                users: OnceLock::new(),
                unlinked: Copies::default(),
                carries: Carries::default(),
                allowed: OnceLock::new(),
                rests: Arc::new(Semaphore::new(persist::RESTS_MAX)),
            }),
        }
    }

    /// Has `try_write` asked before the first change in a folder, once; `refusal` says whether it has refused
    /// changes at the top.
    ///
    /// # Panics
    ///
    /// If that was said before.
    pub fn ask_before_changes(&self, try_write: TryWrite, refusal: Refusal) {
        let refused_at = match refusal {
            Refusal::Known => Some(self.shared.clock.monotonic()),
            Refusal::Unknown => None,
        };
        let is_first = self.shared.allowed.set(Allowed::new(try_write, refused_at)).is_ok();
        assert!(is_first, "it is known from the start where changes are taken");
    }

    /// Whether no change was taken of those that were tried: then credentials are to be looked at.
    pub fn refuses_changes(&self) -> bool {
        self.shared.allowed.get().is_some_and(Allowed::is_refused)
    }

    /// Finishes what the journal says that an earlier mount began; before the first request.
    /// Records that are not about names are passed over.
    pub async fn replay(&self, records: Vec<(RecordId, Vec<u8>)>) -> Finished {
        self.shared.replay(records).await
    }

    /// Takes over the changes of attributes that an earlier process noted in the ledger and did not
    /// strike out; they are struck out when they are done. Returns the other records.
    pub fn replay_attributes(&self, records: Vec<(RecordId, Vec<u8>)>) -> Vec<(RecordId, Vec<u8>)> {
        let others = |(id, bytes): &(RecordId, Vec<u8>)| match record::read(bytes) {
            Some((Subject::Attributes, words)) => !self.shared.replay_attributes(*id, words),
            Some((Subject::Names, _)) | None => true,
        };
        records.into_iter().filter(others).collect()
    }

    /// How many changes of names `records` begin that are to be finished.
    pub fn moves_begun(records: Vec<(RecordId, Vec<u8>)>) -> u64 {
        replay::moves_begun(records)
    }

    /// What `records` say is to be done in the bucket, attributes too.
    pub fn changes_left(records: Vec<(RecordId, Vec<u8>)>) -> Vec<LeftChange> {
        left::changes(records)
    }

    /// What to ask a store for the first page of the folder `prefix`.
    pub fn first_page(prefix: &Key) -> ListRequest {
        listing::page(prefix, None)
    }

    /// Takes in what the answer to [`Bucket::first_page`] shows, asked for at `began` on the monotonic clock,
    /// when what is returned is polled, so that whoever goes there soon need not wait for it. Nothing of ours
    /// was changed between the two; what is changed from the call on is newer. The folder above is to be known.
    pub fn take_page<P: Future<Output = Option<Page>>>(
        &self,
        folder: (Key, Shows),
        began: Duration,
        page: P,
    ) -> impl Future<Output = ()> + use<P> {
        let shared = Arc::clone(&self.shared);
        let ticket = shared.changes.ticket();
        async move {
            if let Err(error) = shared.take_page(folder, (began, ticket), page).await {
                // Whoever needs it asks again.
                tracing::debug!(%error, "nothing is known of a folder yet");
            }
        }
    }

    /// The folders that were used last, with those above them: few, and none whose first page would lack what
    /// its objects said of themselves. `None` if none was used.
    pub fn folders_used_last(&self) -> Option<Vec<Key>> {
        self.shared.state().folders_used_last(&self.shared.options)
    }

    /// Writes attributes that were changed here into the bucket, a little later; to be polled for as
    /// long as there may be changes. [`Namespace::sync`] writes what is left in the end.
    pub async fn keep_attributes(&self) {
        self.shared.keep_attributes().await;
    }
}

#[async_trait]
impl Namespace for Bucket {
    async fn lookup(&self, parent: Ino, name: &Name) -> Result<Entry> {
        loop {
            let found = match self.shared.find_listed("lookup", parent, name).await {
                // No file can have such a name; whoever wants to make one is told.
                Err(Error { kind: ErrorKind::Invalid | ErrorKind::NotPermitted, .. }) => None,
                found => found?,
            };
            let ino = found.ok_or_else(|| Error::name(ErrorKind::NotFound, "lookup", name))?;
            let mut state = self.shared.state();
            // Others may have needed its room before it was held; that does not happen for ever.
            if state.tree.node(ino).is_some() {
                return Ok(state.entry(name, ino));
            }
        }
    }

    async fn attr(&self, ino: Ino) -> Result<Attr> {
        self.shared.revalidate("attr", ino).await?;
        let mut state = self.shared.state();
        state.tree.named_by_kernel("attr", ino).map(|node| node.attr(ino))
    }

    fn parent(&self, ino: Ino) -> Result<Ino> {
        let state = self.shared.state();
        match state.tree.node(ino).map(|node| &node.place) {
            Some(Place::Root) => Ok(Ino::ROOT),
            Some(Place::Named { parent, .. }) => Ok(*parent),
            Some(Place::Unlinked | Place::Replaced) | None => {
                Err(Error::node(ErrorKind::Stale, "parent", ino))
            }
        }
    }

    async fn listing(&self, dir: Ino) -> Result<Listing> {
        self.shared.listing(dir)
    }

    async fn check_allowed(&self, ino: Ino) -> Result<()> {
        self.shared.check_allowed_of("open", ino).await
    }

    async fn create(&self, parent: Ino, name: &Name, node: NewNode) -> Result<Entry> {
        self.shared.check_allowed("create", parent).await?;
        self.shared.create(parent, name, node).await
    }

    async fn mkdir(&self, parent: Ino, name: &Name, node: NewNode) -> Result<Entry> {
        self.shared.check_allowed("mkdir", parent).await?;
        match self.shared.options.returns {
            Returns::InBucket => self.shared.mkdir(parent, name, node).await,
            Returns::Journaled => self.shared.mkdir_soon(parent, name, node).await,
        }
    }

    async fn unlink(&self, parent: Ino, name: &Name) -> Result<Ino> {
        self.shared.check_allowed("unlink", parent).await?;
        match self.shared.options.returns {
            Returns::InBucket => self.shared.unlink(parent, name).await,
            Returns::Journaled => self.shared.unlink_soon(parent, name).await,
        }
    }

    async fn rmdir(&self, parent: Ino, name: &Name) -> Result<Ino> {
        self.shared.check_allowed("rmdir", parent).await?;
        match self.shared.options.returns {
            Returns::InBucket => self.shared.rmdir(parent, name).await,
            Returns::Journaled => self.shared.rmdir_soon(parent, name).await,
        }
    }

    async fn rename(
        &self,
        from: (Ino, &Name),
        to: (Ino, &Name),
        mode: RenameMode,
    ) -> Result<Option<Ino>> {
        self.shared.check_both_allowed("rename", (from, to)).await?;
        match self.shared.options.returns {
            Returns::InBucket => self.shared.rename(from, to, mode).await,
            Returns::Journaled => self.shared.rename_soon(from, to, mode).await,
        }
    }

    async fn set_attr(&self, ino: Ino, change: SetAttr) -> Result<Attr> {
        self.shared.check_allowed_of("setattr", ino).await?;
        // A size goes with bytes, whose upload keeps the name as it is.
        let _name = match change.size {
            None => self.shared.settle_here(ino).await?,
            Some(_) => NameGuard::none(),
        };
        self.shared.set_attr(ino, change).await
    }

    async fn symlink(
        &self,
        parent: Ino,
        name: &Name,
        target: &[u8],
        owner: Owner,
    ) -> Result<Entry> {
        self.shared.check_allowed("symlink", parent).await?;
        self.shared.symlink((parent, name), target, owner).await
    }

    async fn copy_over_link(&self, link: Ino, file: Ino) -> Result<()> {
        self.shared.check_allowed_of("copy over a link", link).await?;
        self.shared.copy_over_link(link, file).await
    }

    async fn mknod(
        &self,
        parent: Ino,
        name: &Name,
        special: Special,
        node: NewNode,
    ) -> Result<Entry> {
        self.shared.check_allowed("mknod", parent).await?;
        self.shared.mknod((parent, name), special, node).await
    }

    async fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.shared.revalidate("readlink", ino).await?;
        Ok(self.shared.readlink(ino).await?.to_vec())
    }

    async fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.shared.xattr(ino, name).await
    }

    async fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(self.shared.xattrs_of("listxattr", ino).await?.keys().cloned().collect())
    }

    async fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.shared.check_allowed_of("setxattr", ino).await?;
        let _name = self.shared.settle_here(ino).await?;
        self.shared.set_xattr(ino, name, value, mode).await
    }

    async fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.shared.check_allowed_of("removexattr", ino).await?;
        let _name = self.shared.settle_here(ino).await?;
        self.shared.remove_xattr(ino, name).await
    }

    async fn sync(&self, dir: Option<Ino>) -> Result<()> {
        let sent = self.shared.outbox.sent(|dirs| dir.is_none_or(|dir| dirs.contains(&dir))).await;
        sent.and(self.shared.sync_attributes(dir).await)
    }

    async fn sync_below(&self, top: Ino) -> Result<()> {
        self.shared.sync_below(top).await
    }

    fn unsent(&self) -> Unsent {
        self.shared.unsent()
    }

    fn given_up(&self, top: Ino) -> Vec<(u64, String)> {
        let place = self.shared.place_around(top);
        place.map_or_else(Vec::new, |place| self.shared.outbox.unheard(&place))
    }

    fn heard(&self, number: u64) {
        self.shared.outbox.heard(number);
    }

    fn has_given_up(&self, top: Ino) -> bool {
        self.shared.place_around(top).is_some_and(|place| self.shared.outbox.has_unheard(&place))
    }

    async fn settle(&self, ino: Ino) -> Result<NameGuard> {
        self.shared.settle_name(ino).await
    }

    fn is_moving(&self, ino: Ino) -> bool {
        self.shared.state().tree.is_moving(ino)
    }

    fn goes_along(&self, ino: Ino, upload: &str) -> bool {
        self.shared.goes_along(ino, upload)
    }

    fn attach(&self, users: Weak<dyn Users>) {
        assert!(self.shared.users.set(users).is_ok(), "a namespace has one file system above it");
    }

    fn is_aging(&self, ino: Ino) -> bool {
        self.shared.is_aging(ino)
    }

    async fn look_again(&self, ino: Ino) -> Result<()> {
        self.shared.look_again("look again", ino).await
    }

    fn content_now(&self, ino: Ino) -> Result<Content> {
        self.shared.content(ino)
    }

    fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        self.shared.state().tree.names_of("path", ino).ok()
    }

    fn in_folder(&self, ino: Ino) -> Option<InFolder> {
        self.shared.in_folder(ino)
    }

    fn files_after(
        &self,
        place: (Ino, Option<&Name>),
        bytes_max: u64,
        files_max: usize,
    ) -> Vec<Neighbour> {
        self.shared.files_after(place, bytes_max, files_max)
    }

    fn said(&self, ino: Ino) -> Vec<u8> {
        self.shared.said_at_last(ino)
    }

    fn revision(&self) -> u64 {
        self.shared.state().revision
    }

    fn recovered(&self, version: &Version, said: &[u8]) {
        self.shared.recovered(version, said);
    }

    fn restored(&self, key: &Key, version: &Version, said: &[u8]) {
        self.shared.recovered(version, &self.shared.said_at(said.to_vec(), key));
    }

    async fn release(&self, ino: Option<Ino>) {
        self.shared.release(ino).await;
    }

    async fn content(&self, ino: Ino) -> Result<Content> {
        self.shared.revalidate("content", ino).await?;
        self.shared.content(ino)
    }

    fn target(&self, ino: Ino) -> Result<Target> {
        self.shared.target(ino)
    }

    fn destination(&self, ino: Ino) -> Result<Target> {
        self.shared.destination(ino)
    }

    async fn carried(&self, upload: &str, noted: Belongs) -> Result<Option<Belongs>> {
        self.shared.carried(upload, noted).await
    }

    fn is_to_go(&self, key: &Key) -> bool {
        self.shared.carries.is_to_go(key)
    }

    fn carried_all(&self) {
        self.shared.carried_all();
    }

    fn uploads(&self, ino: Ino, upload: &str, name: &NameGuard) -> Result<()> {
        self.shared.uploads(ino, upload, name)
    }

    fn publish(&self, ino: Ino, published: Published) -> Vec<u8> {
        self.shared.publish(ino, published)
    }

    fn abandon(&self, ino: Ino, why: Abandoned) {
        self.shared.abandon(ino, why);
    }

    fn hold(&self, ino: Ino) -> bool {
        self.shared.state().tree.hold(ino)
    }

    fn hold_listed(&self, ino: Ino) -> Option<Attr> {
        let mut state = self.shared.state();
        state.tree.hold(ino).then(|| state.tree.attr(ino))
    }

    fn forget(&self, ino: Ino) {
        let mut state = self.shared.state();
        state.tree.let_go(ino);
        if state.tree.node(ino).is_none() {
            // Its number may soon be that of another file.
            state.leaving.remove(&ino);
        }
        state.tree.shrink(self.shared.options.nodes.max(), None);
    }
}
