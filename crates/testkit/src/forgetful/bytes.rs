//! The bytes of one file, twice: as programs see them, and as they are on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a disk writes at once, whole or not at all.
const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;

type Page = Arc<[u8; PAGE_BYTES]>;

/// What a file holds. Pages that are not here are zeros.
#[derive(Clone, Debug, Default)]
struct Image {
    size: u64,
    pages: BTreeMap<u64, Page>,
}

/// A file's bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    live: Image,
    durable: Image,
}

/// Draws a number below another one.
pub(super) type Draw<'a> = &'a mut dyn FnMut(u64) -> u64;

/// What a power cut makes of what was not synced of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lost,
    Kept,
    /// Each page, and the size, as before or as after.
    Mixed,
    /// The size is the new one, the bytes are not.
    SizeAlone,
}

impl Bytes {
    pub(super) fn size(&self) -> u64 {
        self.live.size
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.live.size.min(offset.saturating_add(len as u64));
        let mut bytes = Vec::with_capacity(len);
        let mut at = offset;
        while at < end {
            let (from, to) = within_page(at, end);
            match self.live.pages.get(&(at / PAGE)) {
                Some(page) => bytes.extend_from_slice(&page[from..to]),
                None => bytes.resize(bytes.len() + to - from, 0),
            }
            at += (to - from) as u64;
        }
        bytes
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let mut at = offset;
        while at < end {
            let (from, to) = within_page(at, end);
            let start = usize::try_from(at - offset).expect("within the bytes");
            let page = self.live.pages.entry(at / PAGE).or_insert_with(zeros);
            Arc::make_mut(page)[from..to].copy_from_slice(&bytes[start..start + to - from]);
            at += (to - from) as u64;
        }
        self.live.size = self.live.size.max(end);
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.live.set_size(size);
    }

    /// Makes a hole of `start..end`.
    pub(super) fn punch(&mut self, start: u64, end: u64) {
        let (first, last) = (start.div_ceil(PAGE), end / PAGE);
        if first < last {
            let inside: Vec<u64> = self.live.pages.range(first..last).map(|(at, _)| *at).collect();
            for at in inside {
                self.live.pages.remove(&at);
            }
        }
        let size = self.live.size;
        let edges = [(start, end.min(first * PAGE)), (start.max(last * PAGE), end)];
        for (start, end) in edges.map(|(start, end)| (start, end.min(size))) {
            if start < end {
                let len = usize::try_from(end - start).expect("less than a page");
                self.write(start, &vec![0; len]);
            }
        }
    }

    /// Everything is on the disk from now on.
    pub(super) fn sync(&mut self) {
        self.durable = self.live.clone();
    }

    /// What is left after a power cut.
    pub(super) fn after_cut(&self, draw: Draw<'_>) -> Bytes {
        let left = match [Fate::Lost, Fate::Kept, Fate::Mixed, Fate::SizeAlone][index(draw(4))] {
            Fate::Lost => self.durable.clone(),
            Fate::Kept => self.live.clone(),
            Fate::Mixed => self.mixed(draw),
            Fate::SizeAlone => {
                let mut left = self.durable.clone();
                left.set_size(self.live.size);
                left
            }
        };
        Bytes { live: left.clone(), durable: left }
    }

    fn mixed(&self, draw: Draw<'_>) -> Image {
        let numbers: BTreeSet<u64> =
            self.live.pages.keys().chain(self.durable.pages.keys()).copied().collect();
        let mut left = Image { size: self.live.size.max(self.durable.size), ..Image::default() };
        for number in numbers {
            let (old, new) = (self.durable.pages.get(&number), self.live.pages.get(&number));
            let page = match draw(8) {
                0..3 => old.cloned(),
                3..7 => new.cloned(),
                // Torn: the power went while it was written.
                _ => Some(torn(old, new, index(draw(8)) * SECTOR_BYTES)),
            };
            left.pages.extend(page.map(|page| (number, page)));
        }
        left.set_size(if draw(2) == 0 { self.durable.size } else { self.live.size });
        left
    }
}

impl Image {
    fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE));
            let (number, from) = (size / PAGE, index(size % PAGE));
            if let Some(page) = self.pages.get_mut(&number) {
                Arc::make_mut(page)[from..].fill(0);
            }
        }
        self.size = size;
    }
}

/// From where to where `at..end` goes in the page that `at` is in.
fn within_page(at: u64, end: u64) -> (usize, usize) {
    let start = at / PAGE * PAGE;
    (index(at - start), index((end - start).min(PAGE)))
}

fn torn(old: Option<&Page>, new: Option<&Page>, at: usize) -> Page {
    let mut page = old.cloned().unwrap_or_else(zeros);
    let new = new.cloned().unwrap_or_else(zeros);
    Arc::make_mut(&mut page)[..at].copy_from_slice(&new[..at]);
    page
}

fn zeros() -> Page {
    Arc::new([0; PAGE_BYTES])
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("memory is 64 bits wide")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Bytes;

    proptest! {
        #[test]
        fn bytes_are_what_a_plain_buffer_holds(
            steps in prop::collection::vec((0..4_u8, 0..20_000_u64, 1..9_000_usize), 1..40),
        ) {
            let (mut bytes, mut model) = (Bytes::default(), Vec::new());
            for (step, (kind, at, len)) in steps.into_iter().enumerate() {
                let start = usize::try_from(at).unwrap();
                match kind {
                    0 | 1 => {
                        let piece = vec![u8::try_from(step).unwrap() + 1; len];
                        bytes.write(at, &piece);
                        model.resize(model.len().max(start + len), 0);
                        model[start..start + len].copy_from_slice(&piece);
                    }
                    2 => {
                        bytes.set_size(at);
                        model.resize(start, 0);
                    }
                    _ => {
                        bytes.punch(at, at + len as u64);
                        let (start, end) = (start.min(model.len()), (start + len).min(model.len()));
                        model[start..end].fill(0);
                    }
                }
                prop_assert_eq!(bytes.size(), model.len() as u64);
                prop_assert_eq!(&bytes.read(0, 1 << 20), &model);
            }
        }
    }

    #[test]
    fn what_was_synced_survives_every_cut_and_what_was_not_may_go() {
        let mut bytes = Bytes::default();
        bytes.write(0, &vec![1; 20_000]);
        bytes.sync();
        for seed in 0..50 {
            assert_eq!(bytes.after_cut(&mut drawn(seed)).read(0, 30_000), vec![1; 20_000]);
        }
        bytes.write(0, &vec![2; 30_000]);
        let left: Vec<Vec<u8>> =
            (0..50).map(|seed| bytes.after_cut(&mut drawn(seed)).read(0, 40_000)).collect();
        assert!(left.contains(&vec![1; 20_000]) && left.contains(&vec![2; 30_000]));
        let is_torn = |left: &Vec<u8>| left.contains(&1) && left.contains(&2);
        assert!(left.iter().any(is_torn));
        assert!(left.iter().all(|left| left.len() == 20_000 || left.len() == 30_000));
    }

    fn drawn(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut bytes = crate::noise(seed, 10_000).into_iter();
        move |limit| u64::from(bytes.next().unwrap()) % limit
    }
}
