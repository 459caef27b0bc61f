//! Which granules of a cached version are here: bits and checksums in memory.
//!
//! Adding a granule needs no lock: its bytes are written first, then its sum, then its bit. Taking
//! one away does: the file's write guard (see [`crate::cached`]) keeps readers out between the bit
//! and the hole.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::ByteRange;

use crate::granule::{self, GRANULE_BYTES, PIECE_GRANULES, STRIPE_GRANULES};
use crate::piece::PieceV1;

/// The presence map of one version.
#[derive(Debug)]
pub(crate) struct Presence {
    size: u64,
    // Each made when its first granule arrives, so that a huge file read at one place stays small.
    pieces: Box<[OnceLock<Box<Piece>>]>,
    // Each of the three counts what the bits of all pieces say.
    present: AtomicU64,
    doubtful: AtomicU64,
    disk_bytes: AtomicU64,
    // What has come here since it was told last: neither what was loaded nor what was learned. What went
    // again meanwhile is among it.
    come_bytes: AtomicU64,
}

#[derive(Debug)]
struct Piece {
    stripes: Box<[Stripe]>,
    sums: Box<[AtomicU32]>,
    // Whether something is here that the database does not know of.
    unsaved: AtomicBool,
}

#[derive(Debug, Default)]
struct Stripe {
    present: AtomicU64,
    // Of those present: the ones to be verified before use. Always a part of `present`.
    doubtful: AtomicU64,
    // When one of its granules was last read or filled.
    last_use: AtomicU64,
}

/// What can be said of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// All of it can be read.
    Here,
    /// All of it may be here, but some must be verified first.
    Doubtful,
    /// Some of it is not here.
    Missing,
}

/// A stripe with something in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StripeUse {
    /// Which one.
    pub stripe: u64,
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// When it was last read or filled.
    pub last_use: u64,
}

impl Presence {
    /// Nothing of a file of `size` bytes is here.
    pub(crate) fn empty(size: u64) -> Presence {
        let pieces = granule::count(size).div_ceil(PIECE_GRANULES);
        Presence {
            size,
            pieces: (0..pieces).map(|_| OnceLock::new()).collect(),
            present: AtomicU64::new(0),
            doubtful: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            come_bytes: AtomicU64::new(0),
        }
    }

    /// Takes over a row of the database; `standing` says whether it can be believed.
    pub(crate) fn load(&self, piece: usize, row: &PieceV1, standing: Standing, last_use: u64) {
        if piece >= self.pieces.len() || row.granules() != self.piece(piece).sums.len() {
            return;
        }
        for (at, sum) in row.present() {
            let granule = piece as u64 * PIECE_GRANULES + at as u64;
            self.set(granule, sum);
            if standing == Standing::Doubtful {
                let (stripe, bit) = self.stripe(granule);
                stripe.doubtful.fetch_or(bit, Ordering::Release);
                self.doubtful.fetch_add(1, Ordering::AcqRel);
            }
        }
        for stripe in &self.piece(piece).stripes {
            stripe.last_use.store(last_use, Ordering::Relaxed);
        }
    }

    /// Takes over what another process has recorded of the granules `wanted` of a piece since it was loaded;
    /// returns what that adds to the disk.
    pub(crate) fn learn(&self, piece: usize, row: &PieceV1, wanted: &Range<u64>) -> u64 {
        if piece >= self.pieces.len() || row.granules() != self.piece(piece).sums.len() {
            return 0;
        }
        let first = piece as u64 * PIECE_GRANULES;
        let granules = row.present().map(|(at, sum)| (first + at as u64, sum));
        let is_new = |granule: u64| wanted.contains(&granule) && !self.has(granule);
        granules.filter(|(granule, _)| is_new(*granule)).map(|(at, sum)| self.set(at, sum)).sum()
    }

    /// Notes that the bytes of `granule` are here; returns what that adds to the disk.
    pub(crate) fn insert(&self, granule: u64, sum: u32) -> u64 {
        let added = self.set(granule, sum);
        if 0 < added {
            let (piece, _) = granule::place(granule);
            self.piece(piece).unsaved.store(true, Ordering::Release);
            // Later than that: what is told to have come is in the rows that are taken then.
            self.come_bytes.fetch_add(added, Ordering::AcqRel);
        }
        added
    }

