//! A way of reading that all clients are put through in turns.

use std::collections::HashMap;
use std::time::Duration;

use testkit::wait;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::record::{Records, Step};
use crate::session::{Session, Told};
use crate::stage::{Road, Stage};

/// A peer that has taken so long in a workload has had its turns: it is they who are slow, and the run has
/// to end. Who quayfs is held against by its targets has all turns.
const PEER_TIME: Duration = Duration::from_secs(10);

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
}

/// Takes a figure from what a step told.
pub(crate) type Of = fn(&Numbers) -> Option<f64>;

/// A figure of a step.
pub(crate) struct Figure {
    /// Which step it belongs to.
    pub(crate) step: String,
    pub(crate) what: String,
    pub(crate) better: Better,
    pub(crate) of: Of,
}

/// What is done, by whom, and what counts of it.
pub(crate) struct Workload {
    pub(crate) title: String,
    pub(crate) road: Road,
    /// The longest that a step may take.
    pub(crate) limit: Duration,
    pub(crate) clients: Vec<Client>,
    pub(crate) figures: Vec<Figure>,
    /// The steps of which it is told what they took.
    pub(crate) costs: &'static [&'static str],
    pub(crate) play: Play,
}

/// Reads through a client that was just mounted.
pub(crate) type Play = Box<dyn Fn(&mut Session<'_>) -> Result<(), Stop>>;

/// Seconds of what a step told in microseconds.
pub(crate) fn seconds(numbers: &Numbers) -> Option<f64> {
    numbers.get("micros").map(|micros| micros / 1e6)
}

/// Milliseconds of it.
pub(crate) fn milliseconds(numbers: &Numbers) -> Option<f64> {
    numbers.get("micros").map(|micros| micros / 1e3)
}

/// Files or reads a second.
pub(crate) fn per_second(numbers: &Numbers) -> Option<f64> {
    Some(numbers.get("count")? / seconds(numbers)?)
}

/// What was read, in MiB a second.
pub(crate) fn mib_per_second(numbers: &Numbers) -> Option<f64> {
    Some(numbers.get("bytes")? / 1_048_576.0 / seconds(numbers)?)
}

/// What came over the link, in MiB.
pub(crate) fn mib_fetched(numbers: &Numbers) -> Option<f64> {
    numbers.get("fetched").map(|bytes| bytes / 1_048_576.0)
}

/// A figure that is better when there is more of it.
pub(crate) fn more(step: &str, what: &str, of: Of) -> Figure {
    Figure { step: step.to_owned(), what: what.to_owned(), better: Better::More, of }
}

/// A figure that is better when there is less of it.
pub(crate) fn less(step: &str, what: &str, of: Of) -> Figure {
    Figure { step: step.to_owned(), what: what.to_owned(), better: Better::Less, of }
}

impl Workload {
    /// What it is called among all.
    pub(crate) fn name(&self) -> String {
        format!("{} ({})", self.title, self.road.name())
    }

    /// Puts every client through it, in turns, each time with nothing cached.
    pub(crate) fn measure(
        &self,
        stage: &Stage<'_>,
        turns: usize,
        records: &mut Records,
        say: impl Fn(&str),
    ) {
        let mut took: HashMap<Client, Duration> = HashMap::new();
        let mut stopped: Vec<Client> = Vec::new();
        for turn in 0..turns {
            for at in 0..self.clients.len() {
                // Each turn another one begins, so that no place in the line is always somebody's.
                let client = self.clients[(at + turn) % self.clients.len()];
                let before = took.get(&client).copied().unwrap_or_default();
                if stopped.contains(&client) || !has_another_turn(client, before) {
                    continue;
                }
                say(&format!("{}, turn {} of {turns}: {}", self.name(), turn + 1, client.name()));
                let (Told { steps, local }, time) = wait::timed(|| self.turn(client, stage));
                for Step { name, told } in steps.iter().chain(&local) {
                    say(&format!("  {name}: {told:?}"));
                }
                // Whoever takes too long once would do so again.
                if steps.iter().any(is_final) {
                    stopped.push(client);
                }
                took.insert(client, before + time);
                records.add(&self.name(), client, steps);
                if !local.is_empty() {
                    records.add(&self.name(), Client::Local, local);
                }
            }
        }
        for (client, took) in took {
            say(&format!("  {}: {:.0} s in all", client.name(), took.as_secs_f64()));
        }
    }

    fn turn(&self, client: Client, stage: &Stage<'_>) -> Told {
        match Session::begin(client, stage, self.road, self.limit) {
            Ok(mut session) => {
                // What stopped it is the last of its steps.
                let _ = (self.play)(&mut session);
                session.end()
            }
            Err(stop) => {
                let steps = vec![Step { name: String::new(), told: Err(stop) }];
                Told { steps, local: Vec::new() }
            }
        }
    }
}

fn has_another_turn(client: Client, took: Duration) -> bool {
    !client.is_peer() || took < PEER_TIME
}

/// Whether a client is not asked again: it took too long, or could not even be mounted.
fn is_final(step: &Step) -> bool {
    match &step.told {
        Ok(_) => false,
        Err(Stop::Over(_)) => true,
        Err(Stop::Failed(_)) => step.name.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::has_another_turn;
    use crate::client::Client;

    #[test]
    fn only_peers_that_are_slow_have_fewer_turns() {
        let (short, long) = (Duration::from_secs(3), Duration::from_mins(3));
        assert!(has_another_turn(Client::S3fs, short));
        assert!(!has_another_turn(Client::S3fs, long));
        assert!(
            [Client::Local, Client::Raw, Client::Quayfs].iter().all(|&c| has_another_turn(c, long))
        );
    }
}
