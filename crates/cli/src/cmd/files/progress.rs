//! A bar that says how far something is, on a terminal; nothing elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use base::{Clock, SystemClock};
use rustix::termios::tcgetwinsize;

use crate::units::show_bytes;
use crate::width;

/// How far something is.
#[derive(Debug)]
pub(crate) struct Bar {
    clock: SystemClock,
    done_bytes: u64,
    of_bytes: u64,
    /// When it was last drawn; `None` if nobody looks.
    drawn: Option<Duration>,
    is_shown: bool,
}

/// More often nobody can read it.
const DRAW_DELAY: Duration = Duration::from_millis(100);

const WIDTH: usize = 24;

/// The width of a terminal that does not tell its own.
const COLUMNS_USUAL: usize = 80;

impl Bar {
    /// Nothing of `of_bytes` is done.
    pub(crate) fn new(of_bytes: u64) -> Bar {
        let drawn = std::io::stderr().is_terminal().then_some(Duration::ZERO);
        let mut bar =
            Bar { clock: SystemClock::new(), done_bytes: 0, of_bytes: 0, drawn, is_shown: false };
        bar.of(of_bytes);
        bar
    }

    /// So much more is done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        let now = self.clock.monotonic();
        let Some(drawn) = &mut self.drawn else { return };
        if now < *drawn + DRAW_DELAY {
            return;
        }
        *drawn = now;
        self.draw(now);
    }

    /// So much there is in all. From here on it is seen, since the first bytes may be long in coming.
    pub(crate) fn of(&mut self, bytes: u64) {
        self.of_bytes = bytes;
        if self.drawn.is_some() && !self.is_shown && 0 < bytes {
            self.draw(self.clock.monotonic());
        }
    }

    /// How long it has taken so far.
    pub(crate) fn took(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Takes it away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write("\r\x1b[K");
        }
    }

    fn draw(&mut self, now: Duration) {
        self.is_shown = true;
        let size = tcgetwinsize(std::io::stderr()).ok();
        let columns = size.map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { COLUMNS_USUAL } else { columns };
        let line = line(self.done_bytes, self.of_bytes, now);
        write(&format!("\r{}\x1b[K", fitted(&line, columns)));
    }
}

/// A terminal that does not take it has nobody who looks.
fn write(text: &str) {
    let mut to = std::io::stderr();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

fn line(done_bytes: u64, of_bytes: u64, took: Duration) -> String {
    let done_bytes = done_bytes.min(of_bytes);
    let filled = share(done_bytes, of_bytes, WIDTH as u64);
    let bar: String = (0..WIDTH as u64).map(|at| if at < filled { '█' } else { '░' }).collect();
    let rate = rate(done_bytes, took);
    let left = match (of_bytes - done_bytes).checked_div(rate) {
        Some(seconds) => format!("{}:{:02} left", seconds / 60, seconds % 60),
        None => String::new(),
    };
    format!(
        "{bar} {:>3} %  {} of {}  {}/s  {left}",
        share(done_bytes, of_bytes, 100),
        show_bytes(done_bytes),
        show_bytes(of_bytes),
        show_bytes(rate)
    )
}

/// What of a line fits: a longer one would go on in the next, and could not be taken away. The bar goes before
/// the figures do, and the last column stays free.
fn fitted(line: &str, columns: usize) -> &str {
    let is_wide = |text: &str| columns <= width::columns(text);
    let line = if is_wide(line) { line.trim_start_matches(['█', '░', ' ']) } else { line };
    width::beginning(line, columns.saturating_sub(1))
}

/// Bytes in each second.
pub(crate) fn rate(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * 1000 / took.as_millis().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn share(part: u64, whole: u64, of: u64) -> u64 {
    let share = u128::from(part) * u128::from(of) / u128::from(whole.max(1));
    if whole == 0 { of } else { u64::try_from(share).unwrap_or(of) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{fitted, line};

    #[test]
    fn a_narrow_terminal_gets_the_figures_on_one_line() {
        let line = line(1 << 30, 2 << 30, Duration::from_secs(8));
        assert_eq!(fitted(&line, 80), line);
        assert_eq!(fitted(&line, 60), "50 %  1 GiB of 2 GiB  128 MiB/s  0:08 left");
        assert_eq!(fitted(&line, 12), "50 %  1 GiB");
        assert_eq!(fitted(&line, 0), "");
    }

    #[test]
    fn a_bar_tells_share_rate_and_what_is_left() {
        let half = line(1 << 30, 2 << 30, Duration::from_secs(8));
        assert_eq!(
            half,
            format!(
                "{}{}  50 %  1 GiB of 2 GiB  128 MiB/s  0:08 left",
                "█".repeat(12),
                "░".repeat(12)
            )
        );
        assert!(line(0, 0, Duration::ZERO).contains("100 %"), "nothing to do is done");
        assert!(line(0, 9, Duration::ZERO).ends_with("0 B/s  "), "who knows");
    }
}
