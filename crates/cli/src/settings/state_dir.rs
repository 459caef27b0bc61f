//! Where local state is kept: it holds bytes that exist nowhere else, so never a cache folder that
//! people and systems wipe.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mount::Unsafe;

use super::flags::StateSettings;

/// Nobody else may enter.
const MODE: u32 = 0o700;

/// What each state folder has.
const DATABASE: &str = "state.db";

/// The folder that the user names, or the usual one of this user, without symbolic links, as a daemon knows its state folder:
/// commands compare the two. Fails for a path that leads through a link of another user.
pub(crate) fn state_dir(settings: &StateSettings) -> Result<PathBuf> {
    let dir = asked_for(settings)?;
    match mount::resolve_trusted(&dir) {
        // The first use of the folder tells more.
        Err(Unsafe::Io { .. }) => Ok(dir),
        resolved => resolved.with_context(|| not_safe(&dir)),
    }
}

#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn asked_for(settings: &StateSettings) -> Result<PathBuf> {
    if let Some(dir) = &settings.cache_dir {
        return std::path::absolute(dir).with_context(|| format!("{}: not a path", dir.display()));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/quayfs"));
    }
    let home =
        std::env::var_os("HOME").context("HOME is not set: name a folder with --cache-dir")?;
    Ok(Path::new(&home).join(".local/share/quayfs"))
}

/// Makes it, for this user alone, and returns its canonical path. One that is there and that others may enter is closed to
/// them, unless it has something of theirs: then it is refused, as is one that another user could change. Nothing is made or
/// changed before the whole path is known to be safe.
pub(crate) fn make_state_dir(dir: &Path) -> Result<PathBuf> {
    let dir = &mount::create_trusted(dir).map_err(|error| not_made(dir, error))?;
    let dir = &safe_state_dir(dir)?;
    narrow(dir).with_context(|| {
        format!(
            "the state folder {} is open to other users: chmod 700 it, or choose another one with --cache-dir",
            dir.display()
        )
    })?;
    fs::read_dir(dir).map(drop).with_context(|| {
        format!(
            "cannot use the state folder {}: choose another one with --cache-dir",
            dir.display()
        )
    })?;
    Ok(dir.clone())
}

/// The canonical path of a state folder that is there, if no other user can change what is in it.
pub(crate) fn safe_state_dir(dir: &Path) -> Result<PathBuf> {
    mount::check_ownership(dir).with_context(|| not_safe(dir))
}

fn not_made(dir: &Path, error: Unsafe) -> anyhow::Error {
    if let Unsafe::Io { source, .. } = error {
        return anyhow::Error::new(source).context(format!(
            "cannot make the state folder {}: choose another one with --cache-dir",
            dir.display()
        ));
    }
    anyhow::Error::new(error).context(not_safe(dir))
}

fn not_safe(dir: &Path) -> String {
    format!(
        "the state folder {} is not safe: choose another one with --cache-dir, or make its owner \
         the only user that can change it",
        dir.display()
    )
}

fn narrow(dir: &Path) -> Result<()> {
    let mode = fs::metadata(dir)?.permissions().mode();
    let of_others = mode & 0o077;
    if of_others == 0 {
        return Ok(());
    }
    if !is_ours_alone(dir)? {
        bail!("it has files of others");
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(MODE)).context("its mode cannot be changed")
}

/// Whether nobody else misses the folder when it is closed: it is a state folder, or has nothing in it but what the
/// root of a disk has.
fn is_ours_alone(dir: &Path) -> Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name == DATABASE {
            return Ok(true);
        }
        if name != "lost+found" {
            return Ok(dir.join(DATABASE).exists());
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::{StateSettings, make_state_dir, state_dir};

    fn mode(dir: &Path) -> u32 {
        fs::metadata(dir).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn linked_state_folder_has_one_path_for_daemon_and_commands() {
        let scratch = tempfile::tempdir().unwrap();
        let (dir, link) = (scratch.path().join("dir"), scratch.path().join("link"));
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        let settings = StateSettings { cache_dir: Some(link.clone()) };
        assert_eq!(state_dir(&settings).unwrap(), dir, "there is no folder yet");
        fs::create_dir(&dir).unwrap();
        let of_daemon = make_state_dir(&link).unwrap();
        assert_eq!(state_dir(&settings).unwrap(), of_daemon);
        assert_ne!(of_daemon, link);
    }

    #[test]
    fn a_state_folder_is_for_its_owner_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let made = scratch.path().join("a/b");
        make_state_dir(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        for (inside, is_taken) in
            [(None, true), (Some("state.db"), true), (Some("lost+found"), true), (Some("x"), false)]
        {
            let dir = scratch.path().join(inside.unwrap_or("empty"));
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
            if let Some(name) = inside {
                fs::write(dir.join(name), "").unwrap();
            }
            let made = make_state_dir(&dir);
            assert_eq!(made.is_ok(), is_taken, "{inside:?}");
            assert_eq!(mode(&dir), if is_taken { 0o700 } else { 0o755 }, "{inside:?}");
            if let Err(refused) = made {
                assert!(refused.to_string().contains("chmod 700"), "{refused}");
            }
        }
        // What nobody else can enter may have anything.
        let own = scratch.path().join("x");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        make_state_dir(&own).unwrap();
    }
}
