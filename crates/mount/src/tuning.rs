//! What is chosen by measuring; pure.

/// What bandwidth times latency of a fast link to a distant store needs.
pub(crate) const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// Enough for 800 MiB a second over a link of 20 ms, so that it never is what keeps a link slow, and with it
/// what is measured.
const WINDOW_BYTES_MIN: u64 = 16 << 20;

/// How far a stream may be read ahead where at best so many bytes came within a second lately, if any did:
/// what comes in a second. More is of no use, and on a slow link keeps it busy with guesses for long.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is too large or negative becomes the nearest that is not"
)]
pub(crate) fn window_bytes(received_bytes_per_second: f64) -> u64 {
    if received_bytes_per_second <= 0.0 {
        return WINDOW_BYTES_MAX;
    }
    (received_bytes_per_second as u64).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
}

/// Parts of uploads that are under way at a time, so that they do not wait for one another.
const PARTS_AT_A_TIME: u64 = 16;

/// The least that stores take.
const PART_BYTES_MIN: u64 = 5 << 20;

/// What makes requests few enough on most links.
const PART_BYTES_USUAL: u64 = 16 << 20;

/// Smaller ones would be sent where little was asked of a fast link lately.
const PART_BYTES_SLOW: u64 = 8 << 20;

/// Larger ones bring nothing, but make an edit of few bytes slow.
const PART_BYTES_MAX: u64 = 32 << 20;

/// The size of the parts of an upload where nothing is known of the network, and `memory_bytes` may be in
/// flight. Of files that would have too many parts they are larger.
pub(crate) fn part_bytes_fair(memory_bytes: u64) -> u64 {
    part_bytes_most(memory_bytes).min(PART_BYTES_USUAL)
}

/// The size of the parts of an upload where at best so many bytes were sent within a second lately: what
/// takes about a second beside the others. On a slow link less is to be sent again after a fault, and
/// when a file is closed; on a fast one requests are fewer.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is too large becomes the nearest that is not, and none is negative"
)]
pub(crate) fn part_bytes(sent_bytes_per_second: f64, memory_bytes: u64) -> u64 {
    let usual = part_bytes_fair(memory_bytes);
    if sent_bytes_per_second <= 0.0 {
        return usual;
    }
    let share = sent_bytes_per_second as u64 / PARTS_AT_A_TIME;
    let suited = share.saturating_add((1 << 20) - 1) >> 20 << 20;
    suited.clamp(PART_BYTES_SLOW.min(usual), part_bytes_most(memory_bytes))
}

fn part_bytes_most(memory_bytes: u64) -> u64 {
    (memory_bytes / PARTS_AT_A_TIME).clamp(PART_BYTES_MIN, PART_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::{part_bytes, part_bytes_fair, window_bytes};

    #[test]
    fn sixteen_parts_fit_into_the_memory_if_it_is_not_too_little() {
        for (memory, want) in [(1 << 30, 16), (512, 16), (128, 8), (1, 5)] {
            assert_eq!(part_bytes_fair(memory << 20) >> 20, want, "{memory}");
        }
    }

    #[test]
    fn a_part_takes_about_a_second_beside_the_others_within_limits() {
        const MIB: f64 = 1_048_576.0;
        for (rate, memory, want) in [
            (0.0, 512, 16),
            (1.0, 512, 8),
            (200.0, 512, 13),
            (4000.0, 512, 32),
            (4000.0, 256, 16),
            (4000.0, 64, 5),
            (1.0, 64, 5),
        ] {
            assert_eq!(part_bytes(rate * MIB, memory << 20) >> 20, want, "{rate} {memory}");
        }
    }

    #[test]
    fn a_window_is_what_a_second_brings_within_limits() {
        const MIB: f64 = 1_048_576.0;
        for (rate, want) in
            [(0.0, 128), (-1.0, 128), (2.0 * MIB, 16), (50.0 * MIB, 50), (900.0 * MIB, 128)]
        {
            assert_eq!(window_bytes(rate) >> 20, want, "{rate}");
        }
    }
}
