//! All that was said of the settings, brought together: files, variables, flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{ArgMatches, Command, FromArgMatches};
use mount::Location;

use super::environment;
use super::file::{File, Reader};
use super::flags::Settings;
use super::given::Flags;
use super::merge::{Given, Layer, Origin, merge};
use super::table::{self, Setting};

/// A configuration file, and what is in it; `None` if it does not exist.
type FileAt = (PathBuf, Option<File>);

/// All that was said, of every bucket.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// Whether the user named the file, which then must be there.
    is_file_named: bool,
    /// The files that were looked for, the least important first, and what those say that are there.
    files: Vec<(PathBuf, Option<File>)>,
    variables: Layer,
    flags: Layer,
    mistyped: Vec<(String, String)>,
}

/// The settings that hold, and why.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// The settings.
    pub(crate) settings: Settings,
    /// Those that somebody gave, with who did.
    pub(crate) given: BTreeMap<String, Given>,
}

/// What of the world has a say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// The administrator's file.
const SYSTEM_FILE: &str = "/etc/quayfs/config.toml";

/// The variable that names a file, as `--config` does.
const CONFIG_VARIABLE: &str = "QUAYFS_CONFIG";

impl Surroundings {
    /// Those of this process.
    pub(crate) fn ours() -> Surroundings {
        Surroundings { variables: std::env::vars_os().collect() }
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        let found = self.variables.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The user's file.
    fn user_file(&self) -> Option<PathBuf> {
        let folder = self.variable("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
        let folder = folder.or_else(|| Some(self.variable("HOME")?.join(".config")));
        folder.map(|folder| folder.join("quayfs/config.toml"))
    }

    /// Whether the user named a file, and the settings in each file, the least important first.
    fn files(&self, wish: Option<&Path>, settings: &[Setting]) -> Result<(bool, Vec<FileAt>)> {
        let wish = wish.map(Path::to_owned).or_else(|| self.variable(CONFIG_VARIABLE));
        let is_named = wish.is_some();
        let paths = match wish {
            Some(path) => vec![path],
            None => {
                [Some(PathBuf::from(SYSTEM_FILE)), self.user_file()].into_iter().flatten().collect()
            }
        };
        let read = |path: PathBuf| Ok((self.file(&path, is_named, settings)?, path));
        let files: Result<Vec<_>> = paths.into_iter().map(read).collect();
        Ok((is_named, files?.into_iter().map(|(file, path)| (path, file)).collect()))
    }

    /// The settings in the file at `path`; `None` if it is not there, unless the user named it.
    fn file(&self, path: &Path, is_named: bool, settings: &[Setting]) -> Result<Option<File>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(None),
            Err(error) => {
                let what = format!("cannot read the configuration file {}", path.display());
                return Err(anyhow!(error).context(what));
            }
        };
        let home = self.variable("HOME");
        Ok(Some(Reader { path, text: &text, settings, home: home.as_deref() }.read()?))
    }
}

impl Sources {
    /// Reads all there is, once: whoever asks later may have left the folder that we were started in.
    pub(crate) fn read<T>(flags: &Flags<T>) -> Result<Sources> {
        Sources::read_in(&Surroundings::ours(), flags)
    }

    fn read_in<T>(surroundings: &Surroundings, flags: &Flags<T>) -> Result<Sources> {
        let settings = table::all();
        let of_flag = |(name, value): &(String, OsString)| Given {
            name: name.clone(),
            value: value.clone(),
            origin: Origin::Flag,
        };
        let (is_file_named, files) = surroundings.files(flags.config.as_deref(), &settings)?;
        let mut sources = Sources {
            is_file_named,
            files,
            variables: environment::layer(&settings, &surroundings.variables),
            flags: flags.given.iter().map(of_flag).collect(),
            mistyped: environment::mistyped(&settings, &surroundings.variables),
        };
        sources.check()?;
        for given in sources.variables.iter_mut().chain(&mut sources.flags) {
            if settings.iter().any(|setting| setting.is_path && setting.name == given.name) {
                given.value = std::path::absolute(&given.value)?.into();
            }
        }
        Ok(sources)
    }

