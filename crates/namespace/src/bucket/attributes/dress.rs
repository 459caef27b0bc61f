//! Before a page of a listing is told, what the folder's attribute object says of it is read, and
//! objects of which it says what is not true any more are asked themselves.

use futures::{StreamExt as _, stream};
use remote::{Entry, Key, Meta, Page, Version};

use super::place;
use super::read::{Sightings, Want};
use crate::bucket::listing;
use crate::bucket::looks::Source;
use crate::bucket::nodes::Kind;
use crate::bucket::shared::Shared;
use crate::{Error, Result};

/// Objects that are asked at a time how they look.
const DOUBTFUL_AT_A_TIME: usize = 32;

/// What a page shows of the folder's attribute object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bucket) enum Sight {
    /// It begins with the folder: what there is of attribute objects is in it, if it goes that far.
    Beginning,
    /// It begins elsewhere.
    Elsewhere,
    /// It begins elsewhere, and nobody has looked yet.
    Unknown,
    /// Another page of the same listing showed it.
    Told,
}

impl Shared {
    /// Prepares a page of the folder `prefix` for being told.
    pub(in crate::bucket) async fn dress(
        &self,
        op: &'static str,
        prefix: &Key,
        page: &mut Page,
        sight: Sight,
    ) -> Result<()> {
        let past = prefix.join(&[place::OBJECT, b"/"].concat());
        let goes_past = page.entries.last().is_some_and(|last| past < *last.key());
        let stops_short = page.next.is_some() && !goes_past;
        let sight = if sight == Sight::Beginning && stops_short { Sight::Unknown } else { sight };
        self.dress_lines(op, prefix, &mut page.entries, sight).await
    }

    /// Prepares lines of the folder `prefix` for being told.
    pub(in crate::bucket) async fn dress_lines(
        &self,
        op: &'static str,
        prefix: &Key,
        lines: &mut [Entry],
        sight: Sight,
    ) -> Result<()> {
        match sight {
            Sight::Beginning => {
                let sightings = sightings(prefix, lines);
                self.freshen(op, prefix, Want::Listed(&sightings)).await?;
            }
            Sight::Elsewhere | Sight::Unknown => self.freshen(op, prefix, Want::All).await?,
            Sight::Told => {}
        }
        self.ask_doubtful(op, prefix, lines).await
    }

    async fn ask_doubtful(
        &self,
        op: &'static str,
        prefix: &Key,
        lines: &mut [Entry],
    ) -> Result<()> {
        let doubtful: Vec<(usize, Key, Version)> = {
            let state = self.state();
            let Some(book) = state.tree.books.as_ref().and_then(|books| books.get(prefix)) else {
                return Ok(());
            };
            let dir = state.tree.folder_at(prefix);
            let is_known = |rest: &[u8], version: &Version| {
                let ino = dir.and_then(|dir| state.tree.object_named(dir, prefix, rest));
                let node = ino.and_then(|ino| state.tree.node(ino));
                node.is_some_and(|node| match &node.kind {
                    Kind::File(file) => {
                        file.unpublished()
                            || file.in_bucket() == Some(version)
                                && matches!(node.looks.source, Source::Object | Source::Here)
                    }
                    Kind::Folder(_) => false,
                })
            };
            let doubt = |(at, line): (usize, &Entry)| {
                let Entry::Object(key, Meta { version, .. }) = line else { return None };
                let rest = &key.as_bytes()[prefix.as_bytes().len()..];
                let said = book.item(rest)?.version.as_ref()?;
                let is_void = said != version && !is_known(rest, version);
                is_void.then(|| (at, key.clone(), version.clone()))
            };
            lines.iter().enumerate().filter_map(doubt).collect()
        };
        let asked: Vec<(usize, Version, remote::Result<Meta>)> = stream::iter(doubtful)
            .map(|(at, key, version)| async move { (at, version, self.remote.head(&key).await) })
            .buffer_unordered(DOUBTFUL_AT_A_TIME)
            .collect()
            .await;
        for (at, version, asked) in asked {
            let found = match asked {
                Ok(found) => found,
                // It was removed meanwhile: the next listing says so.
                Err(error) if error.kind == remote::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::remote(op, error)),
            };
            if let Entry::Object(_, meta) = &mut lines[at]
                && found.version == version
            {
                meta.metadata = listing::asked(found.metadata);
            }
        }
        Ok(())
    }
}

fn sightings(prefix: &Key, lines: &[Entry]) -> Sightings {
    let seen = |line: &Entry| {
        let Entry::Object(key, meta) = line else { return None };
        let rest = key.as_bytes().strip_prefix(prefix.as_bytes())?;
        place::is_attributes(rest).then(|| (rest.to_vec(), meta.version.clone()))
    };
    lines.iter().filter_map(seen).collect()
}
