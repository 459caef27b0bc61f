//! Bytes in and out: what to move, in which order, how much at a time.
//!
//! A [`Download`] brings the bytes of one file version into the store as they are read, each range
//! once. An [`Uploader`] brings a sealed version to the object store. Neither knows names.

mod ahead;
mod alone;
mod bandwidth;
mod begun;
mod buffers;
mod download;
mod error;
mod falls;
mod fetch;
mod flight;
mod habit;
mod kept;
mod manners;
mod parts;
mod plan;
mod readahead;
mod reads;
mod schedule;
mod tuned;
mod unfinished;
mod upload;
mod upload_log;

pub use ahead::Making;
pub use bandwidth::Bandwidth;
pub use begun::{Begun, Early};
pub use download::Download;
pub use error::{Error, Result};
pub use kept::KeptJob;
pub use parts::Grid;
pub use schedule::{Fetcher, FetcherOptions};
pub use tuned::Tuned;
pub use upload::{UploadJob, Uploader, UploaderOptions};
pub use upload_log::UploadLog;
