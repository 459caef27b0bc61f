//! Logs: as text, as JSON or to the journal; to the terminal in the foreground, else to a file.
//!
//! ```text
//!   events, spans ─┬─▶ filter, which can be changed ─▶ lines or the journal
//!                  ├─▶ slow calls alone ─▶ a file of their own       if asked for
//!                  └─▶ calls and their requests ─▶ tally             if slow calls are asked for
//! ```

mod access;
mod capped;
mod cut;
mod journal;
mod json;
mod one_line;
mod record;
mod tally;

pub(crate) use access::{Access, AccessLog};
pub(crate) use tally::requests_of;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, registry, reload};

use capped::CappedFile;
use cut::{OURS, SLOW};
use journal::Journal;
use one_line::OneLine;
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
    /// What tells the lines of this mount from those of others: where it is.
    pub mount: String,
    /// Where lines go; nowhere with [`LogFormat::Journal`].
    pub target: LogTarget,
    /// How they look.
    pub format: LogFormat,
    /// What is let through, such as `info` or `warn,quayfs_vfs=debug`.
    pub filter: String,
    /// Where slow calls go.
    pub slow: SlowTarget,
}

/// Control of a log that is being written: its filter and its files.
#[derive(Clone, Debug)]
pub struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    slow: SlowTarget,
    files: Vec<Arc<CappedFile>>,
}

/// Where events of one kind go.
type Way = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging.
pub fn start_logging(options: &LogOptions) -> io::Result<LogControl> {
    let LogOptions { mount, target, format, filter, slow } = options;
    let (filter, handle) = reload::Layer::new(targets(filter, slow)?);
    let mut files = Vec::new();
    let main = way(mount, target, *format, &mut files)?;
    let mut ways: Vec<Way> = vec![Box::new(main.with_filter(filter))];
    if let SlowTarget::File(path) = slow {
        let only = Targets::new().with_target(SLOW, Level::WARN);
        let target = LogTarget::File(path.clone());
        let own = way(mount, &target, (*format).in_file(), &mut files)?;
        ways.push(Box::new(own.with_filter(only)));
    }
    if *slow != SlowTarget::None {
        ways.push(Box::new(Tally.with_filter(Tally::wants())));
    }
    registry().with(ways).init();
    Ok(LogControl { filter: handle, slow: slow.clone(), files })
}

impl LogControl {
    /// Lets through what `filter` says from now on.
    pub fn set(&self, filter: &str) -> io::Result<()> {
        self.filter.reload(targets(filter, &self.slow)?).map_err(io::Error::other)
    }

    /// Opens log files again that another program has renamed or removed.
    pub(crate) fn reopen(&self) {
        for file in &self.files {
            if let Err(error) = file.reopen() {
                let path = file.path().display();
                tracing::warn!(%path, %error, "a log file cannot be opened again: the old one stays in use");
            }
        }
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

/// Whether `filter` is a level, or levels of parts of the program; if not, why not.
pub fn check_log_filter(filter: &str) -> Result<(), String> {
    targets(filter, &SlowTarget::None).map(drop).map_err(|error| error.to_string())
}

/// What a filter lets through, but for slow calls if they have a file of their own.
fn targets(filter: &str, slow: &SlowTarget) -> io::Result<Targets> {
    let wrong = |error: String| {
        let text = format!("{filter}: not a level (error, warn, info, debug, trace): {error}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    if filter.trim().is_empty() {
        return Err(wrong("nothing is named".to_owned()));
    }
    // A word alone would be taken for a part of the program.
    for level in filter.split(',').filter(|part| !part.contains('=')) {
        level.parse::<LevelFilter>().map_err(|error| wrong(error.to_string()))?;
    }
    let targets: Targets = filter.parse().map_err(|error: ParseError| wrong(error.to_string()))?;
    let targets = tamed(&targets);
    Ok(match slow {
        SlowTarget::None | SlowTarget::Log => targets,
        SlowTarget::File(_) => targets.with_target(SLOW, LevelFilter::OFF),
    })
}

/// What Amazon's libraries begin with; at `trace` they log requests whole, with keys and tokens.
const LIBRARIES: &str = "aws_";

/// A level alone is ours; of libraries only warnings are of use to whoever did not name them.
const OTHERS: LevelFilter = LevelFilter::WARN;

/// What is let through, without what would be logged with secrets in it.
fn tamed(targets: &Targets) -> Targets {
    let level = targets.default_level().unwrap_or(LevelFilter::OFF);
    let asked = targets.iter().map(|(name, level)| {
        let is_library = name.starts_with(LIBRARIES) || LIBRARIES.starts_with(name);
        let level = if is_library { level.min(LevelFilter::DEBUG) } else { level };
        (name.to_owned(), level)
    });
    // What was asked for by name comes last, and counts.
    Targets::new().with_default(level.min(OTHERS)).with_target(OURS, level).with_targets(asked)
}

/// The way of lines to `target`, whose file is added to `files` if it is one.
fn way(
    mount: &str,
    target: &LogTarget,
    format: LogFormat,
    files: &mut Vec<Arc<CappedFile>>,
) -> io::Result<Way> {
    let mut file = |path: &Path| {
        let opened = file(path)?;
        files.push(Arc::clone(&opened));
        io::Result::Ok(opened)
    };
    let (label, stamp) = (mount.to_owned(), Stamp(mount.to_owned()));
    Ok(match (format, target) {
        (LogFormat::Journal, _) => Box::new(Recorder::new(Journal::connect()?, label)),
        (LogFormat::Text, LogTarget::Terminal) => Box::new(
            layer()
                .with_target(false)
                .with_timer(stamp)
                .with_writer(OneLine::new(io::stderr as fn() -> io::Stderr)),
        ),
        (LogFormat::Text, LogTarget::File(path)) => {
            let text = layer().with_target(false).with_ansi(false).with_timer(stamp);
            Box::new(text.with_writer(OneLine::new(file(path)?)))
        }
        (LogFormat::Json, LogTarget::Terminal) => {
            Box::new(Recorder::new(json::Lines(io::stderr as fn() -> io::Stderr), label))
        }
        (LogFormat::Json, LogTarget::File(path)) => {
            Box::new(Recorder::new(json::Lines(file(path)?), label))
        }
    })
}

fn file(path: &Path) -> io::Result<Arc<CappedFile>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    CappedFile::open(path.to_owned()).map(Arc::new).map_err(named)
}

/// When, and of which mount.
struct Stamp(String);

impl FormatTime for Stamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        SystemTime.format_time(writer)?;
        write!(writer, " {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::{SlowTarget, targets};

    #[test]
    fn a_level_alone_is_ours_and_libraries_never_log_whole_requests() {
        for filter in ["trace", "warn,aws_smithy_runtime::client=trace", "aws=trace"] {
            let targets = targets(filter, &SlowTarget::None).unwrap();
            for name in ["aws_smithy_runtime::client::orchestrator", "aws_sigv4::http_request"] {
                assert!(!targets.would_enable(name, &Level::TRACE), "{filter}: {name}");
            }
        }
        let all = targets("trace", &SlowTarget::None).unwrap();
        assert!(all.would_enable("quayfs_vfs", &Level::TRACE));
        assert!(
            all.would_enable("hyper", &Level::WARN) && !all.would_enable("hyper", &Level::INFO)
        );
        let few = targets("warn,aws_config=debug", &SlowTarget::None).unwrap();
        assert!(few.would_enable("aws_config", &Level::DEBUG));
        assert!(!few.would_enable("aws_runtime", &Level::DEBUG));
        assert!(!few.would_enable("quayfs_vfs", &Level::INFO));
    }
}
