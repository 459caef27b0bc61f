//! Settings that would do nothing: who asks for one hears of it before anything is mounted.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use mount::{Commit, Location};

use super::merge::{Given, Origin};
use super::profile::Profile;
use super::resolve::Sources;
use super::table::is_off;

/// What only root can have.
const OF_ROOT: [&str; 2] = ["suid", "dev"];

/// Refuses what was asked for just now and only root can have; what a file says for everybody is told instead, a line
/// each.
pub(crate) fn without_right(
    given: &BTreeMap<String, Given>,
    has_right: bool,
) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for given in OF_ROOT.iter().filter_map(|name| given.get(*name)) {
        if has_right || given.value.to_str().is_some_and(is_off) {
            continue;
        }
        let Given { name, origin, .. } = given;
        let reason = format!(
            "the kernel lets neither set-uid programs nor devices into the mount of an ordinary user: mount as root, or \
             without --{name}"
        );
        if is_of_now(origin) {
            bail!("{}: {reason}", named(given));
        }
        told.push(format!("{} does nothing: {reason}", named(given)));
    }
    Ok(told)
}

/// Settings that all buckets of a mount share.
const OF_MOUNT: [&str; 2] = ["upload-limit", "download-limit"];

/// Tells, a line each, what a file says of one bucket and does nothing in a mount of all of them.
pub(crate) fn of_one_bucket(sources: &Sources, location: &Location) -> Vec<String> {
    if *location != Location::All {
        return Vec::new();
    }
    let told = sources.all().filter_map(|given| {
        let Origin::File { bucket: Some(bucket), .. } = &given.origin else { return None };
        OF_MOUNT.contains(&&*given.name).then(|| {
            format!(
                "{} for {bucket} does nothing in a mount of all buckets, which share one limit: set it in [general]",
                named(given)
            )
        })
    });
    told.collect()
}

/// What is for closes that do not wait for the bucket.
const OF_ASYNC: [&str; 2] = ["commit-last", "upload-delay"];

/// Refuses what was asked for just now in `sources` and does nothing where `commit` holds. A file, and what is weaker than
/// who said how to commit, may speak of many mounts.
pub(crate) fn check_late(sources: &Sources, location: &Location, commit: Commit) -> Result<()> {
    // Of all buckets some may be mounted otherwise.
    let is_of_some = *location == Location::All && sources.all().any(means_async);
    if commit == Commit::Async || is_of_some {
        return Ok(());
    }
    let given = sources.resolve(Some(location))?.given;
    match for_nothing(&given) {
        Some(reason) => bail!(reason),
        None => Ok(()),
    }
}

/// What of `given` does nothing since each close waits, in words.
fn for_nothing(given: &BTreeMap<String, Given>) -> Option<String> {
    let commit = given.get("commit");
    let strength = |origin: &Origin| match origin {
        Origin::Flag => 3,
        Origin::Environment(_) => 2,
        Origin::File { .. } => 1,
        Origin::Profile => 0,
    };
    let is_meant = |late: &&Given| {
        let is_weaker = commit.is_some_and(|by| strength(&late.origin) < strength(&by.origin));
        is_of_now(&late.origin) && !is_weaker && !late.value.is_empty()
    };
    let late = OF_ASYNC.iter().filter_map(|name| given.get(*name)).find(is_meant)?;
    let holds = match commit {
        Some(Given { origin: origin @ (Origin::File { .. } | Origin::Environment(_)), .. }) => {
            format!("commit is close ({origin})")
        }
        Some(Given { origin: Origin::Profile, .. }) => "the profile says close".to_owned(),
        Some(Given { origin: Origin::Flag, .. }) => "it is close".to_owned(),
        None => "that is not given".to_owned(),
    };
    let late = named(late);
    Some(format!(
        "{late} is for --commit async, and {holds}: add --commit async, or leave {late} out"
    ))
}

/// Whether it makes closes wait for nothing, for whichever bucket.
fn means_async(given: &Given) -> bool {
    let value = given.value.to_str().unwrap_or_default();
    let is_of_profile = || {
        let profile = Profile::named(value);
        profile.is_ok_and(|profile| profile.layer().iter().any(means_async))
    };
    (given.name == "commit" && value == "async") || (given.name == "profile" && is_of_profile())
}

/// Whether it was said for this mount, and not for many.
fn is_of_now(origin: &Origin) -> bool {
    match origin {
        Origin::Flag | Origin::Environment(_) => true,
        Origin::File { .. } | Origin::Profile => false,
    }
}

