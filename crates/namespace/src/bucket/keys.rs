//! Keys to names and back: every key has one path, and no two have the same.
//!
//! The parts of a key between its slashes are the names of its path, written as [`escape`] says.
//! Three things more are needed:
//!
//! - An object beside a folder of the same name is shown under that name with [`BESIDE`] before it.
//! - A part whose name would be longer than 255 bytes is cut: its beginning, percent-encoded, with
//!   [`CHUNK`] before it, is a folder, and the part goes on in there. As much as fits comes first.
//!   The prefix of such a *chunk folder* ends without a slash; it has no marker, and exists while a
//!   key is shown in it.
//! - The object whose key is the prefix of a folder is the folder's marker while it is empty. With
//!   something in it, it is the file `%%:` in the folder: its last part is empty.
//!
//! A key with a part that begins with [`RESERVED`] is quayfs' own and has no path. A name that begins so has
//! another part.

use std::borrow::Cow;
use std::cmp::Ordering;

use base::{Name, percent_encode};
use remote::Key;

use super::escape::{self, BESIDE, CHUNK, RESERVED};
use crate::ErrorKind;

/// What a key is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The object whose key is the folder's prefix.
    Own,
    /// An object whose key goes on with this part.
    Object(&'a [u8]),
    /// Objects whose keys go on with this part and a slash.
    Folder(&'a [u8]),
    /// A key of ours.
    Hidden,
}

/// What a name in a folder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meant<'a> {
    /// An object, or a folder, whose keys go on with this part.
    Part(Cow<'a, [u8]>),
    /// The object of this part, beside the folder of the same.
    Beside(Cow<'a, [u8]>),
    /// Keys whose part begins with this.
    Chunk(Vec<u8>),
}

/// Whether there is a folder of the same name as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// There is none, or the name of the folder itself is meant.
    Alone,
    /// There is.
    Folder,
}

/// Whether keys with this part are ours, and hidden.
pub(super) fn is_reserved(part: &[u8]) -> bool {
    part.starts_with(RESERVED)
}

/// Whether `key`, below the folder `prefix`, is hidden.
pub(super) fn is_hidden(prefix: &Key, key: &Key) -> bool {
    let begun = begun(prefix).len();
    let rest = key.as_bytes().get(prefix.as_bytes().len() - begun..).unwrap_or_default();
    rest.split(|&byte| byte == b'/').any(is_reserved)
}

/// Whether `name` is that of a chunk folder.
pub(super) fn is_chunk_name(name: &Name) -> bool {
    escape::chunk(name.as_bytes()).is_some()
}

/// Whether the key of `name` is one that some stores do not take.
pub(super) fn is_odd(name: &Name) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(escape::SIGN)
        || str::from_utf8(bytes).is_ok_and(|text| text.trim().is_empty())
        || str::from_utf8(bytes).is_err()
}

/// Whether `part` of a key is shown under a name that is just it, wherever it is not beside a folder.
pub(super) fn is_plain(part: &[u8]) -> bool {
    let is_name = !matches!(part, b"" | b"." | b"..") && part.len() <= Name::BYTES_MAX;
    let is_text = !part.contains(&0) && str::from_utf8(part).is_ok();
    is_name && is_text && !part.starts_with(escape::SIGN) && !is_reserved(part)
}

/// Whether `prefix` is of a folder for the beginning of a long part.
pub(super) fn is_chunk(prefix: &Key) -> bool {
    !begun(prefix).is_empty()
}

/// Reads `key`, an object or a folded prefix, in a listing of the folder `prefix`.
pub(super) fn line<'a>(prefix: &Key, key: &'a Key) -> Line<'a> {
    let Some(rest) = key.as_bytes().strip_prefix(prefix.as_bytes()) else { return Line::Hidden };
    let mut parts = rest.splitn(2, |&byte| byte == b'/');
    let part = parts.next().unwrap_or_default();
    match parts.next() {
        _ if is_reserved(part) && !is_chunk(prefix) => Line::Hidden,
        Some(_) => Line::Folder(part),
        None if rest.is_empty() => Line::Own,
        None => Line::Object(part),
    }
}