    fn set(&self, granule: u64, sum: u32) -> u64 {
        let (piece, at) = granule::place(granule);
        let piece = self.piece(piece);
        piece.sums[at].store(sum, Ordering::Relaxed);
        let (stripe, bit) = self.stripe(granule);
        if stripe.present.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return 0;
        }
        let bytes = granule::disk_bytes(granule, self.size);
        self.disk_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.present.fetch_add(1, Ordering::AcqRel);
        bytes
    }

    /// Notes that `granule` is not here, under the file's write guard; returns what that frees.
    pub(crate) fn remove(&self, granule: u64) -> u64 {
        let (stripe, bit) = self.stripe(granule);
        if stripe.present.fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            return 0;
        }
        if stripe.doubtful.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            self.doubtful.fetch_sub(1, Ordering::AcqRel);
        }
        let bytes = granule::disk_bytes(granule, self.size);
        self.disk_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.present.fetch_sub(1, Ordering::AcqRel);
        bytes
    }

    /// Notes that the bytes of `granule` were found to be what they should be.
    pub(crate) fn confirm(&self, granule: u64) {
        let (stripe, bit) = self.stripe(granule);
        if stripe.doubtful.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            self.doubtful.fetch_sub(1, Ordering::AcqRel);
            let (piece, _) = granule::place(granule);
            self.piece(piece).unsaved.store(true, Ordering::Release);
        }
    }

    /// What can be said of `range`.
    pub(crate) fn standing(&self, range: ByteRange) -> Standing {
        let mut standing = Standing::Here;
        for granule in granule::touched(range) {
            let Some((stripe, bit)) = self.existing_stripe(granule) else {
                return Standing::Missing;
            };
            if stripe.present.load(Ordering::Acquire) & bit == 0 {
                return Standing::Missing;
            }
            if stripe.doubtful.load(Ordering::Acquire) & bit != 0 {
                standing = Standing::Doubtful;
            }
        }
        standing
    }

    /// The granules of `range` that must be verified before use, with their sums.
    pub(crate) fn doubtful(&self, range: ByteRange) -> Vec<(u64, u32)> {
        granule::touched(range)
            .filter_map(|granule| {
                let (stripe, bit) = self.existing_stripe(granule)?;
                let is_doubtful = stripe.doubtful.load(Ordering::Acquire) & bit != 0;
                is_doubtful.then(|| (granule, self.sum_of(granule)))
            })
            .collect()
    }

    /// The first run of granules of `range` that is not here.
    pub(crate) fn missing(&self, range: ByteRange) -> Option<ByteRange> {
        let range = range.below(self.size)?;
        let mut granules = granule::touched(range);
        let first = granules.find(|&granule| !self.has(granule))?;
        let end = granules.find(|&granule| self.has(granule)).unwrap_or(granules.end);
        ByteRange::new(first * GRANULE_BYTES, self.size.min(end * GRANULE_BYTES))
    }

    /// What filling in all of `range` would add to the disk.
    pub(crate) fn missing_disk_bytes(&self, range: ByteRange) -> u64 {
        granule::touched(range)
            .filter(|&granule| !self.has(granule))
            .map(|granule| granule::disk_bytes(granule, self.size))
            .sum()
    }

    /// Whether `granule` is here, verified or not.
    pub(crate) fn has(&self, granule: u64) -> bool {
        self.existing_stripe(granule)
            .is_some_and(|(stripe, bit)| stripe.present.load(Ordering::Acquire) & bit != 0)
    }

    /// Whether every granule is here and needs no verifying.
    pub(crate) fn is_complete(&self) -> bool {
        self.has_all() && self.doubtful.load(Ordering::Acquire) == 0
    }

    /// Whether every granule is here, verified or not.
    pub(crate) fn has_all(&self) -> bool {
        self.present.load(Ordering::Acquire) == granule::count(self.size)
    }

    /// What all granules that are here take on the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Ordering::Acquire)
    }

    /// The checksum of a granule that is here.
    pub(crate) fn sum_of(&self, granule: u64) -> u32 {
        let (piece, at) = granule::place(granule);
        self.piece(piece).sums[at].load(Ordering::Relaxed)
    }

    /// Notes a use of the stripes that `range` touches.
    pub(crate) fn touch(&self, range: ByteRange, now: u64) {
        let stripe_bytes = STRIPE_GRANULES * GRANULE_BYTES;
        let stripes = range.start() / stripe_bytes..range.end().div_ceil(stripe_bytes);
        for stripe in stripes {
            if let Some((stripe, _)) = self.existing_stripe(stripe * STRIPE_GRANULES) {
                stripe.last_use.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Every stripe with something in it.
    pub(crate) fn stripes(&self) -> Vec<StripeUse> {
        let mut found = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let Some(piece) = piece.get() else { continue };
            for (in_piece, stripe) in piece.stripes.iter().enumerate() {
                let bits = stripe.present.load(Ordering::Acquire);
                if bits == 0 {
                    continue;
                }
                let stripe_number = (at * piece_stripes() + in_piece) as u64;
                let first = stripe_number * STRIPE_GRANULES;
                let disk_bytes = (0..STRIPE_GRANULES)
                    .filter(|bit| bits & (1 << bit) != 0)
                    .map(|bit| granule::disk_bytes(first + bit, self.size))
                    .sum();
                let last_use = stripe.last_use.load(Ordering::Relaxed);
                found.push(StripeUse { stripe: stripe_number, disk_bytes, last_use });
            }
        }
        found
    }

    /// The granules of `stripe` that are here.
    pub(crate) fn present_in(&self, stripe: u64) -> Vec<u64> {
        let first = stripe * STRIPE_GRANULES;
        let end = granule::count(self.size).min(first + STRIPE_GRANULES);
        (first..end).filter(|&granule| self.has(granule)).collect()
    }

    /// The pieces with news for the database, and how many bytes of the disk came with them; they count as
    /// saved from now on.
    ///
    /// Doubtful granules are left out: the database knows them, and only it may vouch for them.
    pub(crate) fn take_unsaved(&self) -> (Vec<(usize, PieceV1)>, u64) {
        let come_bytes = self.come_bytes.swap(0, Ordering::AcqRel);
        let mut pieces = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let Some(piece) = piece.get() else { continue };
            // Cleared before the bits are read: a granule that arrives meanwhile sets it again.
            if piece.unsaved.swap(false, Ordering::AcqRel) {
                pieces.push((at, self.row(at, piece)));
            }
        }
        (pieces, come_bytes)
    }

    /// All pieces with something in them, as the database is to have them.
    pub(crate) fn rows(&self) -> Vec<(usize, PieceV1)> {
        let made = self.pieces.iter().enumerate();
        made.filter_map(|(at, piece)| Some((at, self.row(at, piece.get()?)))).collect()
    }

    /// Marks the pieces of `rows` as unsaved again: the database did not take them.
    pub(crate) fn give_back_unsaved(&self, rows: &[(usize, PieceV1)]) {
        for (at, _) in rows {
            self.piece(*at).unsaved.store(true, Ordering::Release);
        }
    }

    /// As many bytes of the disk are not told to have come after all.
    pub(crate) fn come_back(&self, come_bytes: u64) {
        self.come_bytes.fetch_add(come_bytes, Ordering::AcqRel);
    }

    fn row(&self, at: usize, piece: &Piece) -> PieceV1 {
        let mut row = PieceV1::empty(piece.sums.len());
        for (in_piece, sum) in piece.sums.iter().enumerate() {
            let (stripe, bit) = self.stripe(at as u64 * PIECE_GRANULES + in_piece as u64);
            let present = stripe.present.load(Ordering::Acquire);
            let doubtful = stripe.doubtful.load(Ordering::Acquire);
            if present & !doubtful & bit != 0 {
                row.insert(in_piece, sum.load(Ordering::Relaxed));
            }
        }
        row
    }

    fn piece(&self, piece: usize) -> &Piece {
        self.pieces[piece].get_or_init(|| {
            let granules = granule::granules_in(piece, granule::count(self.size));
            let stripes = granules.div_ceil(granule::index(STRIPE_GRANULES));
            Box::new(Piece {
                stripes: (0..stripes).map(|_| Stripe::default()).collect(),
                sums: (0..granules).map(|_| AtomicU32::new(0)).collect(),
                unsaved: AtomicBool::new(false),
            })
        })
    }

    fn stripe(&self, granule: u64) -> (&Stripe, u64) {
        let (piece, at) = granule::place(granule);
        stripe_in(self.piece(piece), at)
    }

    fn existing_stripe(&self, granule: u64) -> Option<(&Stripe, u64)> {
        let (piece, at) = granule::place(granule);
        Some(stripe_in(self.pieces.get(piece)?.get()?, at))
    }
}