    /// Reads the files again. Variables and flags are those of the first reading, which was done in `folder`.
    pub(crate) fn again(&self, folder: &Path) -> Result<Sources> {
        let (surroundings, settings) = (Surroundings::ours(), table::all());
        let mut sources = self.clone();
        for (path, file) in &mut sources.files {
            *file = surroundings.file(&folder.join(&*path), self.is_file_named, &settings)?;
        }
        sources.check()?;
        Ok(sources)
    }

    /// Whether each setting would take its value as a flag.
    fn check(&self) -> Result<()> {
        let command = command();
        self.all().try_for_each(|given| check(&command, given))
    }

    /// The settings for `location`, or for no bucket in particular.
    pub(crate) fn resolve(&self, location: Option<&Location>) -> Result<Resolved> {
        let layers = layers(self.said(), location).into_iter();
        let given = merge(layers.chain([self.variables.clone(), self.flags.clone()]));
        let settings = parse(&given)?;
        let Some(profile) = settings.tuning.profile else {
            return Ok(Resolved { settings, given });
        };
        // Whatever somebody says himself is stronger.
        let given = merge([profile.layer(), given.into_values().collect()]);
        Ok(Resolved { settings: parse(&given)?, given })
    }

    /// The files that were looked for, and whether they are there.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.files.iter().map(|(path, file)| (path.as_path(), file.is_some()))
    }

    /// What may have been meant otherwise, a line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let told = |(variable, meant): &(String, String)| {
            format!("{variable} is no setting; did you mean {meant}?")
        };
        self.mistyped.iter().map(told).collect()
    }

    fn said(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter_map(|(_, file)| file.as_ref())
    }

    /// All that was said, of whichever bucket.
    pub(super) fn all(&self) -> impl Iterator<Item = &Given> {
        let of_files = self.said().flat_map(|file| {
            let of_buckets = file.buckets.iter().flat_map(|(_, layer)| layer);
            file.general.iter().chain(of_buckets)
        });
        of_files.chain(&self.variables).chain(&self.flags)
    }
}

/// What the files say of `url`, the least important first. What is said of a bucket counts more than what
/// is said of all, in whichever file it stands, and more the longer the URL is; then the later file counts.
fn layers<'a>(files: impl Iterator<Item = &'a File>, location: Option<&Location>) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut of_buckets = Vec::new();
    for file in files {
        layers.push(file.general.clone());
        of_buckets.extend(file.buckets.iter().filter_map(|(bucket, layer)| {
            let is_within = location.is_some_and(|url| within(&url.to_string(), bucket));
            is_within.then(|| (bucket.len(), layer.clone()))
        }));
    }
    of_buckets.sort_by_key(|(length, _)| *length);
    layers.extend(of_buckets.into_iter().map(|(_, layer)| layer));
    layers
}

