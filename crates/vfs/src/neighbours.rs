//! What is known of files that are fetched before they are opened.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use transfer::Download;

use crate::trail::Trails;

/// Who follows which folder, and what is under way.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) trails: Mutex<Trails>,
    /// Who fetches more than one file holds one: what so many fetch is enough to guess.
    pub(crate) turns: Arc<Semaphore>,
    /// By what their bytes are known: who opens one meanwhile waits for the same bytes.
    under_way: Mutex<HashMap<Vec<u8>, Arc<Download>>>,
}

/// Folders, or stretches of one, that are fetched at a time.
const FETCHES_MAX: usize = 8;

impl Default for Beside {
    fn default() -> Beside {
        let (trails, under_way) = (Mutex::default(), Mutex::default());
        Beside { trails, turns: Arc::new(Semaphore::new(FETCHES_MAX)), under_way }
    }
}

impl Beside {
    /// The download of `identity` that is under way.
    pub(crate) fn under_way(&self, identity: &[u8]) -> Option<Arc<Download>> {
        self.under_way.lock().get(identity).map(Arc::clone)
    }

    /// Whether `download` of `identity` is the one that is under way from now on.
    pub(crate) fn begin(&self, identity: &[u8], download: &Arc<Download>) -> bool {
        match self.under_way.lock().entry(identity.to_vec()) {
            Entry::Vacant(place) => {
                place.insert(Arc::clone(download));
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// It is over.
    pub(crate) fn end(&self, identity: &[u8]) {
        self.under_way.lock().remove(identity);
    }
}
