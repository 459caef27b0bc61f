//! The processors that a thread may run on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that a thread may run on.
///
/// Threads that answer the kernel may stay on one processor each, and a thread inherits that from
/// who starts it: one that is started out of a request calls [`Affinity::restore`] first of all, of
/// what was allowed before.
#[derive(Clone, Copy, Debug)]
pub struct Affinity(Option<CpuSet>);

impl Affinity {
    /// What the calling thread may use; everything if the system does not say.
    pub fn of_this_thread() -> Affinity {
        Affinity(sched_getaffinity(None).ok())
    }

    /// The calling thread may use them again, and no others. If the system does not let it, it stays
    /// where it is.
    pub fn restore(&self) {
        if let Some(set) = &self.0 {
            // It is as right, and slower.
            let _ = sched_setaffinity(None, set);
        }
    }

    /// Those of the first `count` processors.
    pub fn numbers(&self, count: usize) -> Vec<usize> {
        let allowed = |cpu: &usize| self.0.is_none_or(|set| set.is_set(*cpu));
        (0..count.min(CpuSet::MAX_CPU)).filter(allowed).collect()
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_setaffinity};

    use super::Affinity;

    #[test]
    fn who_was_bound_to_a_processor_goes_anywhere_again() {
        let before = Affinity::of_this_thread();
        let all = before.numbers(CpuSet::MAX_CPU);
        let mut one = CpuSet::new();
        one.set(all[0]);
        sched_setaffinity(None, &one).expect("it is one of ours");
        assert_eq!(Affinity::of_this_thread().numbers(CpuSet::MAX_CPU), all[..1]);
        before.restore();
        assert_eq!(Affinity::of_this_thread().numbers(CpuSet::MAX_CPU), all);
    }
}
