//! The folders that were used last, so that the next mount can ask for their names before anybody does.

use std::time::Duration;

use remote::{Entry, Key, ListOrder, Page};

use super::attributes::dress::Sight;
use super::changes::Ticket;
use super::form::Form;
use super::listing::Told;
use super::looks::Source;
use super::nodes::{Kind, Node, Place};
use super::options::{Attributes, BucketOptions};
use super::pages::rest_of;
use super::recent::FOLDERS_MAX;
use super::shared::{Shared, State};
use super::window::Range;
use crate::Result;

/// What of a page is taken in that was asked for before anybody needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Folders: how a file looks a page does not tell, and whoever looks up a single one wants to know.
    Folders,
    /// All, since what the page lacks did not matter when the folder was used last.
    All,
}

impl State {
    /// The prefixes of the folders that were used last, with those above them, of which a page tells all that
    /// is known. `None` if none was used.
    pub(super) fn folders_used_last(&self, options: &BucketOptions) -> Option<Vec<Key>> {
        let mut folders: Vec<Key> = Vec::new();
        for dir in self.recent.iter() {
            let Ok(prefix) = self.tree.prefix("remember", dir) else { continue };
            let mut path = with_those_above(&prefix);
            // What is not found by its path could not be taken in either.
            let is_right = self.tree.folder_at(&prefix) == Some(dir)
                && path.iter().all(|prefix| self.is_told_by_pages(prefix, options));
            path.retain(|prefix| !folders.contains(prefix));
            if is_right && folders.len() + path.len() <= FOLDERS_MAX {
                folders.extend(path);
            }
        }
        self.recent.iter().next().is_some().then_some(folders)
    }

    /// Whether nothing in the folder `prefix` looks otherwise than a page of names would have it.
    fn is_told_by_pages(&self, prefix: &Key, options: &BucketOptions) -> bool {
        let dir = self.tree.folder_at(prefix);
        let Some(folder) = dir.and_then(|dir| self.tree.folder(dir)) else { return false };
        let mut nodes = folder.children.values().filter_map(|&ino| self.tree.node(ino));
        nodes.all(|node| match node.looks.source {
            Source::Assumed | Source::Doubtful | Source::Kept => true,
            // It is in the folder's attribute object, where there is one.
            Source::Here if options.attributes != Attributes::Off => true,
            Source::Here | Source::Object => is_as_assumed(node, options),
        })
    }

    /// Whether each part of `prefix` is what it was when the ticket was drawn.
    fn is_path_unchanged(&self, ticket: &Ticket, prefix: &Key) -> bool {
        with_those_above(prefix).iter().all(|prefix| {
            let dir = self.tree.folder_at(prefix).and_then(|dir| self.tree.node(dir));
            match dir.map(|node| &node.place) {
                Some(Place::Root) => true,
                Some(Place::Named { parent, name }) => ticket.tells(*parent, name),
                Some(Place::Unlinked | Place::Replaced) | None => false,
            }
        })
    }
}

/// The folder `prefix`, and those above it but for the top one.
fn with_those_above(prefix: &Key) -> Vec<Key> {
    let bytes = prefix.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut path: Vec<Key> = slashes.map(|(at, _)| Key::from(&bytes[..=at])).collect();
    if bytes.is_empty() {
        path.push(prefix.clone());
    }
    path
}

/// Whether somebody's word on the node is what is assumed of it without, times too.
fn is_as_assumed(Node { kind, looks, .. }: &Node, options: &BucketOptions) -> bool {
    let (mode, time) = match kind {
        Kind::File(file) if file.form == Form::Plain => (options.file_mode, file.modified()),
        // Nothing but its marker tells of a folder's times.
        Kind::File(_) | Kind::Folder(_) => return false,
    };
    let times = [looks.mtime, looks.atime, looks.ctime];
    (looks.mode, looks.owner) == (mode, options.owner) && times.map(Some) == [time; 3]
}

impl Shared {
    /// Takes in what the first page of the folder `prefix` shows, which was asked for at `began`; what was
    /// changed after the ticket was drawn is newer. What is not mentioned may have come meanwhile.
    pub(super) async fn take_page(
        &self,
        (prefix, shows): (Key, Shows),
        (began, ticket): (Duration, Ticket),
        page: impl Future<Output = Option<Page>>,
    ) -> Result<()> {
        // Later than that nobody would believe it.
        let is_old_at = began + self.options.metadata_ttl;
        let left = is_old_at.saturating_sub(self.clock.monotonic());
        let page = tokio::select! {
            biased;
            page = page => page,
            () = async { self.clock.sleep(left).await } => None,
        };
        let Some(mut page) = page else { return Ok(()) };
        let is_unsorted = self.remote.personality().naming.order == ListOrder::Unsorted;
        let is_old = is_old_at <= self.clock.monotonic();
        // What else there is of any name may be on another page.
        if is_old || is_unsorted && page.next.is_some() {
            return Ok(());
        }
        if self.state().tree.folder_at(&prefix).is_none() {
            return Ok(());
        }
        self.dress("take in", &prefix, &mut page, Sight::Beginning).await?;
        let last = page.entries.last().map(|entry| rest_of(&prefix, entry.key()));
        let range = match &page.next {
            None => Range::All,
            Some(_) => Range::Page { first: None, last: Some(last.unwrap_or_default()) },
        };
        if shows == Shows::Folders {
            page.entries.retain(|entry| matches!(entry, Entry::Prefix(_)));
        }
        let mut told = Told::default();
        told.add(&prefix, page.entries, began);
        let mut state = self.state();
        let dir = state.tree.folder_at(&prefix);
        let dir = dir.filter(|_| state.is_path_unchanged(&ticket, &prefix));
        let Some(dir) = dir else { return Ok(()) };
        for (name, (there, as_of)) in told.names {
            if range.covers(&name) || shows == Shows::Folders {
                state.tree.tell_name(&ticket, dir, &name, there, as_of);
            }
        }
        if let (Shows::All, Some(folder)) = (shows, state.tree.folder_mut(dir)) {
            folder.interest.learn_size(range == Range::All);
        }
        state.tree.shrink(self.options.nodes.max(), None);
        Ok(())
    }
}
