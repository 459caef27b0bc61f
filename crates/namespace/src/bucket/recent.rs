//! Which folders were used last.

use std::collections::VecDeque;

use base::Ino;

/// What a mount asks for before anybody needs it costs so many requests at most.
pub(super) const FOLDERS_MAX: usize = 8;

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

    /// The one used last comes first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Ino> {
        self.0.iter().copied()
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
