//! The terminal: taken over, drawn on, asked for keys, and given back at any end.

use std::io::{self, Write};
use std::process;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::canvas::{Canvas, Palette, Size};

/// A second screen, without a cursor, on which long lines are cut.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const GIVE_BACK: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// How the terminal was, for as long as it is taken. Whoever takes this out gives it back.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Nothing, or nothing known.
    None,
    Quit,
    Next,
    Before,
    Up,
    Down,
    Pause,
    Help,
}

/// The terminal that we have; given back on drop.
#[derive(Debug)]
pub(super) struct Terminal {
    drawn: Option<Size>,
    palette: Palette,
}

impl Terminal {
    /// Takes the terminal over.
    pub(super) fn open() -> Result<Terminal> {
        if !isatty(stdin()) || !isatty(stdout()) {
            bail!("top wants a terminal: `quayfs status` and `quayfs top --once` do without");
        }
        let before = tcgetattr(stdin()).context("cannot ask the terminal how it is")?;
        let mut raw = before.clone();
        raw.make_raw();
        let terminal = Terminal { drawn: None, palette: palette() };
        give_back_at_a_panic();
        give_back_at_a_signal()?;
        // Whoever gives it back waits until it is taken whole.
        let mut taken = lock();
        *taken = Some(before);
        tcsetattr(stdin(), OptionalActions::Now, &raw).context("cannot take the terminal")?;
        send(TAKE)?;
        drop(taken);
        Ok(terminal)
    }

    /// How large it is now.
    pub(super) fn size() -> Size {
        let size = tcgetwinsize(stdout()).ok().filter(|size| 0 < size.ws_col && 0 < size.ws_row);
        size.map_or(Size { columns: 80, rows: 24 }, |size| Size {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        })
    }

    /// Shows `canvas`.
    pub(super) fn draw(&mut self, canvas: &Canvas) -> Result<()> {
        // What was drawn for another size is elsewhere now.
        let clear = if self.drawn == Some(canvas.size()) { "" } else { "\x1b[2J" };
        self.drawn = Some(canvas.size());
        let text = format!("{clear}{}", canvas.escapes(self.palette));
        // Nothing is drawn on what a signal has given back.
        let taken = lock();
        if taken.is_some() { send(&text) } else { Ok(()) }
    }

    /// The next key, if one is pressed within `patience`.
    pub(super) fn key(patience: Duration) -> Result<Key> {
        let patience = Timespec::try_from(patience).context("a second")?;
        let input = stdin();
        let mut pressed = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut pressed, Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Key::None),
            Ok(_) => {}
            Err(error) => return Err(error).context("cannot wait for a key"),
        }
        let mut bytes = [0; 16];
        match rustix::io::read(stdin(), &mut bytes) {
            // The terminal is gone.
            Ok(0) => Ok(Key::Quit),
            Ok(length) => Ok(meaning(&bytes[..length])),
            Err(rustix::io::Errno::INTR) => Ok(Key::None),
            Err(error) => Err(error).context("cannot read a key"),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn meaning(bytes: &[u8]) -> Key {
    match bytes {
        // With Ctrl-C and Ctrl-D, too.
        b"q" | b"Q" | b"\x03" | b"\x04" => Key::Quit,
        b"\t" | b"\x1b[C" | b"\x1bOC" | b"l" => Key::Next,
        b"\x1b[Z" | b"\x1b[D" | b"\x1bOD" | b"h" => Key::Before,
        b"\x1b[A" | b"\x1bOA" | b"k" => Key::Up,
        b"\x1b[B" | b"\x1bOB" | b"j" => Key::Down,
        b"p" | b" " => Key::Pause,
        b"?" => Key::Help,
        _ => Key::None,
    }
}

/// As its user wants it: see no-color.org.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
fn palette() -> Palette {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_refused { Palette::None } else { Palette::Colours }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn give_back() {
    if let Some(before) = lock().take() {
        let _ = send(GIVE_BACK);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn send(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).context("no terminal any more")
}

/// What a panic says is to be read afterwards.
fn give_back_at_a_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        usual(panic);
    }));
}

/// Whoever ends us finds the terminal as it was.
#[expect(clippy::disallowed_methods, reason = "a signal that is caught has to end us all the same")]
fn give_back_at_a_signal() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // From here on, not from when the thread gets to it.
    let kinds = {
        let _entered = runtime.enter();
        [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()].map(signal)
    };
    let [terminate, hangup, interrupt] = kinds;
    let (mut terminate, mut hangup, mut interrupt) = (terminate?, hangup?, interrupt?);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let number = runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => 15,
                _ = hangup.recv() => 1,
                _ = interrupt.recv() => 2,
            }
        });
        give_back();
        process::exit(128 + number);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Key, meaning};

    #[test]
    fn keys_are_known_as_terminals_send_them() {
        for (bytes, want) in [
            (&b"q"[..], Key::Quit),
            (b"\x03", Key::Quit),
            (b"\t", Key::Next),
            (b"\x1b[C", Key::Next),
            (b"\x1bOD", Key::Before),
            (b"\x1b[A", Key::Up),
            (b"?", Key::Help),
            (b"\x1b", Key::None),
            (b"x", Key::None),
        ] {
            assert_eq!(meaning(bytes), want, "{bytes:?}");
        }
    }
}
