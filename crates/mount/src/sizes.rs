//! The sizes of a mount that follow the network.

use remote::PartCopies;
use transfer::Tuned;

use crate::tuning::{WINDOW_BYTES_MAX, part_bytes, part_bytes_fair, window_bytes};

/// Bytes a second in the best seconds of the last minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Best {
    /// From the store.
    pub(crate) received: f64,
    /// To it.
    pub(crate) sent: f64,
}

/// The sizes; copies are one and the same.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    /// How far streams are read ahead.
    pub(crate) window: Tuned,
    /// How large the parts of uploads are.
    pub(crate) parts: Tuned,
    growth: Growth,
}

/// What the parts of uploads follow.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// Nothing: somebody has said how large they are.
    Fixed,
    /// The network, where so much may be in memory.
    Network { memory_bytes: u64 },
}

impl Sizes {
    /// Parts are of `part_bytes` if somebody said so, else what suits the network and `memory_bytes`.
    pub(crate) fn new(part_bytes: Option<u64>, memory_bytes: u64) -> Sizes {
        let growth = part_bytes.map_or(Growth::Network { memory_bytes }, |_| Growth::Fixed);
        let parts = Tuned::of(part_bytes.unwrap_or_else(|| part_bytes_fair(memory_bytes)));
        Sizes { window: Tuned::of(WINDOW_BYTES_MAX), parts, growth }
    }

    /// How large the parts of the uploads of a bucket are whose store copies what `copies` says.
    pub(crate) fn parts_where(&self, copies: PartCopies) -> Tuned {
        match copies {
            // A part is copied only if it was cut as it is now: they stay.
            PartCopies::OwnBlocks => Tuned::of(self.parts.bytes()),
            PartCopies::None | PartCopies::AnyRange { .. } | PartCopies::WholeFirst => {
                self.parts.clone()
            }
        }
    }

    /// From now on they suit a network that brings so much.
    pub(crate) fn follow(&self, best: Best) {
        self.window.set(window_bytes(best.received));
        match self.growth {
            Growth::Fixed => {}
            Growth::Network { memory_bytes } => self.parts.set(part_bytes(best.sent, memory_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use remote::PartCopies;

    use super::{Best, Sizes};

    #[test]
    fn parts_follow_the_network_unless_somebody_said_how_large_they_are() {
        for (said, want) in [(None, [16, 8]), (Some(12 << 20), [12, 12])] {
            let sizes = Sizes::new(said, 512 << 20);
            let before = sizes.parts.bytes() >> 20;
            sizes.follow(Best { received: 0.0, sent: 1e6 });
            assert_eq!([before, sizes.parts.bytes() >> 20], want, "{said:?}");
        }
    }

    #[test]
    fn parts_stay_where_only_such_are_copied_as_were_cut_alike() {
        let anywhere = PartCopies::AnyRange { bytes_max: 5 << 30 };
        for (copies, want) in [
            (PartCopies::OwnBlocks, 16),
            (anywhere, 8),
            (PartCopies::None, 8),
            (PartCopies::WholeFirst, 8),
        ] {
            let sizes = Sizes::new(None, 512 << 20);
            let parts = sizes.parts_where(copies);
            sizes.follow(Best { received: 0.0, sent: 1e6 });
            assert_eq!(parts.bytes() >> 20, want, "{copies:?}");
        }
    }
}