/// Whether `url` is `bucket` or below it.
fn within(url: &str, bucket: &str) -> bool {
    url.strip_prefix(bucket).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A command that has nothing but settings.
fn command() -> Command {
    Command::new("quayfs").no_binary_name(true).args(table::arguments::<Settings>())
}

/// Whether the flag itself would take this value.
fn check(command: &Command, given: &Given) -> Result<()> {
    let Err(error) = command.clone().try_get_matches_from([argument(given)]) else {
        return Ok(());
    };
    let Given { name, value, origin } = given;
    let reason = std::error::Error::source(&error).map(ToString::to_string);
    let reason = reason.unwrap_or_else(|| "not a value that it can have".to_owned());
    // The reasons of our own parsers begin with the value.
    let value = value.display().to_string();
    if *origin == Origin::Flag {
        // Flags were looked at when the command line was read: it is an option of `-o`.
        let rest = reason.strip_prefix(&*value).and_then(|rest| rest.strip_prefix(": "));
        let (name, reason) = (name.replace('-', "_"), rest.unwrap_or(&reason));
        return Err(anyhow!("option {name}={value}: {reason}"));
    }
    let value = if reason.starts_with(&value) { String::new() } else { format!("{value}: ") };
    Err(anyhow!("{origin}: {name}: {value}{reason}"))
}

fn parse(given: &BTreeMap<String, Given>) -> Result<Settings> {
    let settings = table::all();
    // What is switched off, as it usually is, is as if nobody had named it: it cannot contradict anything.
    let is_off = |given: &&Given| {
        let is_switch = |setting: &Setting| {
            let is_usual = matches!(setting.default, table::Default::Value(_));
            setting.is_switch && is_usual && setting.name == given.name
        };
        settings.iter().any(is_switch) && given.value.to_str().is_some_and(table::is_off)
    };
    let named = given.values().filter(|given| !is_off(given)).map(argument);
    let matches: ArgMatches = command().try_get_matches_from(named)?;
    Settings::from_arg_matches(&matches).context("settings that are right are taken")
}

fn argument(given: &Given) -> OsString {
    let mut argument = OsString::from(format!("--{}=", given.name));
    argument.push(&given.value);
    argument
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use clap::{Command, FromArgMatches};
    use mount::Location;

    use super::super::flags::Settings;
    use super::super::given::Flags;
    use super::super::table::all;
    use super::{Resolved, Sources, Surroundings};

    /// Who says what, the least important first.
    #[derive(Default)]
    struct Said<'a> {
        file: &'a str,
        variables: &'a [(&'a str, &'a str)],
        flags: &'a [&'a str],
    }

    fn resolved(said: &Said<'_>, url: &str) -> Result<Resolved, String> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".config/quayfs")).unwrap();
        std::fs::write(home.path().join(".config/quayfs/config.toml"), said.file).unwrap();
        let mut variables: Vec<(OsString, OsString)> =
            said.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        variables.push(("HOME".into(), home.path().into()));
        let location = Location::parse(url).unwrap();
        let sources = Sources::read_in(&Surroundings { variables }, &flags(said.flags));
        let resolved = sources.and_then(|sources| sources.resolve(Some(&location)));
        resolved.map_err(|error| error.to_string().replace(home.path().to_str().unwrap(), "~"))
    }

    fn flags(given: &[&str]) -> Flags<Settings> {
        let command = <Flags<Settings> as clap::Args>::augment_args(
            Command::new("quayfs").no_binary_name(true),
        );
        Flags::from_arg_matches(&command.try_get_matches_from(given).unwrap()).unwrap()
    }

    #[test]
    fn wrong_mount_option_is_shown_as_it_was_written() {
        let options = ["cache_size=10XB".to_owned(), "metadata_ttl=soon".to_owned()];
        for (option, want) in options.iter().zip([
            "option cache_size=10XB: not a size like 512MiB",
            "option metadata_ttl=soon: not a time like 500ms, 10s, 5min, 2h or 1d",
        ]) {
            let flags = Flags::<Settings>::none();
            let unknown = super::super::options::Unknown::Refused;
            let flags = flags.with_options(std::slice::from_ref(option), unknown).unwrap();
            let read = Sources::read_in(&Surroundings { variables: Vec::new() }, &flags);
            let error = read.map(|_| ()).expect_err("it is refused").to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    /// A value that differs from the default and that the flag takes.
    fn value(name: &str, is_switch: bool) -> &'static str {
        match name {
            _ if is_switch => "true",
            "commit" => "async",
            "profile" => "training",
            "attributes" => "off",
            "uid" | "gid" | "file-mode" | "dir-mode" | "umask" => "700",
            "metadata-ttl" | "deadline" => "7s",
            "cache-size" | "dirty-limit" | "part-size" => "7MiB",
            "memory-limit" => "70MiB",
            "upload-limit" | "download-limit" => "7MiB",
            "cache-dir"
            | "access-log"
            | "log-file"
            | "slow-log-file"
            | "metrics-file"
            | "ca-bundle"
            | "sse-key-file"
            | "google-credentials-file"
            | "azure-credentials-file" => "/x",
            "sse" => "store",
            "acl" => "private",
            "tags" => "a=b",
            "azure-account" => "lab",
            "log-format" => "json",
            "log-level" => "debug",
            "metrics-listen" => "127.0.0.1:7",
            _ => "7",
        }
    }

    #[test]
    fn every_setting_can_be_given_in_a_file_by_a_variable_and_by_a_flag() {
        for setting in all() {
            let (name, value) = (&setting.name, value(&setting.name, setting.is_switch));
            let file = format!("[general]\n{name} = {value:?}\n");
            let (variable, flag) = (setting.variable(), format!("--{name}={value}"));
            let from = |said: Said<'_>| {
                let resolved = resolved(&said, "s3://b").unwrap();
                assert_eq!(resolved.given[name].value, value, "{name}");
                (format!("{:?}", resolved.settings), resolved.given[name].origin.to_string())
            };
            let (in_file, origin) = from(Said { file: &file, ..Said::default() });
            assert!(origin.ends_with("config.toml:2"), "{origin}");
            let variables = [(variable.as_str(), value)];
            let by_variable = from(Said { variables: &variables, ..Said::default() });
            assert_eq!(by_variable, (in_file.clone(), variable.clone()));
            assert_eq!(from(Said { flags: &[&flag], ..Said::default() }), (in_file, "flag".into()));
        }
    }

    #[test]
    fn a_variable_wins_over_a_file_and_a_flag_over_both() {
        let mut said = Said { file: "[general]\npart-size = \"5MiB\"\n", ..Said::default() };
        let part_size =
            |said: &Said<'_>| resolved(said, "s3://b").unwrap().settings.tuning.part_size;
        assert_eq!(part_size(&said), Some(5 << 20));
        said.variables = &[("QUAYFS_PART_SIZE", "6MiB")];
        assert_eq!(part_size(&said), Some(6 << 20));
        said.flags = &["--part-size", "7MiB"];
        assert_eq!(part_size(&said), Some(7 << 20));
    }

    #[test]
    fn the_bucket_goes_into_the_host_name_where_somebody_says_so() {
        let in_path = |flags: &[&str]| {
            let said = Said { flags, ..Said::default() };
            resolved(&said, "s3://b").unwrap().settings.store.path_style
        };
        for (flags, want) in [
            (&[][..], None),
            (&["--path-style"], Some(true)),
            (&["--path-style=yes"], Some(true)),
            (&["--path-style=false"], Some(false)),
        ] {
            assert_eq!(in_path(flags), want, "{flags:?}");
        }
    }

    #[test]
    fn a_profile_is_weaker_than_whatever_is_said_itself() {
        let mut said = Said { flags: &["--profile", "pipeline"], ..Said::default() };
        let tuning = |said: &Said<'_>| resolved(said, "s3://b").unwrap().settings.tuning;
        assert_eq!(tuning(&said).commit, mount::Commit::Async);
        assert_eq!(tuning(&said).deadline, std::time::Duration::from_mins(10));
        said.file = "[general]\ncommit = \"close\"\nprofile = \"training\"\n";
        assert_eq!(tuning(&said).commit, mount::Commit::Close);
        assert_eq!(tuning(&said).metadata_ttl, std::time::Duration::from_secs(1));
        said.flags = &[];
        assert_eq!(tuning(&said).metadata_ttl, std::time::Duration::from_hours(1));
    }

    #[test]
    fn of_the_buckets_of_a_file_the_longest_that_the_url_is_in_wins() {
        let file = "[bucket.\"s3://b/deep/er\"]\nuid = 3\n[general]\nuid = 1\ngid = 1\n\
                    [bucket.\"s3://b\"]\nuid = 2\numask = 22\n";
        let said = Said { file, ..Said::default() };
        for (url, uid, umask) in [
            ("s3://a", 1, 0),
            ("s3://b2", 1, 0),
            ("s3://b", 2, 0o22),
            ("s3://b/deep", 2, 0o22),
            ("s3://b/deep/er/est", 3, 0o22),
        ] {
            let settings = resolved(&said, url).unwrap().settings;
            assert_eq!((settings.uid, settings.gid), (Some(uid), Some(1)), "{url}");
            assert_eq!(settings.umask, umask, "{url}");
        }
    }

    #[test]
    fn what_is_said_of_an_account_holds_for_its_containers() {
        let file = "[bucket.\"az://lab\"]\nazure-credentials-file = \"/lab\"\n\
                    [bucket.\"az://lab/slides\"]\nazure-credentials-file = \"/slides\"\n\
                    [bucket.\"gs://b\"]\ngoogle-credentials-file = \"/b\"\n\
                    [general]\nanonymous = true\n";
        for (url, azure, google) in [
            ("az://lab/other/p", Some("/lab"), None),
            ("az://lab/slides/p", Some("/slides"), None),
            ("az://laboratory/slides", None, None),
            ("gs://b/p", None, Some("/b")),
            ("gs://c", None, None),
        ] {
            let store = resolved(&Said { file, ..Said::default() }, url).unwrap().settings.store;
            assert_eq!(store.azure_credentials_file.as_deref(), azure.map(Path::new), "{url}");
            assert_eq!(store.google_credentials_file.as_deref(), google.map(Path::new), "{url}");
            assert_eq!(store.anonymous, azure.is_none() && google.is_none(), "{url}");
        }
    }

    #[test]
    fn what_is_switched_on_below_can_be_switched_off_above() {
        let said = Said {
            file: "[general]\nread-only = true\nanonymous = true\n",
            variables: &[("QUAYFS_READ_ONLY", "0")],
            flags: &["--aws-profile", "p"],
        };
        let settings = resolved(&said, "s3://b").unwrap().settings;
        assert!(!settings.read_only && !settings.store.anonymous);
        assert_eq!(settings.store.aws_profile.as_deref(), Some("p"));
        assert!(
            !resolved(&Said { flags: &["--suid=false"], ..said }, "s3://b").unwrap().settings.suid
        );
    }

    #[test]
    fn a_wrong_value_is_told_with_where_it_stands_even_if_another_counts() {
        for (said, want) in [
            (
                Said { file: "[general]\n\ncache-size = \"lots\"\n", ..Said::default() },
                "~/.config/quayfs/config.toml:3: cache-size: lots: not a size like 512MiB",
            ),
            (
                Said { file: "[bucket.\"s3://other\"]\nuid = \"me\"\n", ..Said::default() },
                "~/.config/quayfs/config.toml:2: uid: me: no such user in /etc/passwd; use the number that `id -u me` prints",
            ),
            (
                Said {
                    variables: &[("QUAYFS_COMMIT", "soon")],
                    flags: &["--commit=async"],
                    ..Said::default()
                },
                "QUAYFS_COMMIT: commit: soon: neither `close` nor `async`",
            ),
        ] {
            assert_eq!(resolved(&said, "s3://b").unwrap_err(), want);
        }
    }

    #[test]
    fn a_file_that_was_asked_for_stands_for_all_others_and_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        let config = |path: PathBuf| Flags::<Settings>::of(Some(path), Vec::new());
        let missing = Sources::read_in(&Surroundings::default(), &config(path.clone()));
        assert!(missing.unwrap_err().to_string().contains("cannot read the configuration file"));

        std::fs::write(&path, "[general]\nuid = 9\n").unwrap();
        let by_variable =
            Surroundings { variables: vec![("QUAYFS_CONFIG".into(), path.clone().into())] };
        for (surroundings, flags) in
            [(Surroundings::default(), config(path.clone())), (by_variable, Flags::none())]
        {
            let sources = Sources::read_in(&surroundings, &flags).unwrap();
            assert_eq!(sources.resolve(None).unwrap().settings.uid, Some(9));
            assert_eq!(sources.files().collect::<Vec<_>>(), [(path.as_path(), true)]);
        }
    }
}
