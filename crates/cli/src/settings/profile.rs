//! What a mount is for, and the settings that go with it: those that no measurement could choose. All else
//! follows the machine, the network and the programs by itself.

use super::merge::{Given, Layer, Origin};

/// What a mount is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Tasks that write files which others read when the task has ended.
    Pipeline,
    /// A person at work.
    Interactive,
    /// Data that is read again and again and does not change.
    Training,
    /// Folders that several hosts write to.
    Shared,
}

/// All of them, by name.
const ALL: [(&str, Profile); 4] = [
    ("pipeline", Profile::Pipeline),
    ("interactive", Profile::Interactive),
    ("training", Profile::Training),
    ("shared", Profile::Shared),
];

impl Profile {
    /// Parses a name.
    pub(crate) fn named(name: &str) -> Result<Profile, String> {
        let found = ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, profile)| *profile).ok_or_else(|| {
            format!("{name}: not a profile; there are pipeline, interactive, training and shared")
        })
    }

    /// The settings that it makes, with their values.
    fn presets(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Who waits for the end of a task waits for its files once, not for each, and then looks for
            // them on another host. Tools write what they made again, and remove it: uploads beside them take
            // the processors from them. A store that is away for minutes must not fail a task of hours.
            Profile::Pipeline => &[
                ("commit", "async"),
                ("upload-delay", "10s"),
                ("metadata-ttl", "1s"),
                ("deadline", "10m"),
            ],
            // A person would rather hear of trouble than wait.
            Profile::Interactive => {
                &[("commit", "close"), ("metadata-ttl", "1s"), ("deadline", "20s")]
            }
            Profile::Training => {
                &[("commit", "close"), ("metadata-ttl", "1h"), ("deadline", "10m")]
            }
            // What one host has closed, another sees at its next look.
            Profile::Shared => {
                &[("commit", "close"), ("metadata-ttl", "200ms"), ("deadline", "60s")]
            }
        }
    }

    /// What it says, of the lowest rank.
    pub(super) fn layer(self) -> Layer {
        let of = |(name, value): &(&str, &str)| Given {
            name: (*name).to_owned(),
            value: value.into(),
            origin: Origin::Profile,
        };
        self.presets().iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::{ALL, Profile};

    #[test]
    fn a_profile_is_known_by_its_name() {
        for (name, profile) in ALL {
            assert_eq!(Profile::named(name), Ok(profile));
        }
        assert!(Profile::named("fast").unwrap_err().contains("training"));
    }

    #[test]
    fn profiles_make_settings_that_there_are() {
        let settings = table::all();
        for (_, profile) in ALL {
            for given in profile.layer() {
                assert!(settings.iter().any(|setting| setting.name == given.name), "{given:?}");
            }
        }
    }
}
