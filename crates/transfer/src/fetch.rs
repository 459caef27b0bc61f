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
    let mut gathered = Vec::with_capacity(capacity(range));
    let mut landed = range.start();
    for (extent, wanted) in sources(extents, range) {
        let mut body = remote.get(&extent.key, wanted, Some(&extent.version)).await?;
        while let Some(chunk) = body.next().await {
            gathered.extend_from_slice(&chunk?);
            let whole = gathered.len() - gathered.len() % granule();
            if 0 < whole {
                cached.fill(landed, &gathered[..whole])?;
                gathered.drain(..whole);
                landed += whole as u64;
                report.until(landed);
            }
        }
    }
    if landed + gathered.len() as u64 != range.end() {
        let key = &extents[0].key;
        return Err(Error::new(ErrorKind::Corrupt, "get", key).into());
    }
    if !gathered.is_empty() {
        cached.fill(landed, &gathered)?;
        report.until(range.end());
    }
    Ok(())
}

fn granule() -> usize {
    usize::try_from(GRANULE_BYTES).expect("a granule is small")
}

/// A granule and the chunk that completes it.
fn capacity(range: ByteRange) -> usize {
    usize::try_from(range.len().min(2 * GRANULE_BYTES)).expect("two granules are small")
}

#[cfg(test)]
mod tests {
    use base::ByteRange;
    use remote::{Extent, Key, Version};

    use super::sources;

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
}
