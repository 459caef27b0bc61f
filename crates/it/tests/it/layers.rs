//! The layers are kept, as ARCHITECTURE.md draws them, by the source itself.

use testkit::layers::{
    Absence, Edges, Source, check_absences, check_edges, circles, packages, sources,
};
use testkit::root_folder;

/// Who may use whom: an edge points down, never sideways, never up.
const EDGES: &[Edges] = &[
    ("base", &[]),
    ("fuse", &["base"]),
    ("remote", &["base"]),
    ("store", &["base"]),
    ("namespace", &["base", "remote"]),
    ("transfer", &["base", "remote", "store"]),
    ("vfs", &["base", "remote", "store", "namespace", "transfer"]),
    ("mount", &["base", "fuse", "remote", "store", "namespace", "transfer", "vfs"]),
    ("cli", &["base", "mount"]),
    ("testkit", &["base", "fuse", "remote"]),
    ("it", &["testkit"]),
];

/// The crates that know no environment, no configuration and no other disk than `store`'s.
const BELOW_MOUNT: [&str; 7] = ["base", "fuse", "remote", "store", "namespace", "transfer", "vfs"];

const PACKAGES_MAX: usize = 200;

/// Licences that may be combined with ours, Apache-2.0.
const LICENSES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unlicense",
    "Zlib",
];
/// Those for data in packages rather than code.
const DATA_LICENSES: [&str; 2] = ["Unicode-3.0", "CDLA-Permissive-2.0"];

#[test]
fn crates_use_only_crates_below_them() {
    assert_eq!(check_edges(&root_folder(), EDGES), Vec::<String>::new());
}

#[test]
fn no_crate_has_a_circle_of_modules() {
    let circles: Vec<String> = EDGES
        .iter()
        .flat_map(|(name, _)| {
            let circles = circles(&sources_of(name));
            circles
                .into_iter()
                .map(|circle| format!("{name}: {}", circle.join(" → ")))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(circles, Vec::<String>::new(), "\n{}", circles.join("\n"));
}

#[test]
fn vfs_does_not_know_that_fuse_exists() {
    let absences = [Absence::Word("fuse"), Absence::Word("io_uring")];
    assert_eq!(check_absences(&sources_of("vfs"), &absences, &[]), Vec::<String>::new());
}

#[test]
fn only_the_store_and_the_folder_provider_touch_the_local_disk() {
    let absences =
        [Absence::Path("std::fs"), Absence::Path("tokio::fs"), Absence::Path("rustix::fs")];
    for name in BELOW_MOUNT {
        let except: &[&str] = match name {
            "store" => continue,
            "remote" => &["folder"],
            // The mount table, the knobs of the kernel and memory files are not the disk's.
            "fuse" => &["mount", "table", "passthrough", "channel", "cpus", "ring"],
            _ => &[],
        };
        assert_eq!(
            check_absences(&sources_of(name), &absences, except),
            Vec::<String>::new(),
            "{name}"
        );
    }
}

#[test]
fn nobody_below_mount_asks_the_environment_or_the_wall_clock() {
    let absences = [
        Absence::Path("std::env"),
        Absence::Path("SystemTime::now"),
        Absence::Path("Instant::now"),
    ];
    for name in BELOW_MOUNT {
        let except: &[&str] = if name == "base" { &["clock"] } else { &[] };
        let found = check_absences(&sources_of(name), &absences, except);
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn policy_is_arithmetic() {
    let policies = [("store", ["evict", "residency"]), ("transfer", ["readahead", "parts"])];
    // Values of `remote`, such as a provider's limits, may be reckoned with; its calls may not.
    let world = [
        "tokio",
        "futures",
        "rustix",
        "rusqlite",
        "remote::Remote",
        "store",
        "parking_lot",
        "tracing",
    ];
    let absences = world.map(Absence::Path);
    for (name, modules) in policies {
        let is_policy = |source: &Source| modules.contains(&source.module.as_str());
        let sources: Vec<Source> = sources_of(name).into_iter().filter(is_policy).collect();
        assert_eq!(check_absences(&sources, &absences, &[]), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_build_has_at_most_200_packages_all_from_the_registry_and_free_to_use() {
    let packages = packages(&root_folder(), "quayfs-cli");
    let is_ours = |name: &str| name.starts_with("quayfs-");
    assert!(packages.iter().any(|package| is_ours(&package.name)), "cargo lists the packages");
    let others = packages.iter().filter(|package| !is_ours(&package.name)).count();
    assert!(others <= PACKAGES_MAX, "{others} packages");
    for package in packages {
        assert!(package.origin.is_empty() || is_ours(&package.name), "{package:?}");
        assert!(is_free(&package.license), "{package:?}");
    }
}

#[test]
fn licences_are_judged_by_what_they_leave_to_choose() {
    for free in ["MIT", "MIT OR GPL-3.0", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND Unicode-3.0"] {
        assert!(is_free(free), "{free}");
    }
    for unfree in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-2.0 OR LGPL-3.0) AND MIT"] {
        assert!(!is_free(unfree), "{unfree}");
    }
}

/// Whether every part of an SPDX expression leaves a choice that we may take.
fn is_free(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    // Every expression in use is alternatives joined by AND, or flat.
    expression.split(" AND ").all(|part| {
        part.split(" OR ")
            .map(str::trim)
            .any(|license| LICENSES.contains(&license) || DATA_LICENSES.contains(&license))
    })
}

fn sources_of(name: &str) -> Vec<Source> {
    sources(&root_folder().join("crates").join(name))
}
