//! The version of this build.

/// Version that `--version`, the manual pages and logs report.
///
/// `scripts/version` derives it from the tag and the commit, and the build scripts pass it in `QUAYFS_BUILD_VERSION`.
/// A build without that variable is a development version of the next release.
pub const VERSION: &str = match option_env!("QUAYFS_BUILD_VERSION") {
    Some(version) => version,
    None => concat!(env!("CARGO_PKG_VERSION"), "-dev"),
};

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn version_begins_with_three_numbers() {
        let release = VERSION.split('-').next().unwrap_or_default();
        let numbers: Vec<_> = release.split('.').map(str::parse::<u32>).collect();
        assert!(numbers.len() == 3 && numbers.iter().all(Result::is_ok), "{VERSION}");
    }
}
