//! What can be set, asked of the flags themselves.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args, Command};

use super::flags::Settings;
use crate::units::switch;

/// One setting, by the name of its flag.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// `cache-size`: the flag without its dashes, and the key in a file.
    pub(crate) name: String,
    /// Whether it is on or off.
    pub(crate) is_switch: bool,
    /// Whether it names a file or folder.
    pub(crate) is_path: bool,
    /// What holds where nobody says anything; in words where it is no value of the setting.
    pub(crate) default: Default,
}

/// What holds where nobody says anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    /// This value.
    Value(OsString),
    /// What is found out, in words.
    Words(String),
}

impl Setting {
    /// `QUAYFS_CACHE_SIZE`.
    pub(crate) fn variable(&self) -> String {
        format!("QUAYFS_{}", self.name.replace('-', "_").to_uppercase())
    }
}

/// All settings, as `--help` of `mount` lists them.
pub(crate) fn all() -> Vec<Setting> {
    arguments::<Settings>().iter().filter_map(setting).collect()
}

/// The flags of `T`. Those that are on or off take a value too, so that what a file or a variable has
/// switched on can be switched off.
pub(super) fn arguments<T: Args>() -> Vec<Arg> {
    let command = T::augment_args(Command::new(""));
    command.get_arguments().map(|argument| switchable(argument.clone())).collect()
}

fn switchable(argument: Arg) -> Arg {
    if !matches!(argument.get_action(), ArgAction::SetTrue) {
        return argument;
    }
    argument
        .action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_value("false")
        .default_missing_value("true")
        .value_name("true|false")
        .value_parser(switch)
        .hide_default_value(true)
}

fn setting(argument: &Arg) -> Option<Setting> {
    let parses = |wanted: TypeId| argument.get_value_parser().type_id() == wanted;
    let default = argument.get_default_values().first();
    Some(Setting {
        name: argument.get_long()?.to_owned(),
        is_switch: parses(TypeId::of::<bool>()),
        is_path: parses(TypeId::of::<PathBuf>()),
        default: match default {
            Some(value) => Default::Value(value.clone().into()),
            None => Default::Words(words(argument)),
        },
    })
}

/// What the help says of the default: `[default: these words]`.
fn words(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let words = help.split_once("[default").and_then(|(_, rest)| rest.rsplit_once(']'));
    words.map_or("none", |(words, _)| words.trim_start_matches(':').trim()).to_owned()
}

/// Whether a switch is off with this value.
pub(crate) fn is_off(text: &str) -> bool {
    switch(text) == Ok(false)
}

#[cfg(test)]
mod tests {
    use super::{Default, all};

    #[test]
    fn a_setting_knows_its_names_its_kind_and_its_default() {
        let all = all();
        let named = |name: &str| all.iter().find(|setting| setting.name == name).unwrap();

        assert_eq!(named("cache-size").variable(), "QUAYFS_CACHE_SIZE");
        let words = "as much as keeps 10 % of the disk free, or half of what is free".to_owned();
        assert_eq!(named("cache-size").default, Default::Words(words));
        assert_eq!(named("aws-profile").default, Default::Words("none".to_owned()));
        assert_eq!(named("deadline").default, Default::Value("60s".into()));
        assert_eq!(named("read-only").default, Default::Value("false".into()));
        assert!(named("read-only").is_switch && !named("commit").is_switch);
        assert!(named("cache-dir").is_path && !named("endpoint").is_path);
    }

    #[test]
    fn no_setting_holds_a_secret() {
        // The name of a file that holds one is none.
        for setting in all().into_iter().filter(|setting| !setting.is_path) {
            for word in ["secret", "token", "password", "access-key", "credential"] {
                assert!(!setting.name.contains(word), "{}", setting.name);
            }
        }
    }
}
