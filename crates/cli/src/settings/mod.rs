//! What can be set, by whom, and what comes of it.
//!
//! ```text
//!   flags ──▶ table: the names        files, variables, command line
//!                 │                              │
//!                 └──▶ file, environment, given ─┴─▶ merge ─▶ resolve ─▶ Settings ─▶ config
//! ```
//!
//! A command says which flags it takes by [`Flags`], and gets all settings from [`Sources`], also those
//! that it has no flag for. To add a setting, add a field to a struct in `flags`.

mod azure_file;
mod bounds;
mod config;
mod credentials;
mod effect;
mod environment;
mod file;
mod flags;
mod given;
mod ids;
mod merge;
mod nearest;
mod options;
mod profile;
mod resolve;
mod secrecy;
mod state_dir;
mod table;
mod terms;
mod words;

pub(crate) use bounds::between;
pub(crate) use config::{config, limits, log};
pub(crate) use effect::{check_late, of_one_bucket, without_right};
pub(crate) use flags::{ReachSettings, Settings, StateSettings};
pub(crate) use given::Flags;
pub(crate) use merge::{Given, Origin};
pub(crate) use options::Unknown;
pub(crate) use resolve::{Resolved, Sources};
pub(crate) use secrecy::exposed;
pub(crate) use state_dir::{make_state_dir, safe_state_dir, state_dir};
pub(crate) use table::{Default, Setting, all, is_off};
