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

#[cfg(test)]
mod tests {
    use super::window_bytes;

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
