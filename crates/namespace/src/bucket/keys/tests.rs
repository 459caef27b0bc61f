//! Keys and paths, by example and at random.

use std::collections::{BTreeMap, BTreeSet};

use base::Name;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use remote::Key;

use super::{
    Company, Line, Meant, beside, beside_what, check_length, file, folder, is_chunk_name,
    is_hidden, just_below, line, meant,
};
use crate::ErrorKind;

fn name(bytes: impl AsRef<[u8]>) -> Name {
    Name::new(bytes.as_ref()).unwrap()
}

fn key(text: &str) -> Key {
    Key::from(text)
}

/// The path of `key` where there are `keys`, as the names and the prefixes of their folders.
fn path(keys: &BTreeSet<Vec<u8>>, key: &[u8]) -> Vec<(Key, Name)> {
    let is_folder = |start: &[u8]| keys.iter().any(|key| key.starts_with(start));
    let parts: Vec<&[u8]> = key.split(|&byte| byte == b'/').collect();
    let mut path: Vec<(Key, Name)> = Vec::new();
    let mut prefix = Key::from("");
    for (at, part) in parts.iter().enumerate() {
        let last = at + 1 == parts.len();
        let beside = last && is_folder(&[key, b"/"].concat());
        let company = if beside { Company::Folder } else { Company::Alone };
        let mut rest = *part;
        loop {
            let name = super::name(&prefix, rest, company).unwrap();
            let next = folder(&prefix, &name);
            path.push((prefix.clone(), name.clone()));
            let taken = next.as_bytes().len() - prefix.as_bytes().len();
            prefix = next;
            if !is_chunk_name(&name) {
                break;
            }
            rest = &rest[taken..];
        }
    }
    path
}

/// Bytes that are odd in keys, some of them in long runs.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => proptest::sample::select(vec![
            &b"a"[..], b"b", b".", b"..", b"%", b"%%", b"%%!", b"%%:", b"%%=", b"%%~", b"%%@", b"%FF",
            b"\0", b"\xff", "é".as_bytes(), "\u{1F980}".as_bytes(), b"\xe2\x82", b"\xac",
        ]).prop_map(<[u8]>::to_vec),
        1 => any::<u8>().prop_filter("a part", |byte| *byte != b'/').prop_map(|byte| vec![byte]),
    ];
    let run =
        (proptest::collection::vec(piece, 1..4), prop_oneof![5 => 1..2_usize, 1 => 80..130_usize])
            .prop_map(|(pieces, times)| pieces.concat().repeat(times));
    let edge = (245..260_usize).prop_map(|bytes| vec![b'x'; bytes]);
    let parts = prop_oneof![12 => run, 2 => edge];
    prop_oneof![
        1 => proptest::strategy::Just(Vec::new()),
        6 => proptest::collection::vec(parts, 1..3).prop_map(|parts| parts.concat()),
    ]
}

fn keys() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    let pool = proptest::collection::vec(part(), 1..5);
    let picks = proptest::collection::vec(proptest::collection::vec(0..5_usize, 1..4), 1..8);
    (pool, picks).prop_map(|(pool, picks)| {
        let part = |&pick: &usize| pool[pick % pool.len()].clone();
        let key = |picks: &Vec<usize>| picks.iter().map(part).collect::<Vec<_>>().join(&b'/');
        // The empty key is no object's.
        picks.iter().map(key).filter(|key| !key.is_empty()).collect()
    })
}

proptest! {
    #[test]
    fn every_key_is_read_back_from_its_path_and_no_two_have_the_same(keys in keys()) {
        let mut paths = BTreeMap::new();
        for key in &keys {
            let path = path(&keys, key);
            for (prefix, name) in &path {
                assert!(meant(prefix, name).is_ok(), "{name:?} in {prefix:?}");
            }
            let (prefix, last) = path.last().unwrap();
            assert_eq!(file(prefix, last).as_bytes(), key);
            let names: Vec<Name> = path.into_iter().map(|(_, name)| name).collect();
            assert_eq!(paths.insert(names, key), None);
        }
        // No path goes on below what is a file.
        for names in paths.keys() {
            for above in 1..names.len() {
                assert!(!paths.contains_key(&names[..above]), "{names:?}");
            }
        }
    }

    #[test]
    fn every_name_that_means_something_is_the_one_that_is_shown(
        bytes in part(), prefix in proptest::sample::select(vec!["", "d/"]), x in 245..260_usize,
    ) {
        let chunk = Key::new([prefix.as_bytes(), &vec![b'x'; x]].concat());
        for prefix in [Key::from(prefix), chunk] {
            let Ok(name) = Name::new(&bytes[..bytes.len().min(255)]) else { continue };
            let (part, company) = match meant(&prefix, &name) {
                Ok(Meant::Part(part)) => (part, Company::Alone),
                Ok(Meant::Beside(part)) => (part, Company::Folder),
                Ok(Meant::Chunk(_)) | Err(_) => continue,
            };
            assert_eq!(super::name(&prefix, &part, company), Some(name));
        }
    }
}

proptest! {
    #[test]
    fn every_name_has_a_part_but_for_those_of_three_forms(bytes in part()) {
        let bytes: Vec<u8> = bytes.into_iter().filter(|&byte| byte != 0).take(255).collect();
        if let Ok(name) = Name::new(&bytes) {
            let is_of_a_form = ["%%=", "%%~", "%%:"].iter().any(|form| bytes.starts_with(form.as_bytes()));
            let is_file = matches!(meant(&key("d/"), &name), Ok(Meant::Part(_)));
            assert!(is_file || is_of_a_form, "{name:?}");
        }
    }
}

