//! Where a key lives in a folder; pure.
//!
//! A key that can be the path of a plain file is one. Every key also has a place in the side area,
//! where nothing is refused and no two keys share a name: each part of the key becomes one file
//! name (several, if it is long) whose last byte says what it is.
//!
//! ```text
//! a/b         a/b           and in the side area   a+/b=
//! a//b        (not a path)                         a+/+/b=
//! a/          the folder a                         a+/=
//! ../x%       (not a path)                         ..+/x%25=
//! 300 × n     (not a path)                         254 × n~/46 × n=
//! ```

use base::Name;

use crate::Key;

/// The folder for what cannot be a plain file, and for what is being written.
pub(super) const SIDE: &[u8] = b".quayfs";

/// Where the keys are in the side area.
pub(super) const SIDE_KEYS: &[u8] = b".quayfs/keys";

/// The longest encoded piece of a part: one byte of the 255 says what the piece is.
const PIECE_BYTES_MAX: usize = Name::BYTES_MAX - 1;

/// Where a key can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// As an ordinary file or folder.
    pub(super) plain: Plain,
    /// Its file in the side area.
    pub(super) side: Vec<u8>,
}

/// What an ordinary program would see of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    /// The file at this path.
    File(Vec<u8>),
    /// The folder at this path: the key is `path/`.
    Folder(Vec<u8>),
    /// Nothing: the key is not a path.
    Nowhere,
}

impl Place {
    /// The place of `key`.
    pub(super) fn of(key: &Key) -> Place {
        let bytes = key.as_bytes();
        let plain = match bytes.strip_suffix(b"/") {
            Some(folder) if is_path(folder) => Plain::Folder(folder.to_vec()),
            None if is_path(bytes) => Plain::File(bytes.to_vec()),
            Some(_) | None => Plain::Nowhere,
        };
        Place { plain, side: side_file(bytes) }
    }
}

/// Whether `bytes` can be the path of an ordinary file that is not ours.
pub(super) fn is_path(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|&byte| byte == b'/');
    let reserved = parts.clone().next() == Some(SIDE);
    !reserved && parts.all(|part| Name::new(part).is_ok())
}

/// The folder of the side area that holds what begins with `prefix`, which is empty or ends in `/`.
pub(super) fn side_folder(prefix: &[u8]) -> Vec<u8> {
    let mut path = SIDE_KEYS.to_vec();
    let parts = prefix.strip_suffix(b"/").map(|rest| rest.split(|&byte| byte == b'/'));
    for part in parts.into_iter().flatten() {
        push_part(&mut path, part, b'+');
    }
    path
}

fn side_file(key: &[u8]) -> Vec<u8> {
    let name_start = key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let mut path = side_folder(&key[..name_start]);
    push_part(&mut path, &key[name_start..], b'=');
    path
}

fn push_part(path: &mut Vec<u8>, part: &[u8], last: u8) {
    let encoded = encode(part);
    let mut rest = &encoded[..];
    while PIECE_BYTES_MAX < rest.len() {
        let (piece, more) = rest.split_at(PIECE_BYTES_MAX);
        path.push(b'/');
        path.extend_from_slice(piece);
        path.push(b'~');
        rest = more;
    }
    path.push(b'/');
    path.extend_from_slice(rest);
    path.push(last);
}

fn encode(part: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(part.len());
    for &byte in part {
        match byte {
            0 => encoded.extend_from_slice(b"%00"),
            b'%' => encoded.extend_from_slice(b"%25"),
            _ => encoded.push(byte),
        }
    }
    encoded
}

/// One name of the side area, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SideName<'a> {
    /// The last piece of an object's last part.
    File(&'a [u8]),
    /// The last piece of a part that more parts follow.
    Folder(&'a [u8]),
    /// A piece of a part that more pieces follow.
    Piece(&'a [u8]),
}

impl SideName<'_> {
    /// What `name` is; `None` if it is none of ours.
    pub(super) fn parse(name: &[u8]) -> Option<SideName<'_>> {
        let (&last, piece) = name.split_last()?;
        match last {
            b'=' => Some(SideName::File(piece)),
            b'+' => Some(SideName::Folder(piece)),
            b'~' => Some(SideName::Piece(piece)),
            _ => None,
        }
    }
}

