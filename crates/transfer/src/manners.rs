//! How files were read lately. Some programs open a file anew for every piece that they read of it: what was
//! learnt of its readers outlives them.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::reads::Reads;

/// Of so many versions.
const VERSIONS_MAX: usize = 64;

/// How the last versions were read, the one that was opened last at the end.
#[derive(Debug, Default)]
pub(crate) struct Manners(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    identity: Box<[u8]>,
    reads: Arc<Mutex<Reads>>,
}

impl Manners {
    /// How the version `identity` was read; nothing if that is long ago.
    pub(crate) fn of(&self, identity: &[u8]) -> Arc<Mutex<Reads>> {
        let mut known = self.0.lock();
        let at = known.iter().position(|known| *known.identity == *identity);
        let reads = match at {
            Some(at) => known.remove(at).reads,
            None => Arc::default(),
        };
        if known.len() == VERSIONS_MAX {
            known.remove(0);
        }
        known.push(Known { identity: identity.into(), reads: Arc::clone(&reads) });
        reads
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Manners, VERSIONS_MAX};

    #[test]
    fn the_last_versions_are_known_again_and_their_number_is_bounded() {
        let manners = Manners::default();
        let first = manners.of(b"first");
        for number in 1..VERSIONS_MAX {
            manners.of(number.to_string().as_bytes());
        }
        assert!(Arc::ptr_eq(&first, &manners.of(b"first")));
        manners.of(b"one more");
        assert!(Arc::ptr_eq(&first, &manners.of(b"first")), "it was opened lately");
        assert_eq!(manners.0.lock().len(), VERSIONS_MAX);
        let known = manners.0.lock();
        assert!(known.iter().all(|known| *known.identity != *b"1"), "the oldest");
    }
}
