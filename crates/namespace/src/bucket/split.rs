//! Where to cut a range of keys so that its parts can be listed at the same time. Pure.
//!
//! Nothing is known of keys that were not listed yet. But keys are made by rules, and those that
//! were listed show them: the bytes in which neighbours differ are the alphabet in which the rest
//! will differ too. Raising a byte of the last key within that alphabet gives a key that may well
//! have others on both sides of it: after `file-000999` that is `file-001` to `file-009`, `file-01`
//! to `file-09`, and `file-1` to `file-9`. A wrong guess costs one request, which finds nothing.

/// The bytes in which the keys of a folder differ from one another.
#[derive(Clone, Debug)]
pub(super) struct Alphabet {
    seen: [bool; 128],
}

impl Default for Alphabet {
    fn default() -> Alphabet {
        Alphabet { seen: [false; 128] }
    }
}

impl Alphabet {
    /// Learns from neighbours, in order.
    pub(super) fn learn(&mut self, keys: &[&[u8]]) {
        for (before, key) in keys.iter().zip(keys.iter().skip(1)) {
            let at = common(before, key);
            for byte in [before.get(at), key.get(at)].into_iter().flatten() {
                self.add(*byte);
            }
        }
    }

    fn add(&mut self, byte: u8) {
        if byte.is_ascii_digit() {
            // Who uses one digit uses them all.
            self.seen[usize::from(b'0')..=usize::from(b'9')].fill(true);
        } else if byte.is_ascii_graphic() && byte != b'/' {
            self.seen[usize::from(byte)] = true;
        }
    }

    /// How many bytes there are.
    fn count(&self) -> f64 {
        self.seen.iter().map(|seen| f64::from(u8::from(*seen))).sum()
    }

    /// The bytes that may stand where `byte` stands, above it.
    fn above(&self, byte: u8) -> impl Iterator<Item = u8> + '_ {
        // Raising what stands between words would leave the whole shape of the keys behind.
        let after = if byte.is_ascii_alphanumeric() { byte + 1 } else { 128 };
        (after..128).filter(|&byte| self.seen[usize::from(byte)])
    }
}

/// More than any folder has.
const PAGES_MAX: f64 = 1e12;

/// How fine the keys of a page are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Grain {
    /// Up to which place raising a byte leaves a page of keys or more behind: as far as the keys of a page, in
    /// order, agree.
    depth: usize,
    /// How many of the bytes in the next place are one page.
    bytes: usize,
}

impl Grain {
    pub(super) fn of(keys: &[&[u8]]) -> Grain {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Grain::default();
        };
        let agreed = common(first, last);
        let mut middle: Vec<u8> = keys.iter().filter_map(|key| key.get(agreed).copied()).collect();
        middle.dedup();
        // Where a page has no more than two bytes, one byte is worth about a page.
        match middle.len() {
            0..=2 => Grain { depth: agreed + 1, bytes: usize::MAX },
            bytes => Grain { depth: agreed, bytes },
        }
    }
}

/// A place to cut at: before all keys that begin as the last one does, up to `place`, and go on with `byte`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    place: usize,
    byte: u8,
    /// How many pages there may be from here up to the next.
    pages: f64,
}

/// Where the keys between `last` and `end` may be cut, as fine as `grain` has it, in order.
///
/// A byte of the place before is worth as many pages as there are bytes, if the keys are taken to differ in
/// this one. They are from the place `differ` on, where the first and the last of all that were seen do. Whether they do
/// so before that nobody knows, and each place further to the left, as in `00000042`, is half as likely.
pub(super) fn cuts(
    alphabet: &Alphabet,
    last: &[u8],
    grain: Grain,
    differ: usize,
    end: Option<&[u8]>,
) -> Vec<Cut> {
    let text = last.iter().position(|&byte| byte == b'/').unwrap_or(last.len());
    let bytes = alphabet.count();
    let mut pages = (bytes / f64::from(u8::try_from(grain.bytes).unwrap_or(u8::MAX))).max(1.0);
    let mut found = Vec::new();
    for place in (0..grain.depth).rev() {
        if place < differ {
            pages /= 2.0;
        }
        // The last key may be shorter than what it has in common with others.
        for byte in last[..text].get(place).into_iter().flat_map(|&byte| alphabet.above(byte)) {
            let cut = Cut { place, byte, pages };
            if end.is_some_and(|end| cut.is_at_or_behind(end, last)) {
                return found;
            }
            found.push(cut);
        }
        if differ <= place {
            pages = (pages * bytes).min(PAGES_MAX);
        }
    }
    found
}

