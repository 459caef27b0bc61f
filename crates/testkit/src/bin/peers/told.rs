//! What the turns of a workload come to: the middle of each figure, and what it took.

use std::collections::HashMap;
use std::time::Duration;

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::record::Turn;
use crate::stage::Road;
use crate::workload::{Better, Figure, Workload};

/// What a figure is for one client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Never asked for.
    Nothing,
    Number(f64),
    /// What it was when the time was over, with more to do.
    Cut(f64),
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
    pub(crate) turns: Vec<(Client, usize)>,
    pub(crate) rows: Vec<Row>,
    pub(crate) costs: Vec<Cost>,
    /// The most memory that quayfs had in any turn, in MiB.
    pub(crate) peak_mib: f64,
}

impl Cell {
    /// The figure, if there is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(value) | Cell::Cut(value) => Some(*value),
            Cell::Nothing | Cell::Over(_) | Cell::Failed(_) => None,
        }
    }
}

impl Row {
    /// Without a link, nobody has a count of what came over it.
    fn says_something(&self) -> bool {
        self.cells.iter().any(|(_, cell)| *cell != Cell::Nothing)
    }
}

/// What `turns` of `workload` came to.
pub(crate) fn measured(workload: &Workload, turns: &[&Turn]) -> Measured {
    let told = Told::of(turns);
    let count = |client: &Client| turns.iter().filter(|turn| turn.client == *client).count();
    let clients: Vec<Client> = Client::ALL.into_iter().filter(|client| 0 < count(client)).collect();
    let row = |figure: &Figure| Row {
        what: figure.what.clone(),
        better: figure.better,
        cells: clients.iter().map(|&client| (client, told.cell(client, figure))).collect(),
    };
    let cost = |step: &&'static str| Cost {
        step,
        costs: clients.iter().map(|&client| (client, told.medians(client, step))).collect(),
    };
    Measured {
        title: workload.title.clone(),
        road: workload.road,
        turns: clients.iter().map(|client| (*client, count(client))).collect(),
        rows: workload.figures.iter().map(row).filter(Row::says_something).collect(),
        costs: workload.costs.iter().map(cost).collect(),
        peak_mib: told.peak_mib(Client::Quayfs),
    }
}

/// What every step of every client told, turn by turn.
#[derive(Default)]
struct Told {
    turns: HashMap<(Client, String), Vec<Numbers>>,
    stops: HashMap<(Client, String), Stop>,
}

impl Told {
    fn of(turns: &[&Turn]) -> Told {
        let mut all = Told::default();
        for turn in turns {
            for step in &turn.steps {
                let key = (turn.client, step.name.clone());
                match &step.told {
                    Ok(numbers) => all.turns.entry(key).or_default().push(numbers.clone()),
                    Err(stop) => drop(all.stops.insert(key, stop.clone())),
                }
            }
        }
        all
    }

    fn cell(&self, client: Client, figure: &Figure) -> Cell {
        let stopped = |step: &str| self.stops.get(&(client, step.to_owned()));
        match stopped(&figure.step).or_else(|| stopped("")) {
            Some(Stop::Over(limit)) => return Cell::Over(*limit),
            Some(Stop::Failed(why)) => return Cell::Failed(why.clone()),
            None => {}
        }
        let turns = self.turns.get(&(client, figure.step.clone()));
        let is_cut = turns.into_iter().flatten().any(|numbers| numbers.contains_key("cut"));
        let values = turns.into_iter().flatten().filter_map(figure.of).collect();
        match median(values) {
            None => Cell::Nothing,
            Some(value) if is_cut => Cell::Cut(value),
            Some(value) => Cell::Number(value),
        }
    }

    fn medians(&self, client: Client, step: &str) -> Numbers {
        let turns = self.turns.get(&(client, step.to_owned()));
        let turns: Vec<&Numbers> = turns.into_iter().flatten().collect();
        let names = turns.first().into_iter().flat_map(|numbers| numbers.keys());
        let of = |name: &String| {
            let values = turns.iter().filter_map(|numbers| numbers.get(name).copied()).collect();
            median(values).map(|value| (name.clone(), value))
        };
        names.filter_map(of).collect()
    }

    fn peak_mib(&self, wanted: Client) -> f64 {
        let of_client = self.turns.iter().filter(|((client, _), _)| *client == wanted);
        let peaks = of_client.flat_map(|(_, turns)| turns).filter_map(|told| told.get("peak"));
        peaks.copied().fold(0.0, f64::max)
    }
}

/// The middle of what was measured.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
