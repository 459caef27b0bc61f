//! The block lists of the blobs that are being replaced: each is asked for once.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::blocks::Blocks;
use crate::{Key, Version};

/// So many are kept: about as many uploads copy parts at a time. The longest has a few megabytes.
const LISTS_MAX: usize = 16;

type List = Arc<OnceCell<Blocks>>;

/// The lists that were asked for last.
#[derive(Debug, Default)]
pub(super) struct Lists {
    // Invariant: at most `LISTS_MAX`, each key and version once.
    lists: Mutex<VecDeque<(Key, Version, List)>>,
}

impl Lists {
    /// The list of this version; empty if nobody has asked for it.
    pub(super) fn of(&self, key: &Key, version: &Version) -> List {
        let mut lists = self.lists.lock();
        let known = lists.iter().find(|known| known.0 == *key && known.1 == *version);
        if let Some((_, _, list)) = known {
            return Arc::clone(list);
        }
        if lists.len() == LISTS_MAX {
            lists.pop_front();
        }
        let list = List::default();
        lists.push_back((key.clone(), version.clone(), Arc::clone(&list)));
        list
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{LISTS_MAX, Lists};
    use crate::{Key, Version};

    #[test]
    fn only_the_latest_lists_are_kept() {
        let lists = Lists::default();
        let version = |number: usize| Version::new(&number.to_string());
        let first = lists.of(&Key::from("a"), &version(0));
        for number in 0..LISTS_MAX {
            let list = lists.of(&Key::from("a"), &version(number));
            assert_eq!(Arc::ptr_eq(&list, &first), number == 0);
        }
        assert!(Arc::ptr_eq(&first, &lists.of(&Key::from("a"), &version(0))));
        lists.of(&Key::from("b"), &version(0));
        assert!(!Arc::ptr_eq(&first, &lists.of(&Key::from("a"), &version(0))));
    }
}
