//! Between which values a number is of use. Who asks for another is told so before anything is mounted.

use std::net::SocketAddr;
use std::time::Duration;

use mount::DirtyLimit;

use crate::units::{self, CacheSize, Rate};

/// A parser that reads as `read` does and takes what is from `least` to `most`, which are written as
/// people write them.
pub(crate) fn between<T: PartialOrd + 'static>(
    read: fn(&str) -> Result<T, String>,
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let value = read(text)?;
        let (from, to) = (read(least)?, read(most)?);
        if from <= value && value <= to {
            Ok(value)
        } else {
            Err(format!("{text}: must be from {least} to {most}"))
        }
    }
}

/// Less than this is a slip, such as a unit that was forgotten.
const DISK_BYTES_MIN: &str = "1MiB";
const DISK_BYTES_MAX: &str = "1024TiB";

/// What the parts of a few files at a time need.
pub(crate) fn memory_limit(text: &str) -> Result<u64, String> {
    between(units::bytes, "16MiB", "1TiB")(text)
}

/// What S3 takes.
pub(crate) fn part_size(text: &str) -> Result<u64, String> {
    between(units::bytes, "5MiB", "5GiB")(text)
}

pub(crate) fn cache_size(text: &str) -> Result<CacheSize, String> {
    if units::bytes(text)? == 0 {
        return Ok(CacheSize(0));
    }
    let size = between(units::bytes, DISK_BYTES_MIN, DISK_BYTES_MAX)(text).map(CacheSize);
    size.map_err(|reason| format!("{reason}, or 0 for none"))
}

pub(crate) fn dirty_limit(text: &str) -> Result<DirtyLimit, String> {
    between(units::bytes, DISK_BYTES_MIN, DISK_BYTES_MAX)(text).map(DirtyLimit::Bytes)
}

/// The longest time that a setting takes, of which `forever` is another name.
const YEAR: &str = "8760h";

pub(crate) fn metadata_ttl(text: &str) -> Result<Duration, String> {
    between(units::duration, "0s", YEAR)(if text.trim() == "forever" { YEAR } else { text })
}

pub(crate) fn upload_delay(text: &str) -> Result<Duration, String> {
    between(units::duration, "0s", YEAR)(text)
}

/// A request that takes longer than the shortest of these never succeeds.
pub(crate) fn deadline(text: &str) -> Result<Duration, String> {
    between(units::duration, "1s", "24h")(text)
}

pub(crate) fn shutdown_timeout(text: &str) -> Result<Duration, String> {
    between(units::duration, "0s", "8760h")(text)
}

/// Below the smallest of these a part of an upload would take hours.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    if text == "off" || units::bytes(text) == Ok(0) {
        return Ok(Rate(0));
    }
    let text = text.strip_suffix("/s").unwrap_or(text);
    let rate = between(units::bytes, "64KiB", "1TiB")(text).map(Rate);
    rate.map_err(|reason| format!("{reason} a second, or 0 for no limit"))
}

pub(crate) fn slow_log(text: &str) -> Result<Duration, String> {
    between(units::duration, "0s", "24h")(text)
}

pub(crate) fn price(text: &str) -> Result<f64, String> {
    between(units::price, "0", "1000000")(text)
}

