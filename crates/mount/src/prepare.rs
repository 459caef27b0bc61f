//! The time before a mount answers: its bucket is reached, and uploads that an earlier mount left are finished.
//!
//! That takes as long as the uploads do. The caller is told of them, so that a service manager waits on, and a request to
//! end is followed: the files stay in the state folder for the next mount.

use std::time::Duration;

use crate::assemble::{self, Assembled, Common};
use crate::config::Config;
use crate::error::Error;
use crate::notice::Notice;
use crate::signals::{Requests, Wanted};
use crate::waiting;
use crate::writes::Company;

/// How often the caller is told how many files are left.
const REPORT_DELAY: Duration = Duration::from_secs(30);

/// The outcome of the time before a mount answers.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// The bucket can be served.
    Ready(Box<Assembled>),
    /// A signal asked for the end before there was anything to unmount or to upload.
    Ended,
}

/// Assembles the layers of the one bucket of `config`. Calls `tell` with the number of files that are left, when their uploads
/// begin and each 30 s after that.
pub(crate) async fn prepare(
    config: &Config,
    common: &Common,
    (requests, notices): (&Requests, &mut Vec<Notice>),
    mut tell: impl FnMut(u64),
) -> Result<Prepared, Error> {
    let mut left_over = common.left_over.subscribe();
    let assembling = assemble::assemble((config, Company::Alone), common.clone(), notices);
    let mut assembling = std::pin::pin!(assembling);
    let mut ending = std::pin::pin!(requests.wanted(Wanted::Orderly));
    let mut is_told = false;
    loop {
        let begins = async {
            // The sender lives in `common`.
            let _ = left_over.wait_for(|files| 0 < *files).await;
        };
        tokio::select! {
            biased;
            assembled = &mut assembling => return assembled.map(Box::new).map(Prepared::Ready),
            () = &mut ending => return ended(config, *common.left_over.borrow()),
            () = begins, if !is_told => is_told = true,
            () = common.clock.sleep(REPORT_DELAY), if is_told => {}
        }
        let files = *common.left_over.borrow();
        if 0 < files {
            tracing::info!(files, "uploading files left over from an earlier mount");
            tell(files);
        }
    }
}

/// An end with `files` left over. Before their uploads begin none is counted yet: then those in the state folder are.
fn ended(config: &Config, files: u64) -> Result<Prepared, Error> {
    let files = if files == 0 {
        waiting::left(&config.state_dir, Some(config))?.waiting.len() as u64
    } else {
        files
    };
    tracing::info!(files, "asked to end before the mount answered");
    if files == 0 {
        return Ok(Prepared::Ended);
    }
    let files_word = if files == 1 { "file" } else { "files" };
    Err(Error::NotUploaded {
        what: format!("{files} {files_word} left over from an earlier mount"),
        location: config.location.clone(),
        dir: config.state_dir.clone(),
    })
}
