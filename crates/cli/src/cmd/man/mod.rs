//! man: the manual pages, written from the same declaration as the flags and their help.

mod roff;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};

/// What `man` is told.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    quayfs man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder to write the pages to; it is made if it is not there.
    folder: PathBuf,
}

/// Writes a page for `program` and one for each of its commands.
pub(crate) fn run(args: &ManArgs, program: Command) -> Result<ExitCode> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for page in pages(program) {
        let path = folder.join(format!("{}.1", page.name));
        write(&path, &page.text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A page, and what it is called.
struct Page {
    name: String,
    text: String,
}

fn pages(mut program: Command) -> Vec<Page> {
    program.build();
    let name = program.get_name().to_owned();
    let commands: Vec<Command> = roff::shown(&program).cloned().collect();
    let names: Vec<String> =
        commands.iter().map(|command| format!("{name}-{}", command.get_name())).collect();
    let mut pages = vec![Page { text: roff::page(&name, &program, &names), name: name.clone() }];
    for (command, of_command) in commands.iter().zip(&names) {
        let text = roff::page(of_command, command, std::slice::from_ref(&name));
        pages.push(Page { name: of_command.clone(), text });
    }
    pages
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
