//! What answers show of the store that gives them.

use super::list::Line;
use crate::Key;
use crate::capabilities::{Capability, Has, Learned};
use crate::http::Answer;

/// Has the checksum of what is sent, or comes.
pub(super) const CRC32C: &str = "x-amz-checksum-crc32c";
const CRC64NVME: &str = "x-amz-checksum-crc64nvme";

/// Takes note of the checksums that come with an object.
pub(super) fn checksums(learned: &Learned, answer: &Answer) {
    for (header, capability) in
        [(CRC32C, Capability::Crc32cGiven), (CRC64NVME, Capability::Crc64NvmeGiven)]
    {
        if answer.header(header).is_some() {
            learned.learn(capability, Has::Yes);
        }
    }
}

/// Whether an object of this storage class cannot be read before it is restored.
pub(super) fn is_archive(class: &str) -> bool {
    ["GLACIER", "DEEP_ARCHIVE"].contains(&class)
}

/// Whether the answer about an object says that it is in an archive, and not restored.
pub(super) fn is_archived(answer: &Answer) -> bool {
    let put_there = answer.header("x-amz-storage-class").is_some_and(is_archive);
    // Intelligent tiering moves objects by itself.
    let moved_there = answer.header("x-amz-archive-status").is_some();
    let restored = answer.header("x-amz-restore");
    let is_restored = restored.is_some_and(|said| said.contains("ongoing-request=\"false\""));
    (put_there || moved_there) && !is_restored
}

/// Takes note of the order of a page.
pub(super) fn order(learned: &Learned, objects: &[Line], prefixes: &[Key]) {
    let keys = objects.iter().map(|line| &line.key);
    match (order_of(keys), order_of(prefixes.iter())) {
        (Some(Has::No), _) | (_, Some(Has::No)) => {
            if !learned.lacks(Capability::SortedLists) {
                tracing::warn!("the store does not list keys in their order");
            }
            learned.learn(Capability::SortedLists, Has::No);
        }
        (Some(Has::Yes), _) | (_, Some(Has::Yes)) => {
            // One page in order tells nothing against one that was not.
            if learned.has(Capability::SortedLists).is_none() {
                learned.learn(Capability::SortedLists, Has::Yes);
            }
        }
        (None, None) => {}
    }
}

/// Whether these are sorted by their bytes; fewer than two have no order.
fn order_of<'a>(keys: impl ExactSizeIterator<Item = &'a Key>) -> Option<Has> {
    if keys.len() < 2 {
        return None;
    }
    Some(if keys.is_sorted() { Has::Yes } else { Has::No })
}

#[cfg(test)]
mod tests {
    use super::order_of;
    use crate::Key;
    use crate::capabilities::Has;

    #[test]
    fn keys_are_compared_as_bytes() {
        for (keys, want) in [
            (&["b", "a"][..], Some(Has::No)),
            (&["a", "b"], Some(Has::Yes)),
            (&["!", "a", "z", "ü"], Some(Has::Yes)),
            (&["ü", "z"], Some(Has::No)),
            (&["a"], None),
            (&[], None),
        ] {
            let found: Vec<Key> = keys.iter().map(|&key| Key::from(key)).collect();
            assert_eq!(order_of(found.iter()), want, "{keys:?}");
        }
    }
}
