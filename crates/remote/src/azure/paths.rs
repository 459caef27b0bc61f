//! Paths, as accounts with a hierarchical namespace have them; pure.

use aws_smithy_types::base64;

use crate::{Key, Metadata};

use super::text;

/// The folder that a key stands for, as the service names it.
pub(super) fn folder(key: &Key) -> Option<Key> {
    let name = key.as_bytes().strip_suffix(b"/")?;
    (!name.is_empty()).then(|| Key::from(name))
}

/// Whether such an account might take the key for another: its paths have no empty parts.
pub(super) fn is_odd(key: &Key) -> bool {
    key.as_bytes().split(|&byte| byte == b'/').any(<[u8]>::is_empty)
}

/// Whether what the service tells of a path is a folder.
pub(super) fn is_folder(resource_type: Option<&str>, metadata: &Metadata) -> bool {
    match resource_type {
        Some(said) => said.eq_ignore_ascii_case("directory"),
        None => metadata.get("hdi_isfolder").is_some_and(|said| said.eq_ignore_ascii_case("true")),
    }
}

/// Metadata as the other endpoint takes it: names, and values in base64.
pub(super) fn properties(metadata: &Metadata) -> String {
    let pair = |(name, value): (&String, &String)| {
        format!("{}={}", text::encode_name(name), base64::encode(value))
    };
    metadata.iter().map(pair).collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{folder, is_folder, is_odd, properties};
    use crate::{Key, Metadata};

    #[test]
    fn a_folder_has_no_slash_at_the_service() {
        assert_eq!(folder(&Key::from("a/b/")), Some(Key::from("a/b")));
        assert_eq!(folder(&Key::from("a/b")), None);
        assert_eq!(folder(&Key::from("/")), None);
        for (key, want) in
            [("a/b", false), ("a", false), ("a/", true), ("a//b", true), ("/a", true)]
        {
            assert_eq!(is_odd(&Key::from(key)), want, "{key}");
        }
    }

    #[test]
    fn what_the_service_tells_says_what_is_a_folder() {
        let stub: Metadata = [("hdi_isfolder".to_owned(), "true".to_owned())].into();
        let none = Metadata::new();
        for (said, metadata, want) in [
            (Some("directory"), &none, true),
            (Some("file"), &none, false),
            (Some("file"), &stub, false),
            (None, &stub, true),
            (None, &none, false),
        ] {
            assert_eq!(is_folder(said, metadata), want, "{said:?} {metadata:?}");
        }
    }

    #[test]
    fn properties_are_spelt_as_documented() {
        let metadata: Metadata = [("mode", "16877"), ("quayfs-upload", "x")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(properties(&metadata), "mode=MTY4Nzc=,quayfs_x2d_upload=eA==");
    }
}
