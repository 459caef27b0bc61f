//! CRC32C, the checksum of every granule.

/// CRC32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC32C of what `crc` is the checksum of, with `bytes` behind it.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_polynomial_holds() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let first = super::crc32c(b"1234");
        assert_eq!(super::crc32c_append(first, b"56789"), super::crc32c(b"123456789"));
    }
}
