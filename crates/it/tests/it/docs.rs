//! The pages of the documentation: links lead somewhere, the book lists them all, and what they say of
//! options and messages is what the program says.

use std::fs;
use std::process::Command;
use std::time::Duration;

use testkit::{Scratch, quayfs, root_folder, run};

const WITHIN: Duration = Duration::from_mins(1);

#[test]
fn every_page_is_listed_and_every_link_leads_somewhere() {
    run(&mut Command::new(root_folder().join("scripts/check-docs")), WITHIN).ok();
}

#[test]
fn the_page_of_options_is_what_the_program_says() {
    let mut options = Command::new(root_folder().join("scripts/options"));
    run(options.arg(quayfs()).arg("--check"), WITHIN).ok();
}

#[test]
fn a_page_that_leads_nowhere_is_told() {
    let summary = "[a](a.md)\n";
    told(summary, "# A page\n[here](#a-page), `[x](y.md)`, [b](sub/../a.md#a-page)\n", "");
    told(summary, "# A\n[gone](gone.md)\n", "docs/a.md:2: gone.md: there is no such file");
    told(summary, "# A\n\n[gone](#b)\n", "docs/a.md:3: #b: there is no such heading");
    told(summary, "# A\n[gone]\n\n[gone]: b.md\n", "docs/a.md:4: b.md: there is no such file");
    told(summary, "# A\n![it](../README.md)\n", "docs/a.md:2: ../README.md: leads out of docs/");
    told("", "# A\n", "docs/SUMMARY.md: a.md: is not listed");
    told("[a](a.md)\n[b](a.md)\n", "# A\n", "docs/SUMMARY.md: a.md: is listed more than once");
}

#[test]
fn every_message_of_the_page_of_troubles_is_one_of_the_program() {
    let words = said_by_the_program();
    let page = fs::read_to_string(root_folder().join("docs/troubleshooting.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let mut count = 0;
    for message in headings {
        count += 1;
        for part in message.split('…').map(str::trim) {
            assert!(words.contains(part), "no part of the program says: {part}");
        }
    }
    assert!(count > 10, "{count} messages");
}

/// The source text of all that talks to people, without the line breaks within its sentences.
fn said_by_the_program() -> String {
    let mut words = String::new();
    for name in ["fuse", "mount", "cli"] {
        for source in testkit::layers::sources(&root_folder().join("crates").join(name)) {
            words += &source.text;
        }
    }
    let words = words.replace("\\\n", " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks a book of one page; `complaint` is what must be told of it, and nothing if it is empty.
fn told(summary: &str, page: &str, complaint: &str) {
    let place = Scratch::new();
    let docs = place.folder("docs");
    fs::create_dir(docs.join("sub")).unwrap();
    fs::write(place.path().join("README.md"), "# The project\n[the page](docs/a.md)\n").unwrap();
    fs::write(docs.join("SUMMARY.md"), summary).unwrap();
    fs::write(docs.join("a.md"), page).unwrap();
    let mut check = Command::new(root_folder().join("scripts/check-docs"));
    let ran = run(check.arg(place.path()), WITHIN);
    assert_eq!(ran.status.success(), complaint.is_empty(), "{page}: {}", ran.report());
    assert!(ran.stderr.contains(complaint), "{page}: {}", ran.report());
}
