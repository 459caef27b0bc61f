//! A program that has so much time, and the numbers it prints.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::{text, wait};

/// Figures by their names.
pub(crate) type Numbers = BTreeMap<String, f64>;

/// Why there are no numbers.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// It took longer than it may.
    Over(Duration),
    /// It failed, and said why.
    Failed(String),
}

/// Runs `command` to its end or to that of its time. `give_up` makes the reads fail that it hangs in.
pub(crate) fn run_limited(
    command: &mut Command,
    limit: Duration,
    give_up: impl FnOnce(),
) -> Result<Numbers, Stop> {
    let mut stdout = tempfile::tempfile().expect("the temporary folder takes a file");
    let mut stderr = tempfile::tempfile().expect("the temporary folder takes a file");
    let held_twice = |file: &File| file.try_clone().expect("a file can be held twice");
    command.stdin(Stdio::null()).stdout(held_twice(&stdout)).stderr(held_twice(&stderr));
    // Of its own, to end with what it has started.
    command.process_group(0);
    let spawned = command.spawn();
    let mut child = spawned.map_err(|error| Stop::Failed(format!("{command:?}: {error}")))?;
    let status = wait::try_until_some(limit, || child.try_wait().expect("the child is ours"));
    let Some(status) = status else {
        kill_group(&child);
        give_up();
        let _ = child.wait();
        return Err(Stop::Over(limit));
    };
    if !status.success() {
        let said = text(&mut stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word");
        return Err(Stop::Failed(format!("{status}: {last}")));
    }
    numbers(&text(&mut stdout)).map_err(Stop::Failed)
}

fn kill_group(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Lines of a name and a number, or one number, which is microseconds, or what fio prints.
fn numbers(text: &str) -> Result<Numbers, String> {
    if let Some(start) = text.find('{') {
        let told: serde_json::Value =
            serde_json::from_str(&text[start..]).map_err(|error| error.to_string())?;
        let rate = told["jobs"][0]["read"]["bw_bytes"].as_f64();
        let rate = rate.ok_or("fio told no rate")?;
        return Ok(Numbers::from([("rate".to_owned(), rate)]));
    }
    text.lines()
        .map(|line| {
            let (name, number) = line.split_once(' ').unwrap_or(("micros", line));
            let number = number.trim().parse().map_err(|_| format!("no number: {line}"))?;
            Ok((name.to_owned(), number))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Numbers, numbers};

    #[test]
    fn numbers_come_as_lines_as_one_and_from_fio() {
        let wanted = |name: &str, number| Numbers::from([(name.to_owned(), number)]);
        let mut lines = wanted("micros", 12.0);
        lines.extend(wanted("p50", 3.0));
        assert_eq!(numbers("micros 12\np50 3\n"), Ok(lines));
        assert_eq!(numbers("1500\n"), Ok(wanted("micros", 1500.0)));
        let fio = "note\n{\"jobs\": [{\"read\": {\"bw_bytes\": 7}}]}";
        assert_eq!(numbers(fio), Ok(wanted("rate", 7.0)));
        assert!(numbers("neither").is_err());
    }
}
