//! Bytes that do not compress and do not repeat, the same for the same seed.

/// `len` bytes made from `seed`.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    // SplitMix64: every seed, also zero, gives a full-period stream.
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::noise;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(noise(7, 1000), noise(7, 1000));
        assert_ne!(noise(7, 1000), noise(8, 1000));
        assert_eq!(noise(7, 1000)[..13], noise(7, 13));
    }
}
