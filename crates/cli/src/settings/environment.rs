//! Settings in environment variables.

use std::ffi::OsString;

use super::merge::{Given, Layer, Origin};
use super::nearest::nearest;
use super::table::Setting;

/// What stands before the name of each.
const PREFIX: &str = "QUAYFS_";

/// Those of `variables` that are settings.
pub(crate) fn layer(settings: &[Setting], variables: &[(OsString, OsString)]) -> Layer {
    let given = settings.iter().filter_map(|setting| {
        let variable = setting.variable();
        let (_, value) = variables.iter().find(|(name, _)| *name == *variable)?;
        // Who cannot unset a variable empties it.
        (!value.is_empty()).then(|| Given {
            name: setting.name.clone(),
            value: value.clone(),
            origin: Origin::Environment(variable),
        })
    });
    given.collect()
}

/// Those of `variables` that are no settings but look like one: `QUAYFS_CACHE_SIEZ`, and what it may mean.
/// Others beginning like that are somebody else's business.
pub(crate) fn mistyped(
    settings: &[Setting],
    variables: &[(OsString, OsString)],
) -> Vec<(String, String)> {
    let known: Vec<String> = settings.iter().map(Setting::variable).collect();
    let ours = variables.iter().filter_map(|(name, _)| name.to_str());
    let unknown = ours.filter(|name| !known.iter().any(|known| known == name));
    let meant = unknown.filter_map(|name| {
        let words = name.strip_prefix(PREFIX)?;
        let near = nearest(words, settings.iter().map(|setting| setting.name.as_str()))?;
        let meant = settings.iter().find(|setting| setting.name == near)?;
        // Another word is another variable; a slip of the finger leaves the length about as it is.
        (words.len().abs_diff(near.len()) <= 1
            && strsim::osa_distance(name, &meant.variable()) <= 2)
            .then(|| (name.to_owned(), meant.variable()))
    });
    meant.collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::table::all;
    use super::{layer, mistyped};

    fn variables(given: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        given.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn every_setting_has_a_variable() {
        for setting in all() {
            let found = layer(&all(), &variables(&[(&setting.variable(), "x"), ("PATH", "/bin")]));
            let names: Vec<&str> = found.iter().map(|given| given.name.as_str()).collect();
            assert_eq!(names, [setting.name]);
        }
    }

    #[test]
    fn an_empty_variable_says_nothing() {
        assert_eq!(layer(&all(), &variables(&[("QUAYFS_CACHE_SIZE", "")])), []);
    }

    #[test]
    fn slips_of_the_finger_are_told_and_other_variables_are_not() {
        let given = [("QUAYFS_CACHE_SIEZ", "1G"), ("QUAYFS_BIN", "x"), ("QUAYFS_MOUNT", "/mnt")];
        let want = [("QUAYFS_CACHE_SIEZ".to_owned(), "QUAYFS_CACHE_SIZE".to_owned())];
        assert_eq!(mistyped(&all(), &variables(&given)), want);
    }
}
