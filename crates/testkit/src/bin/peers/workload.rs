//! A way of reading that all clients are put through in turns, and what that came to.

use std::collections::HashMap;
use std::time::Duration;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::session::{Session, Step};
use crate::stage::{Road, Stage};

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
}

/// A figure of a step.
pub(crate) struct Figure {
    /// Which step it belongs to.
    pub(crate) step: String,
    pub(crate) what: String,
    pub(crate) better: Better,
    /// Takes it from what the step told.
    pub(crate) of: fn(&Numbers) -> Option<f64>,
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

/// What a figure is for one client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Never asked for.
    Nothing,
    Number(f64),
    Over(Duration),
    Failed(String),
}

/// A figure of all clients.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) better: Better,
    pub(crate) cells: Vec<(Client, Cell)>,
}

/// What a step took of a client and of the road to the store.
pub(crate) struct Cost {
    pub(crate) step: &'static str,
    pub(crate) costs: Vec<(Client, Numbers)>,
}

/// All that a workload came to.
pub(crate) struct Measured {
    pub(crate) title: String,
    pub(crate) road: Road,
    pub(crate) rows: Vec<Row>,
    pub(crate) costs: Vec<Cost>,
}

/// Seconds of what a step told in microseconds.
pub(crate) fn seconds(numbers: &Numbers) -> Option<f64> {
    numbers.get("micros").map(|micros| micros / 1e6)
}

/// Milliseconds of it.
pub(crate) fn milliseconds(numbers: &Numbers) -> Option<f64> {
    numbers.get("micros").map(|micros| micros / 1e3)
}

/// What came over the link, in MiB.
pub(crate) fn mib_fetched(numbers: &Numbers) -> Option<f64> {
    numbers.get("fetched").map(|bytes| bytes / 1_048_576.0)
}

/// A figure that is better when there is more of it.
pub(crate) fn more(step: &str, what: &str, of: fn(&Numbers) -> Option<f64>) -> Figure {
    Figure { step: step.to_owned(), what: what.to_owned(), better: Better::More, of }
}

/// A figure that is better when there is less of it.
pub(crate) fn less(step: &str, what: &str, of: fn(&Numbers) -> Option<f64>) -> Figure {
    Figure { step: step.to_owned(), what: what.to_owned(), better: Better::Less, of }
}

impl Workload {
    /// Puts every client through it, in turns, each time with nothing cached.
    pub(crate) fn measure(&self, stage: &Stage<'_>, turns: usize, say: impl Fn(&str)) -> Measured {
        let mut told = Told::default();
        for turn in 0..turns {
            for at in 0..self.clients.len() {
                // Each turn another one begins, so that no place in the line is always somebody's.
                let client = self.clients[(at + turn) % self.clients.len()];
                // Whoever takes too long once would do so again.
                if told.stopped(client).is_some() {
                    continue;
                }
                say(&format!("{}, turn {} of {turns}: {}", self.title, turn + 1, client.name()));
                let begun = Session::begin(client, stage, self.road, self.limit);
                let steps = begun.map(|mut session| {
                    // What stopped it is the last of its steps.
                    let _ = (self.play)(&mut session);
                    session.end()
                });
                told.add(client, steps, &say);
            }
        }
        Measured {
            title: self.title.clone(),
            road: self.road,
            rows: self.figures.iter().map(|figure| self.row(figure, &told)).collect(),
            costs: self.costs(&told),
        }
    }

    fn row(&self, figure: &Figure, told: &Told) -> Row {
        let cell = |client: Client| told.cell(client, figure);
        Row {
            what: figure.what.clone(),
            better: figure.better,
            cells: self.clients.iter().map(|&client| (client, cell(client))).collect(),
        }
    }

    fn costs(&self, told: &Told) -> Vec<Cost> {
        let cost = |step: &&'static str| {
            let costs = |&client: &Client| (client, told.medians(client, step));
            Cost { step, costs: self.clients.iter().map(costs).collect() }
        };
        self.costs.iter().map(cost).collect()
    }
}

/// What every step of every client told, turn by turn.
#[derive(Default)]
struct Told {
    turns: HashMap<(&'static str, String), Vec<Numbers>>,
    stops: HashMap<(&'static str, String), Stop>,
}

impl Told {
    fn add(&mut self, client: Client, steps: Result<Vec<Step>, Stop>, say: impl Fn(&str)) {
        let steps = match steps {
            Ok(steps) => steps,
            Err(stop) => vec![Step { name: String::new(), told: Err(stop) }],
        };
        for Step { name, told } in steps {
            let key = (client.name(), name);
            match told {
                Ok(numbers) => {
                    say(&format!("  {}: {numbers:?}", key.1));
                    self.turns.entry(key).or_default().push(numbers);
                }
                Err(stop) => {
                    say(&format!("  {}: {stop:?}", key.1));
                    self.stops.insert(key, stop);
                }
            }
        }
    }

    /// Why a client was not asked again, if it took too long or could not even be mounted.
    fn stopped(&self, client: Client) -> Option<&Stop> {
        let mut stops = self.stops.iter().filter(|((name, _), _)| *name == client.name());
        stops.find_map(|((_, step), stop)| match stop {
            Stop::Over(_) => Some(stop),
            Stop::Failed(_) => step.is_empty().then_some(stop),
        })
    }

    fn cell(&self, client: Client, figure: &Figure) -> Cell {
        let of_step = |step: &str| self.stops.get(&(client.name(), step.to_owned()));
        match of_step(&figure.step).or_else(|| of_step("")) {
            Some(Stop::Over(limit)) => return Cell::Over(*limit),
            Some(Stop::Failed(why)) => return Cell::Failed(why.clone()),
            None => {}
        }
        let turns = self.turns.get(&(client.name(), figure.step.clone()));
        let values: Vec<f64> = turns.into_iter().flatten().filter_map(figure.of).collect();
        median(values).map_or(Cell::Nothing, Cell::Number)
    }

    fn medians(&self, client: Client, step: &str) -> Numbers {
        let turns = self.turns.get(&(client.name(), step.to_owned()));
        let turns: Vec<&Numbers> = turns.into_iter().flatten().collect();
        let names = turns.first().into_iter().flat_map(|numbers| numbers.keys());
        let of = |name: &String| {
            let values = turns.iter().filter_map(|numbers| numbers.get(name).copied()).collect();
            median(values).map(|value| (name.clone(), value))
        };
        names.filter_map(of).collect()
    }
}

/// The middle of what was measured.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