impl Cut {
    /// The key to cut at, behind the key `last`.
    pub(super) fn key(self, last: &[u8]) -> Vec<u8> {
        [&last[..self.place], &[self.byte]].concat()
    }

    fn is_at_or_behind(self, end: &[u8], last: &[u8]) -> bool {
        let key = last[..self.place].iter().chain([&self.byte]);
        end.iter().le(key)
    }
}

/// How many pages there may be from the first of `cuts` on.
pub(super) fn pages(cuts: &[Cut]) -> f64 {
    cuts.iter().map(|cut| cut.pages).sum()
}

/// The one of `cuts` with as much below as above it.
pub(super) fn middle(cuts: &[Cut]) -> Option<Cut> {
    let half = pages(cuts) / 2.0;
    let mut below = 0.0;
    let halves = |cut: &&Cut| {
        below += cut.pages;
        // Whatever lies between the last key and the first cut is below, too.
        half <= below
    };
    cuts.iter().find(halves).copied()
}

/// How many bytes two keys have in common at their beginnings.
pub(super) fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::{Alphabet, Cut, Grain, cuts, middle, pages};

    fn learnt(keys: &[&str]) -> Alphabet {
        let mut alphabet = Alphabet::default();
        alphabet.learn(&bytes(keys));
        alphabet
    }

    fn bytes<'a>(keys: &[&'a str]) -> Vec<&'a [u8]> {
        keys.iter().map(|key| key.as_bytes()).collect()
    }

    fn texts(cuts: &[Cut], last: &[u8]) -> Vec<String> {
        cuts.iter().map(|cut| String::from_utf8(cut.key(last)).unwrap()).collect()
    }

    #[test]
    fn numbers_are_cut_at_each_digit_that_a_page_does_not_use_up() {
        let keys: Vec<String> = (0..1000).map(|number| format!("f-{number:05}.txt")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let grain = Grain::of(&bytes(&keys));
        assert_eq!(grain.depth, 4, "f-00 is common to the page");
        let all = cuts(&learnt(&keys), b"f-00999.txt", grain, 4, None);
        let want: Vec<String> = (1..=9)
            .map(|digit| format!("f-0{digit}"))
            .chain((1..=9).map(|digit| format!("f-{digit}")))
            .collect();
        assert_eq!(texts(&all, b"f-00999.txt"), want);
        let before = cuts(&learnt(&keys), b"f-00999.txt", grain, 4, Some(b"f-04"));
        assert_eq!(texts(&before, b"f-00999.txt"), ["f-01", "f-02", "f-03"]);
    }

    #[test]
    fn half_of_the_pages_are_below_the_middle() {
        let keys: Vec<String> = (0..1000).map(|number| format!("f-{number:06}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (alphabet, grain) = (learnt(&keys), Grain::of(&bytes(&keys)));
        let cut = |last: &[u8], differ, end| {
            let cuts = cuts(&alphabet, last, grain, differ, end);
            let middle = middle(&cuts).unwrap();
            (pages(&cuts), String::from_utf8(middle.key(last)).unwrap())
        };
        // Ten for each digit that is seen to change,
        assert_eq!(cut(b"f-019999", 3, Some(b"f-1")), (80.0, "f-05".to_owned()));
        assert_eq!(cut(b"f-109999", 2, None), (890.0, "f-5".to_owned()));
        // and less for one that may never do.
        assert_eq!(cut(b"f-019999", 3, None), (80.0 + 9.0 * 50.0, "f-4".to_owned()));
        let unsure = 9.0 * (0.5 + 0.25 + 0.125);
        assert_eq!(cut(b"f-000999", 5, None), (unsure, "f-008".to_owned()));
    }

    #[test]
    fn hashes_are_cut_at_letters_too_and_folders_before_their_slash() {
        let keys = ["00a1/", "0b02/", "0f33/", "1a/"];
        let grain = Grain { depth: 1, bytes: usize::MAX };
        let found = cuts(&learnt(&keys), b"1a/", grain, 0, None);
        assert_eq!(texts(&found, b"1a/"), ["2", "3", "4", "5", "6", "7", "8", "9", "b", "f"]);
        assert!(cuts(&learnt(&keys), b"/", grain, 0, None).is_empty());
    }

    #[test]
    fn where_nothing_is_known_or_text_ends_nothing_is_cut() {
        let grain = Grain { depth: 3, bytes: usize::MAX };
        assert!(cuts(&Alphabet::default(), b"abc", grain, 0, None).is_empty());
        assert!(cuts(&learnt(&["a", "b"]), "é".as_bytes(), grain, 0, None).is_empty());
        assert_eq!(Grain::of(&[]), Grain::default());
    }
}
