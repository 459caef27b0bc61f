//! `Rng`: seeded randomness, the only kind there is.

use parking_lot::Mutex;

/// A source of numbers that one seed determines. Not for secrets.
#[derive(Debug)]
pub struct Rng(Mutex<fastrand::Rng>);

impl Rng {
    /// The source that `seed` determines.
    pub fn seeded(seed: u64) -> Rng {
        Rng(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A source that differs from run to run.
    pub fn from_entropy() -> Rng {
        Rng(Mutex::new(fastrand::Rng::new()))
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&self, limit: u64) -> u64 {
        self.0.lock().u64(0..limit)
    }

    /// A number that two calls practically never share.
    pub fn id(&self) -> u128 {
        self.0.lock().u128(..)
    }
}
