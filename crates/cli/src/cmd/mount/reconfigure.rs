//! The configuration of a running mount, which is read again on request.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ::mount::{ChangedSetting, Effect, Location, Reconfigure, Reconfigured};
use anyhow::Result;

use super::super::config::shown;
use crate::settings::{self, Default, Given, Resolved, Setting, Sources, limits};

/// Settings that change while programs use the mount.
const CHANGE_AT_ONCE: [&str; 3] = ["log-level", "upload-limit", "download-limit"];

/// Settings of a mount at its start and at the last reading, and the way to read them again.
#[derive(Debug)]
pub(super) struct Reread {
    location: Location,
    /// The folder that the mount was started in: names of files are relative to it.
    folder: PathBuf,
    first: Sources,
    /// The settings that the mount runs with, but for those that change at once.
    started: BTreeMap<String, Given>,
    last: Mutex<Resolved>,
}

impl Reread {
    /// Needs the folder that the mount was started in as the current one.
    pub(super) fn new(sources: Sources, location: Location) -> Result<Reread> {
        let resolved = sources.resolve(Some(&location))?;
        Ok(Reread {
            location,
            folder: std::env::current_dir().unwrap_or_default(),
            first: sources,
            started: resolved.given.clone(),
            last: Mutex::new(resolved),
        })
    }

    fn read(&self) -> Result<Reconfigured> {
        let now = self.first.again(&self.folder)?.resolve(Some(&self.location))?;
        // Held by one reading at a time, which replaces the whole value.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = changes(&settings::all(), (&self.started, &last.given), &now.given);
        let filter = &now.settings.logs.log_level;
        let log_filter = (*filter != last.settings.logs.log_level).then(|| filter.clone());
        let (upload_limit, download_limit) = limits(&now.settings);
        *last = now;
        Ok(Reconfigured { changes, log_filter, upload_limit, download_limit })
    }
}

impl Reconfigure for Reread {
    fn reconfigure(&self) -> Result<Reconfigured, String> {
        self.read().map_err(|error| format!("{error:#}"))
    }
}

/// The settings whose values differ: those that change at once from the `last` reading, and the others from what the mount
/// was `started` with, so that each reading names them until a remount.
fn changes(
    settings: &[Setting],
    (started, last): (&BTreeMap<String, Given>, &BTreeMap<String, Given>),
    is: &BTreeMap<String, Given>,
) -> Vec<ChangedSetting> {
    let changed = |setting: &Setting| {
        let effect =
            if CHANGE_AT_ONCE.contains(&&*setting.name) { Effect::Now } else { Effect::Remount };
        let was = match effect {
            Effect::Now => last,
            Effect::Remount => started,
        };
        let (was, is) = (value(setting, was), value(setting, is));
        let words = format!("{}: {was} -> {is}", setting.name);
        (was != is).then_some(ChangedSetting { words, effect })
    };
    settings.iter().filter_map(changed).collect()
}

/// The value of `setting` in words, without a password that may be in it.
fn value(setting: &Setting, given: &BTreeMap<String, Given>) -> String {
    match (given.get(&setting.name), &setting.default) {
        (Some(given), _) => shown(&given.value),
        (None, Default::Value(value)) => shown(value),
        (None, Default::Words(words)) => words.clone(),
    }
}

#[cfg(test)]
mod tests {
    use ::mount::{Effect, Location, Reconfigure as _};

    use super::Reread;
    use crate::settings::{Flags, Settings, Sources};

    #[test]
    fn changed_file_changes_few_settings_and_names_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("[general]\nlog-level = \"info\"\n");
        let flags: Flags<Settings> =
            Flags::of(Some(file.clone()), vec![("deadline".to_owned(), "5s".into())]);
        let location = Location::parse("s3://lab").unwrap();
        let reread = Reread::new(Sources::read(&flags).unwrap(), location).unwrap();
        assert_eq!(reread.reconfigure(), Ok(::mount::Reconfigured::default()));

        // A flag wins over the file, as it did at the start.
        write(
            "[general]\nlog-level = \"debug\"\ndeadline = \"9s\"\n\
             [bucket.\"s3://lab\"]\nendpoint = \"http://me:hush@host\"\n\
             [bucket.\"s3://other\"]\nregion = \"moon\"\n",
        );
        let read = reread.reconfigure().unwrap();
        assert_eq!(read.log_filter.as_deref(), Some("debug"));
        let mut told: Vec<_> =
            read.changes.iter().map(|change| (&*change.words, change.effect)).collect();
        told.sort_by_key(|(words, _)| *words);
        let [endpoint, level] = told[..] else { panic!("{told:?}") };
        assert!(endpoint.0.starts_with("endpoint: ") && endpoint.0.ends_with(" -> http://…@host"));
        assert_eq!(endpoint.1, Effect::Remount);
        assert_eq!(level, ("log-level: info -> debug", Effect::Now));
        // The mount still runs without it.
        let again = reread.reconfigure().unwrap();
        assert_eq!(again.changes.len(), 1);
        assert!(again.changes[0].words.starts_with("endpoint: "), "{again:?}");

        // Nothing is taken of a file with a mistake, and its correction is compared with the last good one. The endpoint is
        // again the one of the start.
        write("[general]\nlog-level = \"loud\"\n");
        assert!(reread.reconfigure().unwrap_err().contains("config.toml"));
        std::fs::remove_file(&file).unwrap();
        assert!(reread.reconfigure().unwrap_err().contains("cannot read"));
        write("[general]\nlog-level = \"debug\"\n");
        let back = reread.reconfigure().unwrap();
        assert_eq!((back.log_filter, back.changes.len()), (None, 0));
    }
}
