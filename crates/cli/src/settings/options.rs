//! Settings as `-o` options, as mount(8) and the table of file systems write them. Pure.

use std::ffi::OsString;
use std::path::PathBuf;

use super::nearest::hint;
use super::table::Setting;

/// What a list of options says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The settings, by name.
    pub(crate) given: Vec<(String, OsString)>,
    /// The file to take others from.
    pub(crate) config: Option<PathBuf>,
}

/// What to do with an option that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It is an error.
    Refused,
    /// It is for others, as `mount -s` says.
    Ignored,
}

/// Words for mount(8), for systemd, or for file systems that keep times of access: nothing for us.
const IGNORED: [&str; 34] = [
    "rw",
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "noowner",
    "nogroup",
    "sync",
    "async",
    "dirsync",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
    "silent",
    "loud",
    // The default.
    "default_permissions",
    // A mount point that is not empty is used, with a note.
    "nonempty",
];

/// Options of other file systems that are not supported, and why. To ignore them would be a surprise.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("nosymfollow", "symbolic links are followed"),
    (
        "auto_unmount",
        "a mount whose daemon died stays until `quayfs umount DIR`, so that programs get errors",
    ),
    ("context", SELINUX),
    ("fscontext", SELINUX),
    ("defcontext", SELINUX),
    ("rootcontext", SELINUX),
];

const SELINUX: &str = "files have the SELinux label that the policy gives to FUSE file systems";

/// The same with a value, or anything behind it.
const IGNORED_BEGINNINGS: [&str; 6] = ["x-", "X-", "comment=", "user=", "uhelper=", "helper="];

/// Words of other file systems for our settings. `rw` is none of them: mount(8) adds it to everything.
const WORDS: [(&str, &str, &str); 5] = [
    ("ro", "read-only", "true"),
    ("exec", "no-exec", "false"),
    ("noexec", "no-exec", "true"),
    ("nosuid", "suid", "false"),
    ("nodev", "dev", "false"),
];

/// The settings that `text`, a list with commas, names: `ro,allow_other,cache_size=10GiB`. A later option
/// wins over an earlier one.
pub(crate) fn translate(
    text: &str,
    settings: &[Setting],
    unknown: Unknown,
) -> Result<Options, String> {
    let mut options = Options::default();
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let is_ignored = IGNORED.contains(&option)
            || IGNORED_BEGINNINGS.iter().any(|begin| option.starts_with(begin));
        if is_ignored {
            continue;
        }
        if let Some((_, name, value)) = WORDS.iter().find(|(word, ..)| *word == option) {
            set(&mut options.given, name, value);
            continue;
        }
        let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
        let setting = settings.iter().find(|setting| setting.name == name.replace('_', "-"));
        match (setting, value) {
            (Some(setting), Some(value)) => set(&mut options.given, &setting.name, value),
            (Some(setting), None) if setting.is_switch => {
                set(&mut options.given, &setting.name, "true");
            }
            (Some(_), None) => {
                return Err(format!("the mount option {name} wants a value: {name}=…"));
            }
            (None, Some(file)) if name == "config" => options.config = Some(file.into()),
            (None, _) if unknown == Unknown::Ignored => {}
            (None, _) => return Err(unsupported(name).unwrap_or_else(|| strange(name, settings))),
        }
    }
    Ok(options)
}

fn set(given: &mut Vec<(String, OsString)>, name: &str, value: &str) {
    given.retain(|(known, _)| known != name);
    given.push((name.to_owned(), value.into()));
}

fn unsupported(name: &str) -> Option<String> {
    let (_, reason) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == name)?;
    Some(format!("the mount option {name} is not supported: {reason}"))
}

fn strange(name: &str, settings: &[Setting]) -> String {
    let names = settings.iter().map(|setting| setting.name.as_str());
    let words = WORDS.iter().map(|(word, ..)| *word);
    let known = names.chain(words).chain(IGNORED).chain(["config"]);
    format!("unknown mount option {name}{}", hint(name, known))
}

#[cfg(test)]
mod tests {
    use super::super::table::all;
    use super::{Unknown, translate};

    fn check(text: &str, want: &[(&str, &str)]) {
        let options = translate(text, &all(), Unknown::Refused).unwrap();
        let given: Vec<(&str, &str)> = options
            .given
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(given, want, "{text}");
    }

    #[test]
    fn words_of_tables_are_settings_or_for_others() {
        check("", &[]);
        check("rw,nonempty,_netdev,nofail,x-systemd.automount,user=me,noatime,comment=a=b", &[]);
        check("ro,noexec,nosuid", &[("read-only", "true"), ("no-exec", "true"), ("suid", "false")]);
        check("allow_other,cache-size=10GiB", &[("allow-other", "true"), ("cache-size", "10GiB")]);
        check("uid=7,umask=22,uid=8", &[("umask", "22"), ("uid", "8")]);
        check("noexec,exec,suid", &[("no-exec", "false"), ("suid", "true")]);
        check("endpoint=http://h:1/a=b", &[("endpoint", "http://h:1/a=b")]);
        let options = translate("config=/etc/c.toml", &all(), Unknown::Refused).unwrap();
        assert_eq!(options.config.as_deref(), Some("/etc/c.toml".as_ref()));
    }

    #[test]
    fn every_setting_is_an_option() {
        for setting in all() {
            let option = format!("{}=x", setting.name.replace('-', "_"));
            check(&option, &[(&setting.name, "x")]);
        }
    }

    #[test]
    fn what_nobody_knows_is_refused_with_what_was_meant() {
        let refused = |text| translate(text, &all(), Unknown::Refused).unwrap_err();
        assert_eq!(
            refused("ro,alow_other"),
            "unknown mount option alow_other; did you mean allow-other?"
        );
        assert_eq!(refused("_netdv"), "unknown mount option _netdv; did you mean _netdev?");
        assert_eq!(
            refused("context=system_u:object_r:nfs_t:s0"),
            "the mount option context is not supported: files have the SELinux label that the policy gives to FUSE \
             file systems"
        );
        for name in ["nosymfollow", "auto_unmount"] {
            assert!(
                refused(name).starts_with(&format!("the mount option {name} is not supported: "))
            );
        }
        assert_eq!(refused("uid"), "the mount option uid wants a value: uid=…");
        assert_eq!(translate("colour=1,ro", &all(), Unknown::Ignored).unwrap().given.len(), 1);
    }
}
