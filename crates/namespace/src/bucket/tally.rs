//! Sums of the folders of a listing that has all of a folder in one run; pure.

use remote::Key;

use super::keys;

/// The files below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderSum {
    /// The path of the folder; empty for the listed one.
    pub path: Vec<u8>,
    /// How many files it has, those in its folders included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The folders above the last object, with what was counted in them.
#[derive(Debug)]
pub(super) struct Tally {
    depth: usize,
    folders: Vec<(Key, FolderSum)>,
}

impl Tally {
    /// Tells folders down to `depth` below the listed one, which is always told.
    pub(super) fn new(depth: usize) -> Tally {
        Tally { depth, folders: vec![(Key::from(""), FolderSum::default())] }
    }

    /// Counts an object.
    pub(super) fn object(&mut self, key: &Key, bytes: u64, tell: &mut dyn FnMut(FolderSum)) {
        let is_marker = key.as_bytes().ends_with(b"/") && bytes == 0;
        self.enter(key, tell);
        if !is_marker && let Some((_, sum)) = self.folders.last_mut() {
            sum.files += 1;
            sum.bytes += bytes;
        }
    }

    /// Notes a folder, which may be empty.
    pub(super) fn folder(&mut self, prefix: &Key, tell: &mut dyn FnMut(FolderSum)) {
        self.enter(prefix, tell);
    }

    /// Ends the listing.
    pub(super) fn end(mut self, tell: &mut dyn FnMut(FolderSum)) {
        while !self.folders.is_empty() {
            self.leave(tell);
        }
    }

    /// Goes to the folder of `key`, as far down as is told.
    fn enter(&mut self, key: &Key, tell: &mut dyn FnMut(FolderSum)) {
        while let Some((prefix, _)) = self.folders.last()
            && !key.as_bytes().starts_with(prefix.as_bytes())
        {
            self.leave(tell);
        }
        let known = self.folders.last().map_or(0, |(prefix, _)| prefix.as_bytes().len());
        for at in known..key.as_bytes().len() {
            if key.as_bytes()[at] == b'/' && self.folders.len() <= self.depth {
                let prefix = Key::from(&key.as_bytes()[..=at]);
                let path = keys::path(&prefix).unwrap_or_default();
                self.folders.push((prefix, FolderSum { path, ..FolderSum::default() }));
            }
        }
    }

    /// Tells the innermost folder, and counts it in the one above.
    fn leave(&mut self, tell: &mut dyn FnMut(FolderSum)) {
        let Some((_, sum)) = self.folders.pop() else { return };
        if let Some((_, above)) = self.folders.last_mut() {
            above.files += sum.files;
            above.bytes += sum.bytes;
        }
        tell(sum);
    }
}

#[cfg(test)]
mod tests {
    use remote::Key;

    use super::Tally;

    fn check(depth: usize, want: &[(&str, u64, u64)]) {
        let mut tally = Tally::new(depth);
        let mut told = Vec::new();
        let mut tell = |sum: super::FolderSum| {
            told.push((String::from_utf8(sum.path).unwrap(), sum.files, sum.bytes));
        };
        for (key, bytes) in
            [("a", 1), ("d/", 0), ("d/e/f/x", 10), ("d/e/y", 100), ("d/z", 1000), ("g/", 5)]
        {
            tally.object(&Key::from(key), bytes, &mut tell);
        }
        tally.end(&mut tell);
        let want: Vec<_> =
            want.iter().map(|&(path, files, bytes)| (path.to_owned(), files, bytes)).collect();
        assert_eq!(told, want, "{depth}");
    }

    #[test]
    fn each_folder_is_told_after_those_in_it() {
        check(0, &[("", 5, 1116)]);
        check(1, &[("d", 3, 1110), ("g", 1, 5), ("", 5, 1116)]);
        check(9, &[("d/e/f", 1, 10), ("d/e", 2, 110), ("d", 3, 1110), ("g", 1, 5), ("", 5, 1116)]);
    }
}
