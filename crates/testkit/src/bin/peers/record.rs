//! What was measured, a line for each turn of each client, in a file that outlives an interrupted run.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::limited::{Numbers, Stop};

/// What one step came to. Beside what its program told: `cpu` seconds and `peak` MiB of the client,
/// `requests` and `fetched` bytes where there is a link to count them.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Nothing where it could not even be mounted.
    pub(crate) name: String,
    pub(crate) told: Result<Numbers, Stop>,
}

/// What one client told of one workload, once.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Counts the runs of the program.
    run: u64,
    workload: String,
    pub(crate) client: Client,
    pub(crate) steps: Vec<Step>,
}

/// All that is known, from this run and from earlier ones.
pub(crate) struct Records {
    file: File,
    run: u64,
    turns: Vec<Turn>,
}

impl Records {
    /// Those in a file, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> Records {
        let text = fs::read_to_string(path).unwrap_or_default();
        // A line that was being written when the program was ended says nothing.
        let turns: Vec<Turn> = text.lines().filter_map(turn).collect();
        let run = 1 + turns.iter().map(|turn| turn.run).max().unwrap_or(0);
        let file = OpenOptions::new().append(true).create(true).open(path);
        let mut file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(file).expect("the disk takes a line");
        }
        Records { file, run, turns }
    }

    /// Keeps another one, at once on the disk.
    pub(crate) fn add(&mut self, workload: &str, client: Client, steps: Vec<Step>) {
        let turn = Turn { run: self.run, workload: workload.to_owned(), client, steps };
        writeln!(self.file, "{}", line(&turn)).expect("the disk takes a line");
        self.turns.push(turn);
    }

    /// What the last run that measured a workload came to: only what was measured side by side is compared.
    pub(crate) fn of(&self, workload: &str) -> Vec<&Turn> {
        let all = || self.turns.iter().filter(|turn| turn.workload == workload);
        let last = all().map(|turn| turn.run).max();
        all().filter(|turn| Some(turn.run) == last).collect()
    }
}

fn line(turn: &Turn) -> Value {
    let steps: Vec<Value> = turn.steps.iter().map(step_line).collect();
    json!({
        "run": turn.run, "workload": turn.workload, "client": turn.client.name(), "steps": steps,
    })
}

fn step_line(step: &Step) -> Value {
    match &step.told {
        Ok(numbers) => json!({"step": step.name, "told": numbers}),
        Err(Stop::Over(limit)) => json!({"step": step.name, "over": limit.as_secs()}),
        Err(Stop::Failed(why)) => json!({"step": step.name, "failed": why}),
    }
}

fn turn(line: &str) -> Option<Turn> {
    let line: Value = serde_json::from_str(line).ok()?;
    let client = Client::named(line["client"].as_str()?)?;
    let steps: Option<Vec<Step>> = line["steps"].as_array()?.iter().map(step).collect();
    let (run, workload) = (line["run"].as_u64()?, line["workload"].as_str()?.to_owned());
    Some(Turn { run, workload, client, steps: steps? })
}

fn step(line: &Value) -> Option<Step> {
    let name = line["step"].as_str()?.to_owned();
    let told = if let Some(seconds) = line["over"].as_u64() {
        Err(Stop::Over(Duration::from_secs(seconds)))
    } else if let Some(why) = line["failed"].as_str() {
        Err(Stop::Failed(why.to_owned()))
    } else {
        let numbers = line["told"].as_object()?.iter();
        Ok(numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect())
    };
    Some(Step { name, told })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::time::Duration;

    use super::{Records, Step};
    use crate::client::Client;
    use crate::limited::{Numbers, Stop};

    fn steps(micros: f64) -> Vec<Step> {
        let numbers = Numbers::from([("micros".to_owned(), micros)]);
        vec![
            Step { name: "cold".into(), told: Ok(numbers) },
            Step { name: "again".into(), told: Err(Stop::Over(Duration::from_secs(7))) },
            Step { name: "more".into(), told: Err(Stop::Failed("why".into())) },
        ]
    }

    #[test]
    fn the_last_run_of_each_workload_is_what_counts_and_a_torn_line_is_none() {
        let folder = testkit::Scratch::new();
        let path = folder.path().join("records");
        let mut first = Records::open(&path);
        first.add("a", Client::Local, steps(1.0));
        first.add("b", Client::Quayfs, steps(2.0));
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        write!(torn, r#"{{"run": 1, "workload": "b""#).unwrap();
        let mut second = Records::open(&path);
        second.add("a", Client::Quayfs, steps(3.0));

        let records = Records::open(&path);
        let told = |workload: &str| -> Vec<(Client, String)> {
            let turns = records.of(workload);
            turns.iter().map(|turn| (turn.client, format!("{:?}", turn.steps))).collect()
        };
        assert_eq!(told("a"), [(Client::Quayfs, format!("{:?}", steps(3.0)))]);
        assert_eq!(told("b"), [(Client::Quayfs, format!("{:?}", steps(2.0)))]);
    }
}
