//! The command that messages advise to list what waits. It works as it is, wherever it is typed.

use std::path::Path;

use crate::location::Location;

/// The command that lists what waits in the state folder `dir`. The default folder of whoever types it may be another
/// one, so it is named.
pub fn recover_list(dir: &Path) -> String {
    format!("quayfs recover --list --cache-dir {}", word(dir))
}

/// The command that brings to `location` what waits for it in the state folder `dir`.
pub(crate) fn recover_command(location: &Location, dir: &Path) -> String {
    format!("quayfs recover --cache-dir {} {}", word(dir), word(Path::new(&location.to_string())))
}

/// A path as one word of a shell's line.
fn word(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.into_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Location, recover_command, recover_list};

    #[test]
    fn state_folder_is_one_word() {
        for (dir, want) in
            [("/var/lib/quayfs", "/var/lib/quayfs"), ("/a b/it's", r"'/a b/it'\''s'")]
        {
            let want = format!("quayfs recover --list --cache-dir {want}");
            assert_eq!(recover_list(Path::new(dir)), want);
        }
        let location = Location::parse("s3://lab/a b").unwrap();
        let command = recover_command(&location, Path::new("/c"));
        assert_eq!(command, "quayfs recover --cache-dir /c 's3://lab/a b'");
    }
}