/// The name under which `part` is shown in the folder `prefix`: that of a chunk folder if the part
/// is long. `None` if its path does not lead through this folder.
pub(super) fn name(prefix: &Key, part: &[u8], company: Company) -> Option<Name> {
    let begun = begun(prefix);
    if begun.is_empty() {
        return Some(next(part, company).1);
    }
    let whole = [begun, part].concat();
    let mut at = 0;
    while at < begun.len() {
        at += next(&whole[at..], company).0;
    }
    (at == begun.len() && at < whole.len()).then(|| next(&whole[at..], company).1)
}

/// What `name` stands for in the folder `prefix`. An error if it stands for nothing there, or for
/// what is ours.
pub(super) fn meant<'a>(prefix: &Key, name: &'a Name) -> Result<Meant<'a>, ErrorKind> {
    let meant = decode(name).ok_or(ErrorKind::Invalid)?;
    let (part, company) = match &meant {
        Meant::Part(part) => (&**part, Company::Alone),
        Meant::Beside(part) => (&**part, Company::Folder),
        Meant::Chunk(part) => (&**part, Company::Alone),
    };
    if is_reserved(part) && !is_chunk(prefix) {
        return Err(ErrorKind::NotPermitted);
    }
    // The root has no key of its own.
    let keyless = prefix.as_bytes().is_empty() && part.is_empty() && company == Company::Folder;
    let shown = match &meant {
        // Only the keys below it can tell.
        Meant::Chunk(_) => true,
        Meant::Part(_) if !name.as_bytes().starts_with(escape::SIGN) && !is_chunk(prefix) => true,
        Meant::Part(_) | Meant::Beside(_) => {
            self::name(prefix, part, company).as_ref() == Some(name)
        }
    };
    if shown && !keyless { Ok(meant) } else { Err(ErrorKind::Invalid) }
}

/// The key of the file `name` in the folder `prefix`, where that stands for something.
pub(super) fn file(prefix: &Key, name: &Name) -> Key {
    prefix.join(&part(name))
}

/// The prefix of the folder `name` in the folder `prefix`, where that stands for something; also
/// the key of its marker, unless it is a chunk folder.
pub(super) fn folder(prefix: &Key, name: &Name) -> Key {
    let mut key = prefix.as_bytes().to_vec();
    push_folder(&mut key, name);
    Key::new(key)
}

/// Adds to a folder's prefix that of the folder `name` in it.
pub(super) fn push_folder(prefix: &mut Vec<u8>, name: &Name) {
    prefix.extend_from_slice(&part(name));
    if !is_chunk_name(name) {
        prefix.push(b'/');
    }
}

/// The names that lead to `part`, the last of which is its own: those before it are of chunk folders.
pub(super) fn names(part: &[u8], company: Company) -> Vec<Name> {
    let (mut names, mut at) = (Vec::new(), 0);
    loop {
        let (bytes, name) = next(&part[at..], company);
        names.push(name);
        at += bytes;
        if part.len() <= at {
            return names;
        }
    }
}

/// The names that lead to the directory whose keys begin with `prefix`, with slashes between them. `None` if
/// `prefix` ends within a part.
pub(super) fn path(prefix: &Key) -> Option<Vec<u8>> {
    let bytes = prefix.as_bytes();
    let mut path: Vec<Vec<u8>> = Vec::new();
    let mut at = 0;
    for slash in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
        loop {
            let name = name(&Key::from(&bytes[..at]), &bytes[at..slash], Company::Alone)?;
            at += part(&name).len();
            path.push(name.as_bytes().to_vec());
            if at == slash {
                break;
            }
        }
        at = slash + 1;
    }
    (at == bytes.len()).then(|| path.join(&b'/'))
}

/// The name that an object has beside the folder `name`, if it is not too long.
pub(super) fn beside(name: &Name) -> Option<Name> {
    match decode(name)? {
        Meant::Part(_) => Name::new(&[BESIDE, name.as_bytes()].concat()).ok(),
        Meant::Beside(_) | Meant::Chunk(_) => None,
    }
}

