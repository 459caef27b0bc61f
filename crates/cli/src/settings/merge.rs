//! Which of all that was said of a setting counts. Pure: what was said, in order → what holds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a file.
    File {
        /// Which.
        path: PathBuf,
        /// In which line, from 1.
        line: usize,
        /// For which buckets, if not for all.
        bucket: Option<String>,
    },
    /// By an environment variable.
    Environment(String),
    /// On the command line.
    Flag,
    /// By the profile.
    Profile,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(variable) => write!(f, "{variable}"),
            Origin::Flag => write!(f, "flag"),
            Origin::Profile => write!(f, "profile"),
        }
    }
}

/// A value that somebody gave a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The setting.
    pub(crate) name: String,
    /// As it was written.
    pub(crate) value: OsString,
    /// Where.
    pub(crate) origin: Origin,
}

/// All that was given at one rank, such as all variables.
pub(crate) type Layer = Vec<Given>;

/// Settings of which the later one takes the place of the other.
const RIVALS: [(&str, &str); 3] = [
    ("aws-profile", "anonymous"),
    ("google-credentials-file", "anonymous"),
    ("azure-credentials-file", "anonymous"),
];

/// What holds when later layers win over earlier ones.
pub(crate) fn merge(layers: impl IntoIterator<Item = Layer>) -> BTreeMap<String, Given> {
    let mut holds: BTreeMap<String, Given> = BTreeMap::new();
    for layer in layers {
        for (one, other) in RIVALS {
            let names = |name: &str| layer.iter().any(|given| given.name == name);
            match (names(one), names(other)) {
                (true, false) => drop(holds.remove(other)),
                (false, true) => drop(holds.remove(one)),
                // Together they are an error, which is told of them as of any other.
                (true, true) | (false, false) => {}
            }
        }
        holds.extend(layer.into_iter().map(|given| (given.name.clone(), given)));
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::{Given, Layer, Origin, merge};

    fn layer(given: &[(&str, &str)]) -> Layer {
        let given = given.iter().map(|(name, value)| Given {
            name: (*name).into(),
            value: (*value).into(),
            origin: Origin::Flag,
        });
        given.collect()
    }

    fn check(layers: &[&[(&str, &str)]], want: &[(&str, &str)]) {
        let holds = merge(layers.iter().map(|given| layer(given)));
        let holds: Vec<(&str, &str)> =
            holds.values().map(|given| (&*given.name, given.value.to_str().unwrap())).collect();
        assert_eq!(holds, want);
    }

    #[test]
    fn what_is_said_later_wins_setting_by_setting() {
        check(
            &[&[("a", "1"), ("b", "1")], &[("b", "2")], &[], &[("c", "3"), ("b", "3")]],
            &[("a", "1"), ("b", "3"), ("c", "3")],
        );
    }

    #[test]
    fn later_credentials_take_the_place_of_anonymity_and_the_other_way() {
        check(&[&[("anonymous", "true")], &[("aws-profile", "p")]], &[("aws-profile", "p")]);
        check(&[&[("aws-profile", "p")], &[("anonymous", "true")]], &[("anonymous", "true")]);
        let files = [("azure-credentials-file", "/a"), ("google-credentials-file", "/g")];
        check(&[&files, &[("anonymous", "true")]], &[("anonymous", "true")]);
        check(&[&[("anonymous", "true")], &files], &files);
    }

    #[test]
    fn both_at_once_are_left_for_the_flags_to_refuse() {
        let both = [("anonymous", "true"), ("aws-profile", "p")];
        check(&[&both], &both);
    }
}
