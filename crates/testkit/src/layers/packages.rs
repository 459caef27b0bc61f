//! The packages that go into a binary of ours, as cargo tells them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::command::run;

const CARGO_WITHIN: Duration = Duration::from_mins(5);

/// A package in the build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Its name and version.
    pub name: String,
    /// Its licence, as an SPDX expression; empty when it tells none.
    pub license: String,
    /// Where it comes from: nothing for a registry, else a path or a repository.
    pub origin: String,
}

/// The packages of a default build of `package` for Linux, its build scripts included, tests not.
pub fn packages(root: &Path, package: &str) -> Vec<Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["tree", "--locked", "--package", package]);
    cargo.args(["--edges", "normal,build", "--target", "x86_64-unknown-linux-gnu"]);
    cargo.args(["--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]);
    let finished = run(&mut cargo, CARGO_WITHIN);
    let mut packages: Vec<Package> = finished.ok().lines().filter_map(parse).collect();
    packages.sort();
    packages.dedup();
    packages
}

/// Reads `name v1.2.3 (origin)|licence`.
fn parse(line: &str) -> Option<Package> {
    let (package, license) = line.rsplit_once('|')?;
    let (name, origin) = package.split_once(" (").unwrap_or((package, ""));
    // `(proc-macro)` stands where an origin would.
    let origin = origin.trim_start_matches("proc-macro)").trim().trim_matches(['(', ')']);
    Some(Package { name: name.into(), license: license.into(), origin: origin.into() })
}

#[cfg(test)]
mod tests {
    use super::{Package, parse};

    #[test]
    fn lines_of_cargo_are_read() {
        check("bytes v1.11.0|MIT", "bytes v1.11.0", "MIT", "");
        check(
            "serde_derive v1.0.2 (proc-macro)|MIT OR Apache-2.0",
            "serde_derive v1.0.2",
            "MIT OR Apache-2.0",
            "",
        );
        check(
            "quayfs-base v0.1.0 (/w/base)|Apache-2.0",
            "quayfs-base v0.1.0",
            "Apache-2.0",
            "/w/base",
        );
        check("x v1.0.0 (proc-macro) (/w/x)|", "x v1.0.0", "", "/w/x");
    }

    fn check(line: &str, name: &str, license: &str, origin: &str) {
        let want = Package { name: name.into(), license: license.into(), origin: origin.into() };
        assert_eq!(parse(line), Some(want));
    }
}
