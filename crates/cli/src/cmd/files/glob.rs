//! Patterns of paths: `*` and `?` within a name, `[a-z]`, and `**` for any number of folders; pure but
//! for the folders that it looks into.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Whether `path` has characters that mean something in a pattern.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// What is there that `pattern` fits, in the order of names.
pub(super) fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut places = vec![PathBuf::new()];
    for component in pattern.components() {
        let Component::Normal(name) = component else {
            for place in &mut places {
                place.push(component);
            }
            continue;
        };
        let name = name.as_bytes();
        places = places.iter().flat_map(|place| step(place, name)).collect();
    }
    places.retain(|place| place.symlink_metadata().is_ok());
    places
}

/// Where one part of a pattern leads from `place`.
fn step(place: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    if pattern == b"**" {
        return folders_below(place);
    }
    if !is_pattern(Path::new(std::ffi::OsStr::from_bytes(pattern))) {
        return vec![place.join(std::ffi::OsStr::from_bytes(pattern))];
    }
    let here = names(place).into_iter().filter(|name| {
        // As in a shell: what is hidden is meant only by who says so.
        let is_hidden = name.as_bytes().starts_with(b".") && !pattern.starts_with(b".");
        !is_hidden && fits(pattern, name.as_bytes())
    });
    here.map(|name| place.join(name)).collect()
}

/// `place` and all folders below it.
fn folders_below(place: &Path) -> Vec<PathBuf> {
    let mut found = vec![place.to_owned()];
    let mut next = 0;
    while next < found.len() {
        let place = found[next].clone();
        let inner = names(&place).into_iter().map(|name| place.join(name));
        found.extend(inner.filter(|path| path.symlink_metadata().is_ok_and(|it| it.is_dir())));
        next += 1;
    }
    found
}

/// The names in a folder, sorted; none if it cannot be read, as in a shell.
fn names(place: &Path) -> Vec<std::ffi::OsString> {
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

/// Whether `pattern` fits all of `name`.
pub(super) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star is, and how much of the name it has eaten so far.
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match one(&pattern[at..], name[read]) {
            Step::Star => {
                star = Some((at, read));
                at += 1;
            }
            Step::Fits(taken) => {
                at += taken;
                read += 1;
            }
            Step::No => match star {
                Some((begin, eaten)) => {
                    star = Some((begin, eaten + 1));
                    (at, read) = (begin + 1, eaten + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

enum Step {
    Star,
    /// So much of the pattern is for one byte.
    Fits(usize),
    No,
}

fn one(pattern: &[u8], byte: u8) -> Step {
    match pattern {
        [b'*', ..] => Step::Star,
        [b'?', ..] => Step::Fits(1),
        [b'[', inner @ ..] => match class(inner, byte) {
            Some((true, taken)) => Step::Fits(taken + 1),
            Some((false, _)) => Step::No,
            // An open bracket that nothing closes is itself.
            None if byte == b'[' => Step::Fits(1),
            None => Step::No,
        },
        [first, ..] if *first == byte => Step::Fits(1),
        _ => Step::No,
    }
}

/// Whether `byte` is in the class that begins `inner`, and how long that is with its end; `None` if it has
/// none.
fn class(inner: &[u8], byte: u8) -> Option<(bool, usize)> {
    let is_not = matches!(inner.first(), Some(b'!' | b'^'));
    let begin = usize::from(is_not);
    // The first `]` may be a member.
    let end = begin + 1 + inner.get(begin + 1..)?.iter().position(|&byte| byte == b']')?;
    let members = &inner[begin..end];
    let (mut is_in, mut at) = (false, 0);
    while at < members.len() {
        if let [from, b'-', to, ..] = members[at..] {
            is_in |= (from..=to).contains(&byte);
            at += 3;
        } else {
            is_in |= members[at] == byte;
            at += 1;
        }
    }
    Some((is_in != is_not, end + 1))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_names_as_in_a_shell() {
        for (pattern, name, want) in [
            ("*.bam", "a.bam", true),
            ("*.bam", "a.bam.bai", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("?", "", false),
            ("??", "ab", true),
            ("chr[0-9].*", "chr7.vcf", true),
            ("chr[!0-9].*", "chr7.vcf", false),
            ("[]x]", "]", true),
            ("[x", "[x", true),
            ("*", "", true),
            ("***", "anything", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), want, "{pattern} {name}");
        }
    }
}
