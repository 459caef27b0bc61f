//! What the bucket's word on a name means for what is remembered of it. Pure.

use remote::Version;

use super::listing::There;

/// What is remembered of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here<'a> {
    /// Nothing.
    Nothing,
    /// A file whose newest bytes the bucket does not have yet.
    Unpublished,
    /// A file as the bucket had it, or as it was published from here.
    File {
        /// Its object.
        version: &'a Version,
        /// Whether its number is in use.
        held: Held,
    },
    /// A folder.
    Folder {
        /// Whether some file below it is unpublished.
        below: Below,
    },
}

/// Whether the kernel may have the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It may: the number stays with the bytes it was given for.
    Yes,
    /// It does not: the number goes with the name.
    No,
}

/// What a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// At least one file that the bucket does not have yet: the folder exists here in any case.
    Unpublished,
    /// No such file.
    Published,
}

/// What to do with the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Leave it as it is: what is here is newer.
    Keep,
    /// It is as it was; note that it is still true.
    Refresh,
    /// Make a node for what is there.
    Add,
    /// The node has other bytes now.
    Renew,
    /// The node loses its name, and a new one gets it.
    Replace,
    /// The node is a file beside a folder now, and a new one gets its name.
    StepAside,
    /// The node loses its name.
    Remove,
}

/// Decides.
pub(super) fn verdict(here: Here<'_>, there: &There) -> Verdict {
    match there {
        There::Nothing => match here {
            Here::Nothing | Here::Unpublished | Here::Folder { below: Below::Unpublished } => {
                Verdict::Keep
            }
            Here::File { .. } | Here::Folder { below: Below::Published } => Verdict::Remove,
        },
        There::File(seen) => match here {
            Here::Nothing => Verdict::Add,
            Here::Unpublished | Here::Folder { below: Below::Unpublished } => Verdict::Keep,
            Here::File { version, .. } if *version == seen.version => Verdict::Refresh,
            Here::File { held: Held::No, .. } => Verdict::Renew,
            Here::File { held: Held::Yes, .. } | Here::Folder { below: Below::Published } => {
                Verdict::Replace
            }
        },
        There::OnTheWay => match here {
            Here::Nothing => Verdict::Add,
            Here::Folder { .. } => Verdict::Refresh,
            // What was seen once counts for more than that it may not be seen now.
            Here::Unpublished | Here::File { .. } => Verdict::Keep,
        },
        There::Folder => match here {
            Here::Nothing => Verdict::Add,
            // Its object may still be there; the answer tells of that under its new name.
            Here::Unpublished | Here::File { .. } => Verdict::StepAside,
            Here::Folder { .. } => Verdict::Refresh,
        },
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use remote::Version;

    use super::{Below, Held, Here, Verdict, verdict};
    use crate::bucket::listing::{Seen, There};

    #[test]
    fn what_is_unpublished_stays_and_the_rest_follows_the_bucket() {
        let (old, new) = (Version::new("old"), Version::new("new"));
        let modified = Timestamp::default();
        let seen = Seen { size: 1, version: new.clone(), modified, metadata: None };
        let file = There::File(seen);
        let (nothing, folder) = (There::Nothing, There::Folder);

        let old_held = Here::File { version: &old, held: Held::Yes };
        let old_free = Here::File { version: &old, held: Held::No };
        let same = Here::File { version: &new, held: Held::Yes };
        let full = Here::Folder { below: Below::Unpublished };
        let plain = Here::Folder { below: Below::Published };
        for (here, there, want) in [
            (Here::Nothing, &nothing, Verdict::Keep),
            (Here::Nothing, &file, Verdict::Add),
            (Here::Nothing, &folder, Verdict::Add),
            (Here::Unpublished, &nothing, Verdict::Keep),
            (Here::Unpublished, &file, Verdict::Keep),
            (Here::Unpublished, &folder, Verdict::StepAside),
            (same, &nothing, Verdict::Remove),
            (same, &file, Verdict::Refresh),
            (same, &folder, Verdict::StepAside),
            (old_held, &file, Verdict::Replace),
            (old_free, &file, Verdict::Renew),
            (old_free, &folder, Verdict::StepAside),
            (full, &nothing, Verdict::Keep),
            (full, &file, Verdict::Keep),
            (full, &folder, Verdict::Refresh),
            (plain, &nothing, Verdict::Remove),
            (plain, &file, Verdict::Replace),
            (plain, &folder, Verdict::Refresh),
        ] {
            assert_eq!(verdict(here, there), want, "{here:?} {there:?}");
        }
    }
}
