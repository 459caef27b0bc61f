//! CRC32C, the checksum of every granule.

/// CRC32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_polynomial_holds() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
