//! The configuration file: TOML, with what holds for all buckets and what holds for some.
//!
//! ```text
//!   [general]                       for every bucket
//!   cache-size = "100GiB"
//!
//!   [bucket."s3://data/raw"]        for this one, and what is below it
//!   read-only = true
//!
//!   [bucket."az://account"]         for all containers of an account
//!   azure-credentials-file = "/etc/quayfs/account.env"
//! ```

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use mount::{Location, LocationError};
use toml_edit::{Document, Item, TableLike, Value};

use super::merge::{Given, Layer, Origin};
use super::nearest::hint;
use super::table::Setting;

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// For every bucket.
    pub(crate) general: Layer,
    /// For buckets whose URL is this or goes on after it with a slash.
    pub(crate) buckets: Vec<(String, Layer)>,
}

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    path: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

impl std::error::Error for Wrong {}

/// What a file is read with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// Where it is.
    pub(crate) path: &'a Path,
    /// What it says.
    pub(crate) text: &'a str,
    /// What can be set.
    pub(crate) settings: &'a [Setting],
    /// What `~` stands for.
    pub(crate) home: Option<&'a Path>,
}

const GENERAL: &str = "general";
const BUCKET: &str = "bucket";
const SECTIONS: [&str; 2] = [GENERAL, BUCKET];

/// Parts of names of which people think that they belong here, and which must not.
const SECRETS: [&str; 5] = ["secret", "password", "token", "access-key", "access_key"];

impl Reader<'_> {
    /// What the file says, or the first thing that is wrong with it.
    pub(crate) fn read(&self) -> Result<File, Wrong> {
        let document = Document::parse(self.text).map_err(|error| {
            self.wrong(error.span().map_or(0, |span| span.start), error.message())
        })?;
        let mut file = File { general: Layer::new(), buckets: Vec::new() };
        let root: &dyn TableLike = document.as_table();
        for (section, item) in root.iter() {
            let at = start(root, section);
            let table = item.as_table_like();
            match (section, table) {
                (GENERAL, Some(table)) => file.general = self.layer(table, None)?,
                (BUCKET, Some(table)) => file.buckets = self.buckets(table)?,
                (_, Some(_)) => {
                    let hint = hint(section, SECTIONS);
                    return Err(self.wrong(at, &format!("unknown section [{section}]{hint}")));
                }
                (key, None) if self.settings.iter().any(|setting| setting.name == key) => {
                    let what = format!("{key} belongs in a section: write [{GENERAL}] above it");
                    return Err(self.wrong(at, &what));
                }
                (key, None) => return Err(self.unknown(at, key)),
            }
        }
        Ok(file)
    }

    fn buckets(&self, sections: &dyn TableLike) -> Result<Vec<(String, Layer)>, Wrong> {
        let read = |(url, item): (&str, &Item)| {
            let at = start(sections, url);
            let Some(table) = item.as_table_like() else {
                let what = format!("{url}: write [{BUCKET}.\"s3://…\"] above what is for a bucket");
                return Err(self.wrong(at, &what));
            };
            let scope = scope(url).map_err(|error| self.wrong(at, &error.to_string()))?;
            Ok((scope, self.layer(table, Some(url))?))
        };
        sections.iter().map(read).collect()
    }

    fn layer(&self, table: &dyn TableLike, bucket: Option<&str>) -> Result<Layer, Wrong> {
        let read = |(key, item): (&str, &Item)| {
            let at = start(table, key);
            let setting = self.settings.iter().find(|setting| setting.name == key);
            let setting = setting.ok_or_else(|| self.unknown(at, key))?;
            let value = item.as_value().and_then(text).ok_or_else(|| {
                let kind = item.type_name();
                self.wrong(at, &format!("{key}: wants text, a number, true or false, not {kind}"))
            })?;
            let value =
                if setting.is_path { self.absolute(at, key, &value)? } else { value.into() };
            let (path, line) = (self.path.to_owned(), self.line(at));
            let origin = Origin::File { path, line, bucket: bucket.map(str::to_owned) };
            Ok(Given { name: key.to_owned(), value, origin })
        };
        table.iter().map(read).collect()
    }

    /// A path that means the same from every folder.
    fn absolute(&self, at: usize, key: &str, text: &str) -> Result<OsString, Wrong> {
        let path = match (text.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (_, _) => PathBuf::from(text),
        };
        if path.is_absolute() {
            return Ok(path.into_os_string());
        }
        Err(self.wrong(at, &format!("{key}: {text}: write the whole path, beginning with / or ~/")))
    }

    fn unknown(&self, at: usize, key: &str) -> Wrong {
        // Its value is not told either.
        if SECRETS.iter().any(|secret| key.to_lowercase().contains(secret)) {
            return self.wrong(
                at,
                &format!(
                    "{key}: secrets do not belong in this file; they come from where the cloud's own \
                     tools take them, such as the environment or the profile that aws-profile names"
                ),
            );
        }
        let hint = hint(key, self.settings.iter().map(|setting| setting.name.as_str()));
        self.wrong(at, &format!("unknown setting {key}{hint}"))
    }

    fn wrong(&self, at: usize, what: &str) -> Wrong {
        // The messages of the parser have several lines.
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        Wrong { path: self.path.to_owned(), line: self.line(at), what }
    }

    fn line(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }
}

