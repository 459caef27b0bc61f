//! A server process that never outlives the test, however the test ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::Pid;

use crate::frozen::{freeze, thaw};
use crate::keeper_lock;

/// Starts and kills the server on a word from its standard input, and cleans up at the end of it:
/// that end comes also when the test is killed, which no code of the test could notice.
const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1; kept=$2; shift 2
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
rm -rf --one-file-system "$folder" && rm -f "$kept"
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
        keeper_lock::remove_abandoned(folder);
        keeper.args(["-c", KEEPER, "keeper"]).arg(folder).arg(keeper_lock::path(folder));
        keeper.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            keeper.env(name, value.expect("servers get no variable removed"));
        }
        // It holds the lock as what it complains to, which the server does not inherit.
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(keeper_lock::take(folder));
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
        freeze(self.running());
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        thaw(self.running());
    }

    fn running(&self) -> Pid {
        self.pid.expect("a server that is not running has no threads")
    }

    fn order(&mut self, word: &str) -> i32 {
        let orders = self.keeper.stdin.as_mut().expect("piped when it was started");
        writeln!(orders, "{word}").expect("the keeper lives as long as we do");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the keeper answers");
        answer.trim().parse().expect("the keeper answers with a number")
    }
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

    use rustix::process::{Pid, Signal, kill_process};

    use super::Server;
    use crate::frozen::{STANDS_STILL_WITHIN, stands_still};
    use crate::{Scratch, keeper_lock, wait};

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
        wait::until("the threads", STANDS_STILL_WITHIN, || threads() == 51);
        assert!(!stands_still(server.running()));
        server.freeze();
        assert!(stands_still(server.running()));
        server.thaw();
        wait::until("it to go on", STANDS_STILL_WITHIN, || !stands_still(server.running()));
        server.stop();
    }
    #[test]
    fn a_folder_whose_keeper_was_killed_goes_with_the_next_server_and_no_other_does() {
        let place = Scratch::new();
        let (command, names) = (Command::new("true"), ["quayfs-1", "quayfs-2", "quayfs-3"]);
        let [killed, living, next] = names.map(|name| place.folder(name));
        let mut server = Server::new(&command, &killed);
        let _living = Server::new(&command, &living);
        std::fs::create_dir(killed.join("data")).unwrap();
        kill_process(Pid::from_child(&server.keeper), Signal::KILL).unwrap();
        server.keeper.wait().unwrap();
        assert!(killed.join("data").is_dir() && keeper_lock::path(&killed).exists());

        let server = Server::new(&command, &next);
        assert!(!killed.exists() && !keeper_lock::path(&killed).exists());
        assert!(living.is_dir());
        drop(server);
        assert!(!next.exists() && !keeper_lock::path(&next).exists());
    }
}
