//! A bound on bytes in flight: whoever wants to hold bytes holds a [`Permit`] for them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of the allowance: a semaphore counts to 2^29 or so on small machines, bytes go further.
const UNIT_BYTES: u64 = 4096;

/// A shared allowance of bytes, given out in order of asking.
#[derive(Clone, Debug)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
}

/// The right to hold some bytes; given back on drop.
#[derive(Debug)]
pub struct Permit {
    _units: OwnedSemaphorePermit,
}

impl Budget {
    /// An allowance of `limit_bytes`, none of it taken. At least one unit of 4 KiB.
    pub fn new(limit_bytes: u64) -> Budget {
        let units_max = u32::try_from(limit_bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        Budget { units: Arc::new(Semaphore::new(units_max as usize)), units_max }
    }

    /// How many bytes there are in all.
    pub fn limit_bytes(&self) -> u64 {
        u64::from(self.units_max) * UNIT_BYTES
    }

    /// Waits until `bytes` fit. Who asks for more than the whole budget gets all of it, alone.
    #[must_use = "the bytes go back as soon as the permit is dropped"]
    pub async fn acquire(&self, bytes: u64) -> Permit {
        let units = self.units_for(bytes);
        let permit = Arc::clone(&self.units).acquire_many_owned(units).await;
        Permit { _units: permit.expect("the semaphore is never closed") }
    }

    /// Takes `bytes` if they fit now.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        let units = self.units_for(bytes);
        let permit = Arc::clone(&self.units).try_acquire_many_owned(units).ok()?;
        Some(Permit { _units: permit })
    }

    fn units_for(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.units_max)
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[tokio::test]
    async fn a_dropped_permit_lets_the_next_one_in() {
        let budget = Budget::new(1 << 20);
        let held = budget.acquire(1 << 20).await;
        assert!(budget.try_acquire(1).is_none());
        drop(held);
        assert!(budget.try_acquire(1 << 20).is_some());
    }

    #[tokio::test]
    async fn asking_for_more_than_all_waits_for_all_and_not_for_ever() {
        let budget = Budget::new(8192);
        let _all = budget.acquire(1 << 30).await;
        assert!(budget.try_acquire(1).is_none());
    }
}