/// The name of the folder beside which `name` is an object; `None` if it is none such.
pub(super) fn beside_what(name: &Name) -> Option<Name> {
    let beside = name.as_bytes().strip_prefix(BESIDE)?;
    Name::new(beside).ok().filter(|_| escape::is_beside(name.as_bytes()))
}

/// Refuses a key that is longer than those that the store takes.
pub(super) fn check_length(key: &Key, key_bytes_max: usize) -> Result<(), ErrorKind> {
    let fits = key.as_bytes().len() <= key_bytes_max;
    if fits { Ok(()) } else { Err(ErrorKind::NameTooLong) }
}

/// As [`check_length`], for the key of the file `name` in the folder `prefix`.
pub(super) fn check_length_of_file(
    prefix: &Key,
    name: &Name,
    key_bytes_max: usize,
) -> Result<(), ErrorKind> {
    let fits = prefix.as_bytes().len() + part(name).len() <= key_bytes_max;
    if fits { Ok(()) } else { Err(ErrorKind::NameTooLong) }
}

/// A key below that of `name` in the folder `prefix`, and above nearly all others below it: where
/// to start a page that is to begin with `name`. `None` where no such key is certain to be text.
pub(super) fn just_below(prefix: &Key, name: &Name) -> Option<Key> {
    if !is_plain(name.as_bytes()) {
        return None;
    }
    let (last, rest) = name.as_bytes().split_last()?;
    // Between `!` and `~` the byte is a whole character, and so is the one before it.
    (b'!'..=b'~')
        .contains(last)
        .then(|| Key::new([prefix.as_bytes(), rest, &[last - 1, b'~']].concat()))
}

/// Where among the keys of a folder the first stands that says something of `name`, as what
/// follows the folder's prefix.
pub(super) fn first_of(name: &Name) -> Cow<'_, [u8]> {
    part(name)
}

/// Where a page, whose last key goes on with `last` after the folder's prefix, stands to the keys
/// that say something of `name`: `Less` if it ends before the last of them.
pub(super) fn reaches(last: &[u8], name: &Name) -> Ordering {
    let part = part(name);
    if is_chunk_name(name) {
        let within = last.starts_with(&part);
        return if within { Ordering::Less } else { last.cmp(&part) };
    }
    // Between the key of a file and the prefix of a folder of the same name lie the keys of other
    // names (`a`, `a.txt`, `a/`): a page may end there.
    last.iter().cmp(part.iter().chain(b"/"))
}

/// What `prefix` has of a part that goes on.
fn begun(prefix: &Key) -> &[u8] {
    let bytes = prefix.as_bytes();
    let slash = bytes.iter().rposition(|&byte| byte == b'/');
    &bytes[slash.map_or(0, |slash| slash + 1)..]
}

/// The name that comes next on the way to `part`, and how many bytes of the part it is for.
fn next(part: &[u8], company: Company) -> (usize, Name) {
    let text = match company {
        Company::Alone => escape::text(part),
        Company::Folder => [BESIDE, &escape::text(part)].concat().into(),
    };
    if let Ok(name) = Name::new(&text) {
        return (part.len(), name);
    }
    let beginning = escape::beginning(part, Name::BYTES_MAX - CHUNK.len());
    let name = Name::new(&[CHUNK, &percent_encode(beginning)].concat());
    (beginning.len(), name.expect("cut to fit, and without the bytes that no name has"))
}

/// What `name` stands for in some folder.
fn decode(name: &Name) -> Option<Meant<'_>> {
    let bytes = name.as_bytes();
    if escape::is_beside(bytes) {
        return escape::part(&bytes[BESIDE.len()..]).map(Meant::Beside);
    }
    if let Some(chunk) = escape::chunk(bytes) {
        return Some(Meant::Chunk(chunk));
    }
    escape::part(bytes).map(Meant::Part)
}

/// What `name` adds to the prefix of its folder.
fn part(name: &Name) -> Cow<'_, [u8]> {
    match decode(name) {
        Some(Meant::Part(part) | Meant::Beside(part)) => part,
        Some(Meant::Chunk(chunk)) => chunk.into(),
        None => panic!("{name:?} stands for nothing, and was to be refused"),
    }
}

#[cfg(test)]
mod tests;
