//! The promises of [`Remote`], as checks that any implementation can be run against.
//!
//! Each check works below a prefix of its own and panics with the promise that broke. What a store
//! may lack (conditional writes, odd keys) is left out by its personality or by its refusal; what
//! it takes it must keep exactly.

mod bench;
mod copies;
mod lists;
mod names;
mod reads;
mod uploads;
mod writes;

pub use bench::{Bench, Check};

use crate::{Key, Remote};

/// Every promise.
pub fn all() -> impl Iterator<Item = Check> {
    let all = [reads::ALL, writes::ALL, lists::ALL, uploads::ALL, copies::ALL, names::ALL];
    all.into_iter().flatten().copied()
}

/// Runs every check below `prefix`, which is empty or ends in `/`, and under which nothing is yet.
///
/// # Panics
///
/// If a promise is broken.
pub async fn run(remote: &dyn Remote, prefix: &str) {
    run_but(remote, prefix, &[]).await;
}

/// Those of names alone: a store with folders of its own shows them in listings, where the others expect
/// nothing but keys.
///
/// # Panics
///
/// If a promise is broken.
pub async fn run_names(remote: &dyn Remote, prefix: &str) {
    for (name, check) in names::ALL {
        tracing::debug!(name, "conformance check");
        check(&Bench::new(remote, Key::from(&format!("{prefix}{name}/")[..]), name)).await;
    }
}

/// As [`run`], but for the checks named in `known_broken`: what a store is known not to keep.
///
/// # Panics
///
/// If another promise is broken, or there is no check of such a name.
pub async fn run_but(remote: &dyn Remote, prefix: &str, known_broken: &[&str]) {
    for name in known_broken {
        assert!(all().any(|(known, _)| known == *name), "no check is named {name}");
    }
    for (name, check) in all().filter(|(name, _)| !known_broken.contains(name)) {
        tracing::debug!(name, "conformance check");
        check(&Bench::new(remote, Key::from(&format!("{prefix}{name}/")[..]), name)).await;
    }
}
