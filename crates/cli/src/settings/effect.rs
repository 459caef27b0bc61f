//! Settings that would do nothing: who asks for one hears of it before anything is mounted.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::merge::{Given, Origin};
use super::table::is_off;

/// What only root can have.
const OF_ROOT: [&str; 2] = ["suid", "dev"];

/// Refuses what was asked for just now and only root can have; what a file says for everybody is told instead, a line
/// each.
pub(crate) fn without_right(
    given: &BTreeMap<String, Given>,
    has_right: bool,
) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for given in OF_ROOT.iter().filter_map(|name| given.get(*name)) {
        if has_right || given.value.to_str().is_some_and(is_off) {
            continue;
        }
        let Given { name, origin, .. } = given;
        let reason = format!(
            "the kernel lets neither set-uid programs nor devices into the mount of an ordinary user: mount as root, or \
             without --{name}"
        );
        if is_of_now(origin) {
            bail!("{}: {reason}", named(given));
        }
        told.push(format!("{} does nothing: {reason}", named(given)));
    }
    Ok(told)
}

/// Whether it was said for this mount, and not for many.
fn is_of_now(origin: &Origin) -> bool {
    match origin {
        Origin::Flag | Origin::Environment(_) => true,
        Origin::File { .. } | Origin::Profile => false,
    }
}

/// `--suid`, or `--suid (QUAYFS_SUID)` if it was said otherwise.
fn named(Given { name, origin, .. }: &Given) -> String {
    match origin {
        Origin::Flag => format!("--{name}"),
        Origin::File { .. } | Origin::Environment(_) | Origin::Profile => {
            format!("--{name} ({origin})")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::merge::{Given, Origin, merge};
    use super::without_right;

    fn given(name: &str, value: &str, origin: Origin) -> Given {
        Given { name: name.into(), value: value.into(), origin }
    }

    fn all(given: &[Given]) -> BTreeMap<String, Given> {
        merge([given.to_vec()])
    }

    fn in_file() -> Origin {
        Origin::File { path: "/etc/quayfs/config.toml".into(), line: 3, bucket: None }
    }

    #[test]
    fn what_only_root_can_have_is_refused_to_who_asks_for_it_and_told_of_a_file() {
        for name in ["suid", "dev"] {
            let asked = all(&[given(name, "true", Origin::Flag)]);
            let said = without_right(&asked, false).unwrap_err().to_string();
            assert!(said.starts_with(&format!("--{name}: ")) && said.contains("root"), "{said}");
            assert_eq!(without_right(&asked, true).unwrap(), [""; 0]);
            let off = all(&[given(name, "false", Origin::Flag)]);
            assert_eq!(without_right(&off, false).unwrap(), [""; 0]);

            let variable = Origin::Environment("QUAYFS_X".into());
            let said = without_right(&all(&[given(name, "1", variable)]), false).unwrap_err();
            assert!(said.to_string().starts_with(&format!("--{name} (QUAYFS_X): ")), "{said}");

            let told = without_right(&all(&[given(name, "true", in_file())]), false).unwrap();
            assert!(told.len() == 1 && told[0].contains("config.toml:3) does nothing"), "{told:?}");
        }
    }
}
