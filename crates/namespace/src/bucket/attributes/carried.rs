//! A name moves: the line that speaks of it in the folder above goes with it.
//!
//! What is below a folder is copied with it, lines and all. The line of what moves itself is not: it
//! is in the folder above. A move therefore has three steps more, and the first and the last are in
//! the ledger, so that a crash between any two leaves nothing twice and loses nothing.
//!
//! ```text
//!   all is copied      the line of the new name     the journal: the new     the line of the old
//!                ────▶ is that of the old one  ────▶ name counts        ────▶ name goes
//! ```

use base::Ino;
use remote::{Key, Version};

use super::delay::What;
use super::item::{Item, Label};
use super::place;
use super::read::Want;
use crate::Result;
use crate::bucket::keys::{self, Company};
use crate::bucket::shared::Shared;
use crate::bucket::tree::Tree;

const OP: &str = "rename";

/// What was said of a name before something else was.
#[derive(Debug)]
pub(in crate::bucket) struct Before(Key, Label, Option<Item>);

/// Which object a copy is, if the object of this version was copied.
pub(in crate::bucket) type CopyOf<'a> = dyn Fn(&Version) -> Option<Version> + Sync + 'a;

impl Shared {
    /// What is said of `ino` is said of the name with the key, or prefix, `to`. Returns what was
    /// said of that before.
    pub(in crate::bucket) fn line_lands(&self, ino: Ino, to: &Key) -> Result<Option<Before>> {
        let before = {
            let mut state = self.state();
            let (Some((prefix, label)), Some((_, item))) =
                (self.entry_at(to), state.tree.said_of(ino))
            else {
                return Ok(None);
            };
            let books = state.tree.books.as_ref();
            let before = books.and_then(|books| books.item(&prefix, &label)).cloned();
            state.tree.note_line((prefix.clone(), label.clone()), item);
            Before(prefix, label, before)
        };
        match self.record_noted(OP, ino) {
            Ok(()) => Ok(Some(before)),
            Err(error) => {
                self.line_stays(Some(before));
                Err(error)
            }
        }
    }

    /// The name does not get the line after all.
    pub(in crate::bucket) fn line_stays(&self, before: Option<Before>) {
        let Some(Before(prefix, label, item)) = before else { return };
        self.state().tree.note_line((prefix, label), item);
        self.record_noted_or_log(OP, Ino::ROOT);
    }

    /// What is said of the file `ino` is said of the object with the key `to`, too, which is a copy of it with the
    /// version `copy`; what was said of another object there is void.
    pub(in crate::bucket) fn line_is_copied(&self, ino: Ino, (to, copy): (&Key, Version)) {
        let Some(entry) = self.entry_at(to) else { return };
        {
            let mut state = self.state();
            let said = state.tree.said_of(ino).and_then(|(_, item)| item);
            state.tree.note_line(entry, said.map(|item| Item { version: Some(copy), ..item }));
        }
        self.record_noted_or_log("copy over a link", ino);
    }

    /// The name with the key, or prefix, `from` is no more: nothing is said of it.
    pub(in crate::bucket) fn line_leaves(&self, from: &Key) -> Result<()> {
        let Some(entry) = self.entry_at(from) else { return Ok(()) };
        self.state().tree.note_line(entry, None);
        self.record_noted(OP, Ino::ROOT)
    }

    /// As [`Shared::line_lands`], for who finishes a move of which only the keys are known.
    pub(in crate::bucket) async fn line_follows(
        &self,
        (from, to): (&Key, &Key),
        copy_of: &CopyOf<'_>,
    ) -> Result<()> {
        let (Some(source), Some(target)) = (self.entry_at(from), self.entry_at(to)) else {
            return Ok(());
        };
        let said = self.line_of(&source).await?;
        self.line_of(&target).await?;
        let item = match said {
            None if is_folder(from) => None,
            Some(item) if is_folder(from) && item.is_folder() => Some(item),
            // What an object carries itself was copied with it. What is said of another one is void.
            None => return Ok(()),
            Some(item) => match item.version.as_ref().and_then(copy_of) {
                Some(version) => Some(Item { version: Some(version), ..item }),
                None => return Ok(()),
            },
        };
        self.state().tree.note_line(target, item);
        self.record_noted(OP, Ino::ROOT)
    }

    /// As [`Shared::line_leaves`], of a folder that moved, unless that was done already and somebody
    /// has made a folder of that name since.
    pub(in crate::bucket) async fn line_left(&self, (from, to): (&Key, &Key)) -> Result<()> {
        let (Some(source), Some(target)) = (self.entry_at(from), self.entry_at(to)) else {
            return Ok(());
        };
        let (left, landed) = (self.line_of(&source).await?, self.line_of(&target).await?);
        let bare = |item: Option<Item>| item.map(|item| Item { ctime: None, ..item });
        let (left, landed) = (bare(left), bare(landed));
        if is_folder(from) && left.is_some() && left == landed {
            self.line_leaves(from)?;
        }
        Ok(())
    }

    fn entry_at(&self, key: &Key) -> Option<(Key, Label)> {
        entry_at(key, self.remote.personality().key_bytes_max)
    }

    async fn line_of(&self, (prefix, label): &(Key, Label)) -> Result<Option<Item>> {
        self.freshen(OP, prefix, Want::One(label)).await?;
        let state = self.state();
        let books = state.tree.books.as_ref();
        Ok(books.and_then(|books| books.item(prefix, label)).cloned())
    }
}

impl Tree {
    /// Notes what is said of a name, for who tells the ledger of it next.
    fn note_line(&mut self, entry: (Key, Label), item: Option<Item>) {
        let noted = self.note_item(entry, item, What::Attributes);
        self.unrecorded.extend(noted);
    }
}

/// Where the line about what has the key, or the prefix, `key` is; `None` if there is never one.
pub(super) fn entry_at(key: &Key, key_bytes_max: usize) -> Option<(Key, Label)> {
    let bytes = key.as_bytes();
    if bytes.is_empty() {
        return None;
    }
    let bare = bytes.strip_suffix(b"/").unwrap_or(bytes);
    let begins = bare.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let prefix = Key::from(&bytes[..begins]);
    let name = keys::name(&prefix, &bare[begins..], Company::Alone)?;
    let is_told = place::has_attributes(&prefix, key_bytes_max) && !keys::is_chunk_name(&name);
    is_told.then(|| (prefix, bytes[begins..].to_vec()))
}

fn is_folder(key: &Key) -> bool {
    key.as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use remote::Key;

    use super::entry_at;

    #[test]
    fn a_line_is_in_the_folder_above() {
        for (key, want) in [
            ("a", Some(("", "a"))),
            ("a/", Some(("", "a/"))),
            ("a/b", Some(("a/", "b"))),
            ("a//b/", Some(("a//", "b/"))),
            ("", None),
        ] {
            let want = want.map(|(prefix, label)| (Key::from(prefix), label.as_bytes().to_vec()));
            assert_eq!(entry_at(&Key::from(key), 1024), want, "{key}");
        }
        assert_eq!(entry_at(&Key::from("x".repeat(300).as_str()), 1024), None);
        assert_eq!(entry_at(&Key::from("a/b"), 31), None, "its folder has no attribute object");
    }
}