#[test]
fn a_line_is_of_a_file_or_a_folder_or_ours() {
    for (prefix, text, want) in [
        ("", "a", Line::Object(b"a")),
        ("", "a/", Line::Folder(b"a")),
        ("d/", "d/a", Line::Object(b"a")),
        ("d/", "d/a/b/c", Line::Folder(b"a")),
        ("d/", "d/", Line::Own),
        ("d/", "d//", Line::Folder(b"")),
        ("", "/", Line::Folder(b"")),
        ("d/", "d/..", Line::Object(b"..")),
        ("d/", "d/.quayfs-attributes", Line::Hidden),
        ("", ".quayfs-unlinked/", Line::Hidden),
        ("d/long", "d/long.quayfs-", Line::Object(b".quayfs-")),
        ("d/", "elsewhere", Line::Hidden),
    ] {
        assert_eq!(line(&key(prefix), &key(text)), want, "{prefix} {text}");
    }
    assert!(is_hidden(&key("d/"), &key("d/e/.quayfs-x/f")));
    assert!(!is_hidden(&key("d/"), &key("d/e/x.quayfs-")));
}

#[test]
fn names_mean_what_is_documented() {
    let long = format!("%%~{}", "x".repeat(252));
    for (text, want) in [
        ("a", Ok(("a", Company::Alone))),
        ("my%20file", Ok(("my%20file", Company::Alone))),
        ("%%", Ok(("%%@%25%25", Company::Alone))),
        ("%%.", Ok(("%%@%25%25.", Company::Alone))),
        ("%%:", Ok(("", Company::Alone))),
        ("%%:.", Ok((".", Company::Alone))),
        ("%%=a", Ok(("a", Company::Folder))),
        ("%%=%%", Ok(("%%@%25%25", Company::Folder))),
        ("%%=%%:", Ok(("", Company::Folder))),
        ("%%=%%:%25%25", Ok(("%%", Company::Folder))),
        ("%%:a%00", Ok(("a\0", Company::Alone))),
        ("%%=", Ok(("%%@%25%25=", Company::Alone))),
        ("%%=.", Ok(("%%@%25%25=.", Company::Alone))),
        ("%%=%%=a", Ok(("%%@%25%25=%25%25=a", Company::Alone))),
        ("%%~", Ok(("%%@%25%25~", Company::Alone))),
        ("%%~%61", Ok(("%%@%25%25~%2561", Company::Alone))),
        ("%%a", Ok(("%%@%25%25a", Company::Alone))),
        (".quayfs-unlinked", Ok(("%%@.quayfs-unlinked", Company::Alone))),
        ("%%=.quayfs-x", Ok(("%%@.quayfs-x", Company::Folder))),
        ("%%:.quayfs-x", Err(ErrorKind::NotPermitted)),
        ("%%~.quayfs-x", Err(ErrorKind::NotPermitted)),
    ] {
        let name = name(text);
        let got = meant(&key("d/"), &name).map(|meant| match meant {
            Meant::Part(part) => (part.into_owned(), Company::Alone),
            Meant::Beside(part) => (part.into_owned(), Company::Folder),
            Meant::Chunk(_) => panic!("{text}"),
        });
        let want = want.map(|(part, company)| (part.as_bytes().to_vec(), company));
        assert_eq!(got, want, "{text}");
    }
    assert_eq!(meant(&key("d/"), &name(&long)), Ok(Meant::Chunk(vec![b'x'; 252])));
    assert_eq!(meant(&key(""), &name("%%=%%:")), Err(ErrorKind::Invalid), "the root has no key");
}

#[test]
fn a_long_part_is_cut_between_characters_and_shown_in_one_place_only() {
    let part = "é".repeat(200);
    let keys = BTreeSet::from([part.clone().into_bytes()]);
    let names: Vec<Name> = path(&keys, part.as_bytes()).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, [name(format!("%%~{}", "é".repeat(126))), name("é".repeat(74))]);

    let chunk = key(&"x".repeat(252));
    for (part, want) in [
        ("x".repeat(3), None),
        ("x".repeat(4), Some(name("xxxx"))),
        ("..".to_owned(), None),
        ("y".to_owned(), None),
    ] {
        let shown = super::name(&chunk, part.as_bytes(), Company::Alone);
        assert_eq!(shown, want, "{part}");
    }
    // More would have fitted before the cut.
    let short = key(&"x".repeat(251));
    assert_eq!(super::name(&short, "x".repeat(9).as_bytes(), Company::Alone), None);
    assert_eq!(super::name(&short, "é123".as_bytes(), Company::Alone), Some(name("é123")));
}

#[test]
fn what_stands_beside_a_folder_has_its_name_in_it() {
    assert_eq!(beside(&name("a")), Some(name("%%=a")));
    assert_eq!(beside(&name("%%")), Some(name("%%=%%")));
    assert_eq!(beside(&name("%%=a")), None);
    assert_eq!(beside(&name("x".repeat(253))), None);
    assert_eq!(beside_what(&name("%%=a")), Some(name("a")));
    assert_eq!(beside_what(&name("a")), None);
}

#[test]
fn a_key_that_is_longer_than_the_store_takes_is_refused_before_it_is_asked() {
    assert_eq!(check_length(&key(&"k".repeat(1024)), 1024), Ok(()));
    assert_eq!(check_length(&key(&"k".repeat(1025)), 1024), Err(ErrorKind::NameTooLong));
}

#[test]
fn a_page_can_be_asked_to_begin_with_a_name() {
    let below = |text| just_below(&Key::from("d/"), &name(text));
    assert_eq!(below("file2"), Some(Key::from("d/file1~")));
    assert!(below("file2").unwrap() < Key::from("d/file2"));
    assert_eq!(below("é"), None);
    assert_eq!(below("%%."), None);
    assert_eq!(below(".quayfs-x"), None);
}
