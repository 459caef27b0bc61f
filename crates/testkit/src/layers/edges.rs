//! Which of our crates may use which.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::command::run;

const CARGO_WITHIN: Duration = Duration::from_mins(5);
const PREFIX: &str = "quayfs-";

/// A crate, by its short name, and the crates of ours it may use.
pub type Edges = (&'static str, &'static [&'static str]);

/// What is wrong with the edges among our crates in the workspace at `root`, in words; nothing when
/// all keep to `allowed`. Dependencies of tests are held to the same.
pub fn check_edges(root: &Path, allowed: &[Edges]) -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let finished = run(&mut cargo, CARGO_WITHIN);
    let metadata = serde_json::from_str(finished.ok()).expect("cargo speaks JSON");
    violations(&metadata, allowed)
}

fn violations(metadata: &Value, allowed: &[Edges]) -> Vec<String> {
    let mut violations = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = short_name(package).expect("all packages of the workspace are ours");
        let Some((_, may)) = allowed.iter().find(|(crate_name, _)| *crate_name == name) else {
            violations.push(format!("{name} has no place in the table of layers"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let used: BTreeSet<&str> = dependencies.filter_map(short_name).collect();
        for used in used {
            // A crate's own name among them is its tests asking for a feature of it.
            if used != name && !may.contains(&used) {
                violations.push(format!("{name} uses {used}, which is not below it"));
            }
        }
    }
    violations
}

fn short_name(package: &Value) -> Option<&str> {
    package["name"].as_str()?.strip_prefix(PREFIX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::violations;

    #[test]
    fn an_edge_that_is_not_in_the_table_is_told() {
        let metadata = json!({"packages": [
            {"name": "quayfs-low", "dependencies": [{"name": "quayfs-high"}, {"name": "bytes"}]},
            {"name": "quayfs-high", "dependencies": [{"name": "quayfs-low"}]},
            {"name": "quayfs-new", "dependencies": []},
        ]});
        let found = violations(&metadata, &[("low", &[]), ("high", &["low"])]);
        let want =
            ["low uses high, which is not below it", "new has no place in the table of layers"];
        assert_eq!(found, want);
    }
}
