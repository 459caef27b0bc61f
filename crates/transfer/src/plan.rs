//! What of a file is sent and what the store copies from the version that the file was made from;
//! pure.
//!
//! ```text
//!   unchanged  ██████████████░░███████████████████████░░░░       ░ changed or new
//!   grid       |       |       |       |       |       |   |
//!   pieces     copy──────────┤send┤copy────────────────┤send┤
//! ```
//!
//! What is changed decides which parts of the grid are touched. Of a touched part only as much is
//! sent as the store demands, where the rest can be copied together with its neighbour or is large
//! enough to be a part by itself.

use base::ByteRange;
use remote::{PartCopies, PartNumber, Personality};
use store::GranuleSet;

use crate::parts::Grid;

/// How to send a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// In one request.
    Whole,
    /// In these parts, in order.
    Parts(Vec<Piece>),
    /// Not at all: no object may be that large.
    TooLarge,
}

/// One part of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which bytes of the file.
    pub(crate) range: ByteRange,
    /// Where they come from.
    pub(crate) source: Source,
}

/// Where the bytes of a part come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// They are sent.
    Sent,
    /// The store copies them from the version that the file was made from.
    Copied,
}

/// What may be copied into a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies<'a> {
    /// How the store copies parts.
    pub(crate) how: PartCopies,
    /// How large the object is that is copied from.
    pub(crate) original_bytes: u64,
    /// What of the file is as in that object.
    pub(crate) unchanged: &'a GranuleSet,
}

/// Decides how to send a file of `size` bytes.
pub(crate) fn plan(size: u64, grid: &Grid, store: Personality, copies: Option<Copies<'_>>) -> Plan {
    if store.object_bytes_max < size || grid.reach() < size {
        return Plan::TooLarge;
    }
    if size <= grid.first_bytes() {
        return Plan::Whole;
    }
    let Some(Copies { how, original_bytes, unchanged }) = copies else {
        return Plan::Parts(all_sent(size, grid));
    };
    Plan::Parts(match how {
        PartCopies::None => all_sent(size, grid),
        // Parts could not be copied as they are.
        PartCopies::AnyRange { bytes_max } if bytes_max < grid.part_at(size - 1).len() => {
            all_sent(size, grid)
        }
        PartCopies::OwnBlocks => whole_parts(size, grid, unchanged, None),
        PartCopies::WholeFirst => {
            let original = ByteRange::new(0, original_bytes);
            let is_kept = original.is_some_and(|original| unchanged.has_all(original));
            if is_kept && store.part_bytes_min <= original_bytes && original_bytes < size {
                appended(size, grid, original_bytes, store.part_bytes_min)
            } else {
                all_sent(size, grid)
            }
        }
        PartCopies::AnyRange { bytes_max } => {
            let limits = Limits { part_bytes_min: store.part_bytes_min, copy_bytes_max: bytes_max };
            let pieces = trimmed(size, grid, unchanged, limits);
            if pieces.len() as u64 <= u64::from(store.parts_max) {
                pieces
            } else {
                whole_parts(size, grid, unchanged, Some(bytes_max))
            }
        }
    })
}

/// The parts of a file of `size` bytes that is not sent in one request, with their numbers, where
/// parts from `first` on have those of [`Grid::number_ahead`].
pub(crate) fn plan_beside(
    size: u64,
    grid: &Grid,
    store: Personality,
    copies: Option<Copies<'_>>,
    first: u64,
) -> Vec<(PartNumber, Piece)> {
    let fits = match plan(size, grid, store, copies) {
        Plan::Parts(pieces) => numbered_beside(pieces, grid, first),
        Plan::Whole | Plan::TooLarge => None,
    };
    fits.unwrap_or_else(|| {
        // No more pieces than parts of the grid.
        let coarse = match copies {
            Some(Copies { how: PartCopies::AnyRange { bytes_max }, unchanged, .. })
                if grid.part_at(size - 1).len() <= bytes_max =>
            {
                whole_parts(size, grid, unchanged, Some(bytes_max))
            }
            Some(_) | None => all_sent(size, grid),
        };
        numbered_beside(coarse, grid, first).expect("the grid has a number for each of its parts")
    })
}

