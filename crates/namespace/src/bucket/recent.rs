//! The folders that were used last, so that the next mount can ask for their names before anybody does.

use std::collections::VecDeque;
use std::time::Duration;

use base::Ino;
use remote::{Entry, Key, Page};

use super::attributes::dress::Sight;
use super::changes::Ticket;
use super::form::Form;
use super::listing::Told;
use super::looks::Source;
use super::nodes::{Kind, Node};
use super::options::BucketOptions;
use super::shared::{Shared, State};
use crate::Result;

/// What a mount asks for before anybody needs it costs so many requests at most.
const FOLDERS_MAX: usize = 8;

/// What of a page is taken in that was asked for before anybody needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Folders: how a file looks a page does not tell, and whoever looks up a single one wants to know.
    Folders,
    /// All, since what the page lacks did not matter when the folder was used last.
    All,
}

/// Folders, the one used last in front.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Ino>);

impl Recent {
    /// Somebody asks about names in `dir`.
    pub(super) fn used(&mut self, dir: Ino) {
        if self.0.front() == Some(&dir) {
            return;
        }
        match self.0.iter().position(|&other| other == dir) {
            Some(place) => drop(self.0.remove(place)),
            None => self.0.truncate(FOLDERS_MAX - 1),
        }
        self.0.push_front(dir);
    }
}

impl State {
    /// The prefixes of the folders that were used last, of which a page tells all that is known.
    pub(super) fn folders_used_last(&self, options: &BucketOptions) -> Vec<Key> {
        let told = self.recent.0.iter().filter(|&&dir| self.is_told_by_pages(dir, options));
        told.filter_map(|&dir| self.tree.prefix("remember", dir).ok()).collect()
    }

    /// Whether none of the objects in `dir` said of itself what a page of names would not have.
    fn is_told_by_pages(&self, dir: Ino, options: &BucketOptions) -> bool {
        let Some(folder) = self.tree.folder(dir) else { return false };
        let nodes = folder.children.values().filter_map(|&ino| self.tree.node(ino));
        let mut spoke = nodes.filter(|node| node.looks.source == Source::Object);
        spoke.all(|node| is_as_assumed(node, options))
    }
}

fn is_as_assumed(Node { kind, looks, .. }: &Node, options: &BucketOptions) -> bool {
    let mode = match kind {
        Kind::File(file) if file.form == Form::Plain => options.file_mode,
        Kind::File(_) => return false,
        Kind::Folder(_) => options.folder_mode,
    };
    (looks.mode, looks.owner) == (mode, options.owner)
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
        let Some(mut page) = page.await else { return Ok(()) };
        // By now nobody would believe it, or the folder is gone.
        let is_old = began + self.options.metadata_ttl <= self.clock.monotonic();
        if is_old || self.state().tree.folder_at(&prefix).is_none() {
            return Ok(());
        }
        self.dress("take in", &prefix, &mut page, Sight::Beginning).await?;
        if shows == Shows::Folders {
            page.entries.retain(|entry| matches!(entry, Entry::Prefix(_)));
        }
        let is_whole = page.next.is_none();
        let mut told = Told::default();
        told.add(&prefix, page.entries, began);
        let mut state = self.state();
        let Some(dir) = state.tree.folder_at(&prefix) else { return Ok(()) };
        for (name, (there, as_of)) in told.names {
            state.tree.tell_name(&ticket, dir, &name, there, as_of);
        }
        if let (Shows::All, Some(folder)) = (shows, state.tree.folder_mut(dir)) {
            folder.interest.learn_size(is_whole);
        }
        state.tree.shrink(self.options.nodes.max(), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::Ino;

    use super::{FOLDERS_MAX, Recent};

    #[test]
    fn the_folders_used_last_are_few_and_each_is_there_once() {
        let mut recent = Recent::default();
        for dir in (1..20).chain([15, 15, 18]) {
            recent.used(Ino(dir));
        }
        let first: Vec<u64> = recent.0.iter().map(|dir| dir.0).collect();
        assert_eq!(first[..4], [18, 15, 19, 17]);
        assert_eq!(first.len(), FOLDERS_MAX);
    }
}
