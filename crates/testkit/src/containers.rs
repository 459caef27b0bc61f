//! Containers by podman, with settings and a storage of a test's own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::command::run;
use crate::place::{Scratch, clean_env, dev_dir};

const REMOVED_WITHIN: Duration = Duration::from_mins(1);

/// A storage for containers. The image of the tests, `localhost/quayfs-it`, is in it; those of the machine are not.
#[derive(Debug)]
pub struct Containers {
    folder: Scratch,
}

impl Containers {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// If podman or the image is not there.
    pub fn new() -> Containers {
        let podman = Command::new("podman").arg("--version").output();
        assert!(podman.is_ok(), "no podman: run scripts/setup");
        let images = dev_dir().join("containers");
        assert!(images.is_dir(), "no image at {}: run scripts/setup", images.display());
        let folder = Scratch::new();
        let at = folder.path().display();
        // Not every runtime gets along with the cgroups of a machine that is a container itself; and a container
        // must not want higher limits than its host has.
        let settings = format!(
            "[containers]\ndefault_ulimits = [\"nofile=20000:20000\", \"nproc=5000:5000\"]\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n\
             tmp_dir = \"{at}/tmp\"\nlock_type = \"file\"\nnum_locks = 64\n"
        );
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{at}/graph\"\nrunroot = \"{at}/run\"\n\
             [storage.options]\nadditionalimagestores = [\"{}\"]\n",
            images.display()
        );
        for (name, text) in [("containers.conf", settings), ("storage.conf", storage)] {
            fs::write(folder.path().join(name), text).expect("the scratch disk takes a file");
        }
        Containers { folder }
    }

    /// What tells podman of it.
    pub fn env(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("CONTAINERS_CONF", self.folder.path().join("containers.conf")),
            ("CONTAINERS_STORAGE_CONF", self.folder.path().join("storage.conf")),
        ]
    }
}

impl Default for Containers {
    fn default() -> Containers {
        Containers::new()
    }
}

impl Drop for Containers {
    /// What a test that failed left running goes with it.
    fn drop(&mut self) {
        let mut remove = Command::new("podman");
        remove.env_clear().envs(clean_env()).envs(self.env());
        run(remove.args(["rm", "--all", "--force", "--time", "0"]), REMOVED_WITHIN);
    }
}
