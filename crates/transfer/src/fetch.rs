//! One fetch: a range of a file version, from the objects that hold it, into the store.

use base::ByteRange;
use futures::StreamExt;
use remote::{Error, ErrorKind, Extent, Remote};
use store::{Cached, GRANULE_BYTES};

use crate::Result;
use crate::flight::Report;

/// The parts of `extents` that `range` is made of, as ranges of their objects.
pub(crate) fn sources(
    extents: &[Extent],
    range: ByteRange,
) -> impl Iterator<Item = (&Extent, ByteRange)> {
    extents.iter().filter_map(move |extent| {
        let part = extent.range.intersection(range)?;
        let start = extent.object_offset + (part.start() - extent.range.start());
        Some((extent, ByteRange::at(start, part.len())?))
    })
}

/// Fetches `range`, which begins on a granule boundary, and reports as granules land.
pub(crate) async fn fetch(
    remote: &dyn Remote,
    extents: &[Extent],
    cached: &Cached,
    range: ByteRange,
    report: &Report,
) -> Result<()> {
    assert_eq!(range.start() % GRANULE_BYTES, 0, "fetches begin on granules");
    let mut landing = Landing { cached, report, at: range.start(), begun: Vec::new() };
    for (extent, wanted) in sources(extents, range) {
        let mut body = remote.get(&extent.key, wanted, Some(&extent.version)).await?;
        while let Some(chunk) = body.next().await {
            landing.take(&chunk?)?;
        }
    }
    if landing.at + landing.begun.len() as u64 != range.end() {
        let key = &extents[0].key;
        return Err(Error::new(ErrorKind::Corrupt, "get", key).into());
    }
    landing.land_begun()
}

/// Bytes on their way into the store, granule by granule.
struct Landing<'a> {
    cached: &'a Cached,
    report: &'a Report,
    /// Where the granule begins that comes now.
    at: u64,
    /// What has come of it. Chunks are several granules long mostly, and only what is beyond the
    /// whole ones among them is copied here.
    begun: Vec<u8>,
}

impl Landing<'_> {
    fn take(&mut self, chunk: &[u8]) -> Result<()> {
        let mut rest = chunk;
        if !self.begun.is_empty() {
            let (more, beyond) = rest.split_at(rest.len().min(granule() - self.begun.len()));
            self.begun.extend_from_slice(more);
            if self.begun.len() < granule() {
                return Ok(());
            }
            self.land_begun()?;
            rest = beyond;
        }
        let (whole, beyond) = rest.split_at(rest.len() - rest.len() % granule());
        self.land(whole)?;
        self.begun.extend_from_slice(beyond);
        Ok(())
    }

    fn land_begun(&mut self) -> Result<()> {
        let mut begun = std::mem::take(&mut self.begun);
        self.land(&begun)?;
        begun.clear();
        self.begun = begun;
        Ok(())
    }

    fn land(&mut self, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.cached.fill(self.at, bytes)?;
            self.at += bytes.len() as u64;
            self.report.until(self.at);
        }
        Ok(())
    }
}

fn granule() -> usize {
    usize::try_from(GRANULE_BYTES).expect("a granule is small")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{ByteRange, ManualClock, Metrics};
    use proptest::prelude::*;
    use remote::{Extent, Key, Version};
    use store::{CacheLimit, Options, Store};

    use super::{Landing, sources};
    use crate::flight::{Flight, Urgency};

    #[test]
    fn a_range_over_two_objects_is_two_ranges_of_objects() {
        let extent = |key: &str, start, end, object_offset| Extent {
            range: ByteRange::new(start, end).unwrap(),
            key: Key::from(key),
            version: Version::new("1"),
            object_offset,
        };
        let extents = [extent("a", 0, 100, 50), extent("b", 100, 300, 0)];
        let got: Vec<_> = sources(&extents, ByteRange::new(90, 110).unwrap())
            .map(|(extent, range)| (extent.key.to_string(), range.start(), range.end()))
            .collect();
        assert_eq!(got, [("a".to_owned(), 140, 150), ("b".to_owned(), 0, 10)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn bytes_land_where_they_belong_in_whatever_pieces_they_come(
            lens in prop::collection::vec(prop_oneof![1..10_usize, 1..400_000_usize], 1..12),
        ) {
            let size = lens.iter().sum();
            let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
            let dir = tempfile::tempdir().unwrap();
            let options = Options { dir: dir.path().into(), cache: CacheLimit::Bytes(1 << 30) };
            let (clock, metrics) = (Arc::new(ManualClock::default()), Arc::new(Metrics::new()));
            let cached = Store::open(options, clock, metrics).unwrap();
            let cached = cached.cached(b"version", size as u64).unwrap();
            let all = ByteRange::new(0, size as u64).unwrap();
            let (_flight, report) = Flight::new(all, Urgency::Demand);
            let mut landing = Landing { cached: &cached, report: &report, at: 0, begun: Vec::new() };
            let mut rest = &bytes[..];
            for len in lens {
                let (chunk, beyond) = rest.split_at(len);
                landing.take(chunk).unwrap();
                rest = beyond;
                let here = size - rest.len();
                prop_assert_eq!(landing.at + landing.begun.len() as u64, here as u64);
                prop_assert!(landing.begun.len() < super::granule());
            }
            landing.land_begun().unwrap();
            prop_assert!(cached.bytes(all).unwrap() == Some(bytes));
        }
    }
}
