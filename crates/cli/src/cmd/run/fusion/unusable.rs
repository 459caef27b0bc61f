//! Says why a task cannot be begun in its folder: a program is told a number, the daemon knows the reason.

use std::io;
use std::path::Path;

use anyhow::anyhow;
use mount::{ReadOnly, StoreStatus};

/// The folder `work` of a task cannot be used for `error`; all buckets are at `top`.
pub(super) fn unusable(work: &Path, error: &io::Error, top: &Path) -> anyhow::Error {
    // Where the daemon cannot be asked, as one of another container, what the kernel says has to do.
    let stores = mount::status(top).map(|status| status.stores).unwrap_or_default();
    let place = work.strip_prefix(top).ok();
    let why = place
        .and_then(|place| stores.iter().filter(|store| is_in(place, &store.bucket)).find_map(why));
    let why = match (why, place) {
        (Some(why), _) => format!("\n  {why}"),
        // Where nothing can be looked at, every name is a folder on the way to what can be.
        (None, Some(_)) if error.kind() == io::ErrorKind::IsADirectory => {
            "\n  these credentials may not look into it: are the path and its bucket right?"
                .to_owned()
        }
        (None, Some(_)) => String::new(),
        (None, None) => {
            format!("\n  it is not below {}, where the buckets are", top.display())
        }
    };
    anyhow!("cannot write to the folder of the task, {}: {error}{why}", work.display())
}

/// Whether `place`, below the folder of all buckets, is in `bucket`, such as `s3/bucket` or `az/account/container`; that
/// of the only account is shown without it.
fn is_in(place: &Path, bucket: &str) -> bool {
    let container = bucket.strip_prefix("az/").and_then(|of| of.split_once('/'));
    let short = container.map(|(_, container)| Path::new("az").join(container));
    place.starts_with(bucket) || short.is_some_and(|short| place.starts_with(short))
}

fn why(store: &StoreStatus) -> Option<String> {
    let url = store.bucket.replacen('/', "://", 1);
    match (&store.refused, store.read_only) {
        (Some(refused), _) => Some(format!("{url} cannot be attached: {refused}")),
        (None, Some(ReadOnly::Credentials)) => {
            Some(format!("{url} is read-only: these credentials cannot write"))
        }
        (None, Some(ReadOnly::Asked)) => Some(format!("{url} is read-only, as a setting says")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_in;

    #[test]
    fn a_folder_is_in_the_bucket_that_it_goes_through() {
        for (place, bucket, want) in [
            ("s3/lab/tasks/ab", "s3/lab", true),
            ("s3/laboratory/work", "s3/lab", false),
            ("gs/lab/work", "s3/lab", false),
            ("az/account/lab/work", "az/account/lab", true),
            ("az/lab/work", "az/account/lab", true),
            ("az/other/work", "az/account/lab", false),
        ] {
            assert_eq!(is_in(Path::new(place), bucket), want, "{place} in {bucket}");
        }
    }
}