/// `None` if there are more pieces before `first` than numbers.
fn numbered_beside(
    pieces: Vec<Piece>,
    grid: &Grid,
    first: u64,
) -> Option<Vec<(PartNumber, Piece)>> {
    let numbers_before = grid.number_ahead(first, first).0 - 1;
    let mut last = 0;
    let numbered = pieces.into_iter().map(|piece| {
        let start = piece.range.start();
        if start < first {
            last += 1;
            (last <= numbers_before).then_some((PartNumber(last), piece))
        } else {
            Some((grid.number_ahead(start, first), piece))
        }
    });
    numbered.collect()
}

fn sent(range: ByteRange) -> Piece {
    Piece { range, source: Source::Sent }
}

fn copied(range: ByteRange) -> Piece {
    Piece { range, source: Source::Copied }
}

fn all_sent(size: u64, grid: &Grid) -> Vec<Piece> {
    grid.parts(size).map(sent).collect()
}

/// Parts of the grid are copied or sent as they are; copies are joined up to `join_bytes_max`.
fn whole_parts(
    size: u64,
    grid: &Grid,
    unchanged: &GranuleSet,
    join_bytes_max: Option<u64>,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in grid.parts(size) {
        if unchanged.has_all(part) {
            push_copy(&mut pieces, part, join_bytes_max.unwrap_or(0));
        } else {
            pieces.push(sent(part));
        }
    }
    pieces
}

/// The original is the first part, and what follows it is sent.
fn appended(size: u64, grid: &Grid, original_bytes: u64, part_bytes_min: u64) -> Vec<Piece> {
    let original = ByteRange::new(0, original_bytes);
    let mut pieces: Vec<Piece> = original.map(copied).into_iter().collect();
    let mut from = original_bytes;
    while from < size {
        let mut part = grid.part_at(from);
        if part.end() - from < part_bytes_min && part.end() < size {
            part = grid.part_at(part.end());
        }
        let rest = ByteRange::new(from, part.end()).and_then(|rest| rest.below(size));
        let rest = rest.expect("the part goes on behind where it is entered");
        pieces.push(sent(rest));
        from = rest.end();
    }
    pieces
}

/// Bounds on pieces.
#[derive(Clone, Copy, Debug)]
struct Limits {
    part_bytes_min: u64,
    copy_bytes_max: u64,
}

/// As little is sent as the store allows.
fn trimmed(size: u64, grid: &Grid, unchanged: &GranuleSet, limits: Limits) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in grid.parts(size) {
        if unchanged.has_all(part) {
            push_copy(&mut pieces, part, limits.copy_bytes_max);
            continue;
        }
        let before = match pieces.last() {
            Some(Piece { range, source: Source::Copied }) => range.len(),
            Some(Piece { source: Source::Sent, .. }) | None => 0,
        };
        let after = ByteRange::new(part.end(), size)
            .and_then(|rest| grid.part_at(rest.start()).below(size))
            .filter(|next| unchanged.has_all(*next))
            .map_or(0, ByteRange::len);
        let sent_range = sent_of(part, changed_of(part, unchanged), (before, after), size, limits);
        if let Some(prefix) = ByteRange::new(part.start(), sent_range.start()) {
            push_copy(&mut pieces, prefix, limits.copy_bytes_max);
        }
        pieces.push(sent(sent_range));
        if let Some(suffix) = ByteRange::new(sent_range.end(), part.end()) {
            pieces.push(copied(suffix));
        }
    }
    pieces
}

