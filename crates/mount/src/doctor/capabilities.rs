//! What is known of what the store can do, from this trial and from earlier mounts.

use std::sync::Arc;

use base::{Clock, Metrics, SystemClock};
use remote::{Capability, Has, Learned};
use store::{Options, Store};

use super::finding::Finding;
use crate::config::Config;
use crate::knowledge::{Knowledge, keeps_conditions};

/// Tells all of it; mounts of the same state folder know it from then on.
pub(super) fn look(config: &Config, learned: &Arc<Learned>) -> Finding {
    remember(config, learned);
    let subject = "store: what it can do";
    let of = |wanted: Option<Has>| {
        let names = Capability::ALL.into_iter().filter(|&one| learned.has(one) == wanted);
        // Only where it is asked for can it be seen, and there it is asked for at once.
        let names = names.filter(|&one| wanted.is_some() || one != Capability::RealFolders);
        let names: Vec<&str> = names.map(Capability::name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let all = [("has", Some(Has::Yes)), ("lacks", Some(Has::No)), ("not seen yet", None)];
    let told = all.into_iter().filter_map(|(word, has)| Some(format!("{word}: {}", of(has)?)));
    let seen = told.collect::<Vec<String>>().join("; ");
    if !keeps_conditions(learned) {
        let advice = "objects are looked at before they are written: what others write to the same \
             object in that moment is replaced";
        return Finding::warn(subject, seen, advice);
    }
    Finding::ok(subject, seen)
}

/// Where there is a state folder; none is made for that.
fn remember(config: &Config, learned: &Arc<Learned>) {
    if !Store::is_at(&config.state_dir) {
        return;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = Options { dir: config.state_dir.clone(), cache: config.cache };
    match Store::open(options, Arc::clone(&clock), Arc::new(Metrics::new())) {
        Ok(store) => Knowledge::recall(&store, config, Arc::clone(learned), &clock).keep(),
        Err(error) => tracing::warn!(%error, "what the store can do is not remembered"),
    }
}
