//! top: how a mount is, live in a terminal.

mod canvas;
mod page;
mod plot;
mod table;
mod terminal;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use base::{Clock as _, SystemClock};
use clap::Args;

use self::canvas::Size;
use self::terminal::{Key, Terminal};
use self::view::{Change, View};
use crate::say;

/// How often it is looked.
const DELAY: Duration = Duration::from_secs(1);

/// What is drawn where there is no terminal.
const SIZE_ELSE: Size = Size { columns: 100, rows: 40 };

#[derive(Debug, Args)]
#[command(after_help = "Keys:\n  \
    tab, left, right   files, requests, calls, waiting, uploads, cache\n  \
    up, down           scroll\n  \
    p                  pause or resume\n  \
    ?                  help\n  \
    q                  quit\n\n\
    Examples:\n  \
    quayfs top             the only mount of this machine\n  \
    quayfs top ~/data\n  \
    quayfs top ~/data --once    print one page as text and end; needs no terminal")]
pub(crate) struct TopArgs {
    /// The mount [default: the only one].
    dir: Option<PathBuf>,
    /// Look once, and print it.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &TopArgs) -> Result<ExitCode> {
    let dir = match &args.dir {
        Some(dir) => mount::mounted_dir(dir),
        None => only_mount()?,
    };
    if args.once {
        let live = mount::live(&dir)?;
        say(&page::draw(&live, &dir, &View::default(), SIZE_ELSE).text());
        return Ok(ExitCode::SUCCESS);
    }
    watch(&dir)?;
    Ok(ExitCode::SUCCESS)
}

/// Draws until somebody has seen enough, or the mount ends.
fn watch(dir: &Path) -> Result<()> {
    let (clock, mut view) = (SystemClock::new(), View::default());
    let mut live = mount::live(dir)?;
    let mut due = clock.monotonic() + DELAY;
    let mut terminal = Terminal::open()?;
    loop {
        terminal.draw(&page::draw(&live, dir, &view, Terminal::size()))?;
        let left = due.saturating_sub(clock.monotonic());
        match change(Terminal::key(left)?) {
            Some(change) => view.change(change),
            None => return Ok(()),
        }
        if due <= clock.monotonic() {
            due = clock.monotonic() + DELAY;
            if !view.is_paused {
                live = mount::live(dir)?;
            }
        }
    }
}

/// What a key changes; `None` if nobody looks any more.
fn change(key: Key) -> Option<Change> {
    Some(match key {
        Key::Next => Change::Next,
        Key::Before => Change::Before,
        Key::Up => Change::Up,
        Key::Down => Change::Down,
        Key::Pause => Change::Pause,
        Key::Help => Change::Help,
        Key::None => Change::None,
        Key::Quit => return None,
    })
}

fn only_mount() -> Result<PathBuf> {
    let mut dirs = mount::mounts()?;
    match (dirs.pop(), dirs.is_empty()) {
        (Some(dir), true) => Ok(dir),
        (Some(_), false) => {
            bail!("there are several mounts: say which; `quayfs status` lists them")
        }
        (None, _) => bail!("nothing of yours is mounted; `quayfs mount URL DIR` mounts"),
    }
}
