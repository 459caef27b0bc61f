//! What is to be allowed, in the words of the store that is mounted; pure.

use crate::location::Location;

/// What a mount must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    List,
    Read,
    Write,
    /// To give up what was sent in parts.
    Abort,
    Delete,
}

/// What to do so that `rights` are there.
pub(super) fn allow(location: &Location, rights: &[Right]) -> String {
    match location {
        Location::S3 { bucket, .. } if is_directory(bucket) => {
            let writes = rights.iter().any(|right| !matches!(right, Right::List | Right::Read));
            let mode = if writes { " in the mode ReadWrite" } else { "" };
            format!("allow s3express:CreateSession{mode}")
        }
        Location::S3 { .. } => format!("allow {}", joined(rights, of_amazon)),
        Location::Gcs { .. } => format!("allow {}", joined(rights, of_google)),
        Location::Azure { .. } => {
            let letters = joined(rights, |right| of_azure(right).1);
            let role = if rights.iter().all(|right| matches!(right, Right::List | Right::Read)) {
                "Storage Blob Data Reader"
            } else {
                "Storage Blob Data Contributor"
            };
            let words = joined(rights, |right| of_azure(right).0);
            format!("allow to {words}: the role {role}, or {letters} of a shared access signature")
        }
        Location::Folder(_) | Location::All => {
            format!("let this user {} there", joined(rights, |right| of_azure(right).0))
        }
    }
}

fn joined(rights: &[Right], word: impl Fn(Right) -> &'static str) -> String {
    let mut words: Vec<&str> = rights.iter().map(|right| word(*right)).collect();
    words.dedup();
    words.join(" and ")
}

fn of_amazon(right: Right) -> &'static str {
    match right {
        Right::List => "s3:ListBucket",
        Right::Read => "s3:GetObject",
        Right::Write => "s3:PutObject",
        Right::Abort => "s3:AbortMultipartUpload",
        Right::Delete => "s3:DeleteObject",
    }
}

fn of_google(right: Right) -> &'static str {
    match right {
        Right::List => "storage.objects.list",
        Right::Read => "storage.objects.get",
        Right::Write => "storage.objects.create",
        // Parts are objects.
        Right::Abort | Right::Delete => "storage.objects.delete",
    }
}

/// In words, and as a shared access signature has it.
fn of_azure(right: Right) -> (&'static str, &'static str) {
    match right {
        Right::List => ("list", "l"),
        Right::Read => ("read", "r"),
        // Parts that nobody puts together go by themselves.
        Right::Write | Right::Abort => ("write", "w"),
        Right::Delete => ("delete", "d"),
    }
}

/// A directory bucket knows one right only.
pub(super) fn is_directory(bucket: &str) -> bool {
    ["--x-s3", "--xa-s3"].iter().any(|end| bucket.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{Right, allow};
    use crate::location::Location;

    #[test]
    fn advice_is_in_the_words_of_the_store() {
        let both = &[Right::Read, Right::Write][..];
        for (url, rights, want) in [
            ("s3://b", both, "allow s3:GetObject and s3:PutObject"),
            ("s3://b--usw2-az1--x-s3", both, "allow s3express:CreateSession in the mode ReadWrite"),
            ("s3://b--usw2-az1--x-s3", &[Right::List], "allow s3express:CreateSession"),
            ("gs://b", &[Right::Abort, Right::Delete], "allow storage.objects.delete"),
            (
                "az://a/c",
                both,
                "allow to read and write: the role Storage Blob Data Contributor, or r and w of a shared \
                 access signature",
            ),
            (
                "az://a/c",
                &[Right::List],
                "allow to list: the role Storage Blob Data Reader, or l of a shared access signature",
            ),
            ("file:///d", both, "let this user read and write there"),
        ] {
            assert_eq!(allow(&Location::parse(url).unwrap(), rights), want);
        }
    }
}