/// What the URLs of a section begin with: that of a bucket, of what is below a prefix of it, or of a storage
/// account of Azure's, which has all of its containers.
fn scope(url: &str) -> Result<String, LocationError> {
    let account = url.strip_prefix("az://").map(|rest| rest.trim_end_matches('/'));
    match account.filter(|account| !account.is_empty() && !account.contains('/')) {
        Some(account) => Ok(format!("az://{account}")),
        None => Location::parse(url).map(|location| location.to_string()),
    }
}

/// Where a key of `table` is written.
fn start(table: &dyn TableLike, key: &str) -> usize {
    let written = table.key(key).and_then(toml_edit::Key::span);
    let below = || table.get(key).and_then(Item::span);
    written.or_else(below).map_or(0, |span| span.start)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(switch) => Some(switch.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::table::all;
    use super::{File, Reader, Wrong};

    fn read(text: &str) -> Result<File, Wrong> {
        let (path, home) = (Path::new("/etc/c.toml"), Some(Path::new("/home/u")));
        Reader { path, text, settings: &all(), home }.read()
    }

    #[test]
    fn a_setting_is_known_by_its_section_and_its_line() {
        let text = "# mine\n[general]\ncache-size = \"100GiB\"\nuid = 7\nprice-reads = 0.0005\n\n[bucket.\"s3://data/raw/\"]\nread-only = true\n";
        let file = read(text).unwrap();
        let told: Vec<String> = file
            .general
            .iter()
            .map(|given| format!("{}={} {}", given.name, given.value.display(), given.origin))
            .collect();
        assert_eq!(
            told,
            [
                "cache-size=100GiB /etc/c.toml:3",
                "uid=7 /etc/c.toml:4",
                "price-reads=0.0005 /etc/c.toml:5"
            ]
        );
        let (scope, layer) = &file.buckets[0];
        assert_eq!((scope.as_str(), &*layer[0].name), ("s3://data/raw", "read-only"));
        assert_eq!(layer[0].origin.to_string(), "/etc/c.toml:8");
    }

    #[test]
    fn every_setting_can_stand_in_a_file() {
        for setting in all() {
            let value = if setting.is_path { "/x" } else { "x" };
            let file = read(&format!("[general]\n{} = {value:?}\n", setting.name)).unwrap();
            assert_eq!(
                (&file.general[0].name, &*file.general[0].value),
                (&setting.name, value.as_ref())
            );
        }
    }

    #[test]
    fn paths_mean_the_same_from_every_folder() {
        let file = read("[general]\ncache-dir = \"~/cache\"\n").unwrap();
        assert_eq!(file.general[0].value, "/home/u/cache");
        let wrong = read("[general]\ncache-dir = \"cache\"\n").unwrap_err().to_string();
        assert!(
            wrong.starts_with("/etc/c.toml:2: cache-dir: cache: write the whole path"),
            "{wrong}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_what_was_meant() {
        for (text, want) in [
            (
                "[general]\ncahce-size = 1\n",
                ":2: unknown setting cahce-size; did you mean cache-size?",
            ),
            ("cache-size = 1\n", ":1: cache-size belongs in a section: write [general] above it"),
            ("\n[genral]\n", ":2: unknown section [genral]; did you mean general?"),
            ("[general]\nuid = 1979-05-27\n", ":2: uid: wants text, a number"),
            ("[general]\nuid = [1]\n", ":2: uid: wants text, a number"),
            ("[bucket.\"data\"]\n", ":1: data: not a URL that quayfs can mount"),
            ("[bucket]\nuid = 1\n", ":2: uid: write [bucket."),
            ("[general]\nuid = 1\nuid = 2\n", ":3: duplicate key"),
            ("[general\n", ":1: "),
        ] {
            let wrong = read(text).unwrap_err().to_string();
            let said = wrong.strip_prefix("/etc/c.toml").unwrap();
            assert!(said.starts_with(want) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn a_secret_is_refused_and_not_repeated() {
        let wrong = read("[general]\naws-secret-access-key = \"hush\"\n").unwrap_err().to_string();
        assert!(wrong.contains("secrets do not belong") && !wrong.contains("hush"), "{wrong}");
    }
}
