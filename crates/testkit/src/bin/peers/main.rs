//! Measures reads through quayfs side by side with other file systems over one store.
//!
//! `quayfs-bench-peers RECORDS PAGE [CHAPTER...]` measures all chapters of [`work::CHAPTERS`] or these, adds what
//! each turn of each client told to RECORDS, and writes the page and a plot for each chapter beside it, of all
//! that is in there. `none` as the chapter only writes. `QUAYFS_BENCH_TURNS` is how many times everything is
//! measured, 5 if it is not set; `QUAYFS_BENCH_CLIENTS` names those that are wanted, all if it is not set.

mod client;
mod digits;
mod limited;
mod mounted;
mod page;
mod plot;
mod record;
mod session;
mod stage;
mod targets;
mod told;
mod work;
mod workload;

use std::path::{Path, PathBuf};
use std::time::Instant;

use testkit::{Cloud, Emulator, MinIo, wait};

use crate::client::Client;
use crate::page::Part;
use crate::record::Records;
use crate::stage::Stage;
use crate::work::{CHAPTERS, Chapter};

const TURNS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [records, page, wanted @ ..] = arguments.as_slice() else {
        panic!("usage: quayfs-bench-peers RECORDS PAGE [CHAPTER...|none]");
    };
    let (mut records, page) = (Records::open(Path::new(records)), PathBuf::from(page));
    let names: Vec<&str> = CHAPTERS.iter().map(|chapter| chapter.name).collect();
    let is_known = |name: &String| name == "none" || names.contains(&name.as_str());
    assert!(wanted.iter().all(is_known), "chapters are {names:?}");

    let is_wanted =
        |chapter: &&Chapter| wanted.is_empty() || wanted.iter().any(|name| name == chapter.name);
    let chapters: Vec<&Chapter> = CHAPTERS.iter().filter(is_wanted).collect();
    if !chapters.is_empty() {
        measure(&chapters, &mut records, &page);
    }
    page::write(&page, &parts(&records));
}

fn measure(chapters: &[&Chapter], records: &mut Records, page: &Path) {
    let turns =
        setting("QUAYFS_BENCH_TURNS").map_or(TURNS, |turns| turns.parse().expect("a number"));
    let clients = wanted_clients();
    check_installed(&clients);
    let store = MinIo::start();
    let google = clients.contains(&Client::Gcsfuse).then(|| Emulator::start(Cloud::Google));
    let stage = Stage::new(&store, google.as_ref());
    let started = wait::now();
    for chapter in chapters {
        stage.begin_chapter();
        say(started, &format!("chapter {}: its files", chapter.name));
        (chapter.prepare)(&stage);
        for mut workload in (chapter.workloads)() {
            workload.clients.retain(|client| clients.contains(client));
            workload.measure(&stage, turns, records, |text| say(started, text));
            let turns = records.of(&workload.name());
            say(started, &page::section(&told::measured(&workload, &turns)));
        }
        // A run takes long: what is there is there.
        page::write(page, &parts(records));
        say(started, &format!("chapter {} is through", chapter.name));
    }
}

/// All that is known, chapter by chapter.
fn parts(records: &Records) -> Vec<Part> {
    let of_chapter = |chapter: &Chapter| {
        let workloads = (chapter.workloads)().into_iter();
        let known = workloads.filter_map(|workload| {
            let turns = records.of(&workload.name());
            (!turns.is_empty()).then(|| told::measured(&workload, &turns))
        });
        Part { name: chapter.name, title: chapter.title, measured: known.collect() }
    };
    CHAPTERS.iter().map(of_chapter).filter(|part| !part.measured.is_empty()).collect()
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

/// Tells who waits how far the program is, and since when it runs.
#[expect(clippy::print_stderr, reason = "a benchmark takes long and says where it is")]
fn say(started: Instant, text: &str) {
    let seconds = started.elapsed().as_secs();
    eprintln!("bench {:02}:{:02}: {text}", seconds / 60, seconds % 60);
}
