//! A bound that several keep together, each within an equal part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What there is for all.
#[derive(Clone, Debug)]
pub struct Shares {
    total: usize,
    members: Arc<AtomicUsize>,
}

/// What one may have of it, for as long as this or a copy lives.
#[derive(Clone, Debug)]
pub struct Share(Arc<Member>);

#[derive(Debug)]
struct Member(Shares);

impl Shares {
    /// `total` for all who will come.
    pub fn of(total: usize) -> Shares {
        Shares { total, members: Arc::default() }
    }

    /// One more among those who share.
    pub fn join(&self) -> Share {
        self.members.fetch_add(1, Ordering::Relaxed);
        Share(Arc::new(Member(self.clone())))
    }
}

impl Share {
    /// All of `total` for one.
    pub fn whole(total: usize) -> Share {
        Shares::of(total).join()
    }

    /// An equal part for each who shares now, at least one.
    pub fn max(&self) -> usize {
        let Shares { total, members } = &self.0.0;
        (total / members.load(Ordering::Relaxed).max(1)).max(1)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.members.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Share, Shares};

    #[test]
    fn each_has_less_the_more_there_are() {
        let shares = Shares::of(10);
        let one = shares.join();
        assert_eq!(one.max(), 10);
        let others = [shares.join(), shares.join()];
        assert_eq!((one.max(), one.clone().max(), others[0].max()), (3, 3, 3));
        drop(others);
        assert_eq!(one.max(), 10);
        assert_eq!(Share::whole(0).max(), 1, "who shares is never without");
    }
}
