//! What `mount` is told.
#![expect(
    clippy::doc_markdown,
    reason = "the comments are the help that people read in a terminal"
)]

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use mount::Location;

use crate::settings::{Flags, Settings, Unknown};

/// A mount, as it is asked for on the command line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quayfs mount s3://my-bucket ~/data\n  \
    quayfs mount s3://my-bucket/some/folder ~/data --aws-profile work\n  \
    quayfs mount s3://data ~/data --endpoint http://127.0.0.1:9000\n  \
    quayfs mount gs://my-bucket ~/data\n  \
    quayfs mount az://account/container ~/data\n  \
    quayfs mount file:///srv/objects ~/data\n  \
    quayfs mount s3://my-bucket ~/data -o ro,allow_other\n  \
    quayfs mount --all ~/data   then ~/data/s3/my-bucket/..., ~/data/gs/..., ~/data/az/account/container/...\n\n\
    An ordinary user needs write access to the mount point: `mkdir ~/data` makes one. Root may mount anywhere.\n\n\
    Every flag but --all, --config, --foreground and -o can also be a key of the configuration file,\n\
    `cache-size = \"100GiB\"` under [general] or [bucket.\"s3://my-bucket\"], and an environment variable,\n\
    QUAYFS_CACHE_SIZE.\n\
    Variables override files, and flags override both; --read-only=false switches off what a file switches on.\n\
    `quayfs config URL` shows the resulting settings and where each comes from.\n\n\
    No flag takes a secret. Credentials for s3:// come from where AWS's own tools take them: AWS_ACCESS_KEY_ID and\n\
    AWS_SECRET_ACCESS_KEY, profiles, SSO, web identity, container and instance roles. For gs://\n\
    from GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the machine;\n\
    for az:// from AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN,\n\
    Entra ID (AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE), or the machine.\n\
    --aws-profile, --google-credentials-file and --azure-credentials-file name other ones, also under [bucket.\"URL\"].")]
pub(crate) struct MountArgs {
    /// What to mount: s3://bucket[/prefix], gs://bucket[/prefix], az://account/container[/prefix],
    /// or file:///path.
    #[arg(required_unless_present = "all")]
    url: Option<String>,
    /// Mount point: an existing folder, such as ~/data.
    #[arg(required_unless_present = "all")]
    dir: Option<PathBuf>,
    /// Mount all buckets there, as s3/<bucket>, gs/<bucket> and az/<account>/<container>, each attached
    /// when it is first used.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "dir"])]
    all: Option<PathBuf>,
    /// Stay in the foreground and log to the terminal.
    #[arg(long, short = 'f')]
    pub(crate) foreground: bool,
    /// Settings as in /etc/fstab: ro,allow_other,cache_size=10GiB. Options that are only for mount(8) are ignored.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    #[command(flatten)]
    flags: Flags<Settings>,
    /// Report on the standard output when the mount is ready, then detach from the terminal.
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
    /// End with the process that started it, of this number.
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) ends_with: Option<u32>,
    /// Remove the folder when it is unmounted.
    #[arg(long, hide = true)]
    pub(crate) with_folder: bool,
}

impl MountArgs {
    /// The settings that were given, by flags and by `-o`.
    pub(super) fn flags(&self) -> Result<Flags<Settings>> {
        self.flags.clone().with_options(&self.options, Unknown::Refused)
    }

    /// What to mount, and where.
    pub(super) fn place(&self) -> Result<(Location, &Path)> {
        match (&self.all, &self.url, &self.dir) {
            (Some(dir), _, _) => Ok((Location::All, dir)),
            (None, Some(url), Some(dir)) => Ok((Location::parse(url)?, dir)),
            (None, _, _) => bail!("what to mount, and where, is missing"),
        }
    }
}