fn stripe_in(piece: &Piece, at: usize) -> (&Stripe, u64) {
    let granules = granule::index(STRIPE_GRANULES);
    (&piece.stripes[at / granules], 1 << (at % granules))
}

fn piece_stripes() -> usize {
    granule::index(PIECE_GRANULES / STRIPE_GRANULES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::ByteRange;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    use super::{Presence, Standing};
    use crate::granule::{self, GRANULE_BYTES};

    const SIZE: u64 = 3000 * GRANULE_BYTES - 5;

    proptest! {
        #[test]
        fn the_map_answers_as_a_set_would(
            present in prop::collection::btree_set(0..3000_u64, 0..400),
            start in 0..SIZE,
            len in 1..SIZE,
        ) {
            let map = Presence::empty(SIZE);
            for &granule in &present {
                map.insert(granule, u32::try_from(granule).unwrap());
            }
            let range = ByteRange::new(start, SIZE.min(start + len)).unwrap();
            prop_assert_eq!(map.missing(range), naive_missing(&present, range));
            let all = granule::touched(range).all(|granule| present.contains(&granule));
            prop_assert_eq!(map.standing(range) == Standing::Here, all);
        }

        #[test]
        fn what_is_saved_and_loaded_is_what_was(
            present in prop::collection::btree_set(0..3000_u64, 0..400),
        ) {
            let map = Presence::empty(SIZE);
            for &granule in &present {
                map.insert(granule, u32::try_from(granule).unwrap());
            }
            let again = Presence::empty(SIZE);
            let (pieces, come_bytes) = map.take_unsaved();
            prop_assert_eq!(come_bytes, map.disk_bytes());
            for (piece, row) in pieces {
                again.load(piece, &row, Standing::Doubtful, 7);
            }
            prop_assert_eq!(again.disk_bytes(), map.disk_bytes());
            let whole = ByteRange::new(0, SIZE).unwrap();
            let doubtful: BTreeSet<u64> =
                again.doubtful(whole).into_iter().map(|(granule, _)| granule).collect();
            prop_assert_eq!(&doubtful, &present);
            prop_assert_eq!(again.take_unsaved(), (Vec::new(), 0));
        }
    }

    #[test]
    fn removing_what_was_inserted_leaves_nothing() {
        let map = Presence::empty(SIZE);
        assert_eq!(map.insert(2999, 1), GRANULE_BYTES);
        assert_eq!(map.insert(2999, 1), 0);
        assert_eq!(map.remove(2999), GRANULE_BYTES);
        assert_eq!(map.remove(2999), 0);
        assert_eq!(map.disk_bytes(), 0);
    }

    #[test]
    fn what_has_come_is_told_once_and_what_is_known_already_never() {
        let map = Presence::empty(SIZE);
        map.insert(1, 1);
        let (pieces, come_bytes) = map.take_unsaved();
        assert_eq!((pieces.len(), come_bytes), (1, GRANULE_BYTES));
        map.insert(1, 1);
        map.insert(2, 2);
        let mut row = pieces[0].1.clone();
        row.insert(3, 3);
        assert_eq!(map.learn(0, &row, &(0..3000)), GRANULE_BYTES);
        map.come_back(7);
        let (pieces, come_bytes) = map.take_unsaved();
        assert_eq!((pieces.len(), come_bytes), (1, 7 + GRANULE_BYTES));
        assert_eq!(map.take_unsaved(), (Vec::new(), 0));
    }

    fn naive_missing(present: &BTreeSet<u64>, range: ByteRange) -> Option<ByteRange> {
        let first = granule::touched(range).find(|granule| !present.contains(granule))?;
        let end = (first..granule::touched(range).end)
            .find(|granule| present.contains(granule))
            .unwrap_or(granule::touched(range).end);
        ByteRange::new(first * GRANULE_BYTES, SIZE.min(end * GRANULE_BYTES))
    }
}
