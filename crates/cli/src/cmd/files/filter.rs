//! Filters of found files by name, path and size; pure.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Args as ClapArgs;

use super::glob;
use crate::units::bytes;

/// Conditions that a found file must meet.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Filter {
    /// Only files that match: a pattern without a slash is for the name, one with a slash for the path below PATH, and *
    /// matches slashes too. Can be repeated.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Skip files that match. Can be repeated.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Skip files smaller than this.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    min_size: Option<u64>,
    /// Skip files larger than this.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_size: Option<u64>,
}

impl Filter {
    /// Whether the file `path`, relative to the directory that was named, passes with `size_bytes`.
    pub(crate) fn passes(&self, path: &Path, size_bytes: u64) -> bool {
        let matched = |pattern: &String| is_match(pattern, path);
        let is_included = self.include.is_empty() || self.include.iter().any(matched);
        is_included
            && !self.exclude.iter().any(matched)
            && self.min_size.is_none_or(|least| least <= size_bytes)
            && self.max_size.is_none_or(|most| size_bytes <= most)
    }
}

fn is_match(pattern: &str, path: &Path) -> bool {
    let text = if pattern.contains('/') { Some(path.as_os_str()) } else { path.file_name() };
    text.is_some_and(|text| glob::fits(pattern.as_bytes(), text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Filter;

    #[test]
    fn files_pass_by_name_path_and_size() {
        let text = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let filter = Filter {
            include: text(&["*.bam", "runs/*.bai"]),
            exclude: text(&["old-*"]),
            min_size: Some(10),
            max_size: Some(100),
        };
        for (path, bytes, want) in [
            ("a.bam", 10, true),
            ("a.bam", 9, false),
            ("a.bam", 101, false),
            ("x/old-a.bam", 10, false),
            ("a.bai", 10, false),
            ("runs/7/a.bai", 10, true),
            ("x/runs/7/a.bai", 10, false),
        ] {
            assert_eq!(filter.passes(Path::new(path), bytes), want, "{path} {bytes}");
        }
        assert!(Filter::default().passes(Path::new("any"), 0));
    }
}
