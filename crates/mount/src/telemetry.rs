//! Logs: as text, as JSON or to the journal; to the terminal in the foreground, else to a file.
//!
//! ```text
//!   events, spans ─┬─▶ filter, which can be changed ─▶ lines or the journal
//!                  ├─▶ slow calls alone ─▶ a file of their own       if asked for
//!                  └─▶ calls and their requests ─▶ tally             if slow calls are asked for
//! ```

mod capped;
mod journal;
mod json;
mod record;
mod tally;

pub(crate) use tally::requests_of;

use std::io;
use std::path::PathBuf;

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, registry, reload};

use capped::CappedFile;
use journal::Journal;
use record::Recorder;
use tally::Tally;

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard error output.
    Terminal,
    /// This file; the one before it is kept as `.old`.
    File(PathBuf),
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
    /// None at all: the journal of systemd gets fields.
    Journal,
}

/// Where slow calls are told of, if they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowTarget {
    /// Nowhere.
    None,
    /// Among the other lines.
    Log,
    /// In a file of their own.
    File(PathBuf),
}

/// What to log, and where.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Where lines go; nowhere with [`LogFormat::Journal`].
    pub target: LogTarget,
    /// How they look.
    pub format: LogFormat,
    /// What is let through, such as `info` or `warn,quayfs_vfs=debug`.
    pub filter: String,
    /// Where slow calls go.
    pub slow: SlowTarget,
}

/// What changes the filter of a log that is being written.
#[derive(Clone, Debug)]
pub struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    slow: SlowTarget,
}

/// Where events of one kind go.
type Way = Box<dyn Layer<Registry> + Send + Sync>;

/// The target of slow calls.
const SLOW: &str = "slow";

/// Starts logging.
pub fn start_logging(options: &LogOptions) -> io::Result<LogControl> {
    let LogOptions { target, format, filter, slow } = options;
    let (filter, handle) = reload::Layer::new(targets(filter, slow)?);
    let mut ways: Vec<Way> = vec![Box::new(way(target, *format)?.with_filter(filter))];
    if let SlowTarget::File(path) = slow {
        let only = Targets::new().with_target(SLOW, Level::WARN);
        let own = way(&LogTarget::File(path.clone()), (*format).in_file())?;
        ways.push(Box::new(own.with_filter(only)));
    }
    if *slow != SlowTarget::None {
        ways.push(Box::new(Tally.with_filter(Tally::wants())));
    }
    registry().with(ways).init();
    Ok(LogControl { filter: handle, slow: slow.clone() })
}

impl LogControl {
    /// Lets through what `filter` says from now on.
    pub fn set(&self, filter: &str) -> io::Result<()> {
        self.filter.reload(targets(filter, &self.slow)?).map_err(io::Error::other)
    }
}

impl LogFormat {
    /// The same where there is a file to write to.
    fn in_file(self) -> LogFormat {
        match self {
            LogFormat::Text | LogFormat::Journal => LogFormat::Text,
            LogFormat::Json => LogFormat::Json,
        }
    }
}

/// What a filter lets through, but for slow calls if they have a file of their own.
fn targets(filter: &str, slow: &SlowTarget) -> io::Result<Targets> {
    let wrong = |error: String| {
        let text = format!("{filter}: not a level (error, warn, info, debug, trace): {error}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    // A word alone would be taken for a part of the program.
    for level in filter.split(',').filter(|part| !part.contains('=')) {
        level.parse::<LevelFilter>().map_err(|error| wrong(error.to_string()))?;
    }
    let targets: Targets = filter.parse().map_err(|error: ParseError| wrong(error.to_string()))?;
    Ok(match slow {
        SlowTarget::None | SlowTarget::Log => targets,
        SlowTarget::File(_) => targets.with_target(SLOW, LevelFilter::OFF),
    })
}

fn way(target: &LogTarget, format: LogFormat) -> io::Result<Way> {
    Ok(match (format, target) {
        (LogFormat::Journal, _) => Box::new(Recorder::new(Journal::connect()?)),
        (LogFormat::Text, LogTarget::Terminal) => {
            Box::new(layer().with_target(false).with_writer(io::stderr))
        }
        (LogFormat::Text, LogTarget::File(path)) => {
            let file = CappedFile::open(path.clone())?;
            Box::new(layer().with_target(false).with_ansi(false).with_writer(file))
        }
        (LogFormat::Json, LogTarget::Terminal) => {
            Box::new(Recorder::new(json::Lines(io::stderr as fn() -> io::Stderr)))
        }
        (LogFormat::Json, LogTarget::File(path)) => {
            Box::new(Recorder::new(json::Lines(CappedFile::open(path.clone())?)))
        }
    })
}
