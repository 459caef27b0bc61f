//! `PieceV1`: which granules of a piece are here and their checksums, as a row of the database.
//!
//! ```text
//! byte 0        1, the version
//! bytes 1, 2    n, the number of granules of the piece, little endian
//! (n + 7) / 8   bits, granule 0 lowest, set if the granule is here
//! n * 4         CRC32C of each granule, little endian; zero where it is not here
//! ```

/// The checksums of the granules of one piece that are here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PieceV1 {
    sums: Vec<Option<u32>>,
}

const VERSION: u8 = 1;

impl PieceV1 {
    /// A piece of `granules` granules, none of them here.
    pub(crate) fn empty(granules: usize) -> PieceV1 {
        PieceV1 { sums: vec![None; granules] }
    }

    /// How many granules it has, here or not.
    pub(crate) fn granules(&self) -> usize {
        self.sums.len()
    }

    /// The checksum of `granule` if it is here.
    pub(crate) fn sum(&self, granule: usize) -> Option<u32> {
        self.sums.get(granule).copied().flatten()
    }

    /// Notes that `granule` is here.
    pub(crate) fn insert(&mut self, granule: usize, sum: u32) {
        self.sums[granule] = Some(sum);
    }

    /// Notes that `granule` is not here.
    pub(crate) fn remove(&mut self, granule: usize) {
        if let Some(sum) = self.sums.get_mut(granule) {
            *sum = None;
        }
    }

    /// Each granule that is here, with its checksum.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, u32)> {
        self.sums.iter().enumerate().filter_map(|(granule, sum)| Some((granule, (*sum)?)))
    }

    /// Adds what `other` has. Versions are immutable: where both have a granule, the sums agree.
    pub(crate) fn merge(&mut self, other: &PieceV1) {
        for (granule, sum) in other.present() {
            if granule < self.sums.len() {
                self.sums[granule] = Some(sum);
            }
        }
    }

    /// Whether `other` has all that this one has.
    pub(crate) fn is_within(&self, other: &PieceV1) -> bool {
        self.present().all(|(granule, _)| other.sum(granule).is_some())
    }

    /// The bytes of the row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let count = u16::try_from(self.sums.len()).expect("a piece has at most 1,024 granules");
        let bits_len = self.sums.len().div_ceil(8);
        let mut out = Vec::with_capacity(3 + bits_len + 4 * self.sums.len());
        out.push(VERSION);
        out.extend_from_slice(&count.to_le_bytes());
        out.resize(3 + bits_len, 0);
        for (granule, _) in self.present() {
            out[3 + granule / 8] |= 1 << (granule % 8);
        }
        for sum in &self.sums {
            out.extend_from_slice(&sum.unwrap_or(0).to_le_bytes());
        }
        out
    }

    /// The piece of a row; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<PieceV1> {
        let (head, rest) = bytes.split_at_checked(3)?;
        if head[0] != VERSION {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([head[1], head[2]]));
        let (bits, sums) = rest.split_at_checked(count.div_ceil(8))?;
        if sums.len() != 4 * count {
            return None;
        }
        let sums = sums.chunks_exact(4).enumerate().map(|(granule, sum)| {
            let is_here = bits[granule / 8] & (1 << (granule % 8)) != 0;
            is_here.then(|| u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]))
        });
        Some(PieceV1 { sums: sums.collect() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::PieceV1;

    #[test]
    fn the_bytes_of_a_piece_never_change() {
        let mut piece = PieceV1::empty(10);
        piece.insert(0, 0x0102_0304);
        piece.insert(9, 0xffee_ddcc);
        let mut want = vec![1, 10, 0, 0b0000_0001, 0b0000_0010, 4, 3, 2, 1];
        want.extend([0; 32]);
        want.extend([0xcc, 0xdd, 0xee, 0xff]);
        assert_eq!(piece.encode(), want);
    }

    #[test]
    fn a_piece_of_another_version_or_length_is_not_read() {
        let bytes = PieceV1::empty(10).encode();
        assert_eq!(PieceV1::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(PieceV1::decode(&[]), None);
        let mut newer = bytes;
        newer[0] = 2;
        assert_eq!(PieceV1::decode(&newer), None);
    }

    proptest! {
        #[test]
        fn a_piece_comes_back_as_it_was(
            sums in prop::collection::vec(any::<Option<u32>>(), 0..1025),
        ) {
            let piece = PieceV1 { sums };
            prop_assert_eq!(PieceV1::decode(&piece.encode()), Some(piece));
        }
    }
}
