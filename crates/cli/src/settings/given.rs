//! What was given on a command line, kept apart from what was not.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::PathBuf;

use anyhow::{Error, Result};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::options::{Unknown, translate};
use super::table::{self, arguments};

/// The flags of the settings `T`, and `--config`: not their values, which files and variables decide as
/// well, but those that somebody gave.
#[derive(Clone, Debug)]
pub(crate) struct Flags<T> {
    /// The file to take settings from, rather than from where they usually are.
    pub(crate) config: Option<PathBuf>,
    /// Names without dashes, and values that their own flags have parsed already.
    pub(crate) given: Vec<(String, OsString)>,
    settings: PhantomData<T>,
}

const CONFIG: &str = "config";

impl<T> Flags<T> {
    /// None at all.
    pub(crate) fn none() -> Flags<T> {
        Flags::of(None, Vec::new())
    }

    /// These, which somebody gave in another way.
    pub(crate) fn of(config: Option<PathBuf>, given: Vec<(String, OsString)>) -> Flags<T> {
        Flags { config, given, settings: PhantomData }
    }

    /// With what lists of `-o` options say, where no flag says otherwise.
    pub(crate) fn with_options(mut self, lists: &[String], unknown: Unknown) -> Result<Flags<T>> {
        let options = translate(&lists.join(","), &table::all(), unknown).map_err(Error::msg)?;
        for (name, value) in options.given {
            self = self.with_default(&name, value);
        }
        self.config = self.config.or(options.config);
        Ok(self)
    }

    /// With a value for a setting that was not given.
    pub(crate) fn with_default(mut self, name: &str, value: impl Into<OsString>) -> Flags<T> {
        if !self.given.iter().any(|(given, _)| given == name) {
            self.given.push((name.to_owned(), value.into()));
        }
        self
    }

    /// The same as arguments, for a program that is started.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let config = self.config.iter().map(|file| (CONFIG, file.as_os_str()));
        let given = self.given.iter().map(|(name, value)| (name.as_str(), value.as_os_str()));
        let argument = |(name, value)| {
            let mut argument = OsString::from(format!("--{name}="));
            argument.push(value);
            argument
        };
        config.chain(given).map(argument).collect()
    }
}

impl<T: Args> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help_heading("Configuration")
            .help(
                "Take settings from this file [default: /etc/quayfs/config.toml, then \
                 ~/.config/quayfs/config.toml]",
            );
        command.args(arguments::<T>()).arg(config)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Args> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Flags::none();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        for argument in arguments::<T>() {
            let id = argument.get_id().as_str();
            let Some(name) = argument.get_long().filter(|_| is_given(id)) else { continue };
            let values = matches.get_raw(id).into_iter().flatten();
            self.given.extend(values.map(|value| (name.to_owned(), value.to_owned())));
        }
        if let Some(file) = matches.get_one::<PathBuf>(CONFIG).filter(|_| is_given(CONFIG)) {
            self.config = Some(file.clone());
        }
        Ok(())
    }
}