/// `--suid`, or `--suid (QUAYFS_SUID)` if it was said otherwise.
fn named(Given { name, origin, .. }: &Given) -> String {
    match origin {
        Origin::Flag => format!("--{name}"),
        Origin::File { .. } | Origin::Environment(_) | Origin::Profile => {
            format!("--{name} ({origin})")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mount::{Commit, Location};

    use super::super::flags::Settings;
    use super::super::given::Flags;
    use super::super::merge::{Given, Origin, merge};
    use super::super::resolve::Sources;
    use super::{check_late, for_nothing, of_one_bucket, without_right};

    fn given(name: &str, value: &str, origin: Origin) -> Given {
        Given { name: name.into(), value: value.into(), origin }
    }

    fn all(given: &[Given]) -> BTreeMap<String, Given> {
        merge([given.to_vec()])
    }

    fn in_file() -> Origin {
        Origin::File { path: "/etc/quayfs/config.toml".into(), line: 3, bucket: None }
    }

    #[test]
    fn limit_of_one_bucket_is_told_where_all_are_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        let text = "[general]\nupload-limit = \"1MiB\"\n\
                    [bucket.\"s3://lab\"]\nupload-limit = \"64KiB\"\nregion = \"moon\"\n";
        std::fs::write(&file, text).unwrap();
        let flags: Flags<Settings> = Flags::of(Some(file), Vec::new());
        let sources = Sources::read(&flags).unwrap();
        let told = of_one_bucket(&sources, &Location::All);
        let [line] = &told[..] else { panic!("{told:?}") };
        assert!(line.starts_with("--upload-limit (") && line.contains("s3://lab"), "{line}");
        let one = Location::parse("s3://lab").unwrap();
        assert_eq!(of_one_bucket(&sources, &one), Vec::<String>::new());
    }

    #[test]
    fn what_only_root_can_have_is_refused_to_who_asks_for_it_and_told_of_a_file() {
        for name in ["suid", "dev"] {
            let asked = all(&[given(name, "true", Origin::Flag)]);
            let said = without_right(&asked, false).unwrap_err().to_string();
            assert!(said.starts_with(&format!("--{name}: ")) && said.contains("root"), "{said}");
            assert_eq!(without_right(&asked, true).unwrap(), [""; 0]);
            let off = all(&[given(name, "false", Origin::Flag)]);
            assert_eq!(without_right(&off, false).unwrap(), [""; 0]);

            let variable = Origin::Environment("QUAYFS_X".into());
            let said = without_right(&all(&[given(name, "1", variable)]), false).unwrap_err();
            assert!(said.to_string().starts_with(&format!("--{name} (QUAYFS_X): ")), "{said}");

            let told = without_right(&all(&[given(name, "true", in_file())]), false).unwrap();
            assert!(told.len() == 1 && told[0].contains("config.toml:3) does nothing"), "{told:?}");
        }
    }
    #[test]
    fn what_is_for_closes_that_do_not_wait_is_refused_where_they_do() {
        let (flag, file, profile) = (Origin::Flag, in_file(), Origin::Profile);
        let variable = Origin::Environment("QUAYFS_X".into());
        for (late, commit, want) in [
            (&flag, None, Some("that is not given")),
            (&flag, Some(&flag), Some("it is close")),
            (&flag, Some(&profile), Some("the profile says close")),
            (&flag, Some(&file), Some("config.toml:3")),
            (&variable, Some(&variable), Some("QUAYFS_X")),
            // Who says how to commit has said it of all that is weaker.
            (&variable, Some(&flag), None),
            (&file, None, None),
            (&profile, Some(&flag), None),
        ] {
            for name in ["commit-last", "upload-delay"] {
                let commit = commit.map(|origin| given("commit", "close", origin.clone()));
                let late = given(name, "1s", late.clone());
                let said = for_nothing(&all(&[vec![late], Vec::from_iter(commit)].concat()));
                assert_eq!(said.is_some(), want.is_some(), "{said:?}");
                let said = said.unwrap_or_default();
                assert!(said.contains(want.unwrap_or_default()), "{said}");
                assert!(want.is_none() || said.contains(&format!("--{name}")), "{said}");
            }
        }
    }

    #[test]
    fn where_all_buckets_are_mounted_some_may_be_so_that_closes_do_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let check = |text: &str, url: &str| {
            std::fs::write(&file, text).unwrap();
            let flags = vec![("upload-delay".to_owned(), "5s".into())];
            let sources = Sources::read(&Flags::<Settings>::of(Some(file.clone()), flags)).unwrap();
            check_late(&sources, &Location::parse(url).unwrap(), Commit::Close).is_ok()
        };
        for some in ["commit = \"async\"", "profile = \"pipeline\""] {
            let text = format!("[bucket.\"s3://b\"]\n{some}\n");
            assert!(check(&text, "all") && !check(&text, "s3://c"), "{some}");
        }
        assert!(!check("[bucket.\"s3://b\"]\nprofile = \"shared\"\n", "all"));
    }
}
