//! What was measured, as a table in the terminal and as a page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The rows of all chapters.
#[derive(Default)]
pub(crate) struct Report {
    chapters: Vec<Chapter>,
}

struct Chapter {
    name: &'static str,
    rows: Vec<Row>,
    remarks: Vec<String>,
}

struct Row {
    what: String,
    reference: String,
    ours: String,
    ratio: String,
}

/// Two rates of the same work, measured in turns; more is better.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) reference: f64,
    pub(crate) ours: f64,
}

impl Report {
    /// What follows belongs together.
    pub(crate) fn chapter(&mut self, name: &'static str) {
        self.chapters.push(Chapter { name, rows: Vec::new(), remarks: Vec::new() });
    }

    /// `what` was done at these rates, by `reference` and by the mount.
    pub(crate) fn add(&mut self, what: &str, reference: &str, rates: Rates) {
        let row = Row {
            what: what.to_owned(),
            reference: format!("{reference} {:.0}", rates.reference),
            ours: format!("{:.0}", rates.ours),
            ratio: format!("{:.2}", rates.ours / rates.reference),
        };
        say(&format!("{}: {} against {}, ratio {}", row.what, row.ours, row.reference, row.ratio));
        self.last().rows.push(row);
    }

    /// A sentence below the table.
    pub(crate) fn remark(&mut self, text: String) {
        say(&text);
        self.last().remarks.push(text);
    }

    fn last(&mut self) -> &mut Chapter {
        self.chapters.last_mut().expect("every figure belongs to a chapter")
    }

    /// Prints all of it.
    #[expect(clippy::print_stdout, reason = "the result of the program")]
    pub(crate) fn print(&self) {
        for chapter in &self.chapters {
            println!("{:<60}{:>32}{:>12}{:>8}", chapter.name, "reference", "quayfs", "ratio");
            for Row { what, reference, ours, ratio } in &chapter.rows {
                println!("{what:<60}{reference:>32}{ours:>12}{ratio:>8}");
            }
            for remark in &chapter.remarks {
                println!("{remark}");
            }
        }
    }

    /// Writes the page.
    pub(crate) fn write(&self, page: &Path) {
        fs::write(page, self.page()).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    }

    fn page(&self) -> String {
        let mut page = String::from(INTRODUCTION);
        writeln!(page, "\n{}", testkit::machine()).expect("memory");
        for chapter in &self.chapters {
            write!(page, "\n## {}\n\n", chapter.name).expect("memory");
            page.push_str("| what | reference | quayfs | ratio |\n|---|---:|---:|---:|\n");
            for Row { what, reference, ours, ratio } in &chapter.rows {
                writeln!(page, "| {what} | {reference} | {ours} | {ratio} |").expect("memory");
            }
            for remark in &chapter.remarks {
                write!(page, "\n{remark}\n").expect("memory");
            }
        }
        page
    }
}

const INTRODUCTION: &str = "# Benchmarks

Written by `make bench`, never by hand. Every line compares two things that were measured in turns in one
run, so that the mood of the machine cancels out: what counts is the ratio, and more is better. The store
is MinIO on the same machine, which takes its share of the processors.
";

/// The middle of what was measured.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Tells who waits how far the program is.
#[expect(clippy::print_stderr, reason = "a benchmark takes minutes and says where it is")]
pub(crate) fn say(text: &str) {
    eprintln!("bench: {text}");
}
