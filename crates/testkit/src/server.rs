//! A server process that never outlives the test, however the test ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// Even a thread that waits for a disk looks up before that.
const STANDS_STILL_WITHIN: Duration = Duration::from_secs(30);

/// Starts and kills the server on a word from its standard input, and cleans up at the end of it:
/// that end comes also when the test is killed, which no code of the test could notice.
const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1; shift
server=
end_server() {
    [ -z "$server" ] || { kill -KILL "$server"; wait "$server"; server=; } 2>/dev/null
}
while read -r word; do
    case $word in
    start) "$@" >>"$folder/log" 2>&1 & server=$!; echo "$server" ;;
    stop) end_server; echo 0 ;;
    esac
done
end_server
rm -rf --one-file-system "$folder"
"#;

/// A server, which may be running or not, and its folder.
#[derive(Debug)]
pub(crate) struct Server {
    // Its standard input takes the orders.
    keeper: Child,
    answers: BufReader<ChildStdout>,
    pid: Option<Pid>,
}

impl Server {
    /// A server that is not running yet. `folder` gets its log, and is removed at the end.
    pub(crate) fn new(command: &Command, folder: &Path) -> Server {
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(folder);
        keeper.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            keeper.env(name, value.expect("servers get no variable removed"));
        }
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = keeper.spawn().expect("there is a shell");
        let answers = BufReader::new(keeper.stdout.take().expect("asked for above"));
        Server { keeper, answers, pid: None }
    }

    /// Starts it; it may not be ready to serve yet.
    pub(crate) fn start(&mut self) {
        assert!(self.pid.is_none(), "started twice");
        self.pid = Pid::from_raw(self.order("start"));
    }

    /// Kills it and returns when it is gone.
    pub(crate) fn stop(&mut self) {
        self.order("stop");
        self.pid = None;
    }

    /// Whether the process runs; whether it serves is another question.
    pub(crate) fn is_alive(&self) -> bool {
        // A process that ended has no program any more, though its number stays until it is waited
        // for.
        let program = |pid: Pid| fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()));
        self.pid.is_some_and(|pid| program(pid).is_ok())
    }

    /// Freezes it: its connections stay open, and no answer comes.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        // The signal wakes one thread, which stops the others: on a busy machine these may serve a
        // few requests more.
        wait::until("every thread to stand still", STANDS_STILL_WITHIN, || self.stands_still());
    }

    fn stands_still(&self) -> bool {
        let pid = self.pid.expect("a server that is not running has no threads");
        let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
        threads.is_ok_and(|mut threads| {
            threads.all(|thread| thread.is_ok_and(|thread| is_stopped(&thread.path())))
        })
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid.expect("a server that is not running takes no signal");
        kill_process(pid, signal).expect("the keeper has not reaped it");
    }

    fn order(&mut self, word: &str) -> i32 {
        let orders = self.keeper.stdin.as_mut().expect("piped when it was started");
        writeln!(orders, "{word}").expect("the keeper lives as long as we do");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the keeper answers");
        answer.trim().parse().expect("the keeper answers with a number")
    }
}

/// Whether a thread is stopped by a signal. See `proc_pid_stat(5)`: the state is the word behind the
/// name, which stands in brackets and may have any character in it.
fn is_stopped(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
}

impl Drop for Server {
    fn drop(&mut self) {
        // Waiting ends its input first, at which it cleans up and goes.
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Server;
    use crate::Scratch;
    use crate::wait;

    const MANY_THREADS: &str = "
import threading, time
for _ in range(50):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
";

    #[test]
    fn a_frozen_server_stands_still_in_every_thread_and_a_thawed_one_goes_on() {
        let folder = Scratch::new();
        let mut command = Command::new("python3");
        command.args(["-c", MANY_THREADS]);
        let mut server = Server::new(&command, folder.path());
        server.start();
        let tasks = format!("/proc/{}/task", server.pid.unwrap().as_raw_nonzero());
        let threads = || std::fs::read_dir(&tasks).map_or(0, Iterator::count);
        wait::until("the threads", super::STANDS_STILL_WITHIN, || threads() == 51);
        assert!(!server.stands_still());
        server.freeze();
        assert!(server.stands_still());
        server.thaw();
        wait::until("it to go on", super::STANDS_STILL_WITHIN, || !server.stands_still());
        server.stop();
    }
}