/// `127.0.0.1:9464`. Of port 0 nobody would know which one it became.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address),
        Ok(_) => Err(format!("{text}: the port must be from 1 to 65535")),
        Err(_) => Err(format!("{text}: not an address and port like 127.0.0.1:9464")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::table::all;
    use super::{cache_size, listen, metadata_ttl};
    use crate::args::Args;
    use crate::settings::{Flags, Settings, Sources};

    /// What is said of a setting's value in a file.
    fn refused(name: &str, value: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, format!("[general]\n{name} = \"{value}\"\n")).unwrap();
        let flags = Flags::<Settings>::of(Some(file), Vec::new());
        let resolved = Sources::read(&flags).and_then(|sources| sources.resolve(None));
        resolved.err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn values_that_cannot_work_are_refused_with_the_setting_and_its_bounds() {
        for (name, wrong, bounds) in [
            ("memory-limit", &["0", "15MiB", "2TiB"][..], "from 16MiB to 1TiB"),
            ("part-size", &["0", "1", "4MiB", "6GiB"], "from 5MiB to 5GiB"),
            ("cache-size", &["1", "100", "2000TiB"], "from 1MiB to 1024TiB, or 0 for none"),
            ("dirty-limit", &["0", "10", "2000TiB"], "from 1MiB to 1024TiB"),
            ("upload-delay", &["9000h"], "from 0s to 8760h"),
            ("metadata-ttl", &["9000h", "18446744073709551615s"], "from 0s to 8760h"),
            ("deadline", &["0s", "999ms", "25h"], "from 1s to 24h"),
            ("slow-log", &["25h"], "from 0s to 24h"),
            ("shutdown-timeout", &["9000h"], "from 0s to 8760h"),
            ("upload-limit", &["1KiB", "2TiB"], "from 64KiB to 1TiB a second"),
            ("price-reads", &["1000001"], "from 0 to 1000000"),
            ("uid", &["4294967295"], "from 0 to 4294967294"),
            ("gid", &["4294967295"], "from 0 to 4294967294"),
            ("metrics-listen", &["127.0.0.1:0"], "from 1 to 65535"),
        ] {
            for value in wrong {
                let said = refused(name, value).unwrap_or_else(|| panic!("{name} takes {value}"));
                for word in [name, value, bounds, "config.toml:2"] {
                    assert!(said.contains(word), "{said}: {word}");
                }
            }
        }
    }

    #[test]
    fn help_tells_the_bounds() {
        let mount = Args::command().find_subcommand("mount").unwrap().clone();
        for (name, least, most) in [
            ("memory-limit", "16MiB", "1TiB"),
            ("part-size", "5MiB", "5GiB"),
            ("cache-size", "1MiB", "1024TiB"),
            ("dirty-limit", "1MiB", "1024TiB"),
            ("metadata-ttl", "0s", "8760h"),
            ("upload-delay", "0s", "8760h"),
            ("deadline", "1s", "24h"),
            ("slow-log", "0s", "24h"),
            ("shutdown-timeout", "0s", "8760h"),
            ("upload-limit", "64KiB", "1TiB"),
            ("download-limit", "64KiB", "1TiB"),
            ("price-reads", "0", "1000000"),
            ("price-lists", "0", "1000000"),
            ("price-writes", "0", "1000000"),
            ("price-deletes", "0", "1000000"),
            ("price-received", "0", "1000000"),
            ("price-sent", "0", "1000000"),
            ("uid", "0", "4294967294"),
            ("gid", "0", "4294967294"),
            ("file-mode", "0", "7777"),
            ("dir-mode", "0", "7777"),
            ("umask", "0", "7777"),
        ] {
            let flag = mount.get_arguments().find(|flag| flag.get_long() == Some(name)).unwrap();
            let help = flag.get_help().unwrap().to_string();
            assert!(help.contains(&format!("{least} to {most}")), "{name}: {help}");
            assert_eq!(refused(name, least), None, "{name} {least}");
            assert_eq!(refused(name, most), None, "{name} {most}");
        }
    }

    #[test]
    fn bounds_are_within() {
        for (name, right) in [
            ("memory-limit", &["16MiB", "1TiB"]),
            ("part-size", &["5MiB", "5GiB"]),
            ("cache-size", &["0", "1MiB"]),
            ("dirty-limit", &["1MiB", "1024TiB"]),
            ("metadata-ttl", &["0", "8760h"]),
            ("deadline", &["1s", "24h"]),
            ("slow-log", &["0ms", "24h"]),
            ("price-sent", &["0", "1000000"]),
        ] {
            for value in right {
                assert_eq!(refused(name, value), None, "{name} {value}");
            }
        }
        assert_eq!(metadata_ttl("forever"), metadata_ttl("365d"));
        assert_eq!(listen("[::1]:9464").unwrap().port(), 9464);
        assert_eq!(cache_size("much").unwrap_err(), "much: not a size like 512MiB");
    }

    #[test]
    fn every_setting_with_a_size_or_a_time_has_bounds() {
        let takes = |name: &str, value| refused(name, value).is_none();
        for setting in all().into_iter().filter(|setting| !setting.is_path) {
            let name = &setting.name;
            let is_text = takes(name, "word");
            if !is_text && (takes(name, "7MiB") || takes(name, "7s")) {
                let largest = ["16777215TiB", "18446744073709551615s"];
                assert!(!largest.iter().any(|value| takes(name, value)), "{name} has no bounds");
            }
        }
    }
}