/// The part whose pieces, put together, are `encoded`; `None` if it is none of ours.
pub(super) fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut part = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte != b'%' {
            part.push(byte);
        } else if let Some(more) = rest.strip_prefix(b"00") {
            part.push(0);
            rest = more;
        } else {
            part.push(b'%');
            rest = rest.strip_prefix(b"25")?;
        }
    }
    Some(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, prop_assert_ne, proptest};

    use super::{Place, Plain, SIDE_KEYS, SideName, decode};
    use crate::Key;

    #[test]
    fn only_a_relative_path_of_names_is_a_plain_file() {
        for (key, want) in [
            (&b"a"[..], Plain::File(b"a".to_vec())),
            (b"a/b.txt", Plain::File(b"a/b.txt".to_vec())),
            (b"\xff", Plain::File(b"\xff".to_vec())),
            (b".quayfsx/y", Plain::File(b".quayfsx/y".to_vec())),
            (b"a/.quayfs", Plain::File(b"a/.quayfs".to_vec())),
            (b"a/b/", Plain::Folder(b"a/b".to_vec())),
            (b"", Plain::Nowhere),
            (b"/", Plain::Nowhere),
            (b"/a", Plain::Nowhere),
            (b"a//b", Plain::Nowhere),
            (b"a//", Plain::Nowhere),
            (b"./a", Plain::Nowhere),
            (b"a/../b", Plain::Nowhere),
            (b"..", Plain::Nowhere),
            (b"a\0b", Plain::Nowhere),
            (b".quayfs", Plain::Nowhere),
            (b".quayfs/", Plain::Nowhere),
            (b".quayfs/keys/x", Plain::Nowhere),
            (&[b'x'; 256], Plain::Nowhere),
        ] {
            assert_eq!(Place::of(&Key::from(key)).plain, want, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_drawn_side_names_hold() {
        for (key, want) in [("a/b", "a+/b="), ("a//b", "a+/+/b="), ("a/", "a+/="), ("", "=")] {
            assert_eq!(side_of(key.as_bytes()), want.as_bytes());
        }
        assert_eq!(side_of(b"../x%"), b"..+/x%25=");
    }

    #[test]
    fn no_side_name_is_too_long_for_a_disk() {
        let side = side_of(&[b'n'; 1024]);
        assert!(side.split(|&byte| byte == b'/').all(|name| name.len() <= 255));
    }

    proptest! {
        #[test]
        fn a_side_name_leads_back_to_its_key(key in key()) {
            prop_assert_eq!(key_of(&side_of(&key)), key);
        }

        #[test]
        fn two_keys_never_share_a_side_name(a in key(), b in key()) {
            if a != b {
                prop_assert_ne!(side_of(&a), side_of(&b));
            }
        }
    }

    /// Keys of the bytes that matter, some of them long.
    fn key() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
        use proptest::strategy::Strategy as _;
        let byte = proptest::sample::select(&b"/a.%0=+~\0\xff"[..]);
        (proptest::collection::vec(byte, 0..40), any::<bool>())
            .prop_map(|(bytes, long)| if long { bytes.repeat(20) } else { bytes })
    }

    fn side_of(key: &[u8]) -> Vec<u8> {
        Place::of(&Key::from(key)).side[SIDE_KEYS.len() + 1..].to_vec()
    }

    fn key_of(side: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        let mut part = Vec::new();
        for name in side.split(|&byte| byte == b'/') {
            match SideName::parse(name).unwrap() {
                SideName::Piece(piece) => part.extend_from_slice(piece),
                SideName::Folder(piece) => {
                    part.extend_from_slice(piece);
                    key.extend(decode(&std::mem::take(&mut part)).unwrap());
                    key.push(b'/');
                }
                SideName::File(piece) => {
                    part.extend_from_slice(piece);
                    key.extend(decode(&part).unwrap());
                }
            }
        }
        key
    }
}
