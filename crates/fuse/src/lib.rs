//! The kernel's side, over `fuser`; knows nothing of files' meaning.
//!
//! A [`Service`] answers [`Request`]s with [`Reply`]s. Everything else, the wire, threads, panics,
//! counters, mounting, is here, so that another transport can take `fuser`'s place.

mod service;

pub use service::{
    Access, Answer, Caller, DirEntry, OpenReply, Reply, Request, Service, SetTime, Statfs,
};
