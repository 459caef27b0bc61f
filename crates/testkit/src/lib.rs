//! What the big tests share: real servers, real mounts, slow links, other people's clients, and
//! checks on our own source.

mod aio;
mod bucket;
mod clouds;
mod command;
mod containers;
mod dialog;
mod disk;
mod faults;
mod files;
mod forgetful;
mod frozen;
mod keeper_lock;
pub mod layers;
mod link;
mod login;
mod machine;
mod map;
mod minio;
mod moto;
mod mount;
mod nextflow;
mod noise;
mod parrot;
mod place;
pub mod posix;
mod program;
mod promises;
mod server;
mod tls;
pub mod wait;

pub use aio::AsyncWrites;
pub use bucket::{Bucket, Object};
pub use clouds::{Cloud, Emulator};
pub use command::{Finished, run, text};
pub use containers::Containers;
pub use disk::SmallDisk;
pub use faults::{Fault, Faults, Weather};
pub use files::{
    append, close, copy_program, forget_pages, overwrite, read_at, same_trees, sha256_tree,
    write_new, write_program,
};
pub use forgetful::ForgetfulDisk;
pub use link::{Shape, SlowLink};
pub use login::Login;
pub use machine::{machine, memory_bytes};
pub use map::SharedMap;
pub use minio::MinIo;
pub use moto::Moto;
pub use mount::{Attempt, Mount, Plan, mounted_at};
pub use nextflow::{nextflow, nextflow_of_buckets};
pub use noise::noise;
pub use parrot::Parrot;
pub use place::{
    Scratch, dev_dir, engine, is_long, long_runs, python, quayfs, ring_wish, root_folder, tool,
};
pub use program::{Opening, Program};
pub use promises::{Account, Moves, Writer};
pub use tls::Tls;
