//! What a writer was promised, and whether it was kept.
//!
//! The writer is a process of its own that changes files of a mount, all the time and in many ways,
//! and writes down beside the mount what it is about to do and when it was told that it is done. It
//! goes on until it gets an error, which is when the mount dies under it. What must be in the bucket
//! then follows from the journal alone: each path as it was promised last, or as the one thing that
//! was being done to it would have made it.

mod account;

pub use account::{Account, Moves};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::place::{Scratch, clean_env, python};
use crate::wait;

const END_WITHIN: Duration = Duration::from_mins(2);

/// The writer, at work.
#[derive(Debug)]
pub struct Writer {
    process: Child,
    account: Account,
    folder: Scratch,
}

impl Writer {
    /// Starts as many workers on the mounted `folder`, which holds what `account` says.
    pub fn start(folder: &Path, account: Account, seed: u64, workers: u32) -> Writer {
        let place = Scratch::new();
        let (journal, state) = (journal(&place), place.path().join("state"));
        fs::write(&journal, "").expect("the scratch disk takes a file");
        let known = serde_json::to_string(account.promised()).expect("paths and sums are text");
        fs::write(&state, known).expect("the scratch disk takes a file");
        let mut command = Command::new(python());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py/promises.py"));
        command.args([folder, &journal, &state]).args([seed.to_string(), workers.to_string()]);
        command.env_clear().envs(clean_env()).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("there is a Python, see above");
        Writer { process, account, folder: place }
    }

    /// How much it has written down so far.
    pub fn lines(&self) -> usize {
        let text = fs::read_to_string(journal(&self.folder)).expect("made above");
        text.lines().count()
    }

    /// Waits for its end, which somebody else brings about, and reads what it wrote down.
    pub fn end(mut self) -> Account {
        let ended = wait::try_until_some(END_WITHIN, || self.process.try_wait().expect("ours"));
        if ended.is_none() {
            self.process.kill().expect("ours");
            panic!("the writer hangs in a mount that is dead");
        }
        let text = fs::read_to_string(journal(&self.folder)).expect("made above");
        self.account.read(&text);
        std::mem::take(&mut self.account)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn journal(folder: &Scratch) -> PathBuf {
    folder.path().join("journal")
}
