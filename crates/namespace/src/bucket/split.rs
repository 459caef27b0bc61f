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

    /// The bytes that may stand where `byte` stands, above it.
    fn above(&self, byte: u8) -> impl Iterator<Item = u8> + '_ {
        // Raising what stands between words would leave the whole shape of the keys behind.
        let after = if byte.is_ascii_alphanumeric() { byte + 1 } else { 128 };
        (after..128).filter(|&byte| self.seen[usize::from(byte)])
    }
}

/// Up to which place of a key raising a byte leaves a page of keys or more behind: as far as the
/// keys of a page, in order, agree.
pub(super) fn depth(keys: &[&[u8]]) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    let agreed = common(first, last);
    // Where a page has no more than two bytes, one byte is worth about a page.
    let mut middle: Vec<u8> = keys.iter().filter_map(|key| key.get(agreed).copied()).collect();
    middle.dedup();
    if middle.len() <= 2 { agreed + 1 } else { agreed }
}

/// The keys between `last`, down to the byte at `depth`, and `end` where a cut may be worth its
/// price, in order.
pub(super) fn candidates(
    alphabet: &Alphabet,
    last: &[u8],
    depth: usize,
    end: Option<&[u8]>,
) -> Vec<Vec<u8>> {
    let text = last.iter().position(|&byte| byte == b'/').unwrap_or(last.len());
    let mut found = Vec::new();
    for place in (0..depth.min(text)).rev() {
        for byte in alphabet.above(last[place]) {
            let cut = [&last[..place], &[byte]].concat();
            if end.is_some_and(|end| end <= &cut[..]) {
                return found;
            }
            found.push(cut);
        }
    }
    found
}

/// The one of `candidates` with as many below as above it.
pub(super) fn middle(mut candidates: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let place = candidates.len() / 2;
    (place < candidates.len()).then(|| candidates.swap_remove(place))
}

/// How many bytes two keys have in common at their beginnings.
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::{Alphabet, candidates, depth};

    fn learnt(keys: &[&str]) -> Alphabet {
        let mut alphabet = Alphabet::default();
        alphabet.learn(&bytes(keys));
        alphabet
    }

    fn bytes<'a>(keys: &[&'a str]) -> Vec<&'a [u8]> {
        keys.iter().map(|key| key.as_bytes()).collect()
    }

    fn texts(cuts: Vec<Vec<u8>>) -> Vec<String> {
        cuts.into_iter().map(|cut| String::from_utf8(cut).unwrap()).collect()
    }

    #[test]
    fn numbers_are_cut_at_each_digit_that_a_page_does_not_use_up() {
        let keys: Vec<String> = (0..1000).map(|number| format!("f-{number:05}.txt")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let depth = depth(&bytes(&keys));
        assert_eq!(depth, 4, "f-00 is common to the page");
        let cuts = texts(candidates(&learnt(&keys), b"f-00999.txt", depth, None));
        let want: Vec<String> = (1..=9)
            .map(|digit| format!("f-0{digit}"))
            .chain((1..=9).map(|digit| format!("f-{digit}")))
            .collect();
        assert_eq!(cuts, want);
        let before = texts(candidates(&learnt(&keys), b"f-00999.txt", depth, Some(b"f-04")));
        assert_eq!(before, ["f-01", "f-02", "f-03"]);
    }

    #[test]
    fn hashes_are_cut_at_letters_too_and_folders_before_their_slash() {
        let keys = ["00a1/", "0b02/", "0f33/", "1a/"];
        let cuts = texts(candidates(&learnt(&keys), b"1a/", 1, None));
        assert_eq!(cuts, ["2", "3", "4", "5", "6", "7", "8", "9", "b", "f"]);
        assert!(candidates(&learnt(&keys), b"/", 9, None).is_empty());
    }

    #[test]
    fn where_nothing_is_known_or_text_ends_nothing_is_cut() {
        assert!(candidates(&Alphabet::default(), b"abc", 3, None).is_empty());
        assert!(candidates(&learnt(&["a", "b"]), "é".as_bytes(), 2, None).is_empty());
        assert_eq!(depth(&[]), 0);
    }
}
