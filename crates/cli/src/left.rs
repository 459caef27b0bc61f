//! What a process has still to bring into a bucket, in words. Pure.

use mount::Working;

use crate::units::{show_bytes, show_plural};

/// `2 files (5 MiB), 1 change of names, attributes of 3 names`.
pub(crate) fn show_left(left: &Working) -> String {
    let Working { files, bytes, changes, attributes, .. } = *left;
    let sizes = if 0 < bytes { format!(" ({})", show_bytes(bytes)) } else { String::new() };
    let parts = [
        (files, format!("{}{sizes}", show_plural(files, "file"))),
        (changes, format!("{} of names", show_plural(changes, "change"))),
        (attributes, format!("attributes of {}", show_plural(attributes, "name"))),
    ];
    let parts = parts.into_iter().filter(|(count, _)| 0 < *count).map(|(_, words)| words);
    parts.collect::<Vec<_>>().join(", ")
}