/// From the first changed byte of a touched part to the last.
fn changed_of(part: ByteRange, unchanged: &GranuleSet) -> ByteRange {
    let first = unchanged.first_gap(part).expect("the part is touched");
    let mut last = first;
    while let Some(gap) =
        ByteRange::new(last.end(), part.end()).and_then(|rest| unchanged.first_gap(rest))
    {
        last = gap;
    }
    ByteRange::new(first.start(), last.end()).expect("they are in order")
}

/// What of a touched part is sent. `before` and `after` say how long the copies are that a rest of it
/// could join.
fn sent_of(
    part: ByteRange,
    changed: ByteRange,
    (before, after): (u64, u64),
    size: u64,
    limits: Limits,
) -> ByteRange {
    let Limits { part_bytes_min, copy_bytes_max } = limits;
    let (mut start, mut end) = (changed.start(), changed.end());
    // A part must be large enough, unless it is the last one.
    if end < size && end - start < part_bytes_min {
        end = part.end().min(start + part_bytes_min);
    }
    if end < size && end - start < part_bytes_min {
        start = part.start().max(end.saturating_sub(part_bytes_min));
    }
    let may_join = |rest: u64, neighbour: u64| 0 < neighbour && rest + neighbour <= copy_bytes_max;
    let suffix = part.end() - end;
    if suffix < part_bytes_min && !may_join(suffix, after) && part.end() < size {
        end = part.end();
    }
    let prefix = start - part.start();
    if prefix < part_bytes_min && !may_join(prefix, before) {
        start = part.start();
    }
    ByteRange::new(start, end).expect("something is changed")
}

