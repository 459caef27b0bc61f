//! Where a bucket takes changes: everywhere, nowhere, or in some folders, as credentials for a prefix have it.

use std::sync::Arc;

use namespace::{Refusal, Top, TryWrite};
use remote::{Condition, ErrorKind, Key, Learned, PutOptions, Remote, Result};

use crate::config::Changes;
use crate::knowledge::{Knowledge, keeps_conditions};
use crate::notice::Notice;

/// What a bucket is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// A mount of its own: it must be good for what was asked for.
    Alone,
    /// A mount of all buckets, each of which is good for what its credentials may do in it.
    AllBuckets,
    /// None: what mounts of either kind left is finished.
    Nobody,
}

/// Where a bucket takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// At its top, and so everywhere.
    Everywhere,
    /// Perhaps in some folders, which are tried when something is to be changed there.
    InPlaces(Refusal),
    /// Nowhere, or nobody wants to make any.
    Nowhere,
}

impl Writes {
    /// Whether it takes any, as far as is known.
    pub(crate) fn changes(self) -> Changes {
        match self {
            Writes::Everywhere | Writes::InPlaces(_) => Changes::Allowed,
            Writes::Nowhere => Changes::Refused,
        }
    }
}

/// Tries whether the top takes changes.
pub(crate) async fn check(
    (wanted, company, top): (Changes, Company, Top),
    remote: &dyn Remote,
    knowledge: &Knowledge,
    notices: &mut Vec<Notice>,
) -> Result<Writes> {
    if wanted == Changes::Refused {
        return Ok(Writes::Nowhere);
    }
    if top == Top::OnTheWay {
        // Who may not look may not write.
        return Ok(Writes::InPlaces(Refusal::Unknown));
    }
    match try_write(remote, &Key::from(""), knowledge.learned()).await {
        Ok(()) => {
            knowledge.keep();
            if !knowledge.keeps_conditions() {
                notices.push(Notice::Unconditional);
            }
            Ok(Writes::Everywhere)
        }
        Err(error) if error.kind == ErrorKind::Denied => match company {
            Company::Alone => {
                notices.push(Notice::ReadOnly(error.to_string()));
                Ok(Writes::Nowhere)
            }
            // A mount of all buckets may have left something in folders that take changes.
            Company::AllBuckets | Company::Nobody => {
                tracing::info!(%error, "changes are tried in each folder");
                Ok(Writes::InPlaces(Refusal::Known))
            }
        },
        Err(error) => Err(error),
    }
}

/// What tries whether a folder takes changes, for who wants to make some there.
pub(crate) fn trying(remote: Arc<dyn Remote>, knowledge: &Knowledge) -> TryWrite {
    let learned = Arc::clone(knowledge.learned());
    Box::new(move |prefix| {
        let (remote, learned) = (Arc::clone(&remote), Arc::clone(&learned));
        Box::pin(async move {
            try_write(remote.as_ref(), &prefix, &learned).await?;
            if !keeps_conditions(&learned) {
                tracing::warn!("the store lets the objects of others be replaced by mistake");
            }
            Ok(())
        })
    })
}

/// Begins an upload below `prefix` and forgets it: that needs the permission to write and leaves nothing behind.
/// With it is found out, where that is not known, whether the store keeps to conditions.
async fn try_write(remote: &dyn Remote, prefix: &Key, learned: &Learned) -> Result<()> {
    let key = prefix.join(b".quayfs-write-check");
    let options = PutOptions { condition: Condition::Always, metadata: remote::Metadata::new() };
    let upload = remote.upload_create(&key, &options).await?;
    remote::probe(remote, &key, &upload, learned).await;
    match remote.upload_abort(&key, &upload).await {
        // Who may write and not abort leaves it unseen, as each upload that is broken off.
        Err(error) if error.is_refusal() => {
            tracing::warn!(%error, "uploads that are broken off stay in the bucket");
            Ok(())
        }
        aborted => aborted,
    }
}
