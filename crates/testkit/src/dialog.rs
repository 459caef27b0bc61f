//! A program that answers one JSON request a line, and ends when nobody asks any more.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::place::python;

/// A running script of `py/`.
#[derive(Debug)]
pub(crate) struct Dialog {
    // Its standard input takes the requests.
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Dialog {
    /// The command that runs `script`, to be completed and given to [`new`](Dialog::new).
    pub(crate) fn command(script: &str) -> Command {
        let mut command = Command::new(python());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(script));
        command
    }

    pub(crate) fn new(mut command: Command) -> Dialog {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.expect("there is a Python, see above");
        let answers = BufReader::new(process.stdout.take().expect("asked for above"));
        Dialog { process, answers }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        let requests = self.process.stdin.as_mut().expect("piped when it was started");
        writeln!(requests, "{request}").expect("the script lives");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the script answers");
        serde_json::from_str(&answer).expect("the script speaks JSON")
    }
}

impl Drop for Dialog {
    fn drop(&mut self) {
        // Waiting ends its input first, and with it the process.
        let _ = self.process.wait();
    }
}
