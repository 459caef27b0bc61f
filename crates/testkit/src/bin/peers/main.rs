//! Measures reads through quayfs side by side with other file systems over one store.
//!
//! `quayfs-bench-peers PAGE [CHAPTER...]` writes the page and a plot for each chapter beside it; chapters
//! are those of [`work::CHAPTERS`]. `QUAYFS_BENCH_TURNS` is how many times everything is measured, 5 if it
//! is not set; `QUAYFS_BENCH_CLIENTS` names those that are wanted, all if it is not set.

mod client;
mod digits;
mod limited;
mod mounted;
mod page;
mod plot;
mod session;
mod stage;
mod work;
mod workload;

use std::path::PathBuf;

use testkit::MinIo;

use crate::client::Client;
use crate::stage::Stage;
use crate::work::CHAPTERS;
use crate::workload::Measured;

const TURNS: usize = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let page: PathBuf =
        arguments.next().expect("usage: quayfs-bench-peers PAGE [CHAPTER...]").into();
    let wanted: Vec<String> = arguments.collect();
    for name in &wanted {
        let names: Vec<&str> = CHAPTERS.iter().map(|(name, ..)| *name).collect();
        assert!(names.contains(&name.as_str()), "no chapter {name}: there are {names:?}");
    }
    let turns =
        setting("QUAYFS_BENCH_TURNS").map_or(TURNS, |turns| turns.parse().expect("a number"));
    let clients = wanted_clients();
    check_installed(&clients);

    let store = MinIo::start();
    let stage = Stage::new(&store);
    let mut chapters: Vec<(String, Vec<Measured>)> = Vec::new();
    for (name, title, workloads) in CHAPTERS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let mut measured = Vec::new();
        for mut workload in workloads(&stage) {
            workload.clients.retain(|client| clients.contains(client));
            let one = workload.measure(&stage, turns, say);
            say(&page::section(&one));
            measured.push(one);
        }
        chapters.push(((*title).to_owned(), measured));
        // A run takes long: what is there is there.
        page::write(&page, &chapters);
    }
}

fn wanted_clients() -> Vec<Client> {
    let Some(names) = setting("QUAYFS_BENCH_CLIENTS") else { return Client::ALL.to_vec() };
    let names: Vec<&str> = names.split(',').collect();
    let is_wanted = |client: &Client| {
        let name = client.name().to_lowercase().replace(", ", "-");
        names.iter().any(|wanted| name.starts_with(wanted))
    };
    Client::ALL.into_iter().filter(is_wanted).collect()
}

/// Nobody is left out silently.
fn check_installed(clients: &[Client]) {
    for client in clients {
        if let Some(program) = client.program() {
            let (name, path) = (client.name(), program.display());
            assert!(program.is_file(), "no {name} at {path}: run scripts/setup-peers");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a program's settings come from its environment")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Tells who waits how far the program is.
#[expect(clippy::print_stderr, reason = "a benchmark takes long and says where it is")]
fn say(text: &str) {
    eprintln!("bench: {text}");
}