/// Adds a copy, as a part of the one before where that may be so long.
fn push_copy(pieces: &mut Vec<Piece>, range: ByteRange, join_bytes_max: u64) {
    if let Some(Piece { range: last, source: Source::Copied }) = pieces.last_mut()
        && last.len() + range.len() <= join_bytes_max
    {
        *last = ByteRange::new(last.start(), range.end()).expect("they follow each other");
    } else {
        pieces.push(copied(range));
    }
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use proptest::prelude::{
        Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };
    use remote::{PartCopies, Personality};
    use store::GranuleSet;

    use super::{Copies, Piece, Plan, Source, plan, plan_beside};
    use crate::parts::Grid;
    use crate::parts::tests::S3;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    /// The pieces of a file of `size` bytes that was one of `original` bytes.
    fn pieces(size: u64, original: u64, changed: &[ByteRange], store: Personality) -> Vec<Piece> {
        let unchanged = GranuleSet::without(original.min(size), changed);
        let how = store.part_copies;
        let copies = Copies { how, original_bytes: original, unchanged: &unchanged };
        match plan(size, &Grid::new(16 * MIB, store), store, Some(copies)) {
            Plan::Parts(pieces) => pieces,
            other @ (Plan::Whole | Plan::TooLarge) => panic!("{other:?}"),
        }
    }

    fn in_mib(pieces: &[Piece]) -> Vec<(Source, u64, u64)> {
        let mib =
            |piece: &Piece| (piece.source, piece.range.start() / MIB, piece.range.end() / MIB);
        pieces.iter().map(mib).collect()
    }

    #[test]
    fn a_file_is_sent_whole_or_in_parts_by_its_size() {
        let grid = Grid::new(16 * MIB, S3);
        assert_eq!(plan(0, &grid, S3, None), Plan::Whole);
        assert_eq!(plan(16 * MIB, &grid, S3, None), Plan::Whole);
        assert_eq!(plan((5 << 40) + 1, &grid, S3, None), Plan::TooLarge);
        let Plan::Parts(pieces) = plan(33 * MIB, &grid, S3, None) else { panic!("not in parts") };
        let sent = [(Source::Sent, 0, 16), (Source::Sent, 16, 32), (Source::Sent, 32, 33)];
        assert_eq!(in_mib(&pieces), sent);
    }

    #[test]
    fn an_append_copies_what_was_there_and_sends_what_is_new() {
        let got = pieces(GIB + MIB, GIB, &[], S3);
        assert_eq!(in_mib(&got), [(Source::Copied, 0, 1024), (Source::Sent, 1024, 1025)]);
        // Within a part too, to the byte.
        let got = pieces(GIB - 100, GIB - MIB + 3, &[], S3);
        let [copy, send] = got[..] else { panic!("{got:?}") };
        assert_eq!((copy.source, copy.range), (Source::Copied, range(0, GIB - MIB + 3)));
        assert_eq!((send.source, send.range), (Source::Sent, range(GIB - MIB + 3, GIB - 100)));
    }

    #[test]
    fn a_piece_that_would_be_too_small_for_a_part_is_sent_with_its_neighbourhood() {
        // The store takes no part of 1 MiB before others.
        let got = pieces(GIB + 17 * MIB, GIB - MIB, &[], S3);
        let want = [
            (Source::Copied, 0, 1019),
            (Source::Sent, 1019, 1024),
            (Source::Sent, 1024, 1040),
            (Source::Sent, 1040, 1041),
        ];
        assert_eq!(in_mib(&got), want);
        let edit = range(100 * MIB, 100 * MIB + 4096);
        let want =
            [(Source::Copied, 0, 100), (Source::Sent, 100, 105), (Source::Copied, 105, 1024)];
        assert_eq!(in_mib(&pieces(GIB, GIB, &[edit], S3)), want);
        // The rest of a part between two that are sent is not worth a part.
        let edits = [range(0, MIB), range(14 * MIB, 15 * MIB), range(16 * MIB, 32 * MIB)];
        let want = [(Source::Sent, 0, 16), (Source::Sent, 16, 32), (Source::Copied, 32, 1024)];
        assert_eq!(in_mib(&pieces(GIB, GIB, &edits, S3)), want);
    }

    #[test]
    fn a_long_run_is_one_copy_up_to_what_the_store_copies_at_once() {
        let got = pieces(12 * GIB, 12 * GIB, &[range(0, 1)], S3);
        let want = [
            (Source::Sent, 0, 5),
            (Source::Copied, 5, 5 * 1024),
            (Source::Copied, 5 * 1024, 10 * 1024),
            (Source::Copied, 10 * 1024, 12 * 1024),
        ];
        assert_eq!(in_mib(&got), want);
    }

    #[test]
    fn blocks_are_copied_one_by_one_and_a_whole_object_only_before_what_is_appended() {
        let azure = Personality { part_copies: PartCopies::OwnBlocks, part_bytes_min: 1, ..S3 };
        let edit = range(20 * MIB, 20 * MIB + 1);
        let want = [(Source::Copied, 0, 16), (Source::Sent, 16, 32), (Source::Copied, 32, 40)];
        assert_eq!(in_mib(&pieces(40 * MIB, 40 * MIB, &[edit], azure)), want);
        let google = Personality { part_copies: PartCopies::WholeFirst, part_bytes_min: 1, ..S3 };
        let sent = [(Source::Sent, 0, 16), (Source::Sent, 16, 32), (Source::Sent, 32, 40)];
        assert_eq!(in_mib(&pieces(40 * MIB, 40 * MIB, &[edit], google)), sent);
        let want = [(Source::Copied, 0, 20), (Source::Sent, 20, 32), (Source::Sent, 32, 40)];
        assert_eq!(in_mib(&pieces(40 * MIB, 20 * MIB, &[], google)), want);
    }

    #[test]
    fn parts_that_were_sent_ahead_keep_their_numbers_whatever_is_edited_before_them() {
        let grid = Grid::new(16 * MIB, S3);
        let (original, size, first) = (GIB + 5, GIB + 100 * MIB, GIB + 16 * MIB);
        let edits = |every: usize| {
            let places = (0..GIB / MIB).step_by(every).map(|mib| mib * MIB);
            places.map(|at| range(at, at + 1)).collect::<Vec<_>>()
        };
        for changed in [Vec::new(), edits(1000), edits(40), edits(1)] {
            let unchanged = GranuleSet::without(original, &changed);
            let how = S3.part_copies;
            let copies = Copies { how, original_bytes: original, unchanged: &unchanged };
            let parts = plan_beside(size, &grid, S3, Some(copies), first);
            assert!(parts.windows(2).all(|pair| pair[0].0 < pair[1].0), "{parts:?}");
            let ahead: Vec<_> =
                parts.iter().filter(|(_, piece)| first <= piece.range.start()).collect();
            assert_eq!(ahead.len(), 6);
            for (number, piece) in ahead {
                assert_eq!(*number, grid.number_ahead(piece.range.start(), first));
            }
            if changed.is_empty() {
                let first_two: Vec<_> = parts.iter().take(2).map(|(number, _)| number.0).collect();
                assert_eq!(first_two, [1, 2]);
            }
        }
    }

    fn any_store() -> impl Strategy<Value = Personality> {
        let how = prop_oneof![
            Just(PartCopies::None),
            Just(PartCopies::OwnBlocks),
            Just(PartCopies::WholeFirst),
            (5..100_u64).prop_map(|mib| PartCopies::AnyRange { bytes_max: mib * MIB }),
        ];
        let least = prop_oneof![Just(1), Just(5 * MIB)];
        (how, least, prop_oneof![Just(20_u32), Just(10_000)]).prop_map(|(how, least, parts_max)| {
            let object_bytes_max = 300 * MIB;
            Personality {
                part_copies: how,
                part_bytes_min: least,
                parts_max,
                object_bytes_max,
                ..S3
            }
        })
    }

    proptest! {
        #[test]
        fn pieces_make_the_file_within_the_limits_and_copy_only_what_is_unchanged(
            store in any_store(),
            (size, original) in (17 * MIB..250 * MIB, 0..250 * MIB),
            changed in prop::collection::vec((0..250 * MIB, 1..3 * MIB), 0..20),
        ) {
            let changed: Vec<_> =
                changed.iter().map(|&(start, len)| ByteRange::at(start, len).unwrap()).collect();
            let unchanged = GranuleSet::without(original.min(size), &changed);
            let copies =
                Copies { how: store.part_copies, original_bytes: original, unchanged: &unchanged };
            let grid = Grid::new(5 * MIB, store);
            let Plan::Parts(pieces) = plan(size, &grid, store, Some(copies)) else {
                panic!("not in parts")
            };
            let first = if original == 0 { 0 } else { grid.part_at(original - 1).end() };
            let beside = plan_beside(size, &grid, store, Some(copies), first);
            prop_assert!(beside.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(beside.iter().all(|(number, _)| number.0 <= store.parts_max));
            let beside: Vec<Piece> = beside.into_iter().map(|(_, piece)| piece).collect();
            for pieces in [pieces, beside] {
            prop_assert!(pieces.len() as u64 <= u64::from(store.parts_max));
            let mut next = 0;
            for piece in &pieces {
                prop_assert_eq!(piece.range.start(), next);
                next = piece.range.end();
                prop_assert!(store.part_bytes_min <= piece.range.len() || next == size);
                match (piece.source, store.part_copies) {
                    (Source::Sent, _) => {}
                    (Source::Copied, how) => {
                        prop_assert!(unchanged.has_all(piece.range));
                        prop_assert!(piece.range.end() <= original);
                        match how {
                            PartCopies::None => panic!("the store copies nothing"),
                            PartCopies::OwnBlocks => {
                                prop_assert_eq!(grid.part_at(piece.range.start()).start(), piece.range.start());
                            }
                            PartCopies::WholeFirst => prop_assert_eq!(piece.range, range(0, original)),
                            PartCopies::AnyRange { bytes_max } => {
                                prop_assert!(piece.range.len() <= bytes_max);
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(next, size);
            }
        }
    }
}
